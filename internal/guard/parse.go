package guard

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// script is a parsed command: what is judged and what is to be executed are the same text.
type script struct {
	file *syntax.File
	text string
}

// parse reads src as bash. The tree it returns was read from the printed form of the first tree, so that a place
// where the parser and bash read src differently cannot matter: bash is given the printed form.
func parse(src string) (script, *finding) {
	first, bad := parseAs(src, syntax.LangBash)
	if bad != nil {
		return script{}, bad
	}
	printed, bad := printFile(first)
	if bad != nil {
		return script{}, bad
	}
	second, err := parser(syntax.LangBash).Parse(strings.NewReader(printed), "")
	if err != nil {
		return script{}, refuseText("it cannot be written down in a plain form")
	}
	again, bad := printFile(second)
	if bad != nil || again != printed {
		return script{}, refuseText("it has no single plain form")
	}
	return script{second, printed}, nil
}

// parseAs checks the text and parses it in one shell language.
func parseAs(src string, lang syntax.LangVariant) (*syntax.File, *finding) {
	if bad := checkText(src); bad != nil {
		return nil, bad
	}
	if strings.ContainsRune(src, '#') {
		commented, err := parser(lang, syntax.KeepComments(true)).Parse(strings.NewReader(src), "")
		if err != nil {
			return nil, refuseText("it does not parse (" + cause(err) + ")")
		}
		if bad := checkComments(src, commented); bad != nil {
			return nil, bad
		}
	}
	f, err := parser(lang).Parse(strings.NewReader(src), "")
	if err != nil {
		return nil, refuseText("it does not parse (" + cause(err) + ")")
	}
	if len(f.Stmts) == 0 {
		return nil, refuseText("it holds no command")
	}
	if bad := checkCharacters(src, f); bad != nil {
		return nil, bad
	}
	return f, nil
}

func parser(lang syntax.LangVariant, opts ...syntax.ParserOption) *syntax.Parser {
	return syntax.NewParser(append(opts, syntax.Variant(lang))...)
}

func printFile(f *syntax.File) (string, *finding) {
	var out strings.Builder
	if err := syntax.NewPrinter().Print(&out, f); err != nil {
		return "", refuseText("it cannot be printed")
	}
	return out.String(), nil
}

// cause is the first line of a parse error, without what it quotes of the command.
func cause(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}

// checkComments refuses the comments that bash and the parser end at different places.
func checkComments(src string, f *syntax.File) *finding {
	var bad *finding
	syntax.Walk(f, func(n syntax.Node) bool {
		c, ok := n.(*syntax.Comment)
		if !ok || bad != nil {
			return bad == nil
		}
		if strings.HasSuffix(c.Text, `\`) {
			bad = refuseText("a comment ends in a backslash, and shells differ in what follows it")
		}
		if at := int(c.Hash.Offset()); at > 0 && !strings.ContainsRune(" \t\n", rune(src[at-1])) {
			bad = refuseText("a comment is glued to a word, and shells differ in where it starts")
		}
		return true
	})
	return bad
}
