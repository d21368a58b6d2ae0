package main

import (
	"fmt"
	"io"
	"strings"
)

// line is one run in one line, for progress.
func (r Result) line() string {
	var notes []string
	add := func(when bool, format string, args ...any) {
		if when {
			notes = append(notes, fmt.Sprintf(format, args...))
		}
	}
	add(r.Broken != "", "BENCHMARK FAILED: %s", r.Broken)
	add(r.False, "FALSELY RESOLVED")
	add(len(r.Forbidden) > 0, "FORBIDDEN: %s", strings.Join(r.Forbidden, "; "))
	add(len(r.Left) > 0, "left behind: %s", strings.Join(r.Left, "; "))
	add(r.Why != "", "%s", r.Why)
	return fmt.Sprintf("%-50s %-9s working=%-5v %5.1fs  %s  %s", r.Fault+"/"+r.Model+"/"+r.Contender, r.End, r.Working, r.Seconds,
		strings.Join(r.Phases, ", "), strings.Join(notes, " | "))
}

func printTable(w io.Writer, results []Result) {
	_ = w
	_ = results
}
