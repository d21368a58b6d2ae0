package guard

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"claudeops/internal/ops"
)

// judgeDate refuses to set the clock: an operand that is no format sets it.
func judgeDate(c *call) {
	for _, f := range c.operands {
		if !strings.HasPrefix(f.text, "+") {
			c.j.refuse(ruleOwn, c.name, "it sets the clock", "print the time with date +FORMAT")
		}
	}
}

// judgePs refuses the environment of processes, which ps shows for a bare e.
func judgePs(c *call) {
	for i, f := range c.operands {
		if i > 0 && strings.HasSuffix(c.operands[i-1].text, "o") && !strings.Contains(f.text, "environ") {
			continue // the columns of `ps axo …`
		}
		if strings.ContainsRune(f.text, 'e') {
			c.j.refuse(ruleSecrets, "ps "+f.show(), "it shows the environment of processes", "use ps aux or ps -ef")
		}
	}
	for _, g := range c.options {
		if strings.Contains(strings.ToLower(g.value.text), "environ") {
			c.j.refuse(ruleSecrets, "ps -o environ", "it shows the environment of processes", "use ps aux or ps -ef")
		}
	}
}

// judgeIP allows ip to show things.
func judgeIP(c *call) {
	object, verb := "", "show"
	if len(c.operands) > 0 {
		object = c.operands[0].text
	}
	if len(c.operands) > 1 {
		verb = c.operands[1].text
	}
	switch {
	case object == "xfrm" || object == "macsec":
		c.j.refuse(ruleSecrets, "ip "+object, "it shows keys", "look at routes and links only")
		return
	case verb == "s" && object != "" && strings.HasPrefix("link", object): // there it is short for set
	case object == "netns" && verb != "show" && verb != "list" && verb != "ls":
	case verb == "show" || verb == "list" || verb == "ls" || verb == "lst" || verb == "get" || verb == "sh" || verb == "s" || verb == "l" || verb == "dev":
		return
	}
	c.refuse(ruleBash, "it changes the network", "show it only")
}

// judgeLooksOnly refuses any operand and all options that are not listed.
func judgeLooksOnly(c *call) {
	for _, g := range c.options {
		if g.flag == nil {
			c.refuse(ruleBash, "its option "+g.name+" changes the host or is not known", "list things only")
		}
	}
}

// judgeSysctl refuses to set kernel parameters.
func judgeSysctl(c *call) {
	for _, f := range c.operands {
		if strings.Contains(f.text, "=") {
			c.refuse(ruleBash, "it sets a kernel parameter", "read it only")
		}
	}
}

// judgeTest refuses the test operators that evaluate a subscript.
func judgeTest(c *call) {
	for i, f := range c.args {
		if (f.text == "-v" || f.text == "-R") && i+1 < len(c.args) && (c.args[i+1].dyn || strings.ContainsRune(c.args[i+1].text, '[')) {
			c.j.refuse(ruleRunTime, c.name+" "+f.text, "it evaluates a subscript as code", "")
		}
	}
	c.need(ops.Tier1)
}

// judgeNames refuses variable names with a subscript, which builtins evaluate as code, and forgets the variables.
func judgeNames(c *call) {
	for _, f := range c.args {
		if strings.HasPrefix(f.text, "-") && c.row.cmd != "printf" {
			continue
		}
		if c.row.cmd == "printf" {
			break
		}
		c.variableName(f)
	}
	if v, ok := c.option("-v", "-p", "-a"); ok && v.has {
		c.variableName(v.value)
	}
	c.need(ops.Tier1)
}

func (c *call) variableName(f field) {
	if f.dyn || f.viaVar || strings.ContainsAny(f.text, "[$`") {
		c.j.refuse(ruleRunTime, c.name, "it evaluates the subscript of a variable as code", "use a plain variable")
		return
	}
	if c.j.funcs[f.text] != nil {
		c.j.refuse(ruleRunTime, c.name+" "+f.text, "it is also a function", "call the variable something else")
	}
	if syntax.ValidName(f.text) {
		if c.row.cmd == "unset" {
			c.j.unsettable(f.text)
		} else {
			c.j.variable(f.text, value{})
		}
		c.s.set(f.text, value{})
	}
}

// judgeDeclared judges export and its like where the parser takes them for programs.
func judgeDeclared(c *call) {
	c.j.declared(c.s, c.row.cmd, c.args)
	c.need(ops.Tier1)
}

// judgeSet allows the options of set that do not change the language.
func judgeSet(c *call) {
	if len(c.args) == 0 {
		c.refuse(ruleSecrets, "it prints all variables, which may hold secrets", "print the one you need")
		return
	}
	for i := 0; i < len(c.args); i++ {
		text, plain := c.args[i].literal()
		switch {
		case text == "--":
			c.need(ops.Tier1)
			return // positional parameters, always known only at run time
		case !plain || len(text) < 2 || text[0] != '-' && text[0] != '+':
			c.runTime("")
			return
		}
		for _, o := range text[1:] {
			switch o {
			case 'e':
				c.s.errexit = text[0] == '-' && !c.s.maybe
			case 'u', 'x', 'v', 'f', 'C', 'E', 'T', 'a', 'b', 'h', 'B', 'n':
			case 'o':
				if i++; i < len(c.args) && (harmlessShellOption(c.args[i].text) || c.args[i].text == "history") {
					continue
				}
				fallthrough
			default:
				c.refuse(ruleRunTime, "the option changes the language", "use set -euo pipefail at most")
				return
			}
		}
	}
	c.need(ops.Tier1)
}

// judgeMount allows mount to list.
func judgeMount(c *call) {
	if len(c.operands) > 0 {
		c.refuse(ruleBash, "it changes what lies where", "list mounts only")
	}
}

// judgeHostname refuses to set the name.
func judgeHostname(c *call) {
	if len(c.operands) > 0 {
		c.refuse(ruleBash, "it sets the host's name", "print it only")
	}
}
