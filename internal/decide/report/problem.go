package report

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"claudeops/internal/ops"
)

// Problem is one reason to refuse a document.
type Problem struct {
	Pointer  string // JSON pointer of the value; empty for the whole document
	Message  string
	Document string // what was read, such as "handoff"
}

func (p Problem) String() string {
	if p.Pointer == "" {
		return p.Document + " " + p.Message
	}
	return p.Pointer + ": " + p.Message
}

// Sentences are the problems as text, one each.
func Sentences(problems []Problem) []string {
	out := make([]string, 0, len(problems))
	for _, p := range problems {
		out = append(out, p.String())
	}
	return out
}

// Findings are everything that was found in a document. It is acceptable when there are no errors.
type Findings struct {
	Errors   []Problem
	Warnings []string
}

// OK reports whether the document is acceptable.
func (f Findings) OK() bool { return len(f.Errors) == 0 }

// shownProblems keeps an error sentence readable; the report itself holds every problem.
const shownProblems = 20

// Err returns nil for an acceptable document, else one sentence that names the problems.
func (f Findings) Err() error {
	if f.OK() {
		return nil
	}
	texts := Sentences(f.Errors[:min(len(f.Errors), shownProblems)])
	if more := len(f.Errors) - shownProblems; more > 0 {
		texts = append(texts, fmt.Sprintf("and %d more", more))
	}
	return fmt.Errorf("invalid %s: %s", f.Errors[0].Document, strings.Join(texts, "; "))
}

func (f *Findings) refuse(path []string, format string, args ...any) {
	f.Errors = append(f.Errors, Problem{Pointer: pointer(path), Message: fmt.Sprintf(format, args...)})
}

func (f *Findings) warn(path []string, format string, args ...any) {
	f.Warnings = append(f.Warnings, pointer(path)+": "+fmt.Sprintf(format, args...))
}

// finish names the document, puts the errors in order and bounds the warnings.
func (f *Findings) finish(document string) {
	order(f.Errors)
	for i := range f.Errors {
		f.Errors[i].Document = document
	}
	f.boundWarnings()
}

// shownWarnings bounds what thousands of unknown fields can write into the record.
const shownWarnings = 20

func (f *Findings) boundWarnings() {
	if more := len(f.Warnings) - shownWarnings; more > 0 {
		f.Warnings = append(f.Warnings[:shownWarnings:shownWarnings], fmt.Sprintf("and %d more warnings", more))
	}
}

// order sorts problems as they stand in a document.
func order(problems []Problem) {
	slices.SortStableFunc(problems, func(a, b Problem) int {
		return cmp.Or(comparePointers(a.Pointer, b.Pointer), strings.Compare(a.Message, b.Message))
	})
}

func comparePointers(a, b string) int {
	return slices.CompareFunc(strings.Split(a, "/"), strings.Split(b, "/"), func(x, y string) int {
		m, errX := strconv.Atoi(x)
		n, errY := strconv.Atoi(y)
		if errX == nil && errY == nil && m != n {
			return m - n
		}
		return strings.Compare(x, y)
	})
}

// longestShown is how much of a key or a value a message shows.
const longestShown = 80

// pointer writes the JSON pointer of a path, fit for one line of a log.
func pointer(path []string) string {
	var b strings.Builder
	for _, token := range path {
		b.WriteByte('/')
		token = strings.ReplaceAll(strings.ReplaceAll(token, "~", "~0"), "/", "~1")
		b.WriteString(oneLine(token))
	}
	return b.String()
}

// oneLine cuts a text and spells out what would not print.
func oneLine(s string) string {
	s = ops.Cut(s, longestShown)
	if strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
		quoted := strconv.Quote(s)
		s = quoted[1 : len(quoted)-1]
	}
	return s
}

func article(noun string) string {
	if strings.ContainsAny(noun[:1], "aeio") {
		return "an " + noun
	}
	return "a " + noun
}

// show names a wrong value in a few words.
func show(value any) string {
	switch v := value.(type) {
	case map[string]any:
		return "an object"
	case []any:
		return "an array"
	case string:
		return `"` + oneLine(v) + `"`
	case json.Number:
		return oneLine(v.String())
	default:
		return string(encode(v))
	}
}
