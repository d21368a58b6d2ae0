package guard

import (
	"path"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"claudeops/internal/ops"
)

func texts(fields []field) (out []string) {
	for _, f := range fields {
		out = append(out, f.text)
	}
	return out
}

// judgePs leaves the environment of processes, which ps shows for a bare e, to walls and the broker. Docker gives what follows top to ps.
func judgePs(c *call) {
	words := c.args
	if c.row.cmd == "docker top" {
		words = c.operands[min(1, len(c.operands)):]
	}
	c.unseen = !PlainPs(texts(words))
}

const (
	psColumn  = `%?([a-df-z_]|e[a-mo-z_])[a-z0-9_]*(:\d+)?=?` // none of the environment
	psColumns = psColumn + `(,` + psColumn + `)*`
	psKey     = `[-+]?%?[a-z_]+`
)

// psForms are arguments of ps that list processes without their environment. A bare e shows it. The option -e does not, but if ps cannot
// use the options together it reads them again without their dashes (ps -efx), so these are forms that it can use.
var psForms = ops.Pattern(`^( (-aux|[aufjlrvwx]+|-[AadefFjlw]+( -[AadefFjlw]+)*( --forest)?|-[AadefFjlwL]+|-[AadefFjlwH]+|-[AadefFjlwT]+|` +
	`(-[Aade]+ )?(-[AadewL]*[oO] ?|--format[= ])` + psColumns + `( -o ?` + psColumns + `)*))?` +
	`( --sort[= ]` + psKey + `(,` + psKey + `)*| --headers| --no-head(ers|ing)| --(cols|columns|width)[= ]\d+)*$`)

// PlainPs reports whether the arguments of ps have one of these forms.
func PlainPs(words []string) bool {
	return psForms().MatchString(strings.Join(append([]string{""}, words...), " "))
}

// judgeTest judges test and [: the forms in which no word of the data can become an operator.
func judgeTest(c *call) {
	words := c.args
	if c.row.cmd == "[" {
		if len(words) == 0 || words[len(words)-1].text != "]" {
			c.refuse(ruleText, "it has no end", "end it with ]")
			return
		}
		words = words[:len(words)-1]
	}
	c.need(ops.Tier1)
	if n, ok := testForm(words); len(words) > 0 && (!ok || n < len(words)) {
		c.j.refuse(ruleRunTime, c.name, "a word that is known only at run time may be an operator, and some evaluate text as code",
			"use one simple comparison with quotes for each [, such as [ \"$a\" = b ]")
	}
}

// testForm reads one test at the start of the words and returns its length.
func testForm(words []field) (int, bool) {
	neg := 0
	for len(words) > 1 && words[0].text == "!" && !words[0].dyn {
		words, neg = words[1:], neg+1
	}
	for _, w := range words[:min(3, len(words))] {
		if w.split && !w.num && !w.plain {
			return 0, false
		}
	}
	binary := []string{"=", "==", "!=", "<", ">", "-eq", "-ne", "-lt", "-le", "-gt", "-ge", "-nt", "-ot", "-ef"}
	unary := []string{
		"-e", "-f", "-d", "-r", "-w", "-x", "-s", "-L", "-h", "-n", "-z", "-p", "-S", "-b", "-c", "-t", "-N", "-O", "-G",
		"-u", "-g", "-k",
	}
	switch {
	case len(words) >= 3 && !words[1].dyn && slices.Contains(binary, words[1].text):
		return neg + 3, true
	case len(words) >= 2 && !words[0].dyn && slices.Contains(unary, words[0].text):
		return neg + 2, true
	case len(words) == 1:
		return neg + 1, true
	}
	return 0, false
}

// judgeNames refuses variable names with a subscript, which builtins evaluate as code, and forgets the variables.
func judgeNames(c *call) {
	got := value{}
	if c.row.cmd == "read" && c.s.names && !c.has("-n", "-N", "-d", "-u", "-a", "-i") {
		got.plain = len(c.operands) == 1
	}
	if c.row.cmd != "printf" {
		for _, f := range c.operands {
			c.variableName(f, got)
		}
	} else if len(c.operands) > 0 && setsVariable(c.operands[0].text) {
		c.j.refuse(ruleRunTime, c.name, "its format sets a variable", "leave %n out")
	}
	if c.row.cmd == "read" && len(c.operands) == 0 {
		c.s.set("REPLY", value{})
	}
	for _, g := range c.options {
		if g.is("-v", "-a") && g.has || g.is("-p") && c.row.cmd == "wait" {
			c.variableName(g.value, value{})
		}
	}
}

