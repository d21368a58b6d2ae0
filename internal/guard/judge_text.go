package guard

import (
	"strings"

	"claudeops/internal/ops"
)

// judgeSed judges sed: its script may read, write and run; -i changes the files.
func judgeSed(c *call) {
	inPlace := c.has("-i", "--in-place")
	scripts := 0
	for _, g := range c.options {
		if g.flag != nil && sameFlag(g.flag, "-e") {
			scripts++
			c.sedScript(g.value, inPlace)
		}
	}
	c.optionsOf(c.row, c.options)
	files := c.operands
	if scripts == 0 {
		if len(files) == 0 {
			c.refuse(ruleBash, "it has no script", "give one")
			return
		}
		c.sedScript(files[0], inPlace)
		files = files[1:]
	}
	for _, f := range files {
		if inPlace {
			c.j.write(c.s, f, "sed -i on")
		} else {
			c.j.read(c.s, f, "sed")
		}
	}
	if inPlace && len(files) == 0 {
		c.runTime("-i")
	}
	c.need(ops.Tier1)
}

func (c *call) sedScript(f field, changes bool) {
	if f.dyn || changes && f.viaVar {
		c.runTime("script")
		return
	}
	files, ok := sedFiles(f.text)
	if !ok {
		c.refuse(ruleInline, "its script runs commands, writes files or is not understood", "use a plain s/// or a line range")
		return
	}
	for _, file := range files {
		c.j.read(c.s, lit(file), "sed")
	}
}

// sedFiles reads a sed script and returns the files it reads; not ok when it runs commands, writes files or is not
// understood.
func sedFiles(script string) (files []string, ok bool) {
	p := &sedParser{text: script}
	for p.skip(" \t\n;"); p.at < len(p.text); p.skip(" \t\n;") {
		if !p.command() {
			return nil, false
		}
	}
	return p.files, true
}

type sedParser struct {
	text  string
	at    int
	files []string
}

func (p *sedParser) skip(of string) {
	for p.at < len(p.text) && strings.IndexByte(of, p.text[p.at]) >= 0 {
		p.at++
	}
}

func (p *sedParser) next() byte {
	if p.at >= len(p.text) {
		return 0
	}
	p.at++
	return p.text[p.at-1]
}

// address reads one address, if there is one.
func (p *sedParser) address() bool {
	if p.at >= len(p.text) {
		return true
	}
	switch c := p.text[p.at]; {
	case c >= '0' && c <= '9' || c == '$' || c == '+' || c == '~':
		p.at++
		p.skip("0123456789~")
	case c == '/':
		p.at++
		if !p.until('/') {
			return false
		}
		p.skip("IM")
	case c == '\\':
		p.at++
		if d := p.next(); d == 0 || d == '\n' || !p.until(d) {
			return false
		}
		p.skip("IM")
	}
	return true
}

// until reads to an unescaped delimiter. A delimiter in brackets ends a sed expression too.
func (p *sedParser) until(d byte) bool {
	for p.at < len(p.text) {
		switch c := p.next(); c {
		case '\\':
			if p.next() == 0 {
				return false
			}
		case d:
			return true
		case '\n':
			return false
		}
	}
	return false
}

// line reads the rest of the line.
func (p *sedParser) line() string {
	rest := p.text[p.at:]
	if i := strings.IndexByte(rest, '\n'); i >= 0 {
		p.at += i + 1
		return strings.TrimSpace(rest[:i])
	}
	p.at = len(p.text)
	return strings.TrimSpace(rest)
}

// command reads one command with its addresses.
func (p *sedParser) command() bool {
	if !p.address() {
		return false
	}
	p.skip(" \t")
	if p.at < len(p.text) && p.text[p.at] == ',' {
		p.at++
		p.skip(" \t")
		if !p.address() {
			return false
		}
	}
	p.skip(" \t!")
	switch c := p.next(); c {
	case '{':
		return true
	case '}', '=', 'd', 'D', 'g', 'G', 'h', 'H', 'n', 'N', 'p', 'P', 'x', 'z', 'F':
	case 'l', 'q', 'Q', 'L':
		p.skip(" \t0123456789")
	case 'a', 'i', 'c':
		p.added()
		return true
	case 'b', 't', 'T', ':':
		p.skip(" \t")
		p.skip("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-")
	case 'r', 'R':
		p.files = append(p.files, p.line())
		return true
	case 's':
		return p.substitute()
	case 'y':
		d := p.next()
		return d != 0 && d != '\n' && d != '\\' && p.until(d) && p.until(d) && p.ends()
	default:
		return false
	}
	return p.ends()
}

