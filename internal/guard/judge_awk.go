package guard

import (
	"strings"

	"claudeops/internal/ops"
)

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
