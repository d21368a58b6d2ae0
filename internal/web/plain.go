package web

import (
	"regexp"
	"strings"
	"unicode"
)

// terminalCode matches the sequences by which programs colour and move text on a terminal.
var terminalCode = regexp.MustCompile("\x1b(?:\\[[0-?]*[ -/]*[@-~]|\\][^\x07\x1b]*(?:\x07|\x1b\\\\)?|[@-Z\\\\^_])")

// plain makes foreign text safe to read: it takes out terminal codes and shows characters that would reorder
// or hide their neighbours. Escaping for HTML is the templates' work.
func plain(text string) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if strings.IndexByte(text, '\x1b') >= 0 {
		text = terminalCode.ReplaceAllString(text, "")
	}
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n', r == '\t':
			return r
		case r == '\r':
			return -1
		case unicode.IsControl(r), unicode.Is(unicode.Bidi_Control, r):
			return '\uFFFD'
		}
		return r
	}, text)
}
