package guard

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"claudeops/internal/ops"
)

// substitution judges $(…) and says what is known of its output.
func (j *judge) substitution(s *scope, c *syntax.CmdSubst) value {
	if c.TempFile || c.ReplyVar {
		j.refuse(ruleText, "this substitution", "it is not bash", "")
	}
	if text, ok := quotedDocument(c); ok {
		return value{known: true, text: text, inline: true}
	}
	j.stmts(s.sub(), c.Stmts)
	return printed(c.Stmts)
}

// quotedDocument is the text of $(cat <<'EOF' … EOF), the common way to write a long message.
func quotedDocument(c *syntax.CmdSubst) (string, bool) {
	if len(c.Stmts) != 1 || len(c.Stmts[0].Redirs) != 1 || c.Stmts[0].Background {
		return "", false
	}
	call, ok := c.Stmts[0].Cmd.(*syntax.CallExpr)
	r := c.Stmts[0].Redirs[0]
	if !ok || len(call.Args) != 1 || len(call.Assigns) != 0 || call.Args[0].Lit() != "cat" || r.Op != syntax.Hdoc || r.N != nil ||
		r.Hdoc == nil {
		return "", false
	}
	var text strings.Builder
	for _, p := range r.Hdoc.Parts {
		l, ok := p.(*syntax.Lit)
		if !ok {
			return "", false
		}
		text.WriteString(l.Value)
	}
	if !quotedDelimiter(r.Word) && strings.ContainsAny(text.String(), "\\") {
		return "", false
	}
	return strings.TrimRight(text.String(), "\n"), true
}

func quotedDelimiter(w *syntax.Word) bool {
	return slices.ContainsFunc(w.Parts, func(p syntax.WordPart) bool {
		l, ok := p.(*syntax.Lit)
		return !ok || strings.ContainsRune(l.Value, '\\')
	})
}

// procSubst judges <(…) and >(…).
func (j *judge) procSubst(s *scope, p *syntax.ProcSubst) {
	in := s.sub()
	if p.Op == syntax.CmdOut {
		in.stdin = inputData
	}
	j.stmts(in, p.Stmts)
}

// arithmetic judges an arithmetic expression. Bash evaluates the values of variables again, and runs the $(…) it
// finds in their subscripts; so only numbers may go in.
func (j *judge) arithmetic(s *scope, x syntax.ArithmExpr) {
	switch x := x.(type) {
	case nil:
	case *syntax.BinaryArithm:
		if strings.HasSuffix(x.Op.String(), "=") && !comparison(x.Op) {
			j.refuse(ruleRunTime, "an assignment in arithmetic", "it sets a variable unseen", "write i=$((i+1))")
		}
		j.arithmetic(s, x.X)
		j.arithmetic(s, x.Y)
	case *syntax.UnaryArithm:
		if x.Op == syntax.Inc || x.Op == syntax.Dec {
			j.refuse(ruleRunTime, "an assignment in arithmetic", "it sets a variable unseen", "write i=$((i+1))")
		}
		j.arithmetic(s, x.X)
	case *syntax.ParenArithm:
		j.arithmetic(s, x.X)
	case *syntax.Word:
		j.arithmeticWord(s, x)
	default:
		j.refuse(ruleText, "this arithmetic", "it is not bash", "")
	}
}

// comparison reports the operators that end in = and assign nothing.
func comparison(op syntax.BinAritOperator) bool {
	return slices.Contains([]syntax.BinAritOperator{syntax.Eql, syntax.Neq, syntax.Leq, syntax.Geq}, op)
}

func (j *judge) arithmeticWord(s *scope, w *syntax.Word) {
	if name := w.Lit(); name != "" && syntax.ValidName(name) {
		j.exposes(s, name)
		j.needNumber(s.vars[name], w.Parts[0].(*syntax.Lit))
		return
	}
	for _, p := range w.Parts {
		switch p := p.(type) {
		case *syntax.Lit:
			if len(w.Parts) == 1 && !numberText(p.Value) && !basedNumber().MatchString(p.Value) {
				notANumber(j, p.Value)
			}
		case *syntax.SglQuoted:
			if !numberText(p.Value) {
				notANumber(j, p.Value)
			}
		case *syntax.ParamExp:
			j.needNumber(j.param(s, p), p.Param)
		case *syntax.CmdSubst:
			j.needNumber(j.substitution(s, p), nil)
		case *syntax.ArithmExp:
			j.arithmetic(s, p.X)
		case *syntax.DblQuoted:
			j.arithmeticWord(s, &syntax.Word{Parts: p.Parts})
		default:
			notANumber(j, "")
		}
	}
}

func (j *judge) needNumber(v value, name *syntax.Lit) {
	if v.num || v.known && numberText(v.text) {
		return
	}
	if name != nil && countsItself(name.Value) {
		return
	}
	shown := "a substitution"
	if name != nil {
		shown = "$" + name.Value
	}
	notANumber(j, shown)
}

// countsItself are the variables bash fills with numbers.
func countsItself(name string) bool {
	switch name {
	case "RANDOM", "SRANDOM", "SECONDS", "EPOCHSECONDS", "LINENO", "UID", "EUID", "PPID", "BASHPID":
		return true
	}
	return false
}

func notANumber(j *judge, shown string) {
	j.refuse(ruleRunTime, "arithmetic on "+shown, "bash runs commands it finds in a value that is not a number",
		"compare text with [ … = … ], or count with wc -l")
}

// numberText reports text that arithmetic reads as a number.
func numberText(s string) bool {
	s = strings.TrimLeft(strings.TrimSpace(s), "+-")
	return s == "" || isDigits(s)
}

// basedNumber matches 0x1f and 2#101.
var basedNumber = ops.Pattern(`(?i)^\d*(#|0x)[0-9a-f]+$`)

// test judges [[ … ]].
func (j *judge) test(s *scope, x syntax.TestExpr) {
	switch x := x.(type) {
	case *syntax.BinaryTest:
		switch x.Op {
		case syntax.TsEql, syntax.TsNeq, syntax.TsLeq, syntax.TsGeq, syntax.TsLss, syntax.TsGtr:
			for _, side := range []syntax.TestExpr{x.X, x.Y} {
				if w, ok := side.(*syntax.Word); ok {
					j.comparedNumber(s, w)
				}
			}
		default:
			j.test(s, x.X)
			j.test(s, x.Y)
		}
	case *syntax.UnaryTest:
		if w, ok := x.X.(*syntax.Word); ok && (x.Op == syntax.TsVarSet || x.Op == syntax.TsRefVar || x.Op == syntax.TsFdTerm) {
			if f := j.one(s, w); f.dyn || strings.ContainsAny(f.text, "[$`") {
				j.refuse(ruleRunTime, "[[ "+x.Op.String()+" ]]", "it evaluates a subscript as code", "")
			}
			return
		}
		j.test(s, x.X)
	case *syntax.ParenTest:
		j.test(s, x.X)
	case *syntax.Word:
		j.one(s, x)
	}
}

// comparedNumber judges one side of -eq and its like, which [[ evaluates as arithmetic.
func (j *judge) comparedNumber(s *scope, w *syntax.Word) {
	f := j.one(s, w)
	if f.dyn && !f.num || !f.dyn && !numberText(f.text) {
		notANumber(j, f.show())
	}
}
