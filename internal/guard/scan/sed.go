package scan

import (
	"strings"
)

// Sed reports a script that only prints and edits lines. Where programs that call themselves sed differ, it is not
// understood.
func Sed(script string) bool {
	p := &sedParser{text: script}
	for p.skip(" \t\n;"); p.at < len(p.text); p.skip(" \t\n;") {
		if !p.command() {
			return false
		}
	}
	return true
}

type sedParser struct {
	text string
	at   int
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

// until reads to an unescaped delimiter that is not in brackets. Where programs differ in what ends the brackets, the
// script is not understood.
func (p *sedParser) until(d byte) bool {
	bracket := false
	for p.at < len(p.text) {
		switch c := p.next(); {
		case c == '\\':
			if next := p.next(); next == 0 || bracket && next == ']' {
				return false
			}
		case c == d && !bracket:
			return true
		case c == '[' && !bracket:
			bracket = true
			p.skip("^")
			if p.at < len(p.text) && p.text[p.at] == ']' {
				p.at++
			}
		case c == ']':
			bracket = false
		case c == '\n', c == '[':
			return false
		}
	}
	return false
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
	case 'l', 'q', 'Q':
		p.skip(" \t0123456789")
	case 'a', 'i', 'c':
		return p.added()
	case 'b', 't', 'T', ':':
		p.skip(" \t")
		p.skip("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-")
	case 's':
		return p.substitute()
	case 'y':
		d := p.next()
		return d != 0 && d != '\n' && d != '\\' && p.replacement(d) && p.replacement(d) && p.ends()
	default:
		return false
	}
	return p.ends()
}

// added reads the text of a, i and c: the rest of the line, or the line behind a backslash. A text that goes on over
// several lines is not understood.
func (p *sedParser) added() bool {
	rest := p.text[p.at:]
	if after, ok := strings.CutPrefix(rest, "\\\n"); ok {
		p.at += len(rest) - len(after)
		rest = after
	}
	line, _, more := strings.Cut(rest, "\n")
	p.at += len(line)
	if more {
		p.at++
	}
	return !strings.HasSuffix(strings.TrimRight(line, " \t"), `\`)
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
