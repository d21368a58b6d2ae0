package guard

import (
	"path"
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

// program finds the name of a program from the path it was called by.
func (j *judge) program(s *scope, name string, args []field) (string, bool) {
	if !strings.ContainsRune(name, '/') {
		return name, true
	}
	clean := path.Clean(name)
	if path.IsAbs(name) && standardDir(path.Dir(clean)) {
		return path.Base(clean), true
	}
	if path.IsAbs(name) && !s.container && j.repoScript(clean) {
		j.script(s, clean, args)
		return "", false
	}
	j.refuse(rulePath, "the program "+name, "it does not lie in a standard directory, so it may be anything", "call programs by their plain name, scripts of a repository by their absolute path")
	return "", false
}

// repoScript reports a script of a configured repository.
func (j *judge) repoScript(p string) bool {
	if j.inRepo(p) < 3 || j.g.owned.match(p, false) {
		return false
	}
	switch path.Ext(p) {
	case ".sh", ".bash", ".py", ".pl", ".rb", ".js":
		return true
	}
	return false
}

// script judges running a script of a repository: nobody knows what it touches, so it counts as a redeployment.
func (j *judge) script(s *scope, p string, args []field) {
	what := "the script " + p
	if j.stored != "" {
		j.refuse(ruleInline, what, "the same command writes files, so it might run what it wrote", "run the script by itself")
	}
	for _, a := range args {
		text, ok := a.literal()
		if !ok {
			j.refuse(ruleRunTime, what, "its arguments are known only at run time", "write them out")
			return
		}
		j.suspicious(s, what, text)
	}
	j.need(s, ops.Tier3, ruleInline, what)
	j.effect(Effect{Kind: EffectRedeployment, Service: p})
}

// unknown judges a program the tables do not know.
func (j *judge) unknown(s *scope, base string, args []field) {
	if j.operatorAllows(s, base, args) {
		return
	}
	what := "the unknown program " + base
	if family, _, ok := strings.Cut(base, "-"); ok && j.g.tables.find(family) != nil {
		j.refuse(ruleUnknown, what, "it belongs to "+family+" and is not on the list", "use "+family+" itself")
		return
	}
	for _, a := range args {
		text, ok := a.literal()
		if !ok {
			j.refuse(ruleRunTime, what, "its arguments are known only at run time", "write them out")
			return
		}
		j.suspicious(s, what, text)
	}
	j.need(s, ops.Tier3, ruleUnknown, what)
}

// suspicious refuses an argument that names a program or a protected place: the program may be a launcher.
func (j *judge) suspicious(s *scope, what, arg string) {
	for word := range strings.FieldsFuncSeq(arg, func(r rune) bool { return strings.ContainsRune(" \t\n;|&()`=,:'\"", r) }) {
		if r := j.g.tables.find(path.Base(word)); r != nil && (r.tier != ops.Tier1 || r.group || len(r.judges) > 0) || strings.Contains(word, "$(") {
			j.refuse(ruleUnknown, what, "its arguments name the program "+path.Base(word), "call "+path.Base(word)+" itself")
			return
		}
		if !strings.ContainsAny(word, "/.~") {
			continue
		}
		for _, p := range j.paths(s, word) {
			if j.volumes(p) || j.protected(p, false) || j.own(p) || j.g.owned.match(p, false) || j.g.secrets.match(p, false) {
				j.refuse(ruleUnknown, what, "its arguments name the protected place "+word, "")
				return
			}
		}
	}
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

// optionsOf judges options against a row.
func (c *call) optionsOf(r *row, options []given) {
	for _, g := range options {
		f := g.flag
		if f == nil {
			if r.strict {
				c.refuse(ruleBash, "its option "+strings.ReplaceAll(g.name, string(rune(hole)), "…")+" is not on the list", "leave the option out")
			}
			if g.value.dyn && !r.dyn {
				c.runTime(g.name)
			}
			continue
		}
		if f.tier >= never {
			c.j.refuse(f.rule, c.name+" "+g.name, cmpOr(f.note, "the option runs other code, leaves the allowed places or destroys data"), "leave the option out")
			continue
		}
		if f.tier > 0 {
			c.j.need(c.s, f.tier, ruleBash, c.name+" "+g.name)
		}
		if g.has {
			c.valueOf(r, g)
		}
	}
}

// valueOf judges the value of an option.
func (c *call) valueOf(r *row, g given) {
	what := c.name + " " + g.name
	switch g.flag.role {
	case roleText:
		if g.value.split {
			c.runTime(g.name)
		}
		return
	case roleRead:
		c.j.read(c.s, g.value, what)
	case roleWrite:
		if g.value.text != "-" || r.cmd != "curl" { // curl means its standard output
			c.j.write(c.s, g.value, what)
		}
	case roleRepo:
		c.inRepo(g.value, what)
	case roleEngine:
		c.engine(g.value)
	default:
		if g.value.glob && r.tier > ops.Tier1 {
			c.runTime(g.name)
		}
	}
	if unknown := g.value.dyn && !r.dyn && !g.value.num; unknown || r.tier > ops.Tier1 && (g.value.dyn || g.value.viaVar || g.value.proc) {
		c.runTime(g.name)
	}
}

func (c *call) runTime(option string) {
	c.j.refuse(ruleRunTime, strings.TrimSpace(c.name+" "+option), "an argument is known only at run time", "write the argument out")
}

// inRepo requires that a file lies in a configured repository. On another host every place is fine that not everybody
// can write to.
func (c *call) inRepo(f field, what string) {
	text, ok := f.literal()
	if !ok {
		c.runTime(what)
		return
	}
	if strings.HasPrefix(text, "-") || strings.ContainsAny(text, ":@") {
		c.j.refuse(rulePath, what+" "+f.show(), "it is not a file of a configured repository", "use the file in the repository by its absolute path")
		return
	}
	var places []string
	for name := range strings.SplitSeq(text, ",") { // several programs take a list here
		places = append(places, c.j.paths(c.s, name)...)
	}
	for _, p := range places {
		switch {
		case c.j.inRepo(p) > 0:
		case c.s.remote && path.IsAbs(p) && !within(p, "/tmp") && !within(p, "/var/tmp") && !within(p, "/dev") && !within(p, "/proc") && !within(p, "/home"):
		default:
			c.j.refuse(rulePath, what+" "+f.show(), "the file does not lie in a configured repository", "use the file in the repository by its absolute path")
		}
		if c.j.volumes(p) || c.j.own(p) {
			c.j.refuse(ruleOwn, what+" "+f.show(), "the place is protected", "")
		}
	}
}

// operandsOf judges the operands by what the row says they are.
func (c *call) operandsOf() {
	r := c.row
	changes := r.tier > ops.Tier1
	for _, f := range c.operands {
		switch r.operands {
		case operandRead:
			c.j.read(c.s, f, c.name)
		case operandWrite:
			c.j.write(c.s, f, c.name)
			continue
		case operandDelete:
			c.j.change(c.s, f, c.name, true)
			continue
		case operandNone:
			c.refuse(ruleBash, "it takes no argument such as "+f.show()+" here", "leave it out")
		case operandServices:
			continue // effects does
		default:
		}
		if unknown := f.dyn && !r.dyn && !f.num; unknown || changes && (f.dyn || f.viaVar || f.glob || f.proc) {
			c.runTime("")
		}
	}
}

// has reports whether one of the options was given.
func (c *call) has(names ...string) bool {
	_, ok := c.option(names...)
	return ok
}

// option returns the last given option of one of these names.
func (c *call) option(names ...string) (given, bool) {
	for i := len(c.options) - 1; i >= 0; i-- {
		for _, n := range names {
			if c.options[i].name == n || c.options[i].flag != nil && len(c.options[i].flag.names) > 0 && sameFlag(c.options[i].flag, n) {
				return c.options[i], true
			}
		}
	}
	return given{}, false
}

func sameFlag(f *flag, name string) bool {
	for _, n := range f.names {
		if n == name {
			return true
		}
	}
	return false
}
