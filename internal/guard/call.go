package guard

import (
	"slices"
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"claudeops/internal/ops"
)

// call is one simple command, its row found and its words sorted.
type call struct {
	line
	j       *judge
	s       *scope
	row     *row
	program field  // the word that names the program
	groups  []*row // the groups it belongs to whose options it takes as well
	unseen  bool   // some text tells it what nobody has read
	out     outcome
}

// line is what stands in a command.
type line struct {
	name     string  // the whole command, such as docker compose up
	args     []field // everything after the command
	before   []given // options of the groups it belongs to
	options  []given
	operands []field
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
		j.refuse(ruleText, "a program of that name", "the name holds characters that program names do not have", "write the program's plain name")
		return s.any()
	}
	base, ok := j.program(s, name, words[1:])
	if !ok {
		return s.any()
	}
	if strings.HasPrefix(base, "claudeops") || strings.HasPrefix(base, "claude-ops") {
		changes := func(f field) bool { return j.g.tables.find("claudeops "+f.text) != nil }
		j.refuse(orAttack(slices.ContainsFunc(words[1:], changes), ruleOwn), base, "agents do not call the supervisor", "")
		return s.any()
	}
	if j.operatorDenies(base, words[1:]) || j.operatorAllows(s, base, words[1:]) {
		return s.any()
	}
	r := j.g.tables.find(base)
	if r == nil {
		r = j.g.tables.family(base)
	}
	if r == nil {
		j.unknown(base)
		return s.any()
	}
	return j.dispatch(s, r, words)
}

// family finds the row of an interpreter by its name without the version, as in perl5.36 or vim.tiny.
func (t *tables) family(base string) *row {
	for i := 1; i < len(base); i++ {
		if strings.IndexByte("0123456789.-", base[i]) < 0 {
			continue
		}
		if r := t.find(base[:i]); r != nil && (r.rule == ruleInline || slices.Contains(r.judges, "interpreter")) {
			return r
		}
	}
	return nil
}

// dispatch follows groups to the row of a subcommand and judges it.
func (j *judge) dispatch(s *scope, r *row, words []field) outcome {
	c := &call{j: j, s: s, row: r, line: line{name: r.cmd, args: words[1:]}, program: words[0], out: s.any()}
	for r.group && !c.onlyHelp() {
		options, operands := c.parse(r, c.args, true)
		c.before = append(c.before, options...)
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
			if len(r.args) > 0 {
				break // the group itself takes operands
			}
			j.refuse(ruleBash, r.cmd+" "+operands[0].show(), "it is not on the list of known subcommands", j.g.tables.verbsHint(r))
			return s.any()
		}
		if r.persistent {
			c.groups = append(c.groups, r)
		}
		r = next
		c.row, c.name, c.args = r, r.cmd, operands[1:]
	}
	if r.group && r.tier == 0 && !c.onlyHelp() {
		c.refuse(ruleBash, "without a subcommand it may read commands from its standard input", j.g.tables.verbsHint(r))
		return s.any()
	}
	c.judge()
	return c.out
}

// verbsHint names some subcommands that are known.
func (t *tables) verbsHint(r *row) string {
	var verbs []string
	for _, o := range t.order {
		verb, ok := strings.CutPrefix(o.cmd, r.cmd+" ")
		if ok && !strings.Contains(verb, " ") && o.tier < never && len(verbs) < 8 {
			verbs = append(verbs, verb)
		}
	}
	if len(verbs) == 0 {
		return ""
	}
	return "use one of " + strings.Join(verbs, ", ")
}

// judge applies the row.
func (c *call) judge() {
	r := c.row
	if c.onlyHelp() && (r.tier < never || r.rule == ruleBash || r.rule == ruleInline || r.rule == ruleRedeploy) {
		c.j.need(c.s, ops.Tier1, ruleBash, c.name)
		return
	}
	if r.tier >= never && len(r.variants) == 0 {
		c.refuse(orAttack(r.attack && slices.ContainsFunc(c.args, c.named), r.rule), r.note, c.instead())
		if r.rule == ruleLauncher && !c.s.remote { // sudo kill 4711: what it starts here may be aimed at the supervisor
			c.j.suspicious(c.s, c.name, c.args, true)
		}
		return
	}
	if c.s.reads && (!r.local || r.look) && r.tier < never {
		c.refuse(ruleLoop, "what is repeated only reads, and reaches neither the network nor Docker", "write a loop: for x in …; do …; done")
	}
	for _, name := range r.judges {
		if fn := c.j.g.judges[name]; fn.whole {
			c.optionsOf(c.before)
			fn.judge(c)
			c.lookOutside()
			return
		}
	}
	if strings.HasPrefix(r.cmd, "git ") {
		gitCall{c}.git()
	}
	c.options, c.operands = c.parse(r, c.args, r.stop)
	for _, v := range r.variants {
		if c.has(v.when...) {
			c.row = v
			break
		}
	}
	c.apply()
}

