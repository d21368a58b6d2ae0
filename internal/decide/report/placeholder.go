package report

import (
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// isPlaceholder reports whether a text only holds the place of one, or, unless it is optional, says that it does not apply.
// Blank texts are left to the rule text.
func (f rule) isPlaceholder(s string, optional bool) bool {
	if f.name && strings.TrimSpace(s) == "todo" { // in lower case it is what a list of tasks is called
		return false
	}
	if doesNotApply(s) {
		return !optional
	}
	return isPlaceholder(s)
}

// bracketed is what a template leaves for its reader to fill in.
var bracketed = regexp.MustCompile(`<[^<>]*>`)

// isPlaceholder reports whether a text that is not blank only holds the place of one.
func isPlaceholder(s string) bool {
	if !strings.ContainsFunc(s, visible) {
		return false
	}
	words := wordsOf(bracketed.ReplaceAllString(s, " "))
	if len(words) >= 2 && words[0] == "lorem" && words[1] == "ipsum" {
		return true
	}
	return !slices.ContainsFunc(words, func(word string) bool {
		switch word {
		case "todo", "tbd", "string", "placeholder":
			return false
		default:
			return true
		}
	})
}

// doesNotApply reports whether a text says that there is nothing to say.
func doesNotApply(s string) bool {
	switch strings.TrimSpace(s) {
	case "-", "–", "—":
		return true
	}
	return slices.Equal(wordsOf(s), []string{"n", "a"})
}

// wordsOf returns the runs of letters and digits in lower case; a text of punctuation has none.
func wordsOf(s string) []string {
	s = strings.Map(func(r rune) rune {
		if unicode.Is(unicode.Cf, r) { // invisible, such as a zero-width space
			return -1
		}
		return unicode.ToLower(r)
	}, s)
	return strings.FieldsFunc(s, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsNumber(r) })
}
