package guard

import (
	"slices"

	"mvdan.cc/sh/v3/syntax"

	"claudeops/internal/ops"
)

// outcome are the folders a command may leave behind when it succeeds and when it fails.
type outcome struct{ ok, fail []string }

// any is an outcome that leaves the folder as it is.
func (s *scope) any() outcome { return outcome{s.cwds, s.cwds} }

// stmts walks commands that run one after the other.
func (j *judge) stmts(s *scope, list []*syntax.Stmt) outcome {
	out := s.any()
	for _, st := range list {
		out = j.stmt(s, st)
		s.cwds = union(out.ok, out.fail)
		if s.errexit {
			s.cwds = out.ok
		}
	}
	return out
}

// stmt walks one statement with its redirects.
func (j *judge) stmt(s *scope, st *syntax.Stmt) outcome {
	if s.depth++; s.depth > maxNesting {
		j.refuse(ruleText, "this command", "it is nested too deeply", "write it as several simple commands")
		return s.any()
	}
	defer func() { s.depth-- }()
	if st.Coprocess || st.Disown {
		j.refuse(ruleLauncher, "this command", "it runs on unseen", "run it in the foreground")
	}
	inner := s
	if st.Background {
		inner = s.sub()
		j.background(inner, st)
	}
	stdin := inner.stdin
	j.redirects(inner, st)
	out := inner.any()
	if st.Cmd != nil {
		out = j.command(inner, st.Cmd, st.Redirs)
	}
	inner.stdin = stdin
	if st.Background {
		return s.any()
	}
	if st.Negated {
		out.ok, out.fail = out.fail, out.ok
	}
	return out
}

// background allows looking in the background of a script that waits for it, nothing else.
func (j *judge) background(s *scope, st *syntax.Stmt) {
	before := j.worst
	j.worst = nil
	probe := *j
	probe.stmt(s.sub(), &syntax.Stmt{Cmd: st.Cmd, Redirs: st.Redirs})
	j.rest, j.worst = probe.rest, before
	if !j.waits || probe.worst != nil && probe.worst.need > ops.Tier1 {
		j.refuse(ruleLauncher, "a command in the background", "it would outlive the call unseen", "run it in the foreground")
	}
}

// command walks one command.
func (j *judge) command(s *scope, c syntax.Command, redirs []*syntax.Redirect) outcome {
	switch c := c.(type) {
	case *syntax.CallExpr:
		return j.call(s, c, redirs)
	case *syntax.BinaryCmd:
		return j.binary(s, c)
	case *syntax.Block:
		return j.stmts(s, c.Stmts)
	case *syntax.Subshell:
		j.stmts(s.sub(), c.Stmts)
	case *syntax.IfClause:
		j.ifClause(s, c)
	case *syntax.WhileClause:
		j.while(s, c)
	case *syntax.ForClause:
		j.forClause(s, c)
	case *syntax.CaseClause:
		j.caseClause(s, c)
	case *syntax.FuncDecl:
		j.define(s, c)
	case *syntax.ArithmCmd:
		j.arithmetic(s, c.X)
	case *syntax.TestClause:
		j.test(s, c.X)
	case *syntax.DeclClause:
		j.declare(s, c)
	case *syntax.LetClause:
		j.refuse(ruleRunTime, "let", "it evaluates text as code", "use $(( ))")
	case *syntax.TimeClause:
		if c.Stmt != nil {
			return j.stmt(s, c.Stmt)
		}
	case *syntax.CoprocClause:
		j.stmt(s.sub(), c.Stmt)
		j.refuse(ruleLauncher, "coproc", "it runs on unseen", "run it in the foreground")
	default:
		j.refuse(ruleText, "this command", "it uses a form of the shell that is not known here", "write it as simple commands")
	}
	return s.any()
}

// binary walks && || and pipes.
func (j *judge) binary(s *scope, c *syntax.BinaryCmd) outcome {
	if c.Op == syntax.Pipe || c.Op == syntax.PipeAll {
		left := s.sub()
		j.stmt(left, c.X)
		right := s.sub()
		right.stdin, right.files = j.produced(s, c.X)
		j.stmt(right, c.Y)
		s.forget(assigned(c.Y))
		return s.any()
	}
	x := j.stmt(s, c.X)
	before := s.sub()
	s.cwds = x.ok
	if c.Op == syntax.OrStmt {
		s.cwds = x.fail
	}
	y := j.stmt(s, c.Y)
	if c.Op == syntax.OrStmt {
		s.forget(assigned(c.Y))
		s.cwds = before.cwds
		return outcome{union(x.ok, y.ok), y.fail}
	}
	s.cwds = before.cwds
	return outcome{y.ok, union(x.fail, y.fail)}
}

// branch walks commands that may or may not run.
func (j *judge) branch(s *scope, list ...[]*syntax.Stmt) {
	for _, stmts := range list {
		b := s.sub()
		j.stmts(b, stmts)
		s.cwds = union(s.cwds, b.cwds)
		for _, st := range stmts {
			s.forget(assigned(st))
		}
	}
}

func (j *judge) ifClause(s *scope, c *syntax.IfClause) {
	if c.Cond != nil {
		j.stmts(s, c.Cond)
	}
	j.branch(s, c.Then)
	if c.Else != nil {
		j.ifClause(s, c.Else)
	}
}

