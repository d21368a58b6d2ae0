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

// closing is the place behind the quote or slash that ends what starts at i, or -1 where programs may differ in that place.
func closing(src string, i int, end byte) int {
	for k := i + 1; k < len(src); k++ {
		switch src[k] {
		case '\\':
			k++
		case end:
			return k + 1
		case '[':
			if end != '/' {
				continue
			}
			behind := bracket(src, k, false)
			if behind < 0 || strings.ContainsAny(strings.ReplaceAll(src[k:behind], `\/`, ""), `/"`) {
				return -1
			}
			k = behind - 1
		case '\n':
			return -1
		}
	}
	return -1
}

// bracket is the place behind the bracket expression that starts at i, or -1 if it is not one that all programs end at the same
// place: a ] that is escaped or, unless it is known to be taken as it is, first, and a class that does not close, end it for some only.
func bracket(src string, i int, first bool) int {
	k := i + 1
	if k < len(src) && src[k] == '^' {
		k++
	}
	for start := k; k < len(src); k++ {
		switch src[k] {
		case ']':
			if k == start && first {
				continue
			}
			if k == start {
				return -1
			}
			return k + 1
		case '[':
			name := strings.TrimPrefix(src[k+1:], ":")
			end := len(Run(name, len(name), Letters))
			if !strings.HasPrefix(src[k+1:], ":") || end == 0 || !strings.HasPrefix(name[end:], ":]") {
				return -1
			}
			k += end + 3
		case '\\':
			if k++; k < len(src) && src[k] == ']' {
				return -1
			}
		case '\n':
			return -1
		}
	}
	return -1
}

// Jq names the word of a filter that reads the environment, a module or a file, or says that the filter is not understood; or
// nothing.
func Jq(filter string) string {
	end, word := jqCode(filter, 0, 0)
	if word == "" && end < len(filter) {
		return "a parenthesis that was not opened"
	}
	return word
}

// jqCode reads a filter from a place on, up to the parenthesis that closes it.
func jqCode(filter string, i, nested int) (end int, word string) {
	for open := 0; i < len(filter); {
		switch c := filter[i]; {
		case c == '"':
			if i, word = jqString(filter, i+1, nested); word != "" {
				return i, word
			}
			continue
		case c == '#':
			return i, "a comment"
		case IsLetter(c):
			word := Run(filter[i:], len(filter), Letters)
			before, after := strings.TrimRight(filter[:i], " \t\n"), strings.TrimLeft(filter[i+len(word):], " \t\n")
			key := strings.HasPrefix(after, ":") && !strings.HasPrefix(after, "::") && strings.IndexAny(before[max(len(before)-1, 0):], "{,") == 0
			bare := len(before) == i // nothing stands between
			field := bare && strings.HasSuffix(before, ".") && !strings.HasSuffix(before, "..")
			variable := bare && strings.HasSuffix(before, "$") && word != "ENV" && word != "__prog_args"
			if jqReads(word) && !key && !field && !variable {
				return i, word
			}
			i += len(word)
			continue
		case c == '(':
			open++
		case c == ')':
			if open--; open < 0 {
				return i, ""
			}
		}
		i++
	}
	if nested > 0 {
		return i, "a text that does not end"
	}
	return i, ""
}

// jqString reads a string from behind its quote on, with the filters that are put into it.
func jqString(filter string, i, nested int) (end int, word string) {
	for ; i < len(filter); i++ {
		switch {
		case filter[i] == '"':
			return i + 1, ""
		case strings.HasPrefix(filter[i:], `\(`) && nested < 9:
			if i, word = jqCode(filter, i+2, nested+1); word != "" {
				return i, word
			}
		case filter[i] == '\\':
			i++
		}
	}
	return i, "a text that does not end"
}

// jqReads reports words that read more than the input. Programs of that kind have several names for one thing.
func jqReads(word string) bool {
	word = strings.ToLower(word)
	switch word {
	case "__prog_args", "eval", "import", "include", "get_search_list", "modulemeta", "input_filename", "halt_error", "debug", "stderr",
		"getpath_file", "filename":
		return true
	}
	for _, part := range []string{"env", "load", "system", "exec"} {
		if strings.HasPrefix(word, part) || strings.HasSuffix(word, part) {
			return true
		}
	}
	return false
}

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

// until reads to an unescaped delimiter that is not in brackets.
func (p *sedParser) until(d byte) bool {
	for p.at < len(p.text) {
		switch c := p.next(); c {
		case d:
			return true
		case '\\':
			if p.next() == 0 {
				return false
			}
		case '[':
			if p.at = bracket(p.text, p.at-1, true); p.at < 0 {
				return false
			}
		case '\n':
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