// added reads the text of a, i and c, which goes on over lines that end in a backslash.
func (p *sedParser) added() {
	for {
		l := p.line()
		if !strings.HasSuffix(l, `\`) || p.at >= len(p.text) {
			return
		}
	}
}

// ends requires that a command ends here.
func (p *sedParser) ends() bool {
	p.skip(" \t")
	return p.at >= len(p.text) || strings.IndexByte(";\n}", p.text[p.at]) >= 0
}

// substitute reads s/…/…/flags.
func (p *sedParser) substitute() bool {
	d := p.next()
	if d == 0 || d == '\n' || d == '\\' || !p.until(d) || !p.replacement(d) {
		return false
	}
	for p.at < len(p.text) {
		switch c := p.text[p.at]; {
		case strings.IndexByte("gpiImM0123456789", c) >= 0:
			p.at++
		default:
			return p.ends()
		}
	}
	return true
}

// replacement reads the second part of s, where escaped newlines are text.
func (p *sedParser) replacement(d byte) bool {
	for p.at < len(p.text) {
		switch c := p.next(); c {
		case '\\':
			p.next()
		case d:
			return true
		}
	}
	return false
}

// judgeAwk judges the program of awk: no commands, no files, no environment.
func judgeAwk(c *call) {
	files := c.operands
	if source, ok := c.option("-e", "--source"); ok {
		c.awkProgram(source.value)
	} else {
		if len(files) == 0 {
			c.refuse(ruleInline, "it has no program", "give one")
			return
		}
		c.awkProgram(files[0])
		files = files[1:]
	}
	c.optionsOf(c.row, c.options)
	for _, f := range files {
		name, _, assigns := strings.Cut(f.text, "=")
		if assigns && !strings.ContainsRune(name, '/') {
			continue
		}
		c.j.read(c.s, f, c.name)
	}
	c.need(ops.Tier1)
}

func (c *call) awkProgram(f field) {
	if f.dyn {
		c.runTime("program")
		return
	}
	if why := awkTrouble(f.text); why != "" {
		c.refuse(ruleInline, "its program "+why, "print fields only, and redirect outside awk")
	}
}

// awkTrouble says what a program does besides computing and printing, or nothing.
func awkTrouble(src string) string {
	p := awkScanner{src: src, printing: -1}
	for p.at < len(src) {
		if why := p.token(); why != "" {
			return why
		}
	}
	return ""
}

// awkScanner reads a program token by token.
type awkScanner struct {
	src      string
	at       int
	operand  bool // a value came last, so a slash divides; else it starts a pattern
	printing int  // the depth of parentheses at which a print statement began, -1 outside
	depth    int
}

const notUnderstood = "is not understood"

// token reads one token and says what is wrong with it.
func (p *awkScanner) token() string {
	c := p.src[p.at]
	double := p.at+1 < len(p.src) && p.src[p.at+1] == c
	switch {
	case c == '"' || c == '/' && !p.operand:
		end := closing(p.src, p.at, c)
		if end < 0 {
			return notUnderstood
		}
		p.at, p.operand = end, true
		return ""
	case isLetter(c):
		return p.word()
	case c == '#':
		if end := strings.IndexByte(p.src[p.at:], '\n'); end >= 0 {
			p.at += end
		} else {
			p.at = len(p.src)
		}
		return ""
	case c == '@':
		return "loads or calls other code"
	case c == '|' && !double:
		return "pipes to a command"
	case c == '>' && p.printing >= 0 && p.depth <= p.printing:
		return "writes a file"
	case (c == '+' || c == '-') && double:
		p.operand = true // a slash behind it is then read as a division: the stricter reading
		p.at++
	case c == '|':
		p.operand = false
		p.at++
	case c >= '0' && c <= '9' || c == '.' || c == ')' || c == ']':
		p.operand = true
	case c == ';' || c == '}' || c == '\n' || c == '{':
		p.printing, p.operand = -1, false
	case c == ' ' || c == '\t' || c == '$':
	default:
		p.operand = false
	}
	switch c {
	case '(':
		p.depth++
	case ')':
		p.depth--
	}
	p.at++
	return ""
}

// word reads a name or keyword.
func (p *awkScanner) word() string {
	word := run(p.src[p.at:], len(p.src), letters)
	p.at += len(word)
	p.operand = true
	switch word {
	case "system", "getline", "ENVIRON", "PROCINFO":
		return "uses " + word
	case "print", "printf":
		p.printing, p.operand = p.depth, false
	case "return", "in", "else", "do", "case":
		p.operand = false
	}
	return ""
}

// closing is the place behind the quote or slash that ends what starts at i, or -1.
func closing(src string, i int, end byte) int {
	for k := i + 1; k < len(src); k++ {
		switch src[k] {
		case '\\':
			k++
		case end:
			return k + 1
		case '\n':
			return -1
		}
	}
	return -1
}

const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_"

func isLetter(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_'
}

// judgeJq judges the filter of jq and yq: no environment, no modules.
func judgeJq(c *call) {
	c.options, c.operands = c.row.parseOptions(c.jqArguments(), false)
	c.optionsOf(c.row, c.options)
	files := c.operands
	if c.name == "yq" && c.has("-s", "--split-exp-file") {
		c.refuse(ruleWrite, "it writes files whose names come from the data", "leave the option out")
	}
	if c.row.cmd == "yq" && len(files) > 0 && (files[0].text == "eval" || files[0].text == "e" || files[0].text == "eval-all" || files[0].text == "ea") {
		files = files[1:]
	}
	if c.row.cmd == "yq" && len(files) == 1 {
		c.j.read(c.s, files[0], c.name) // alone it may be a file
	}
	if len(files) > 0 {
		if f := files[0]; f.dyn {
			c.runTime("filter")
		} else if jqEnv(f.text) {
			c.j.refuse(ruleSecrets, c.name, "its filter reads the environment or other files", "filter the input only")
		}
		files = files[1:]
	}
	for _, f := range files {
		if c.row.cmd == "yq" && c.has("-i", "--inplace") {
			c.j.write(c.s, f, "yq -i on")
			continue
		}
		c.j.read(c.s, f, c.name)
	}
	c.need(ops.Tier1)
}

// jqArguments takes out the options with two values and everything behind --args.
func (c *call) jqArguments() []field {
	var out []field
	for i := 0; i < len(c.args); i++ {
		switch c.args[i].text {
		case "--arg", "--argjson":
			i += 2
		case "--slurpfile", "--rawfile", "--argfile":
			if i += 2; i < len(c.args) {
				c.j.read(c.s, c.args[i], c.name)
			}
		case "--args", "--jsonargs":
			return out
		default:
			out = append(out, c.args[i])
		}
	}
	return out
}

// jqEnv reports a filter that reads the environment, a module or a file.
func jqEnv(filter string) bool {
	if strings.Contains(filter, "$ENV") || strings.Contains(filter, "$__prog") {
		return true
	}
	for i := 0; i < len(filter); {
		if !isLetter(filter[i]) {
			i++
			continue
		}
		word := run(filter[i:], len(filter), letters)
		before, after := byte(' '), strings.TrimLeft(filter[i+len(word):], " ")
		if i > 0 {
			before = filter[i-1]
		}
		i += len(word)
		switch word {
		case "env", "strenv", "envsubst", "load", "load_str", "load_xml", "load_props", "load_base64", "import", "include", "get_search_list", "modulemeta", "system":
			if before != '.' && before != '$' && before != '"' && before != '-' && before != '\'' && !strings.HasPrefix(after, ":") {
				return true
			}
		}
	}
	return false
}
