package guard

import (
	"path"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"mvdan.cc/sh/v3/syntax"

	"claudeops/internal/ops"
)

// script is a parsed command: what is judged and what is to be executed are the same text.
type script struct {
	file *syntax.File
	text string
}

// reader holds the parsers and the printer, which are costly to make and not safe for use by many at once.
type reader struct {
	parsers [2]*syntax.Parser // bash, POSIX
	keeping [2]*syntax.Parser // the same, keeping comments
	printer *syntax.Printer
}

func newReader() *reader {
	r := &reader{printer: syntax.NewPrinter()}
	for i, lang := range []syntax.LangVariant{syntax.LangBash, syntax.LangPOSIX} {
		r.parsers[i] = syntax.NewParser(syntax.Variant(lang))
		r.keeping[i] = syntax.NewParser(syntax.Variant(lang), syntax.KeepComments(true))
	}
	return r
}

// language is an index into the parsers of a reader.
type language int

const (
	bash language = iota
	posix
)

// parse reads src as bash. The tree it returns was read from the printed form of the first tree, so that a place
// where the parser and bash read src differently cannot matter: bash is given the printed form.
func (r *reader) parse(src string) (script, *finding) {
	first, bad := r.parseAs(src, bash)
	if bad != nil {
		return script{}, bad
	}
	printed, bad := r.print(first)
	if bad != nil {
		return script{}, bad
	}
	if strings.TrimSuffix(printed, "\n") == src {
		return script{first, printed}, nil // it was plain already
	}
	second, err := r.parsers[bash].Parse(strings.NewReader(printed), "")
	if err != nil {
		return script{}, refuseText("it cannot be written down in a plain form")
	}
	again, bad := r.print(second)
	if bad != nil || again != printed || shape(first) != shape(second) {
		return script{}, refuseText("it has no single plain form")
	}
	return script{second, printed}, nil
}

// shape is the structure of a tree with all its literals: printing must not change it.
func shape(f *syntax.File) string {
	var b strings.Builder
	syntax.Walk(f, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.Lit:
			b.WriteString(strings.ReplaceAll(n.Value, "\t", "")) // <<- drops tabs
		case *syntax.SglQuoted:
			b.WriteString(n.Value)
		case *syntax.Stmt:
			b.WriteByte(1)
		case *syntax.Word:
			b.WriteByte(2)
		case *syntax.Assign:
			b.WriteByte(3)
		case *syntax.Redirect:
			b.WriteString(n.Op.String())
		case *syntax.BinaryCmd:
			b.WriteString(n.Op.String())
		case *syntax.CmdSubst, *syntax.ProcSubst, *syntax.Subshell, *syntax.Block:
			b.WriteByte(4)
		case *syntax.DblQuoted, *syntax.ParamExp, *syntax.ArithmExp:
			b.WriteByte(5)
		}
		return true
	})
	return b.String()
}

// parseAs checks the text and parses it in one shell language.
func (r *reader) parseAs(src string, lang language) (*syntax.File, *finding) {
	if bad := checkText(src); bad != nil {
		return nil, bad
	}
	if strings.ContainsRune(src, '#') {
		commented, err := r.keeping[lang].Parse(strings.NewReader(src), "")
		if err != nil {
			return nil, refuseText("it does not parse (" + err.Error() + ")")
		}
		if bad := checkComments(src, commented); bad != nil {
			return nil, bad
		}
	}
	f, err := r.parsers[lang].Parse(strings.NewReader(src), "")
	if err != nil {
		return nil, refuseText("it does not parse (" + err.Error() + ")")
	}
	if len(f.Stmts) == 0 {
		return nil, refuseText("it holds no command")
	}
	if bad := checkCharacters(src, f); bad != nil {
		return nil, bad
	}
	if bad := checkLiterals(src, f); bad != nil {
		return nil, bad
	}
	return f, nil
}

func (r *reader) print(f *syntax.File) (string, *finding) {
	var out strings.Builder
	if err := r.printer.Print(&out, f); err != nil {
		return "", refuseText("it cannot be printed")
	}
	return out.String(), nil
}

