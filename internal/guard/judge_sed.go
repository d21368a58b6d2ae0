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
