package guard

import (
	"path"
	"slices"
	"strings"

	"claudeops/internal/ops"
)

// judgeSSH judges the remote command of ssh to an inventory host.
func judgeSSH(c *call) {
	options, operands := c.row.parseOptions(c.args, true)
	c.optionsOf(c.row, options)
	c.sshOptions(options)
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
	more, words := c.row.parseOptions(operands[1:], true)
	c.optionsOf(c.row, more)
	c.sshOptions(more)
	if len(words) == 0 {
		c.refuse(ruleRunTime, "it opens a shell that reads its commands from its standard input", "give the remote command as an argument")
		return
	}
	var text []string
	for _, w := range words {
		one, plain := w.literal()
		if !plain {
			c.j.refuse(ruleRunTime, "the remote command of ssh", "part of it is known only at run time", "write it out in single quotes")
			return
		}
		text = append(text, one)
	}
	s := c.s.foreign()
	s.remote, s.cwds = true, []string{homeDir}
	c.j.nested(s, "ssh", strings.Join(text, " "), true)
}

// sshOptions judges -o and -i.
func (c *call) sshOptions(options []given) {
	for _, g := range options {
		switch g.name {
		case "-o":
			name, _, _ := strings.Cut(strings.ToLower(g.value.text), "=")
			name, _, _ = strings.Cut(strings.TrimSpace(name), " ")
			if g.value.dyn || !slices.Contains([]string{
				"connecttimeout", "connectionattempts", "batchmode", "stricthostkeychecking", "serveraliveinterval", "serveralivecountmax",
				"loglevel", "port", "user", "identitiesonly", "preferredauthentications", "passwordauthentication", "numberofpasswordprompts",
				"requesttty", "addressfamily", "compression", "tcpkeepalive", "checkhostip",
			}, name) {
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
	options, operands := c.row.parseOptions(c.args, true)
	c.optionsOf(c.row, options)
	if len(operands) == 0 {
		c.refuse(ruleRunTime, "it names no container", "name the container")
		return
	}
	if target, plain := operands[0].literal(); !plain || !serviceName(target) {
		c.refuse(ruleRunTime, "its container is known only at run time", "write the container's name out")
		return
	}
	if ownName(operands[0].text) {
		c.j.refuse(ruleOwn, c.name+" "+operands[0].text, "it is the supervisor itself", "leave it alone")
	}
	inner := operands[1:]
	if strings.HasPrefix(c.name, "kubectl") {
		more, rest := c.row.parseOptions(inner, true)
		c.optionsOf(c.row, more)
		inner = rest
	}
	if len(inner) == 0 {
		c.refuse(ruleRunTime, "it runs no command", "name the command")
		return
	}
	s := c.s.foreign()
	s.container, s.cwds = true, nil
	c.j.external(s, inner)
}

// judgeXargs judges the command xargs repeats; the words it adds are known only at run time.
func judgeXargs(c *call) {
	options, operands := c.row.parseOptions(c.args, true)
	c.options = options
	c.optionsOf(c.row, options)
	added := field{text: string(rune(hole)), dyn: true, split: true}
	if len(c.s.files) > 0 && !c.has("-a", "--arg-file") {
		added = field{text: c.s.files[0] + "/*", glob: true}
		if len(c.s.files) > 1 || slices.ContainsFunc(c.s.files, c.j.g.secrets.holds) {
			added = field{text: string(rune(hole)), dyn: true, split: true}
		}
	}
	words := slices.Clone(operands)
	if mark, ok := c.option("-I", "--replace", "-i"); ok {
		text := cmpOr(mark.value.text, "{}")
		for i, w := range words {
			if strings.Contains(w.text, text) {
				words[i] = added
			}
		}
	} else {
		words = append(words, added)
	}
	if len(operands) == 0 {
		c.need(ops.Tier1)
		return
	}
	s := c.s.sub()
	s.loop = true
	c.j.external(s, words)
}

// judgeWatch judges the command watch repeats; it hands its words to a shell.
func judgeWatch(c *call) {
	options, operands := c.row.parseOptions(c.args, true)
	c.optionsOf(c.row, options)
	var text []string
	for _, w := range operands {
		one, plain := w.literal()
		if !plain {
			c.runTime("")
			return
		}
		text = append(text, one)
	}
	s := c.s.foreign()
	s.loop = true
	c.j.nested(s, "watch", strings.Join(text, " "), true)
}

// judgeFind judges the tests and actions of find.
func judgeFind(c *call) {
	var roots []field
	words := c.args
	for len(words) > 0 && (words[0].text == "-L" || words[0].text == "-H" || words[0].text == "-P") {
		words = words[1:]
	}
	for len(words) > 0 && !strings.HasPrefix(words[0].text, "-") && words[0].text != "(" && words[0].text != "!" {
		roots = append(roots, words[0])
		c.j.read(c.s, words[0], "find")
		words = words[1:]
	}
	if len(roots) == 0 {
		roots = lits(".")
	}
	for i := 0; i < len(words); i++ {
		w := words[i]
		if w.dyn && !w.num {
			c.runTime("")
		}
		switch w.text {
		case "-delete", "-fprint", "-fprint0", "-fprintf", "-fls", "-ok", "-okdir":
			c.j.refuse(ruleLoop, "find "+w.text, "it changes or asks for every file it finds", "name the files and handle them one by one")
		case "-name", "-iname", "-path", "-ipath", "-wholename":
			if i++; i < len(words) && c.j.g.secrets.match(words[i].text, true) {
				c.j.refuse(ruleSecrets, "find "+w.text+" "+words[i].show(), "it looks for files that hold secrets", "look for something else")
			}
		case "-files0-from":
			c.j.refuse(ruleRunTime, "find -files0-from", "where it searches is known only at run time", "name the folders")
		case "-exec", "-execdir":
			end := i + 1
			for end < len(words) && words[end].text != ";" && (words[end].text != "+" || words[end-1].text != "{}") {
				end++
			}
			c.findExec(roots, words[i+1:end])
			i = end
		}
	}
	c.need(ops.Tier1)
}

// findExec judges the command find runs on what it finds.
func (c *call) findExec(roots, words []field) {
	found := field{text: string(rune(hole)), dyn: true}
	if ps := c.j.paths(c.s, roots[0].text); len(roots) == 1 && !roots[0].dyn && !slices.ContainsFunc(ps, c.j.g.secrets.holds) {
		found = field{text: ps[0] + "/*", glob: true}
	}
	inner := make([]field, 0, len(words))
	for _, w := range words {
		if strings.Contains(w.text, "{}") {
			if w.text != "{}" {
				c.j.refuse(ruleRunTime, "find -exec", "a file name becomes part of a text", "use {} as a word of its own")
			}
			w = found
		}
		inner = append(inner, w)
	}
	if len(inner) == 0 {
		return
	}
	s := c.s.sub()
	s.loop = true
	c.j.external(s, inner)
}
