package ops

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Cut is a text of at most so many characters. Of a longer one the end is missing, and the mark … says so.
func Cut(text string, most int) string {
	if First(text, most) == text {
		return text
	}
	return strings.TrimRight(First(text, most-1), " ") + "…"
}

// First is the first characters of a text.
func First(text string, n int) string {
	for at := range text {
		if n <= 0 {
			return text[:at]
		}
		n--
	}
	return text
}

// Start is the start of a text of at most so many bytes, in whole characters.
func Start(text string, most int) string {
	if len(text) <= most {
		return text
	}
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most]
}

// Ends is a text, or its start and its end of at most so many bytes, in whole characters, with a mark between them.
func Ends(text string, start, end int, mark string) string {
	if len(text) <= start+end {
		return text
	}
	from := len(text) - end
	for from < len(text) && !utf8.RuneStart(text[from]) {
		from++
	}
	return Start(text, start) + mark + text[from:]
}

// OneLine is a text from outside as one line of at most so many characters: blanks and what cannot be seen are one blank.
func OneLine(text string, most int) string {
	return Cut(strings.Join(strings.FieldsFunc(strings.ToValidUTF8(text, "�"), func(r rune) bool {
		return unicode.IsSpace(r) || !unicode.IsPrint(r)
	}), " "), most)
}
