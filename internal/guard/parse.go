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

// reader holds the parsers and the printer, which are costly to make and not safe for use by many at once.
type reader struct {
	parsers [2]*syntax.Parser // bash, POSIX
	keeping [2]*syntax.Parser // the same, keeping comments
	printer *syntax.Printer
}

func newReader() *reader {
	r := &reader{printer: syntax.NewPrinter()}
	for i, lang := range []syntax.LangVariant{syntax.LangBash, syntax.LangPOSIX} {
		r.parsers[i] = syntax.NewParser(syntax.Variant(lang))
		r.keeping[i] = syntax.NewParser(syntax.Variant(lang), syntax.KeepComments(true))
	}
	return r
}

// language is an index into the parsers of a reader.
type language int

const (
	bash language = iota
	posix
)

// parse reads src as bash. The tree it returns was read from the printed form of the first tree, so that a place
// where the parser and bash read src differently cannot matter: bash is given the printed form.
func (r *reader) parse(src string) (script, *finding) {
	first, bad := r.parseAs(src, bash)
	if bad != nil {
		return script{}, bad
	}
	printed, bad := r.print(first)
	if bad != nil {
		return script{}, bad
	}
	if strings.TrimSuffix(printed, "\n") == src {
		return script{first, printed}, nil // it was plain already
	}
	second, err := r.parsers[bash].Parse(strings.NewReader(printed), "")
	if err != nil {
		return script{}, refuseText("it cannot be written down in a plain form")
	}
	again, bad := r.print(second)
	if bad != nil || again != printed || shape(first) != shape(second) {
		return script{}, refuseText("it has no single plain form")
	}
	return script{second, printed}, nil
}

// shape is the structure of a tree with all its literals: printing must not change it.
func shape(f *syntax.File) string {
	var b strings.Builder
	syntax.Walk(f, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.Lit:
			b.WriteString(strings.ReplaceAll(n.Value, "\t", "")) // <<- drops tabs
		case *syntax.SglQuoted:
			b.WriteString(n.Value)
		case *syntax.Stmt:
			b.WriteByte(1)
		case *syntax.Word:
			b.WriteByte(2)
		case *syntax.Assign:
			b.WriteByte(3)
		case *syntax.Redirect:
			b.WriteString(n.Op.String())
		case *syntax.BinaryCmd:
			b.WriteString(n.Op.String())
		case *syntax.CmdSubst, *syntax.ProcSubst, *syntax.Subshell, *syntax.Block:
			b.WriteByte(4)
		case *syntax.DblQuoted, *syntax.ParamExp, *syntax.ArithmExp:
			b.WriteByte(5)
		}
		return true
	})
	return b.String()
}

// parseAs checks the text and parses it in one shell language.
func (r *reader) parseAs(src string, lang language) (*syntax.File, *finding) {
	if bad := checkText(src); bad != nil {
		return nil, bad
	}
	if strings.ContainsRune(src, '#') {
		commented, err := r.keeping[lang].Parse(strings.NewReader(src), "")
		if err != nil {
			return nil, refuseText("it does not parse (" + cause(err) + ")")
		}
		if bad := checkComments(src, commented); bad != nil {
			return nil, bad
		}
	}
	f, err := r.parsers[lang].Parse(strings.NewReader(src), "")
	if err != nil {
		return nil, refuseText("it does not parse (" + cause(err) + ")")
	}
	if len(f.Stmts) == 0 {
		return nil, refuseText("it holds no command")
	}
	if bad := checkCharacters(src, f); bad != nil {
		return nil, bad
	}
	if bad := checkLiterals(src, f); bad != nil {
		return nil, bad
	}
	return f, nil
}

func (r *reader) print(f *syntax.File) (string, *finding) {
	var out strings.Builder
	if err := r.printer.Print(&out, f); err != nil {
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
		line, _, _ := strings.Cut(src[min(int(c.Hash.Offset()), len(src)):], "\n")
		if strings.HasSuffix(line, `\`) {
			bad = refuseText("a comment ends in a backslash, and shells differ in what follows it")
		}
		if at := int(c.Hash.Offset()); at > 0 && !strings.ContainsRune(" \t\n", rune(src[at-1])) {
			bad = refuseText("a comment is glued to a word, and shells differ in where it starts")
		}
		return true
	})
	return bad
}
