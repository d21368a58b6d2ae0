package guard

import (
	"path"
	"slices"
	"strings"

	"claudeops/internal/ops"
)

// judgePager refuses + commands, with which pagers run programs.
func judgePager(c *call) {
	for _, f := range c.operands {
		if strings.HasPrefix(f.text, "+") {
			c.refuse(ruleInline, "a + argument may run a command", "leave it out")
		}
	}
}

// judgeChmod judges the files behind the mode; a set-uid bit is refused.
func judgeChmod(c *call) {
	files := c.operands
	if !c.has("--reference") && len(files) > 0 {
		mode := files[0].text
		if grantsExecute(mode) {
			c.refuse(rulePath, "files of a repository are not made executable", "call scripts of a repository by their absolute path, as they are")
		}
		if strings.Contains(mode, "s") || isDigits(mode) && len(mode) > 3 && mode[0] != '0' {
			c.refuse(ruleLauncher, "it sets an s bit", "leave it out")
		}
		files = files[1:]
	}
	for _, f := range files {
		c.j.write(c.s, f, "chmod of")
	}
}

// grantsExecute reports a mode with an x bit.
func grantsExecute(mode string) bool {
	if !isDigits(mode) {
		return strings.ContainsAny(mode, "+=") && strings.ContainsAny(mode, "xX")
	}
	for _, d := range mode {
		if d%2 == 1 {
			return true
		}
	}
	return false
}

// judgeZip judges zip: the first operand is the archive.
func judgeZip(c *call) {
	for i, f := range c.operands {
		if i == 0 {
			if path.Ext(f.text) == "" {
				f = f.withText(f.text + ".zip")
			}
			c.j.write(c.s, f, "zip to")
			continue
		}
		c.j.readTree(c.s, f, "zip")
	}
}

// judgeUnzip allows unzip to list, test and print.
func judgeUnzip(c *call) {
	if !c.has("-l", "-p", "-t", "-Z") && !slices.ContainsFunc(c.options, func(g given) bool { return g.name == "-v" }) {
		c.refuse(ruleInventory, "an archive may overwrite any file", "list it with -l, print a file with -p")
	}
}

// judgeSevenZip allows 7z to list and test.
func judgeSevenZip(c *call) {
	if len(c.operands) == 0 || c.operands[0].text != "l" && c.operands[0].text != "t" && c.operands[0].text != "i" {
		c.refuse(ruleInventory, "an archive may overwrite any file", "list it with l")
	}
}

// judgeOneOperand refuses a second operand, which would set something.
func judgeOneOperand(c *call) {
	if len(c.operands) > 1 {
		c.refuse(ruleBash, "with "+c.operands[1].show()+" it would set something or show more than needed", "give one name only")
	}
}

// judgeListed allows a tool only with the option that makes it list.
func judgeListed(c *call) {
	if !c.has("-l", "--list") {
		c.refuse(ruleBash, "without -l it changes disks", "list only")
	}
}

// judgeGetent allows the databases without passwords.
func judgeGetent(c *call) {
	if len(c.operands) > 0 && strings.Contains(c.operands[0].text, "shadow") {
		c.j.refuse(ruleSecrets, "getent "+c.operands[0].text, "it prints password hashes", "use getent passwd")
	}
}

// judgeOpensslRead keeps openssl from printing keys.
func judgeOpensslRead(c *call) {
	for _, f := range c.operands {
		c.j.read(c.s, f, c.name)
	}
}

// judgeMysqladmin allows mysqladmin to look.
func judgeMysqladmin(c *call) {
	for _, f := range c.operands {
		switch f.text {
		case "status", "ping", "processlist", "version", "extended-status", "variables":
		default:
			c.refuse(ruleBash, f.show()+" changes the server or is not known", "use status, ping, processlist or extended-status")
		}
	}
}

