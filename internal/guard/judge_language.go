package guard

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"claudeops/internal/ops"
)

// What may be told to a program where no wall holds what it does: to print fields, or lines, or a value.
var (
	awkFields = ops.Pattern(`^\s*(NR\s*[=!<>]=?\s*\d+\s*)?\{\s*print(\s*,?\s*(\$\d+|\$NF|NR|"[\w :=/.-]*"))*\s*\}\s*$`)
	sedLines  = ops.Pattern(`^(\d+|\$)(,(\d+|\$))?[pdq=]$`)
	jqValue   = ops.Pattern(`^(\.|length|keys|(\.([A-Za-z_]\w*|"[\w .-]+")\??|\.?\[(-?\d*|"[\w .-]+")\]\??)+)$`)
	// What begins a statement that looks, on one line; or a list of what there is. A backslash begins a command of the client.
	lookingSQL = ops.Pattern(`(?i)^\s*(((select|show|explain|describe|desc|with|table|values)\b|\()[^;\\\n]*(;|\\g)?|` +
		`\\[dl][a-z]*\+?( [\w.*]+)?)\s*$`)
)

// told judges the text that tells a program what to do. More of it than fields and lines is not read.
func (c *call) told(f field) {
	text, plain := f.literal()
	form := jqValue
	switch program, _, _ := strings.Cut(c.row.cmd, " "); {
	case strings.HasSuffix(program, "awk"):
		form = awkFields
	case strings.HasSuffix(program, "sed"):
		form = sedLines
	case c.row.database:
		c.unseen = c.unseen || text != readOnlySQL && text != readOnlyMySQL
		return
	}
	c.unseen = c.unseen || !plain || !form().MatchString(text)
}

// walled reports whether walls, or the broker of containers, hold what a command does.
func (c *call) walled() bool { return c.j.walled(c.s) }

func (j *places) walled(s *scope) bool {
	return j.facts.Walled && !s.remote && (!s.container || s.brokered)
}

// unread judges a command that does what nobody has read: behind walls it gets the rights of cat, where it needs no more.
func (c *call) unread() {
	switch {
	case !c.walled():
		hint := "only fields and lines are known then: awk '{print $2}', sed -n '1,5p', jq '.a.b', grep, ps aux"
		if strings.Contains(c.row.section, "Databases") {
			hint = "what it needs, an operator declares as queries of a service"
		}
		c.refuse(ruleInline, "what it is told to do is not read, and no wall holds it here", hint)
	case c.row.unread && !c.s.reads && !c.s.container && c.j.facts.LookProgram != "":
		c.startedBy("read")
	}
}

// startedBy lets a tool of the supervisor start the program.
func (c *call) startedBy(tool string) {
	if c.j.outside == nil {
		c.j.outside = map[*syntax.Word][]string{}
	}
	c.j.outside[c.program.at] = []string{c.j.facts.LookProgram, tool, "--"}
}

// repeated judges a command that another one runs on what it finds or is given. Nobody sees those words, so it only reads.
func (c *call) repeated(words []field) {
	found := field{text: string(rune(hole)), dyn: true, plain: true}
	inner := append(slices.Clone(words), found)
	for i, w := range inner {
		if w.text == "{}" {
			inner[i] = found
		}
	}
	s := c.s.sub()
	s.loop, s.stdin = true, inputNone
	mark, marked := c.option("-I", "--replace", "-i")
	if c.row.cmd == "xargs" && c.s.names && (!marked || mark.value.text == "{}") {
		c.j.simple(s, inner) // plain names are known well enough
		return
	}
	s.reads = true
	c.j.simple(s, inner)
	c.unread()
}

