package guard

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"mvdan.cc/sh/v3/syntax"
)

const (
	maxCommand = 64 << 10 // longer than any honest command
	maxNesting = 60       // deeper than any honest command; keeps parser and walker off the end of the stack
)

// refuseText makes the finding for text that is not judged at all.
func refuseText(why string) *finding {
	return &finding{
		need: never, rule: ruleText, what: "this command", why: why,
		hint: "write it again in plain text, one simple command at a time",
	}
}

// checkText refuses what no parser needs to look at.
func checkText(src string) *finding {
	switch {
	case strings.TrimSpace(src) == "":
		return refuseText("it is empty")
	case len(src) > maxCommand:
		return refuseText("it is longer than 64 kB")
	case !utf8.ValidString(src):
		return refuseText("it is not valid UTF-8")
	case strings.ContainsAny(src, "\r\x00"):
		return refuseText("it holds a carriage return or a NUL, which shells and parsers read differently")
	case tooDeep(src):
		return refuseText("it is nested too deeply")
	}
	return nil
}

// tooDeep bounds how deep parentheses and braces make parser, printer and walker recurse. It ignores quotes on purpose.
func tooDeep(src string) bool {
	depth := 0
	for i := range len(src) {
		switch src[i] {
		case '(', '{':
			if depth++; depth > maxNesting {
				return true
			}
		case ')', '}':
			depth--
		}
	}
	return false
}

// odd reports characters that look like something else or like nothing: they are data inside quotes only.
func odd(r rune) bool {
	if r < utf8.RuneSelf {
		return (r < ' ' && r != '\t' && r != '\n') || r == 0x7f
	}
	return true
}

// checkCharacters refuses odd characters that do not stand inside quotes, a here-document or a comment.
func checkCharacters(src string, f *syntax.File) *finding {
	if strings.IndexFunc(src, odd) < 0 {
		return nil
	}
	quoted, plain := spans(f)
	for i, r := range src {
		if !odd(r) || inside(quoted, i) {
			continue
		}
		if !visible(r) || !inside(plain, i) {
			return refuseText("it holds a character outside quotes that is not plain ASCII and may only look like a letter, dash or slash")
		}
	}
	return nil
}

// visible reports letters, digits, symbols and signs beyond ASCII: none is an operator to a shell. Blanks beyond ASCII are
// none either, but look like one.
func visible(r rune) bool {
	return unicode.In(r, unicode.L, unicode.M, unicode.N, unicode.S, unicode.P)
}

type span struct{ from, to int }

func inside(spans []span, i int) bool {
	return slices.ContainsFunc(spans, func(s span) bool { return i >= s.from && i < s.to })
}

// spans are the places whose characters are data, in quotes and here-documents, and the words that are arguments, values or items of a
// loop: not programs, names or operators.
func spans(f *syntax.File) (quoted, arguments []span) {
	at := func(n syntax.Node) span { return span{int(n.Pos().Offset()), int(n.End().Offset())} }
	literals := func(parts []syntax.WordPart) {
		for _, p := range parts {
			if lit, ok := p.(*syntax.Lit); ok {
				quoted = append(quoted, at(lit))
			}
		}
	}
	words := func(words ...*syntax.Word) {
		for _, w := range words {
			arguments = append(arguments, at(w))
		}
	}
	syntax.Walk(f, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.SglQuoted:
			quoted = append(quoted, at(n))
		case *syntax.DblQuoted:
			literals(n.Parts)
		case *syntax.Redirect:
			if n.Hdoc != nil {
				literals(n.Hdoc.Parts)
			}
		case *syntax.CallExpr:
			words(n.Args[min(1, len(n.Args)):]...)
		case *syntax.Assign:
			if n.Value != nil {
				words(n.Value)
			}
		case *syntax.WordIter:
			words(n.Items...)
		}
		return true
	})
	return quoted, arguments
}
