package guard

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"claudeops/internal/guard/scan"
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
	for _, item := range scan.Braces(body, maxBraces) {
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