// checkComments refuses the comments that bash and the parser end at different places.
func checkComments(src string, f *syntax.File) *finding {
	var bad *finding
	syntax.Walk(f, func(n syntax.Node) bool {
		c, ok := n.(*syntax.Comment)
		if !ok || bad != nil {
			return bad == nil
		}
		line, _, _ := strings.Cut(src[min(int(c.Hash.Offset()), len(src)):], "\n")
		if strings.HasSuffix(line, `\`) {
			bad = refuseText("a comment ends in a backslash, and shells differ in what follows it")
		}
		if at := int(c.Hash.Offset()); at > 0 && !strings.ContainsRune(" \t\n", rune(src[at-1])) {
			bad = refuseText("a comment is glued to a word, and shells differ in where it starts")
		}
		return true
	})
	return bad
}

// pipeline lists the stages of a | b | c.
func pipeline(st *syntax.Stmt) []*syntax.Stmt {
	b, ok := st.Cmd.(*syntax.BinaryCmd)
	if !ok || b.Op != syntax.Pipe && b.Op != syntax.PipeAll {
		return []*syntax.Stmt{st}
	}
	return append(pipeline(b.X), pipeline(b.Y)...)
}

// peek returns the words that are plain text; others are a hole.
func peek(words []*syntax.Word) []string {
	out := make([]string, len(words))
	for i, w := range words {
		text, ok := plainText(w.Parts, false)
		if !ok {
			text = string(rune(hole))
		}
		out[i] = text
	}
	return out
}

// plainText joins parts without expansions.
func plainText(parts []syntax.WordPart, quoted bool) (string, bool) {
	var out strings.Builder
	for _, p := range parts {
		switch p := p.(type) {
		case *syntax.Lit:
			r := reading{}
			if quoted {
				r.text.WriteString(unescapeQuoted(p.Value))
			} else {
				r.unquoted(p.Value)
			}
			out.WriteString(r.text.String())
		case *syntax.SglQuoted:
			if p.Dollar {
				return "", false
			}
			out.WriteString(p.Value)
		case *syntax.DblQuoted:
			text, ok := plainText(p.Parts, true)
			if !ok || p.Dollar {
				return "", false
			}
			out.WriteString(text)
		default:
			return "", false
		}
	}
	return out.String(), true
}

// produced says what the left side of a pipe writes: fixed text, or data.
func produced(left *syntax.Stmt) input {
	call, ok := left.Cmd.(*syntax.CallExpr)
	if !ok || len(call.Args) == 0 {
		return inputData
	}
	args := peek(call.Args)
	switch {
	case !slices.Contains([]string{"echo", "printf", "true", ":"}, args[0]),
		slices.ContainsFunc(args, func(a string) bool { return strings.IndexByte(a, hole) >= 0 }):
		return inputData
	case len(args) == 1 || args[0] == "echo" && len(args) == 2 && (args[1] == "Q" || args[1] == "" || args[1] == "-n"):
		return inputNone // nothing to speak of
	}
	return inputFixed
}

// printed says what is known of the output of commands: that it is a number, so that arithmetic may use it, or that it
// consists of plain names, so that no word of it can be an option.
func printed(list []*syntax.Stmt) value {
	if len(list) != 1 {
		return value{}
	}
	stages := pipeline(list[0])
	var words [][]string
	for _, st := range stages {
		call, ok := st.Cmd.(*syntax.CallExpr)
		if !ok || len(call.Args) == 0 {
			return value{}
		}
		words = append(words, peek(call.Args))
	}
	if len(words) == 1 && slices.Equal(words[0], []string{"mktemp"}) {
		return value{temp: true}
	}
	return pipelinePrints(words)
}

// redirects judges the redirects of a statement and notes where its standard input comes from.
func (j *judge) redirects(s *scope, st *syntax.Stmt) {
	for _, r := range st.Redirs {
		switch r.Op {
		case syntax.RdrIn, syntax.WordHdoc, syntax.Hdoc, syntax.DashHdoc, syntax.DplIn, syntax.RdrInOut:
			s.names = false
		default:
		}
		if r.N != nil && !isDigits(r.N.Value) {
			j.refuse(ruleRunTime, "the redirect {"+r.N.Value+"}", "its descriptor is known only at run time", "use a number")
		}
		switch r.Op {
		case syntax.Hdoc, syntax.DashHdoc:
			s.stdin = j.document(s, r)
		case syntax.WordHdoc:
			s.stdin = inputData
			if f := j.one(s, r.Word); !f.dyn && !f.viaVar {
				s.stdin = inputFixed
				if f.text == "" || f.text == "Q" {
					s.stdin = inputNone
				}
			}
		case syntax.RdrIn:
			j.redirectIn(s, r)
		case syntax.DplIn, syntax.DplOut:
			j.duplicate(s, st, r)
		case syntax.RdrInOut:
			s.stdin = inputData
			j.redirectOut(s, st, r)
		case syntax.RdrOut, syntax.AppOut, syntax.RdrClob, syntax.RdrAll, syntax.AppAll:
			j.redirectOut(s, st, r)
		default:
			j.refuse(ruleText, "the redirect "+r.Op.String(), "it is not bash", "")
		}
	}
}

// document judges the expansions of a here-document.
func (j *judge) document(s *scope, r *syntax.Redirect) input {
	if r.Hdoc == nil {
		return inputFixed
	}
	from := inputFixed
	reading := &reading{j: j, s: s, whole: true}
	for _, p := range r.Hdoc.Parts {
		if _, plain := p.(*syntax.Lit); !plain {
			from = inputData
		}
		reading.part(p, true)
	}
	return from
}

func (j *judge) redirectIn(s *scope, r *syntax.Redirect) {
	f, ok := j.target(s, r)
	if !ok {
		return
	}
	if f.text == "/dev/null" && !f.dyn {
		s.stdin = inputNone
		return
	}
	s.stdin = inputData
	j.read(s, f, "reading")
	j.refuseNet(f)
}

// target evaluates the word of a redirect, which must be one.
func (j *judge) target(s *scope, r *syntax.Redirect) (field, bool) {
	fs := j.fields(s, r.Word)
	if len(fs) != 1 {
		j.refuse(ruleRunTime, "a redirect", "its file is known only at run time", "name the file")
		return field{}, false
	}
	return fs[0], true
}

// refuseNet refuses the network files of bash.
func (j *judge) refuseNet(f field) {
	if p := path.Clean(f.text); within(p, "/dev/tcp") || within(p, "/dev/udp") {
		j.refuse(ruleBash, "a redirect to "+f.show(), "it opens a network connection out of the shell",
			"use nc -z or curl to see whether a port answers")
	}
}

func (j *judge) redirectOut(s *scope, st *syntax.Stmt, r *syntax.Redirect) {
	f, ok := j.target(s, r)
	if !ok {
		return
	}
	j.refuseNet(f)
	if text, plain := f.literal(); (plain || stateVariable(r.Word) && !f.dyn && !f.glob) && j.handoff(s, st, text) {
		j.need(s, ops.Tier1, ruleWrite, "writing the handoff file")
		return
	}
	j.write(s, f, "writing to")
}

// handoff reports that a plain writer leaves the handoff file where the supervisor looks for it.
func (j *places) handoff(s *scope, st *syntax.Stmt, text string) bool {
	if !j.facts.HandoffMode || j.facts.StateDir == "" || s.remote || s.container || !slices.Equal(j.paths(s, text),
		[]string{path.Join(j.facts.StateDir, "handoff.json")}) {
		return false
	}
	call, ok := st.Cmd.(*syntax.CallExpr)
	if !ok || len(call.Args) == 0 {
		return false
	}
	switch call.Args[0].Lit() {
	case "cat", "echo", "printf", "jq":
		return !s.loop
	}
	return false
}

// stateVariable reports a word whose only expansion is the variable the supervisor sets; scripts may not assign it.
func stateVariable(w *syntax.Word) bool {
	only := true
	syntax.Walk(w, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.ParamExp:
			only = only && n.Param != nil && n.Param.Value == "CLAUDEOPS_STATE_DIR" && n.Exp == nil && n.Slice == nil && n.Repl == nil &&
				n.Index == nil && !n.Length && !n.Excl
		case *syntax.CmdSubst, *syntax.ProcSubst, *syntax.ArithmExp, *syntax.ExtGlob:
			only = false
		}
		return only
	})
	return only
}

// duplicate judges >&2 and <&3; a word that is no descriptor is a file.
func (j *judge) duplicate(s *scope, st *syntax.Stmt, r *syntax.Redirect) {
	f, ok := j.target(s, r)
	if !ok {
		return
	}
	if text, plain := f.literal(); plain && (text == "-" || isDigits(strings.TrimSuffix(text, "-"))) {
		return
	}
	if r.Op == syntax.DplIn {
		j.refuse(ruleRunTime, "a redirect", "its descriptor is known only at run time", "use a number")
		return
	}
	j.redirectOut(s, st, r)
}

const (
	maxCommand = 64 << 10 // longer than any honest command
	maxNesting = 60       // deeper than any honest command; keeps parser and walker off the end of the stack
)

// refuseText makes the finding for text that is not judged at all.
func refuseText(why string) *finding {
	return &finding{
		need: never, rule: ruleText, what: "this command", why: why,
		hint: "write it again in plain text, one simple command at a time",
	}
}

// checkText refuses what no parser needs to look at.
func checkText(src string) *finding {
	switch {
	case strings.TrimSpace(src) == "":
		return refuseText("it is empty")
	case len(src) > maxCommand:
		return refuseText("it is longer than 64 kB")
	case !utf8.ValidString(src):
		return refuseText("it is not valid UTF-8")
	case strings.ContainsAny(src, "\r\x00"):
		return refuseText("it holds a carriage return or a NUL, which shells and parsers read differently")
	case tooDeep(src):
		return refuseText("it is nested too deeply")
	}
	return nil
}

// tooDeep bounds how deep parentheses and braces make parser, printer and walker recurse. It ignores quotes on purpose.
func tooDeep(src string) bool {
	depth := 0
	for i := range len(src) {
		switch src[i] {
		case '(', '{':
			if depth++; depth > maxNesting {
				return true
			}
		case ')', '}':
			depth--
		}
	}
	return false
}

// odd reports characters that look like something else or like nothing: they are data inside quotes only.
func odd(r rune) bool {
	if r < utf8.RuneSelf {
		return (r < ' ' && r != '\t' && r != '\n') || r == 0x7f
	}
	return true
}

// checkCharacters refuses odd characters that do not stand inside quotes, a here-document or a comment.
func checkCharacters(src string, f *syntax.File) *finding {
	if strings.IndexFunc(src, odd) < 0 {
		return nil
	}
	quoted, plain := spans(f)
	for i, r := range src {
		if !odd(r) || inside(quoted, i) {
			continue
		}
		if !visible(r) || !inside(plain, i) {
			return refuseText("it holds a character outside quotes that is not plain ASCII and may only look like a letter, dash or slash")
		}
	}
	return nil
}

// visible reports letters, digits, symbols and signs beyond ASCII: none is an operator to a shell. Blanks beyond ASCII are
// none either, but look like one.
func visible(r rune) bool {
	return unicode.In(r, unicode.L, unicode.M, unicode.N, unicode.S, unicode.P)
}

type span struct{ from, to int }

func inside(spans []span, i int) bool {
	return slices.ContainsFunc(spans, func(s span) bool { return i >= s.from && i < s.to })
}

// spans are the places whose characters are data, in quotes and here-documents, and the words that are arguments, values or items of a
// loop: not programs, names or operators.
func spans(f *syntax.File) (quoted, arguments []span) {
	at := func(n syntax.Node) span { return span{int(n.Pos().Offset()), int(n.End().Offset())} }
	literals := func(parts []syntax.WordPart) {
		for _, p := range parts {
			if lit, ok := p.(*syntax.Lit); ok {
				quoted = append(quoted, at(lit))
			}
		}
	}
	words := func(words ...*syntax.Word) {
		for _, w := range words {
			arguments = append(arguments, at(w))
		}
	}
	syntax.Walk(f, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.SglQuoted:
			quoted = append(quoted, at(n))
		case *syntax.DblQuoted:
			literals(n.Parts)
		case *syntax.Redirect:
			if n.Hdoc != nil {
				literals(n.Hdoc.Parts)
			}
		case *syntax.CallExpr:
			words(n.Args[min(1, len(n.Args)):]...)
		case *syntax.Assign:
			if n.Value != nil {
				words(n.Value)
			}
		case *syntax.WordIter:
			words(n.Items...)
		}
		return true
	})
	return quoted, arguments
}