// judgeQuery allows package tools that are told to query by their first option.
func judgeQuery(c *call) {
	if len(c.args) == 0 {
		return
	}
	first := c.args[0].text
	switch {
	case c.row.cmd == "rpm" && (strings.HasPrefix(first, "-q") || first == "--query" || strings.HasPrefix(first, "-V")):
	case c.row.cmd == "pacman" && (strings.HasPrefix(first, "-Q") || first == "-Si" || first == "-Ss"):
	default:
		c.refuse(ruleBash, "it installs or removes packages", "query only")
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
	c.operands = c.args[:1]
	judgeUnit(c)
	name, ok := c.service(c.args[0])
	if !ok {
		return
	}
	action, _ := c.args[1].literal()
	switch action {
	case "status":
		c.need(ops.Tier1)
		return
	case "restart", "reload":
		c.j.effect(Effect{Kind: EffectRestart, Service: name})
	case "start":
		c.j.effect(Effect{Kind: EffectRestart, Service: name, Half: HalfClose})
	case "stop":
		c.j.effect(Effect{Kind: EffectRedeployment, Service: name, Half: HalfOpen})
	default:
		c.refuse(ruleBash, c.args[1].show()+" is not a known action", "use status, start, stop or restart")
	}
	c.need(ops.Tier3)
}

// judgeDockerRead keeps the environment of containers out of what is shown.
func judgeDockerRead(c *call) {
	for _, g := range c.options {
		text := strings.ToLower(g.value.text)
		if (g.name == "-f" || g.name == "--format") && (strings.Contains(text, ".env") || strings.Contains(text, "\"env\"") || strings.Contains(text, "index") && strings.Contains(text, "env") || wholeConfig(text)) {
			c.j.refuse(ruleSecrets, c.name, "it prints the environment of a container, which may hold secrets", "ask for another field")
		}
	}
}

// judgeComposeRead judges compose files that are only read.
func judgeComposeRead(c *call) {
	for _, g := range c.before {
		switch g.name {
		case "-f", "--file", "--env-file", "--project-directory":
			c.j.read(c.s, g.value, c.name)
			if strings.Contains(g.value.text, ":") {
				c.refuse(ruleBash, "its project comes from elsewhere", "use a compose file of a repository")
			}
		}
	}
}

// wholeConfig reports a format that prints the settings of a container as a whole, and the environment among them.
func wholeConfig(format string) bool {
	for part := range strings.SplitSeq(format, ".config") {
		if part != format && !strings.HasPrefix(part, ".") && strings.HasPrefix(strings.TrimLeft(part, " )|"), "}") {
			return true
		}
	}
	return false
}

// judgeDockerTop keeps ps inside a container from showing the environment.
func judgeDockerTop(c *call) {
	if len(c.operands) > 1 {
		c.operands = c.operands[1:]
		judgePs(c)
	}
}

// judgeNeedsOption refuses programs that become a server without an option.
func judgeNeedsOption(c *call) {
	if len(c.options) == 0 {
		c.refuse(ruleBash, "it would start a server", "use -t to test its settings")
	}
}

// judgeNeedsOperand refuses programs that read names from their standard input.
func judgeNeedsOperand(c *call) {
	if len(c.operands) == 0 || c.operands[0].text == "-" {
		c.refuse(ruleRunTime, "it asks for what comes in on its standard input", "name what to ask for")
	}
}

// judgeComposeConfig allows the parts of compose config that hold no values of variables.
func judgeComposeConfig(c *call) {
	judgeComposeRead(c)
	if !c.has("--services", "--images", "--volumes", "--profiles", "--networks", "-q", "--hash", "--no-interpolate") {
		c.j.refuse(ruleSecrets, c.name, "it prints the values of variables, which may be secrets", "use --services, --images, --volumes or --quiet")
	}
}

// judgeComposeChange requires that changes come from compose files of a repository.
func judgeComposeChange(c *call) {
	located := c.s.remote && len(c.s.cwds) == 0 // in a home over there
	for _, g := range c.before {
		switch g.name {
		case "-f", "--file", "--env-file", "--project-directory":
			located = located || g.name != "--env-file"
			if g.value.text == "-" {
				c.j.refuse(ruleRunTime, c.name+" -f -", "its project comes from the standard input", "use a compose file of a repository")
				continue
			}
			c.inRepo(g.value, c.name+" "+g.name)
		case "-p", "--project-name", "--profile":
			if text, plain := g.value.literal(); !plain || !serviceName(text) {
				c.runTime(g.name)
			}
		}
	}
	if !located {
		c.inRepo(lit("."), c.name+" in") // it takes the compose file of the folder it runs in
	}
}

// judgeComposeUp requires that compose up returns, and makes starting everything a matter of the highest tier.
func judgeComposeUp(c *call) {
	if !c.has("-d", "--detach", "--wait", "--no-start") {
		c.refuse(ruleBash, "in the foreground it never returns", "add -d")
	}
}
