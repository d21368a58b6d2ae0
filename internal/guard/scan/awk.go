package scan

import (
	"strings"
)

// Awk says what a program does besides computing and printing, or nothing. Where the languages that call themselves
// awk differ, the program is not understood.
func Awk(src string) string {
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
	operand  bool   // a value came last, so a slash divides; else it starts a pattern
	control  bool   // a word such as if came last, so the parenthesis that follows is not a value
	parens   []bool // open parentheses, and whether each belongs to such a word
	printing int    // how many parentheses were open when a print statement began, -1 outside
}

const notUnderstood = "is not understood"

// token reads one token and says what is wrong with it.
func (p *awkScanner) token() string {
	c := p.src[p.at]
	double := p.at+1 < len(p.src) && p.src[p.at+1] == c
	control := p.control
	if c != ' ' && c != '\t' {
		p.control = false
	}
	switch {
	case c == '"' || c == '/' && !p.operand:
		end := closing(p.src, p.at, c)
		if end < 0 {
			return notUnderstood
		}
		p.at, p.operand = end, true
		return ""
	case IsLetter(c):
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
	case c == '\\' || c == '`' || c >= 0x80:
		return notUnderstood
	case c == '|' && !double:
		return "pipes to a command"
	case c == '>' && p.printing >= 0 && len(p.parens) <= p.printing:
		return "writes a file"
	case (c == '+' || c == '-') && double:
		p.operand = true // what is behind it is then read as code, not as a pattern: the stricter reading
		p.at++
	case c == '|':
		p.operand = false
		p.at++
	case c >= '0' && c <= '9' || c == '.' || c == ']':
		p.operand = true
	case c == '(':
		p.parens, p.operand = append(p.parens, control), false
	case c == ')':
		if len(p.parens) == 0 {
			return notUnderstood
		}
		p.operand = !p.parens[len(p.parens)-1]
		p.parens = p.parens[:len(p.parens)-1]
	case c == ';' || c == '}': // not a newline: a statement may go on behind one
		p.printing, p.operand = -1, false
	case c == ' ' || c == '\t':
	default:
		p.operand = false
	}
	p.at++
	return ""
}

// word reads a name or keyword.
func (p *awkScanner) word() string {
	word := Run(p.src[p.at:], len(p.src), Letters)
	p.at += len(word)
	p.operand = true
	switch word {
	case "system", "getline", "ENVIRON", "PROCINFO", "SYMTAB", "FUNCTAB", "ARGV", "ARGC", "eval", "include", "load":
		return "uses " + word
	case "print", "printf":
		p.printing, p.operand = len(p.parens), false
	case "if", "while", "for", "switch":
		p.control, p.operand = true, false
	case "return", "in", "else", "do", "case", "delete", "exit":
		p.operand = false
	}
	return ""
}

// closing is the place behind the quote or slash that ends what starts at i, or -1. A slash in brackets ends a pattern for
// some programs and not for others.
func closing(src string, i int, end byte) int {
	bracket := false
	for k := i + 1; k < len(src); k++ {
		switch src[k] {
		case '\\':
			k++
		case end:
			if bracket {
				return -1
			}
			return k + 1
		case '[':
			bracket = end == '/'
		case ']':
			bracket = false
		case '\n':
			return -1
		}
	}
	return -1
}
