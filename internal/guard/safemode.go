package guard

import (
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// readOnlySQL and readOnlyMySQL make a session refuse changes, whatever the scanner made of a statement.
const (
	readOnlySQL   = "SET default_transaction_read_only=on"
	readOnlyMySQL = "SET SESSION TRANSACTION READ ONLY"
)

// safeMode are the words behind a program's name that switch off what it could do beyond its task, and whether other
// builds of the program, such as those in containers, know them too.
func safeMode(program string) (words []string, everywhere bool) {
	switch program {
	case "sed", "gsed", "gawk":
		return []string{"--sandbox"}, false
	case "sqlite3":
		return []string{"-readonly", "-safe"}, true
	case "psql":
		return []string{"-X", "-q", "-c", readOnlySQL}, true
	case "mysql", "mariadb":
		return []string{"--init-command=" + readOnlyMySQL}, true
	case "git":
		return []string{
			"-c", "core.fsmonitor=", "-c", "core.hooksPath=/dev/null", "-c", "protocol.ext.allow=never", "-c", "safe.bareRepository=explicit",
		}, true
	}
	return nil, false
}

// inSafeMode notes the words to add when the judged tree is printed. Text for other hosts is left as it is.
func (c *call) inSafeMode() {
	program, _, _ := strings.Cut(c.row.cmd, " ")
	words, everywhere := safeMode(program)
	if c.program.at == nil || c.s.remote || c.s.container && !everywhere {
		return
	}
	if program == "git" && strings.HasPrefix(c.row.cmd, "git ") && c.s.container {
		return
	}
	if c.j.added == nil {
		c.j.added = map[*syntax.Word][]string{}
	}
	c.j.added[c.program.at] = words
}

// addWords puts words behind others in the commands of a tree. Words that are there already are left.
func addWords(f *syntax.File, added map[*syntax.Word][]string) {
	syntax.Walk(f, func(n syntax.Node) bool {
		call, ok := n.(*syntax.CallExpr)
		if !ok {
			return true
		}
		for i := 0; i < len(call.Args); i++ {
			words := added[call.Args[i]]
			if len(words) == 0 || slices.Equal(peek(call.Args[i+1:min(i+1+len(words), len(call.Args))]), words) {
				continue
			}
			more := make([]*syntax.Word, len(words))
			for k, w := range words {
				more[k] = quotedWord(w, call.Args[i].End())
			}
			call.Args = slices.Insert(call.Args, i+1, more...)
			i += len(more)
		}
		return true
	})
}

// quotedWord makes a word of plain text.
func quotedWord(text string, at syntax.Pos) *syntax.Word {
	if strings.ContainsAny(text, " ") {
		return &syntax.Word{Parts: []syntax.WordPart{&syntax.SglQuoted{Left: at, Right: at, Value: text}}}
	}
	return &syntax.Word{Parts: []syntax.WordPart{&syntax.Lit{ValuePos: at, ValueEnd: at, Value: text}}}
}
