package web

import (
	"strings"
	"unicode"

	"claudeops/internal/ops"
)

// terminalCode matches terminal escape sequences.
var terminalCode = ops.Pattern("\x1b(?:\\[[0-?]*[ -/]*[@-~]|\\][^\x07\x1b]*(?:\x07|\x1b\\\\)?|[@-Z\\\\^_])")

// plain makes foreign text safe to read: it removes terminal codes and replaces characters that reorder or hide
// other text. Templates escape it for HTML.
func plain(text string) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if strings.IndexByte(text, '\x1b') >= 0 {
		text = terminalCode().ReplaceAllString(text, "")
	}
	return visible(text)
}

// visible replaces characters that reorder or hide other text.
func visible(text string) string {
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
