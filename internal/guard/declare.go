package guard

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// declare judges export, declare, local, readonly and typeset.
func (j *judge) declare(s *scope, c *syntax.DeclClause) {
	kind, named, env := c.Variant.Value, false, c.Variant.Value == "export"
	if kind == "nameref" {
		j.refuse(ruleRunTime, kind, "a name reference is known only at run time", "")
	}
	for _, a := range c.Args {
		if a.Name == nil {
			f := j.one(s, a.Value)
			j.declareOption(kind, f)
			env = env || strings.Contains(f.text, "x")
			continue
		}
		named = true
		if a.Naked {
			j.variable(a.Name.Value, s.vars[a.Name.Value], env)
			continue
		}
		if env {
			j.assign(s, a, true)
		}
		j.assign(s, a, false)
	}
	if !named {
		j.refuse(ruleSecrets, kind, "it prints the environment, which may hold secrets", "name the one variable you set")
	}
}

// declareOption judges a word that is no plain assignment.
func (j *judge) declareOption(kind string, f field) {
	text, ok := f.literal()
	switch {
	case !ok || !strings.HasPrefix(text, "-") && !strings.HasPrefix(text, "+"):
		j.refuse(ruleRunTime, kind+" "+f.show(), "what it declares is known only at run time", "write name=value")
	case strings.ContainsAny(text, "in"):
		j.refuse(ruleRunTime, kind+" "+text, "it evaluates the value as code", "use a plain variable")
	case strings.ContainsAny(text, "pfF") && kind != "local":
		j.refuse(ruleSecrets, kind+" "+text, "it prints or exports more than one value", "name the one variable you set")
	case strings.Trim(text, "-+rxgaA") != "":
		j.refuse(ruleRunTime, kind+" "+text, "it changes the value or how it is read", "use a plain variable")
	}
}

// declared judges the same builtins where the parser does not know them, as in POSIX shell.
func (j *judge) declared(s *scope, kind string, args []field) {
	named := false
	for _, f := range args {
		name, text, has := strings.Cut(f.text, "=")
		switch {
		case syntax.ValidName(name):
			named = true
			v := value{known: has && !f.dyn && !f.viaVar, text: text}
			j.variable(name, v, true)
			s.set(name, v)
		default:
			j.declareOption(kind, f)
		}
	}
	if !named {
		j.refuse(ruleSecrets, kind, "it prints the environment, which may hold secrets", "name the one variable you set")
	}
}

// define judges a function and remembers it for its calls.
func (j *judge) define(s *scope, d *syntax.FuncDecl) {
	if d.Name == nil || d.Body == nil {
		j.refuse(ruleText, "this function", "it has no name", "")
		return
	}
	name := d.Name.Value
	f := &function{assigns: assigned(d.Body), maybe: s.maybe}
	if j.g.tables.find(name) != nil || slices.ContainsFunc(j.seen, func(words []field) bool { return words[0].text == name }) ||
		strings.ContainsRune(name, '/') {
		j.refuse(ruleRunTime, "a function called "+name, "it hides a program of that name", "call it something else")
	}
	f.body = func(at *scope) { j.stmt(at, d.Body) }
	muted, effects := j.muted, len(j.effects)
	j.muted = false
	in := s.sub()
	in.calls = append(slices.Clone(s.calls), name)
	in.vars = map[string]value{}
	j.funcs[name] = f
	f.body(in)
	f.effects = len(j.effects) > effects
	j.effects, j.muted = j.effects[:effects], muted
}

// invoke judges the call of a function where it stands.
func (j *judge) invoke(s *scope, name string, f *function) {
	f.calls++
	if f.maybe {
		j.unknown(name) // a program of that name would run
	}
	what := "the function " + name
	switch {
	case slices.Contains(s.calls, name):
		j.endless = true
		j.refuse(ruleLoop, what, "it calls itself", "write the commands out")
		return
	case f.effects && (f.calls > 1 || s.loop):
		j.refuse(ruleLoop, what, "it repeats a command that a cooldown counts", "run the command once, by itself")
	}
	in := s.sub()
	in.calls = append(slices.Clone(s.calls), name)
	f.body(in)
	s.forget(f.assigns)
	s.cwds = union(s.cwds, in.cwds)
}
