package guard

import (
	"strings"

	"claudeops/internal/guard/scan"
)

// mode judges what chmod sets.
func (c *call) mode(f field) {
	if grantsExecute(f.text) {
		c.refuse(rulePath, "files of a repository are not made executable", "call scripts of a repository by their absolute path, as they are")
	}
	if strings.Contains(f.text, "s") || isDigits(f.text) && len(f.text) > 3 && f.text[0] != '0' {
		c.refuse(ruleLauncher, "it sets an s bit", "leave it out")
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

// template keeps the environment of containers out of what is shown.
func (c *call) template(f field) {
	text := strings.ToLower(f.text)
	if f.dyn || strings.Contains(text, ".env") || strings.Contains(text, "\"env\"") || strings.Contains(text, "index") &&
		strings.Contains(text, "env") || wholeConfig(text) {
		c.j.refuse(ruleSecrets, c.name, "it prints the environment of a container, which may hold secrets", "ask for another field")
	}
}

// wholeConfig reports a format that prints the settings of a container as a whole, and the environment among them.
func wholeConfig(format string) bool {
	for _, name := range []string{".config", ".spec", ".containerspec", ".tasktemplate"} {
		for i, part := range strings.Split(format, name) {
			if i > 0 && (part == "" || part[0] != '.' && !scan.IsLetter(part[0])) {
				return true
			}
		}
	}
	return false
}

// judgeComposeRead judges compose files that are only read.
func judgeComposeRead(c *call) {
	for _, g := range c.before {
		if g.is("-f", "--file", "--env-file", "--project-directory") {
			c.j.read(c.s, g.value, c.name)
			if strings.Contains(g.value.text, ":") || g.value.text == "-" {
				c.refuse(ruleBash, "its project comes from elsewhere", "use a compose file of a repository")
			}
		}
	}
}

// judgeComposeChange requires that changes come from compose files of a repository.
func judgeComposeChange(c *call) {
	located := c.s.remote && len(c.s.cwds) == 0 // in a home over there
	for _, g := range c.before {
		switch {
		case g.is("-f", "--file", "--env-file", "--project-directory"):
			located = located || g.name != "--env-file"
			if g.value.text == "-" {
				c.j.refuse(ruleRunTime, c.name+" -f -", "its project comes from the standard input", "use a compose file of a repository")
				continue
			}
			c.inRepo(g.value, c.name+" "+g.name)
		case g.is("-p", "--project-name", "--profile"):
			if text, plain := g.value.literal(); !plain || !serviceName(text) {
				c.runTime(g.name)
			}
		}
	}
	if !located {
		c.inRepo(lit("."), c.name+" in") // it takes the compose file of the folder it runs in
	}
}
