package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"claudeops/internal/ops"
)

// Problem is one thing that is wrong with the configuration.
type Problem struct {
	Where   string `json:"where"`
	Key     string `json:"key,omitempty"`
	Message string `json:"message"`
	Fix     string `json:"fix,omitempty"`
}

func (p Problem) String() string {
	var b strings.Builder
	b.WriteString(p.Where)
	if p.Key != "" {
		b.WriteString(": " + p.Key)
	}
	b.WriteString(": " + p.Message)
	if p.Fix != "" {
		b.WriteString("; " + p.Fix)
	}
	return b.String()
}

// Error holds every problem that was found, not only the first.
type Error struct {
	Problems []Problem
}

// Error prints one problem per line.
func (e *Error) Error() string {
	lines := ops.Map(e.Problems, Problem.String)
	return strings.Join(lines, "\n")
}

// source is one of the places a value can come from, weakest first.
type source int

const (
	sourceDefault source = iota
	sourceFile
	sourceEnvironment
	sourceFlag
)

// origin is where exactly a value was given.
type origin struct {
	source source
	name   string // file, variable or flag
	line   int
	col    int
}

// where is the long form, for problems.
func (o origin) where() string {
	switch o.source {
	case sourceFile:
		return fmt.Sprintf("%s:%d", o, o.col)
	case sourceEnvironment:
		return "environment variable " + o.name
	case sourceDefault, sourceFlag:
	}
	return o.String()
}

// String is the short form, for listings.
func (o origin) String() string {
	switch o.source {
	case sourceFile:
		return fmt.Sprintf("%s:%d", o.name, o.line)
	case sourceEnvironment:
		return "environment " + o.name
	case sourceFlag:
		return "flag --" + o.name
	case sourceDefault:
	}
	return "default"
}

// fault is a problem of a value whose key the parser does not know.
type fault struct {
	at      origin
	message string
	fix     string
}

// problemList collects what is wrong while reading goes on.
type problemList struct {
	found []locatedProblem
}

type locatedProblem struct {
	Problem
	at origin
}

func (l *problemList) add(at origin, key, message, fix string) {
	l.found = append(l.found, locatedProblem{
		Problem: Problem{Where: at.where(), Key: key, Message: message, Fix: fix},
		at:      at,
	})
}

func (l *problemList) addFaults(key string, faults []fault) {
	for _, f := range faults {
		l.add(f.at, key, f.message, f.fix)
	}
}

// within reports whether something is already known to be wrong with a key or in a section, so that a check that builds on it does not
// complain a second time.
func (l *problemList) within(sections ...string) bool {
	return slices.ContainsFunc(l.found, func(p locatedProblem) bool {
		return slices.ContainsFunc(sections, func(s string) bool {
			rest, ok := strings.CutPrefix(p.Key, s)
			return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
		})
	})
}

// err returns all problems in the order an operator reads the sources: the file from top to bottom, then the
// environment, then the command line.
func (l *problemList) err() error {
	if len(l.found) == 0 {
		return nil
	}
	sorted := slices.Clone(l.found)
	slices.SortStableFunc(sorted, func(a, b locatedProblem) int {
		return cmp.Or(cmp.Compare(a.at.source, b.at.source), cmp.Compare(a.at.line, b.at.line), cmp.Compare(a.at.col, b.at.col))
	})
	out := &Error{}
	for _, p := range sorted {
		out.Problems = append(out.Problems, p.Problem)
	}
	return out
}

// Suggest returns the candidate an operator most likely meant, or nothing when none is near.
func Suggest(word string, candidates []string) string {
	best, bestDistance := "", max(2, len(word)/3)+1
	for _, c := range candidates {
		if d := editDistance(strings.ToLower(word), strings.ToLower(c)); d < bestDistance {
			best, bestDistance = c, d
		}
	}
	// A distance as long as the word itself says only that both are short.
	if bestDistance >= len(word) {
		return ""
	}
	return best
}

// editDistance counts insertions, deletions, replacements and swaps of neighbors.
func editDistance(a, b string) int {
	s, t := []rune(a), []rune(b)
	before, previous := make([]int, len(t)+1), make([]int, len(t)+1)
	for j := range previous {
		previous[j] = j
	}
	for i := 1; i <= len(s); i++ {
		current := make([]int, len(t)+1)
		current[0] = i
		for j := 1; j <= len(t); j++ {
			cost := 1
			if s[i-1] == t[j-1] {
				cost = 0
			}
			current[j] = min(previous[j]+1, current[j-1]+1, previous[j-1]+cost)
			if i > 1 && j > 1 && s[i-1] == t[j-2] && s[i-2] == t[j-1] {
				current[j] = min(current[j], before[j-2]+1)
			}
		}
		before, previous = previous, current
	}
	return previous[len(t)]
}
