package handoff

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// Problem is one reason to refuse a handoff, or a document that holds one.
type Problem struct {
	Pointer  string // JSON pointer of the value; empty for the whole document
	Message  string
	Document string // what was read; empty for a handoff
}

func (p Problem) String() string {
	if p.Pointer == "" {
		return p.document() + " " + p.Message
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

func (p Problem) document() string { return cmp.Or(p.Document, "handoff") }

// Report is everything that was found in a handoff. It is acceptable when it holds no errors.
type Report struct {
	Errors   []Problem
	Warnings []string
}

// OK reports whether the handoff is acceptable.
func (r Report) OK() bool { return len(r.Errors) == 0 }

// shownProblems keeps an error sentence readable; the report itself holds every problem.
const shownProblems = 20

// Err returns nil for an acceptable handoff, else one sentence that names the problems.
func (r Report) Err() error {
	if r.OK() {
		return nil
	}
	texts := make([]string, 0, shownProblems+1)
	for _, p := range r.Errors[:min(len(r.Errors), shownProblems)] {
		texts = append(texts, p.String())
	}
	if more := len(r.Errors) - shownProblems; more > 0 {
		texts = append(texts, fmt.Sprintf("and %d more", more))
	}
	return fmt.Errorf("invalid %s: %s", r.Errors[0].document(), strings.Join(texts, "; "))
}

// Refuse adds an error about the value at a path.
func (r *Report) Refuse(path []string, format string, args ...any) {
	r.Errors = append(r.Errors, Problem{Pointer: pointer(path), Message: fmt.Sprintf(format, args...)})
}

// Warn adds a warning about the value at a path.
func (r *Report) Warn(path []string, format string, args ...any) {
	r.warn("%s: %s", pointer(path), fmt.Sprintf(format, args...))
}

// Include adds what was found in the handoff that stands at a path of the document.
func (r *Report) Include(path []string, part Report) {
	at := pointer(path)
	for _, p := range part.Errors {
		r.Errors = append(r.Errors, Problem{Pointer: at + p.Pointer, Message: p.Message})
	}
	for _, warning := range part.Warnings {
		r.warn("%s%s", at, warning)
	}
}

// Finish names the document, puts the errors in order, each once, and bounds the warnings.
func (r *Report) Finish(document string) {
	r.Errors = order(r.Errors)
	for i := range r.Errors {
		r.Errors[i].Document = document
	}
	r.boundWarnings()
}

// shownWarnings bounds what thousands of unknown fields can write into the record.
const shownWarnings = 20

func (r *Report) warn(format string, args ...any) {
	r.Warnings = append(r.Warnings, fmt.Sprintf(format, args...))
}

func (r *Report) boundWarnings() {
	if more := len(r.Warnings) - shownWarnings; more > 0 {
		r.Warnings = append(r.Warnings[:shownWarnings:shownWarnings], fmt.Sprintf("and %d more warnings", more))
	}
}

// order sorts problems as they stand in a document and removes what two rules reported alike.
func order(problems []Problem) []Problem {
	slices.SortStableFunc(problems, func(a, b Problem) int {
		if c := comparePointers(a.Pointer, b.Pointer); c != 0 {
			return c
		}
		return strings.Compare(a.Message, b.Message)
	})
	return slices.Compact(problems)
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
	if cut := prefix(s, longestShown); cut != s {
		s = cut + "…"
	}
	if strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
		quoted := strconv.Quote(s)
		s = quoted[1 : len(quoted)-1]
	}
	return s
}
