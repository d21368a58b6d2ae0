package guard

import (
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// maxBraces is how many words a brace expansion may become before it counts as known only at run time.
const maxBraces = 32

// braces expands a plain brace expression such as docs/{a,b}.md or {1..5}. Plain is true for a word without any;
// a word with one that is not simple gives nothing, and counts as known only at run time.
func braces(w *syntax.Word) (expanded []string, plain bool) {
	if !braced(w) {
		return nil, true
	}
	if len(w.Parts) != 1 {
		return nil, false
	}
	text := w.Parts[0].(*syntax.Lit).Value
	if strings.Count(text, "{") != 1 || strings.Count(text, "}") != 1 || strings.ContainsAny(text, `\$`) {
		return nil, false
	}
	head, rest, _ := strings.Cut(text, "{")
	body, tail, ok := strings.Cut(rest, "}")
	if !ok {
		return nil, false
	}
	for _, item := range braceItems(body) {
		expanded = append(expanded, head+item+tail)
	}
	return expanded, false
}

// braced reports whether the shell may expand braces in the word.
func braced(w *syntax.Word) bool {
	open, inner := false, false
	for _, p := range w.Parts {
		l, ok := p.(*syntax.Lit)
		if !ok {
			continue
		}
		for i := range len(l.Value) {
			switch c := l.Value[i]; {
			case c == '{':
				open = true
			case open && (c == ',' || strings.HasPrefix(l.Value[i:], "..")):
				inner = true
			case inner && c == '}':
				return true
			}
		}
	}
	return false
}

// braceItems lists a,b,c or 1..5 or a..e; nothing when it is neither or too long.
func braceItems(body string) []string {
	if strings.Contains(body, ",") {
		if items := strings.Split(body, ","); len(items) <= maxBraces {
			return items
		}
		return nil
	}
	from, to, ok := strings.Cut(body, "..")
	if !ok {
		return nil
	}
	a, err1 := strconv.Atoi(from)
	b, err2 := strconv.Atoi(to)
	letters := len(from) == 1 && len(to) == 1 && err1 != nil && err2 != nil
	if letters {
		a, b = int(from[0]), int(to[0])
	} else if err1 != nil || err2 != nil || from != strconv.Itoa(a) || to != strconv.Itoa(b) {
		return nil
	}
	if a > b || b-a >= maxBraces {
		return nil
	}
	var out []string
	for n := a; n <= b; n++ {
		if letters {
			out = append(out, string(rune(n)))
		} else {
			out = append(out, strconv.Itoa(n))
		}
	}
	return out
}

// ansiC decodes the inside of $'…'. It gives up on what would end the string early.
func ansiC(s string) (string, bool) {
	var out strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 == len(s) {
			out.WriteByte(s[i])
			continue
		}
		i++
		if k := strings.IndexByte(`abeEfnrtv\'"?`, s[i]); k >= 0 {
			out.WriteByte("\a\b\x1b\x1b\f\n\r\t\v\\'\"?"[k])
			continue
		}
		n, digits, isRune := 0, "", false
		switch s[i] {
		case 'x':
			digits = run(s[i+1:], 2, "0123456789abcdefABCDEF")
			i += len(digits)
			n = number(digits, 16)
		case 'u', 'U':
			width := 4
			if s[i] == 'U' {
				width = 8
			}
			digits, isRune = run(s[i+1:], width, "0123456789abcdefABCDEF"), true
			i += len(digits)
			n = number(digits, 16)
		case '0', '1', '2', '3', '4', '5', '6', '7':
			digits = run(s[i:], 3, "01234567")
			i += len(digits) - 1
			n = number(digits, 8)
		default: // \c and what bash may add one day
			return "", false
		}
		switch {
		case digits == "" || n == 0 || n > 0x10ffff:
			return "", false
		case isRune:
			out.WriteRune(rune(n))
		default:
			out.WriteByte(byte(n))
		}
	}
	return out.String(), true
}

// run is the longest beginning of s, at most n long, made of the given characters.
func run(s string, n int, of string) string {
	i := 0
	for i < len(s) && i < n && strings.IndexByte(of, s[i]) >= 0 {
		i++
	}
	return s[:i]
}

func number(digits string, base int) int {
	n, err := strconv.ParseInt(digits, base, 64)
	if err != nil {
		return 0
	}
	return int(n)
}
