package guard

import (
	"path"
	"slices"
	"strings"

	"claudeops/internal/ops"
)

// judgeSSH judges the remote command of ssh to an inventory host.
func judgeSSH(c *call) {
	options, operands := c.parse(c.row, c.args, true)
	if len(operands) == 0 {
		if len(options) == 1 && options[0].name == "-V" {
			c.need(ops.Tier1)
			return
		}
		c.refuse(ruleRunTime, "it names no host", "name an inventory host")
		return
	}
	host := operands[0]
	name := host.text
	if user, after, ok := strings.Cut(name, "@"); ok && serviceName(user) {
		name = after
	}
	if host.dyn || host.glob || !c.j.facts.knownHost(name) {
		c.refuse(ruleRunTime, "the host "+host.show()+" is not in the inventory", "use a host of the inventory by its name")
	}
	more, words := c.parse(c.row, operands[1:], true)
	options = append(options, more...)
	c.optionsOf(options)
	c.sshOptions(options)
	if len(words) == 0 {
		c.refuse(ruleRunTime, "it opens a shell that reads its commands from its standard input", "give the remote command as an argument")
		return
	}
	text, ok := c.literals(words)
	if !ok {
		c.j.refuse(ruleRunTime, "the remote command of ssh", "part of it is known only at run time", "write it out in single quotes")
		return
	}
	s := c.s.foreign()
	s.remote, s.cwds = true, []string{homeDir}
	c.j.nested(s, "ssh", text, true)
}

// literals joins words that are written out.
func (c *call) literals(words []field) (string, bool) {
	var text []string
	for _, w := range words {
		one, plain := w.literal()
		if !plain {
			return "", false
		}
		text = append(text, one)
	}
	return strings.Join(text, " "), true
}

// plainSSH matches the options of ssh that neither run code nor forward nor change who is trusted.
var plainSSH = ops.Pattern(`(?i)^(connect(timeout|ionattempts)|batchmode|stricthostkeychecking|serveralive(interval|countmax)|` +
	`loglevel|port|user|identitiesonly|preferredauthentications|passwordauthentication|numberofpasswordprompts|requesttty|` +
	`addressfamily|compression|tcpkeepalive|checkhostip)([ =]|$)`)

// sshOptions judges -o and -i.
func (c *call) sshOptions(options []given) {
	for _, g := range options {
		switch g.name {
		case "-o":
			if g.value.dyn || !plainSSH().MatchString(g.value.text) {
				c.j.refuse(ruleBash, "ssh -o "+g.value.show(), "the option may run code, forward or change who is trusted", "leave the option out")
			}
		case "-i":
			if text, plain := g.value.literal(); !plain || path.Base(path.Dir(text)) != ".ssh" {
				c.j.refuse(ruleBash, "ssh -i", "only keys of an .ssh folder may be used", "leave the option out")
			}
		}
	}
}

// judgeExec judges the command that docker exec or kubectl exec runs inside a container: looking only.
func judgeExec(c *call) {
	options, operands := c.parse(c.row, c.args, true)
	c.options = options
	c.optionsOf(options)
	if len(operands) == 0 {
		c.refuse(ruleRunTime, "it names no container", "name the container")
		return
	}
	if target, plain := operands[0].literal(); (!plain || !serviceName(target)) && !(operands[0].dyn && operands[0].plain &&
		!operands[0].split) {
		c.refuse(ruleRunTime, "its container is known only at run time", "write the container's name out")
		return
	}
	if ownName(operands[0].text) {
		c.j.refuse(ruleOwn, c.name+" "+operands[0].text, "it is the supervisor itself", "leave it alone")
	}
	inner := operands[1:]
	if strings.HasPrefix(c.name, "kubectl") {
		more, rest := c.parse(c.row, inner, true)
		c.optionsOf(more)
		inner = rest
	}
	if len(inner) == 0 {
		c.refuse(ruleRunTime, "it runs no command", "name the command")
		return
	}
	s := c.s.foreign()
	s.container, s.cwds = true, nil
	s.brokered = c.j.facts.Walled && !c.s.remote && strings.HasPrefix(c.row.cmd, "docker ") &&
		!slices.ContainsFunc(c.before, func(g given) bool { return g.flag.role == roleEngine })
	if dir, ok := c.option("-w", "--workdir"); ok {
		c.writtenOut(dir.name)
		s.cwds = c.j.folder(s, dir.value)
	}
	c.j.simple(s, inner)
}

// judgeFind judges the places, tests and actions of find.
func judgeFind(c *call) {
	words, commands, ok := c.findCommands(c.args)
	if !ok {
		return
	}
	options, operands := c.parse(c.row, words, false)
	c.optionsOf(options)
	for _, f := range operands {
		switch f.text {
		case "(", ")", "!", ",":
		default:
			c.j.list(c.s, f, "find")
			if f.dyn && !f.plain {
				c.runTime("")
			}
		}
	}
	for _, g := range options {
		if g.is("-name", "-iname", "-path", "-ipath", "-wholename", "-iwholename") && !c.walled() &&
			(c.j.g.secrets.Match(g.value.text, true) || len(commands) > 0 && c.j.g.secrets.picks(g.value.text)) {
			c.j.refuse(ruleSecrets, "find "+g.name+" "+g.value.show(), "it may look for files that hold secrets", "look for something else")
		}
	}
	for _, inner := range commands {
		c.repeated(inner)
	}
	c.need(ops.Tier1)
}

// findCommands takes the commands of -exec out of the words.
func (c *call) findCommands(args []field) (words []field, commands [][]field, ok bool) {
	for i := 0; i < len(args); i++ {
		if args[i].text != "-exec" {
			words = append(words, args[i])
			continue
		}
		end := i + 1
		for end < len(args) && args[end].text != ";" && (args[end].text != "+" || args[end-1].text != "{}") {
			end++
		}
		if end == len(args) {
			c.refuse(ruleBash, "its -exec has no end", "end it with \\;")
			return nil, nil, false
		}
		commands = append(commands, args[i+1:end])
		i = end
	}
	return words, commands, true
}
