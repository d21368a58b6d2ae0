package guard

import (
	"slices"

	"mvdan.cc/sh/v3/syntax"
)

// outcome are the folders a command may leave behind when it succeeds and when it fails.
type outcome struct{ ok, fail []string }

// any is an outcome that leaves the folder as it is.
func (s *scope) any() outcome { return outcome{s.cwds, s.cwds} }

// stmts walks commands that run one after the other.
func (j *judge) stmts(s *scope, list []*syntax.Stmt) outcome {
	out, skipped := s.any(), s.skipped
	for _, st := range list {
		s.skipped = nil
		out = j.stmt(s, st)
		s.forget(s.skipped)
		s.cwds = union(out.ok, out.fail)
	}
	s.skipped = skipped
	return out
}

// stmt walks one statement with its redirects.
func (j *judge) stmt(s *scope, st *syntax.Stmt) outcome {
	if s.depth++; s.depth > maxNesting {
		j.refuse(ruleText, "this command", "it is nested too deeply", "write it as several simple commands")
		return s.any()
	}
	defer func() { s.depth-- }()
	if j.rest--; j.rest < 0 {
		j.refuse(ruleText, "this command", "it holds too many commands", "run fewer at a time")
		return s.any()
	}
	if st.Coprocess || st.Disown {
		j.refuse(ruleLauncher, "this command", "it runs on unseen", "run it in the foreground")
	}
	inner := s
	if st.Background {
		inner = s.sub()
		j.refuse(ruleLauncher, "a command in the background", "it would outlive the call unseen", "run it in the foreground")
	}
	stdin, names := inner.stdin, inner.names
	j.redirects(inner, st)
	out := inner.any()
	if st.Cmd != nil {
		out = j.command(inner, st.Cmd)
	}
	inner.stdin, inner.names = stdin, names
	if st.Background {
		return s.any()
	}
	if st.Negated {
		out.ok, out.fail = out.fail, out.ok
	}
	return out
}

// command walks one command.
func (j *judge) command(s *scope, c syntax.Command) outcome {
	switch c := c.(type) {
	case *syntax.CallExpr:
		return j.call(s, c)
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
		if _, timed := c.Y.Cmd.(*syntax.TimeClause); timed {
			// behind a pipe bash takes time for a program, with options of its own
			j.refuse(ruleText, "time behind a pipe", "shells differ in what it runs", "put time before the whole pipeline")
		}
		left := s.sub()
		j.stmt(left, c.X)
		right := s.sub()
		right.stdin = produced(c.X)
		right.names = printed([]*syntax.Stmt{c.X}).plain
		j.stmt(right, c.Y)
		s.forget(assigned(c.Y))
		return s.any()
	}
	x, cwds := j.stmt(s, c.X), s.cwds
	s.cwds = x.ok
	if c.Op == syntax.OrStmt {
		s.cwds = x.fail
		s.forget(s.skipped)
	}
	y := j.stmt(s, c.Y)
	s.cwds = cwds
	if c.Op == syntax.OrStmt {
		s.forget(assigned(c.Y))
		return outcome{union(x.ok, y.ok), y.fail}
	}
	s.skipped = append(s.skipped, assigned(c.Y)...)
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
	j.stmts(s, c.Cond)
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
	if !slices.Equal(body.cwds, s.cwds) {
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

// endless reports `while true`, whether it has a way out or not.
func endless(c *syntax.WhileClause) bool {
	if len(c.Cond) != 1 {
		return false
	}
	call, ok := c.Cond[0].Cmd.(*syntax.CallExpr)
	return ok && len(call.Args) > 0 && slices.Contains([]string{"true", ":", "false"}, call.Args[0].Lit())
}

// maxItems is how many values of a loop variable are tried one by one.
const maxItems = 16

func (j *judge) forClause(s *scope, c *syntax.ForClause) {
	var changed []assignment
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
		j.variable(name, value{}, false)
		if loop.InPos.IsValid() {
			values = j.loopValues(s, loop.Items)
		}
	case *syntax.CStyleLoop:
		j.refuse(ruleRunTime, "for ((", "how often it runs is not known", "write for i in 1 2 3")
	}
	if slices.ContainsFunc(changed, func(a assignment) bool { return a.name == name }) || c.Select {
		values = []value{{}}
	}
	for _, v := range values {
		if j.rest < 0 {
			break
		}
		if name != "" {
			body.set(name, v)
		}
		j.stmts(body, c.Do)
	}
	if !slices.Equal(s.cwds, body.cwds) {
		s.cwds, body.cwds = nil, nil // a cd in a loop leads anywhere
		j.stmts(body, c.Do)
	}
	s.forget(append(changed, assignment{name: name}))
}

// loopValues are the values a loop variable takes, or one unknown value.
func (j *judge) loopValues(s *scope, items []*syntax.Word) []value {
	var values []value
	for _, f := range j.words(s, items) {
		if f.dyn || f.proc {
			return []value{{num: f.num && f.text == string(rune(hole)), plain: f.plain && f.text == string(rune(hole))}}
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