func (j *judge) while(s *scope, c *syntax.WhileClause) {
	body := s.sub()
	body.loop = true
	for _, st := range slices.Concat(c.Cond, c.Do) {
		body.forget(assigned(st))
	}
	j.stmts(body, c.Cond)
	j.stmts(body, c.Do)
	if body2 := union(s.cwds, body.cwds); !slices.Equal(body2, s.cwds) {
		body.cwds, s.cwds = nil, nil // a cd in a loop leads anywhere
		j.stmts(body, c.Do)
	}
	if endless(c) {
		j.refuse(ruleLoop, "an endless loop", "it never ends by itself", "repeat a limited number of times")
	}
	for _, st := range slices.Concat(c.Cond, c.Do) {
		s.forget(assigned(st))
	}
}

// endless reports `while true` without a way out.
func endless(c *syntax.WhileClause) bool {
	if len(c.Cond) != 1 {
		return false
	}
	call, ok := c.Cond[0].Cmd.(*syntax.CallExpr)
	if !ok || len(call.Args) == 0 {
		return false
	}
	name := call.Args[0].Lit()
	if always := name == "true" || name == ":"; always && c.Until || name == "false" && !c.Until || !always && name != "false" {
		return false
	}
	leaves := false
	for _, st := range c.Do {
		syntax.Walk(st, func(n syntax.Node) bool {
			if call, ok := n.(*syntax.CallExpr); ok && len(call.Args) > 0 {
				switch call.Args[0].Lit() {
				case "break", "exit", "return":
					leaves = true
				}
			}
			return true
		})
	}
	return !leaves
}

// maxItems is how many values of a loop variable are tried one by one.
const maxItems = 16

func (j *judge) forClause(s *scope, c *syntax.ForClause) {
	var changed []string
	for _, st := range c.Do {
		changed = append(changed, assigned(st)...)
	}
	body := s.sub()
	body.loop = true
	body.forget(changed)
	name, values := "", []value{{}}
	switch loop := c.Loop.(type) {
	case *syntax.WordIter:
		name = loop.Name.Value
		j.assignable(s, name)
		j.variable(name, value{})
		if loop.InPos.IsValid() {
			values = j.loopValues(s, loop.Items)
		}
	case *syntax.CStyleLoop:
		for _, x := range []syntax.ArithmExpr{loop.Init, loop.Cond, loop.Post} {
			if x != nil {
				j.arithmetic(body, x)
			}
		}
	}
	if slices.Contains(changed, name) || c.Select {
		values = []value{{}}
	}
	for _, v := range values {
		if name != "" {
			body.set(name, v)
		}
		j.stmts(body, c.Do)
	}
	if !slices.Equal(s.cwds, body.cwds) {
		s.cwds, body.cwds = nil, nil // a cd in a loop leads anywhere
		j.stmts(body, c.Do)
	}
	s.forget(append(changed, name))
}

// loopValues are the values a loop variable takes, or one unknown value.
func (j *judge) loopValues(s *scope, items []*syntax.Word) []value {
	var values []value
	for _, f := range j.words(s, items) {
		if f.dyn || f.proc {
			return []value{{num: f.num && f.text == string(rune(hole))}}
		}
		values = append(values, value{known: true, text: f.text, glob: f.glob})
	}
	if len(values) == 0 || len(values) > maxItems {
		return []value{{}}
	}
	return values
}

func (j *judge) caseClause(s *scope, c *syntax.CaseClause) {
	j.one(s, c.Word)
	for _, item := range c.Items {
		for _, p := range item.Patterns {
			j.one(s, p)
		}
	}
	for _, item := range c.Items {
		j.branch(s, item.Stmts)
	}
}

// assigned are the variables a node sets.
func assigned(n syntax.Node) []string {
	var names []string
	syntax.Walk(n, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.Assign:
			if n.Name != nil {
				names = append(names, n.Name.Value)
			}
		case *syntax.WordIter:
			names = append(names, n.Name.Value)
		case *syntax.CallExpr:
			names = append(names, assignedBy(n)...)
		case *syntax.ParamExp:
			if n.Param != nil && n.Exp != nil && (n.Exp.Op == syntax.AssignUnset || n.Exp.Op == syntax.AssignUnsetOrNull) {
				names = append(names, n.Param.Value)
			}
		case *syntax.BinaryArithm:
			if w, ok := n.X.(*syntax.Word); ok && w.Lit() != "" {
				names = append(names, w.Lit())
			}
		case *syntax.UnaryArithm:
			if w, ok := n.X.(*syntax.Word); ok && w.Lit() != "" {
				names = append(names, w.Lit())
			}
		}
		return true
	})
	return names
}

// assignedBy are the plain words after builtins that set variables.
func assignedBy(c *syntax.CallExpr) []string {
	if len(c.Args) == 0 {
		return nil
	}
	switch c.Args[0].Lit() {
	case "read", "mapfile", "readarray", "printf", "getopts", "export", "declare", "local", "typeset", "readonly", "unset":
	default:
		return nil
	}
	var names []string
	for _, w := range c.Args[1:] {
		if name := w.Lit(); syntax.ValidName(name) {
			names = append(names, name)
		}
	}
	return names
}