// setsVariable reports a format of printf with %n.
func setsVariable(format string) bool {
	parts := strings.Split(strings.ReplaceAll(format, "%%", ""), "%")
	return slices.ContainsFunc(parts[1:], func(p string) bool {
		return strings.HasPrefix(strings.TrimLeft(p, "0123456789.*#+- 'hlLjzt"), "n")
	})
}

func (c *call) variableName(f field, got value) {
	if f.dyn || f.viaVar || strings.ContainsAny(f.text, "[$`") {
		c.j.refuse(ruleRunTime, c.name, "it evaluates the subscript of a variable as code", "use a plain variable")
		return
	}
	if syntax.ValidName(f.text) {
		if c.row.cmd == "unset" {
			c.j.unsettable(f.text)
		} else {
			c.j.variable(f.text, value{}, false)
		}
		c.s.set(f.text, got)
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
			case 'e', 'u', 'x', 'v', 'f', 'C', 'E', 'T', 'b', 'h', 'B', 'n':
			case 'o':
				if i++; i < len(c.args) && (harmlessShellOption(c.args[i].text) || c.args[i].text == "history") {
					continue
				}
				fallthrough
			default:
				c.refuse(ruleRunTime, "the option changes the language or the environment", "use set -euo pipefail at most")
				return
			}
		}
	}
	c.need(ops.Tier1)
}

// judgeUnits keeps the environment of units out of what is shown.
func judgeUnits(c *call) {
	c.writtenOut("-p", "-P", "--property")
	for _, g := range c.options {
		if strings.Contains(strings.ToLower(g.value.text), "environ") {
			c.j.refuse(ruleSecrets, c.name, "it prints the environment of a service", "name other properties")
		}
	}
}

// judgeService judges `service name action`.
func judgeService(c *call) {
	if len(c.args) == 1 && c.args[0].text == "--status-all" {
		c.need(ops.Tier1)
		return
	}
	if len(c.args) != 2 {
		c.refuse(ruleBash, "only `service name action` is known", "")
		return
	}
	action, _ := c.args[1].literal()
	name, ok := c.service(c.args[0])
	if !ok {
		return
	}
	if action == "status" {
		c.need(ops.Tier1)
		return
	}
	c.baseUnit(c.args[0])
	switch action {
	case "restart", "reload":
		c.j.effect(Effect{Kind: EffectRestart, Service: name})
	case "start":
		c.j.effect(Effect{Kind: EffectRestart, Service: name, Phase: PhaseClose})
	case "stop":
		c.j.effect(Effect{Kind: EffectRedeployment, Service: name, Phase: PhaseOpen})
	default:
		c.refuse(ruleBash, c.args[1].show()+" is not a known action", "use status, start, stop or restart")
	}
	c.need(ops.Tier3)
}

// baseUnit refuses the units that everything else depends on, whatever kind of unit stands for them, and those that guard the machine, keep
// its record or let people in: only services and timers are one service's own.
func (c *call) baseUnit(f field) {
	unit := strings.ToLower(f.text)
	kind := path.Ext(unit)
	name := strings.TrimPrefix(strings.TrimSuffix(strings.TrimSuffix(unit, ".service"), kind), "snap.")
	switch kind {
	case ".slice", ".scope", ".socket", ".target", ".mount", ".automount", ".swap", ".device", ".path":
		c.refuse(ruleBash, "every service of the host depends on "+unit, "report it for a human")
		return
	}
	first, _, _ := strings.Cut(strings.ReplaceAll(name, "@", "."), ".")
	for _, class := range c.j.g.units {
		if class.names.Match(first, false) {
			c.refuse(ruleBash, unit+" "+class.what, "report it for a human")
			return
		}
	}
}
