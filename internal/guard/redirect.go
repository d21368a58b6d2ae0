package guard

import (
	"path"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"claudeops/internal/ops"
)

// redirects judges the redirects of a statement and notes where its standard input comes from.
func (j *judge) redirects(s *scope, st *syntax.Stmt) {
	for _, r := range st.Redirs {
		switch r.Op {
		case syntax.RdrIn, syntax.WordHdoc, syntax.Hdoc, syntax.DashHdoc, syntax.DplIn, syntax.RdrInOut:
			s.files, s.names = nil, false
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
func (j *judge) handoff(s *scope, st *syntax.Stmt, text string) bool {
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
