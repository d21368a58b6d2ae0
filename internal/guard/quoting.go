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
