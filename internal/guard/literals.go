package guard

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// checkLiterals refuses text that the parser takes for plain and bash may take for code. Inside ${x:-…} bash finds a
// process substitution where the parser sees a redirect sign and a parenthesis; and when that stands in double quotes,
// single quotes inside it are plain characters for bash and do not keep a substitution from running.
func checkLiterals(src string, f *syntax.File) *finding {
	if !strings.Contains(src, "(") && !strings.Contains(src, "`") {
		return nil
	}
	var bad *finding
	var parents []syntax.Node
	documents := map[syntax.Node]bool{} // text of here-documents, and whether it is expanded
	syntax.Walk(f, func(n syntax.Node) bool {
		if n == nil {
			parents = parents[:len(parents)-1]
			return true
		}
		switch n := n.(type) {
		case *syntax.Redirect:
			if n.Hdoc != nil {
				for _, p := range n.Hdoc.Parts {
					documents[p] = !quotedDelimiter(n.Word)
				}
			}
		case *syntax.SglQuoted:
			expansion := slices.ContainsFunc(parents, func(p syntax.Node) bool { _, ok := p.(*syntax.ParamExp); return ok })
			if expansion && strings.ContainsAny(n.Value, "$`\"\\}") {
				bad = refuseText("it holds quotes inside an expansion, and shells differ in what they quote")
			}
		case *syntax.Lit:
			_, quoted := parents[len(parents)-1].(*syntax.DblQuoted)
			expanded, document := documents[n]
			if (expanded || !document) && looksLikeCode(n.Value, quoted || document) {
				bad = refuseText("it holds a substitution where shells differ in whether it is one")
			}
		}
		parents = append(parents, n)
		return true
	})
	return bad
}

// looksLikeCode reports an unescaped start of a substitution in a literal.
func looksLikeCode(text string, quoted bool) bool {
	before := byte(0)
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case c == '\\':
			i++
			c = 0
		case c == '`', c == '(' && before == '$', c == '(' && !quoted && (before == '<' || before == '>'):
			return true
		}
		before = c
	}
	return false
}
