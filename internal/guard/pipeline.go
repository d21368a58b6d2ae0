package guard

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"claudeops/internal/guard/scan"
)

// pipeline lists the stages of a | b | c.
func pipeline(st *syntax.Stmt) []*syntax.Stmt {
	b, ok := st.Cmd.(*syntax.BinaryCmd)
	if !ok || b.Op != syntax.Pipe && b.Op != syntax.PipeAll {
		return []*syntax.Stmt{st}
	}
	return append(pipeline(b.X), pipeline(b.Y)...)
}

// peek returns the words that are plain text; others are a hole.
func peek(words []*syntax.Word) []string {
	out := make([]string, len(words))
	for i, w := range words {
		text, ok := plainText(w.Parts, false)
		if !ok {
			text = string(rune(hole))
		}
		out[i] = text
	}
	return out
}

// plainText joins parts without expansions.
func plainText(parts []syntax.WordPart, quoted bool) (string, bool) {
	var out strings.Builder
	for _, p := range parts {
		switch p := p.(type) {
		case *syntax.Lit:
			r := reading{}
			if quoted {
				r.text.WriteString(unescapeQuoted(p.Value))
			} else {
				r.unquoted(p.Value)
			}
			out.WriteString(r.text.String())
		case *syntax.SglQuoted:
			if p.Dollar {
				return "", false
			}
			out.WriteString(p.Value)
		case *syntax.DblQuoted:
			text, ok := plainText(p.Parts, true)
			if !ok || p.Dollar {
				return "", false
			}
			out.WriteString(text)
		default:
			return "", false
		}
	}
	return out.String(), true
}

// produced says what the left side of a pipe writes: fixed text, or data; and below which folders the file names lie
// when it lists files.
func (j *judge) produced(s *scope, left *syntax.Stmt) (input, []string) {
	stages := pipeline(left)
	first, ok := stages[0].Cmd.(*syntax.CallExpr)
	if !ok || len(first.Args) == 0 {
		return inputData, nil
	}
	args := peek(first.Args)
	if len(stages) == 1 && (args[0] == "echo" || args[0] == "printf" || args[0] == "true" || args[0] == ":") {
		switch {
		case slices.ContainsFunc(args, func(a string) bool { return strings.IndexByte(a, hole) >= 0 }):
			return inputData, nil
		case len(args) == 1 || args[0] == "echo" && len(args) == 2 && (args[1] == "Q" || args[1] == "" || args[1] == "-n"):
			return inputNone, nil // nothing to speak of
		}
		return inputFixed, nil
	}
	for _, st := range stages[1:] {
		call, ok := st.Cmd.(*syntax.CallExpr)
		if !ok || len(call.Args) == 0 || !slices.Contains([]string{"sort", "head", "tail", "uniq", "grep"}, call.Args[0].Lit()) {
			return inputData, nil
		}
	}
	var files []string
	for _, root := range listed(args) {
		files = append(files, j.paths(s, root)...)
	}
	return inputData, files
}

// listed are the folders a command lists files of, nil when it lists something else.
func listed(args []string) []string {
	var roots []string
	switch args[0] {
	case "find":
		rest := args[1:]
		for len(rest) > 0 && (rest[0] == "-L" || rest[0] == "-H" || rest[0] == "-P") {
			rest = rest[1:]
		}
		if slices.ContainsFunc(rest, func(a string) bool { return strings.HasPrefix(a, "-printf") || strings.HasPrefix(a, "-exec") }) {
			return nil // it does not print the places
		}
		for _, a := range rest {
			if strings.HasPrefix(a, "-") || a == "(" || a == "!" {
				break
			}
			roots = append(roots, a)
		}
	case "grep", "rg":
		flags := ""
		for _, a := range args[1:] {
			if strings.HasPrefix(a, "-") && !strings.HasPrefix(a, "--") {
				flags += a
			} else if !strings.HasPrefix(a, "-") {
				roots = append(roots, a)
			}
		}
		if !strings.ContainsAny(flags, "lL") {
			return nil
		}
		if len(roots) > 0 {
			roots = roots[1:] // the pattern
		}
	default:
		return nil
	}
	if len(roots) == 0 {
		roots = []string{"."}
	}
	if slices.ContainsFunc(roots, func(r string) bool { return strings.IndexByte(r, hole) >= 0 }) {
		return nil
	}
	return roots
}

// printed says what is known of the output of commands: that it is a number, so that arithmetic may use it, or that it
// consists of plain names, so that no word of it can be an option.
func printed(list []*syntax.Stmt) value {
	if len(list) != 1 {
		return value{}
	}
	stages := pipeline(list[0])
	var words [][]string
	for _, st := range stages {
		call, ok := st.Cmd.(*syntax.CallExpr)
		if !ok || len(call.Args) == 0 {
			return value{}
		}
		words = append(words, peek(call.Args))
	}
	kind := scan.Output(words)
	return value{num: kind == scan.Number || kind == scan.Digits, unset: kind == scan.Digits, plain: kind == scan.Number || kind == scan.Names}
}
