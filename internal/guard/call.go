package guard

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"claudeops/internal/ops"
)

// call is one simple command, its row found and its words sorted.
type call struct {
	j        *judge
	s        *scope
	row      *row
	name     string  // the whole command, such as docker compose up
	args     []field // everything after the command
	before   []given // options of the groups it belongs to
	options  []given
	operands []field
	out      outcome
}

// call judges a simple command.
func (j *judge) call(s *scope, c *syntax.CallExpr) outcome {
	for _, a := range c.Assigns {
		j.assign(s, a, len(c.Args) > 0)
	}
	words := j.words(s, c.Args)
	if len(words) == 0 {
		if len(c.Args) > 0 {
			j.refuse(ruleRunTime, "this command", "its program is known only at run time", "name the program")
		}
		return s.any()
	}
	return j.simple(s, words)
}

// simple judges the words of a simple command.
func (j *judge) simple(s *scope, words []field) outcome {
	name, plain := words[0].literal()
	if !plain {
		j.refuse(ruleRunTime, "the program "+words[0].show(), "its name is known only at run time", "write the program's name out")
		return s.any()
	}
	j.seen = append(j.seen, words)
	if strings.IndexFunc(name, odd) >= 0 || name == "" || strings.ContainsAny(name, " \t\n") {
		j.refuse(ruleText, "a program of that name", "the name holds characters no program has", "write the program's plain name")
		return s.any()
	}
	if f := j.funcs[name]; f != nil {
		j.invoke(s, name, words[1:], f)
		return s.any()
	}
	base, ok := j.program(s, name, words[1:])
	if !ok {
		return s.any()
	}
	if strings.HasPrefix(base, "claudeops") || strings.HasPrefix(base, "claude-ops") {
		j.refuse(ruleOwn, base, "the supervisor is not called by its agents", "")
		return s.any()
	}
	if j.operatorDenies(base, words[1:]) {
		return s.any()
	}
	r := j.g.tables.find(base)
	if r == nil {
		j.unknown(s, base, words[1:])
		return s.any()
	}
	return j.dispatch(s, r, words[1:])
}

// external judges words that a program starts: it finds programs only, not the functions of the shell.
func (j *judge) external(s *scope, words []field) outcome {
	funcs := j.funcs
	j.funcs = map[string]*function{}
	out := j.simple(s, words)
	j.funcs = funcs
	return out
}

// dispatch follows groups to the row of a subcommand and judges it.
func (j *judge) dispatch(s *scope, r *row, args []field) outcome {
	c := &call{j: j, s: s, row: r, name: r.cmd, args: args, out: s.any()}
	for r.group {
		options, operands := r.parseOptions(args, true)
		c.before = append(c.before, options...)
		c.optionsOf(r, options)
		if len(operands) == 0 {
			break
		}
		verb, plain := operands[0].literal()
		if !plain {
			j.refuse(ruleRunTime, r.cmd, "its subcommand is known only at run time", "write the subcommand out")
			return s.any()
		}
		next := j.g.tables.find(r.cmd + " " + verb)
		if next == nil && r.like != "" {
			next = j.g.tables.find(r.like + " " + verb)
		}
		if next == nil {
			if r.tier != 0 && r.tier < never {
				break // the group itself takes operands
			}
			j.refuse(ruleBash, r.cmd+" "+operands[0].show(), "it is not on the list of known subcommands", "")
			return s.any()
		}
		r, args = next, operands[1:]
		c.row, c.name, c.args = r, r.cmd, args
	}
	if r.group && r.tier == 0 {
		j.need(s, ops.Tier1, ruleBash, r.cmd)
		return s.any()
	}
	c.judge()
	return c.out
}

// judge applies the row.
func (c *call) judge() {
	r := c.row
	if c.onlyHelp() && (r.tier < never || r.rule == ruleBash || r.rule == ruleInline) {
		c.j.need(c.s, ops.Tier1, ruleBash, c.name)
		return
	}
	if r.tier >= never {
		c.refuse(r.rule, r.note, "")
	}
	if r.wraps >= 0 {
		c.wrapped()
		return
	}
	if strings.HasPrefix(r.cmd, "git ") {
		judgeGit(c)
	}
	c.options, c.operands = r.parseOptions(c.args, false)
	special := false
	for _, name := range r.judges {
		if fn := c.j.g.judges[name]; fn.whole {
			fn.judge(c)
			special = true
		}
	}
	if special {
		return
	}
	c.optionsOf(r, c.options)
	c.operandsOf()
	if strings.HasPrefix(r.cmd, "gh ") {
		c.filters()
		c.bodyFile()
	}
	for _, name := range r.judges {
		c.j.g.judges[name].judge(c)
	}
	c.effects()
	c.need(r.tier)
}

// need records the tier of the command.
func (c *call) need(tier ops.Tier) {
	if tier < never {
		c.j.need(c.s, tier, ruleBash, c.name)
	}
}

func (c *call) refuse(rule, why, hint string) {
	c.j.refuse(rule, c.name, why, hint)
}

// onlyHelp reports --help or --version alone.
func (c *call) onlyHelp() bool {
	if len(c.args) != 1 || c.args[0].dyn {
		return false
	}
	switch c.args[0].text {
	case "--help", "--version":
		return true
	}
	return false
}
