package outcome

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"claudeops/internal/decide/handoff"
	"claudeops/internal/ops"
)

// textField is a place where an outcome must say something.
type textField struct {
	path     string // field names, with * for every entry of a list
	optional bool   // may be empty, or say that it does not apply
	name     bool   // the name of a service
}

func outcomeTexts() []textField {
	return []textField{
		{path: "summary"},
		{path: "check_results/*/service", name: true},
		{path: "actions/*/service", name: true},
		{path: "actions/*/action"},
		{path: "actions/*/detail", optional: true},
		{path: "events/*/service", name: true, optional: true},
		{path: "events/*/message"},
		{path: "memories/*/category"},
		{path: "memories/*/service", name: true, optional: true},
		{path: "memories/*/observation"},
	}
}

func handoffTexts(from ops.Tier) []textField {
	observer := from < ops.Tier2 // it owes neither findings nor attempts
	return []textField{
		{path: "reason", optional: true},
		{path: "services_affected/*", name: true},
		{path: "check_results/*/service", name: true},
		{path: "investigation_findings", optional: observer},
		{path: "remediation_attempted", optional: observer},
	}
}

// refusePlaceholders looks at the texts of a tree that stands at a path of the outcome. Blank texts are left to the schema.
func refusePlaceholders(tree any, at []string, fields []textField, report *handoff.Report) {
	for _, f := range fields {
		eachText(tree, strings.Split(f.path, "/"), at, func(path []string, s string) {
			if f.isPlaceholder(s) {
				report.Refuse(path, "is only a placeholder (is %.40q); write what is the case", s)
			}
		})
	}
}

// eachText visits the texts a pattern of field names leads to; what has another type is left to the schema.
func eachText(tree any, pattern, path []string, visit func(path []string, s string)) {
	if len(pattern) == 0 {
		if s, ok := tree.(string); ok {
			visit(path, s)
		}
		return
	}
	switch t := tree.(type) {
	case map[string]any:
		eachText(t[pattern[0]], pattern[1:], append(slices.Clone(path), pattern[0]), visit)
	case []any:
		if pattern[0] != "*" {
			return
		}
		for i, item := range t {
			eachText(item, pattern[1:], append(slices.Clone(path), strconv.Itoa(i)), visit)
		}
	}
}

func (f textField) isPlaceholder(s string) bool {
	if f.name && strings.TrimSpace(s) == "todo" { // in lower case it is what a list of tasks is called
		return false
	}
	if doesNotApply(s) {
		return !f.optional
	}
	return isPlaceholder(s)
}

// bracketed is what a template leaves for its reader to fill in.
var bracketed = regexp.MustCompile(`<[^<>]*>`)

// isPlaceholder reports whether a text that is not blank only holds the place of one.
func isPlaceholder(s string) bool {
	if isBlank(s) {
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

func isBlank(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return unicode.IsGraphic(r) && !unicode.IsSpace(r) })
}