// judgeSed judges the files of sed: -i changes them.
func judgeSed(c *call) {
	files := c.operands
	if !slices.ContainsFunc(c.options, func(g given) bool { return g.flag.first }) && len(files) > 0 {
		files = files[1:]
	}
	for _, g := range c.options {
		if !g.is("-i", "--in-place") {
			continue
		}
		if strings.ContainsAny(g.value.text, "*/") || g.value.dyn {
			c.refuse(ruleWrite, "the suffix of -i says where the original goes", "use a plain suffix such as .bak")
		}
		for _, f := range files {
			c.j.write(c.s, f, "sed -i on")
			c.j.write(c.s, f.withText(f.text+g.value.text), "sed -i on")
		}
		if len(files) == 0 {
			c.runTime("-i")
		}
	}
}

// judgeYq judges what yq does with its operands: alone the first may be a file, and -i changes the files.
func judgeYq(c *call) {
	words := c.operands
	if len(words) > 0 {
		switch words[0].text {
		case "eval", "e", "eval-all", "ea":
			words = words[1:]
		}
	}
	if len(words) > 0 {
		c.told(words[0])
	}
	changes := c.has("-i", "--inplace", "--in-place")
	for i, f := range words {
		switch {
		case i == 0 && strings.ContainsAny(f.text, "=|([") && changes, i == 0 && len(words) > 1 && strings.ContainsAny(f.text, ".[|") && !changes:
		case changes: // alone or before others the filter may be a file
			c.j.write(c.s, f, "yq -i on")
		default:
			c.j.read(c.s, f, c.name) // alone the filter may be a file
		}
	}
}

// judgeSQL judges clients of databases. What a statement may do is up to the server; the client itself runs programs, too.
func judgeSQL(c *call) {
	var texts []field
	if c.row.cmd == "sqlite3" && len(c.operands) > 1 {
		texts = c.operands[1:]
	}
	for _, g := range c.options {
		if g.flag.role == roleProgram && g.value.text != readOnlySQL && g.value.text != readOnlyMySQL {
			texts = append(texts, g.value)
		}
	}
	if len(texts) == 0 && !c.has("-l", "--list", "-V", "--version", "--help") {
		c.refuse(ruleRunTime, "its statements come from its standard input", "give one statement as text")
	}
	for _, f := range texts {
		if text, plain := f.literal(); c.row.cmd != "sqlite3" && (!plain || !lookingSQL().MatchString(text)) { // which is in its safe mode
			c.refuse(ruleBash, "its statement does not begin as one that looks, or is not alone",
				"only one reading statement (SELECT, SHOW, EXPLAIN) on one line is allowed; report what should change")
		}
	}
	if c.row.cmd == "sqlite3" && len(c.operands) > 0 && strings.HasPrefix(c.operands[0].text, "file:") {
		c.refuse(ruleBash, "the address of a database may set how it is opened", "name the file itself")
	}
}

// judgeRedis judges redis-cli by the command it sends.
func judgeRedis(c *call) {
	options, operands := c.parse(c.row, c.args, true)
	c.options = options
	c.optionsOf(options)
	c.need(ops.Tier1)
	if len(operands) == 0 {
		if !c.has("--latency", "--latency-history", "--latency-dist", "--stat", "--bigkeys", "--memkeys", "--hotkeys", "--scan") {
			c.refuse(ruleRunTime, "its commands come from its standard input", "give one command as arguments")
		}
	} else if !ops.RedisReads(texts(operands)) || slices.ContainsFunc(operands, func(f field) bool { return f.dyn }) {
		c.refuse(ruleBash, operands[0].show()+" is not on the list of reading commands",
			"only reading commands are allowed; report what should change")
	}
	c.unread()
}

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

// showsEnv is a format that prints the environment of a container, or the settings as a whole with the environment among them. A field is
// .Config as well as index . "Config".
var showsEnv = ops.Pattern("(?i)\\.env|\"env\"|index(?s:.*)env|env(?s:.*)index|" +
	"[.\"`](config|spec|containerspec|tasktemplate)([.\"`]([^a-z_]|$)|[^a-z_.\"`]|$)")

// template keeps the environment of containers out of what is shown.
func (c *call) template(f field) {
	if f.dyn || showsEnv().MatchString(f.text) {
		c.j.refuse(ruleSecrets, c.name, "it prints the environment of a container, which may hold secrets", "ask for another field")
	}
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
