package guard

import (
	"path"
	"strings"

	"claudeops/internal/ops"
)

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
