package guard

import (
	"slices"
	"strings"

	"claudeops/internal/guard/scan"
	"claudeops/internal/ops"
)

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

func (c *call) sedScript(f field) {
	if f.dyn || f.viaVar && c.has("-i", "--in-place") {
		c.runTime("script")
		return
	}
	if !scan.Sed(f.text) {
		c.refuse(ruleInline, "its script runs commands, reads or writes files, or is not understood", "use a plain s/// or a line range")
	}
}

// jqFilter judges the filter of jq and its like: no environment, no modules, no files.
func (c *call) jqFilter(f field) {
	if f.dyn {
		c.runTime("filter")
		return
	}
	if word := scan.Jq(f.text); word != "" {
		c.j.refuse(ruleSecrets, c.name, "its filter uses "+word+", which reads the environment or other files", "filter the input only")
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
		c.jqFilter(words[0])
		if strings.Contains(words[0].text, `\(`) {
			c.refuse(ruleSecrets, "programs of that name differ in what they read as text", "filter without text that holds \\(")
		}
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

func (c *call) awkProgram(f field) {
	if f.dyn {
		c.runTime("program")
		return
	}
	if why := scan.Awk(f.text); why != "" {
		c.refuse(ruleInline, "its program "+why, "print fields only, on one line, and redirect outside awk")
	}
}

// judgeSQL judges database clients: reading statements, given as text.
func judgeSQL(c *call) {
	given := c.has("-l", "--list", "-V", "--version", "--help") || c.row.cmd == "sqlite3" && len(c.operands) > 1
	for _, g := range c.options {
		given = given || g.flag.role == roleSQL && g.value.text != readOnlySQL && g.value.text != readOnlyMySQL
	}
	if !given {
		c.refuse(ruleRunTime, "its statements come from its standard input", "give one statement as text")
	}
	if db, _ := c.option("-D", "--database"); strings.HasPrefix(c.row.cmd, "m") && (strings.EqualFold(db.value.text, "mysql") ||
		slices.ContainsFunc(c.operands, func(f field) bool { return strings.EqualFold(f.text, "mysql") })) {
		c.refuse(ruleSecrets, "its tables hold the passwords of accounts", "use the database of the service")
	}
	if c.row.cmd == "psql" {
		db, _ := c.option("-d", "--dbname")
		for _, f := range append(c.operands, db.value) {
			c.connection(f.text)
		}
	}
	if c.row.cmd == "sqlite3" && len(c.operands) > 0 && strings.HasPrefix(c.operands[0].text, "file:") {
		c.refuse(ruleBash, "the address of a database may set how it is opened", "name the file itself")
	}
}

// connection judges a connection string of PostgreSQL: its settings are options in other clothes, some of which name files or lift
// the read-only mode.
func (c *call) connection(text string) {
	settings := strings.Fields(text)
	if _, query, ok := strings.Cut(text, "?"); ok || strings.Contains(text, "://") {
		settings = strings.FieldsFunc(query, func(r rune) bool { return r == '&' })
	} else if !strings.Contains(text, "=") {
		return
	}
	for _, s := range settings {
		switch name, _, _ := strings.Cut(s, "="); name {
		case "host", "hostaddr", "port", "user", "password", "dbname", "connect_timeout", "application_name", "client_encoding", "sslmode",
			"sslrootcert", "target_session_attrs":
		default:
			c.refuse(ruleBash, "its connection sets "+name, "name host, port, user and dbname only")
		}
	}
}

func (c *call) sql(f field) {
	if f.dyn {
		c.runTime("statement")
		return
	}
	if f.text == readOnlySQL || f.text == readOnlyMySQL {
		return
	}
	if why := c.j.g.sql.SQL(f.text); why != "" {
		c.refuse(ruleBash, "its statement "+why,
			"only one reading statement (SELECT, SHOW, EXPLAIN) with known functions is allowed; report what should change")
	}
}

// judgeRedis judges redis-cli by the command it sends.
func judgeRedis(c *call) {
	options, operands := c.parse(c.row, c.args, true)
	c.options = options
	c.optionsOf(options)
	if len(operands) == 0 {
		if !c.has("--latency", "--latency-history", "--latency-dist", "--stat", "--bigkeys", "--memkeys", "--hotkeys", "--scan") {
			c.refuse(ruleRunTime, "its commands come from its standard input", "give one command as arguments")
		}
		c.need(ops.Tier1)
		return
	}
	words := make([]string, len(operands))
	for i, f := range operands {
		if f.dyn {
			c.runTime("command")
			return
		}
		words[i] = f.text
	}
	if port, _ := c.option("-p"); strings.Contains(port.value.text, "11211") {
		c.refuse(ruleBash, "the service behind that port reads each line as a command", "ask the Redis of the service")
	}
	if !scan.Redis(words) {
		c.refuse(ruleBash, strings.ToUpper(words[0])+" is not on the list of reading commands",
			"only reading commands are allowed; report what should change")
	}
	c.need(ops.Tier1)
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
	format = strings.NewReplacer(`"`, ".", "`", ".").Replace(format) // index . "Config" is .Config
	for _, name := range []string{".config", ".spec", ".containerspec", ".tasktemplate"} {
		for i, part := range strings.Split(format, name) {
			if part = strings.TrimPrefix(part, "."); i > 0 && (part == "" || !scan.IsLetter(part[0])) {
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