// instead names the action that does what no session does by a command, of the services that the command names.
func (c *call) instead() string {
	if c.row.rule != ruleRedeploy {
		return ""
	}
	var out []string
	for _, f := range c.args {
		name, known := c.j.facts.service(f.text)
		i := slices.IndexFunc(c.j.facts.Services, func(s ops.Service) bool { return s.Name == name })
		if known && !slices.Contains(out, c.j.facts.Services[i].Redeployed()) {
			out = append(out, c.j.facts.Services[i].Redeployed())
		}
	}
	if len(out) == 0 {
		return "the supervisor's action redeploy of a service makes its container again, where the operator gave the service a " +
			"`compose: {repo: …, file: …}`"
	}
	return strings.Join(out, "; ")
}

// named reports a word that names the supervisor's unit, container or process. What the operator lists as a service is honest work.
func (c *call) named(f field) bool {
	if f.dyn { // kill $(pgrep claudeops)
		return slices.ContainsFunc(slices.Concat(c.j.seen...), func(w field) bool { return ownName(w.text) })
	}
	_, listed := c.j.facts.service(strings.TrimSuffix(f.text, ".service"))
	return ownName(f.text) && !listed || f.text == strconv.Itoa(c.j.facts.OwnPID) && !c.s.remote && !c.s.container
}

// apply judges the sorted words by the row, or by the variant of it that the options chose.
func (c *call) apply() {
	r := c.row
	if r.tier >= never {
		c.refuse(r.rule, r.note, c.instead())
	}
	if len(r.needs) > 0 && !c.has(r.needs...) {
		c.refuse(ruleBash, "it is known only with "+strings.Join(r.needs, " or "), "add the option")
	}
	c.optionsOf(c.before)
	c.optionsOf(c.options)
	c.operandsOf()
	c.here()
	for _, name := range r.judges {
		c.j.g.judges[name].judge(c)
	}
	if c.unseen {
		c.unread()
	}
	c.need(r.tier)
	c.inSafeMode()
	c.lookOutside()
}

// lookOutside lets the supervisor run a program that inspects the network where the session has one of its own: there the program
// would describe that one, and succeed.
func (c *call) lookOutside() {
	if !c.j.facts.NetworkClosed || c.s.remote || c.s.container {
		return
	}
	switch {
	case c.row.look && c.j.facts.LookProgram != "":
		c.startedBy("look")
	case c.row.look, c.row.inside && (c.row.cmd != "lsof" || c.has("-i")):
		c.refuse(ruleBash, "it would show the network of this session, not that of the host", "use the tool look")
	case c.row.database && !c.j.facts.RawNetwork:
		c.refuse(ruleBash, "this session does not reach the databases of services", "what it needs, an operator declares as queries of a service")
	}
}

// here refuses programs that take settings from the folder they run in where anybody may have put them.
func (c *call) here() {
	program, _, _ := strings.Cut(c.row.cmd, " ")
	if program != "gh" && program != "tea" && program != "glab" && program != "npm" && program != "ansible" &&
		!strings.HasPrefix(program, "ansible-") &&
		!strings.HasPrefix(c.row.cmd, "docker compose") {
		return
	}
	for _, p := range c.j.paths(c.s, ".") {
		if within(p, c.j.facts.TempDir) && c.j.inRepo(p) == 0 && !c.s.remote {
			c.refuse(rulePath, "it takes settings from the folder it runs in, and that is a temporary one", "cd into a repository first")
		}
	}
}

// need records the tier of the command.
func (c *call) need(tier ops.Tier) {
	if tier < never {
		c.j.need(c.s, tier, ruleBash, c.name)
	}
}

func (c *call) refuse(rule, why, hint string) {
	if forms := ops.QueryForms(c.j.facts.Services); len(forms) > 0 && c.row != nil && c.row.database {
		hint = "use the tool look, which knows these queries: " + ops.Listed(forms)
	}
	c.j.refuse(rule, c.name, why, hint)
}

// dry reports an option with which the command changes nothing.
func (c *line) dry() bool {
	return slices.ContainsFunc(c.options, func(g given) bool { return g.flag.dry })
}

// onlyHelp reports --help or --version alone.
func (c *line) onlyHelp() bool {
	if len(c.args) != 1 || c.args[0].dyn {
		return false
	}
	switch c.args[0].text {
	case "--help", "--version":
		return true
	}
	return false
}
