package main

import (
	"cmp"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"
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
	add(len(r.Left) > 0, "LEFT BEHIND: %s", strings.Join(r.Left, "; "))
	add(len(r.Refused) > 0, "refused: %s", strings.Join(r.Refused, "; "))
	add(r.Why != "", "%s", r.Why)
	works := "broken"
	if r.Working {
		works = "works"
	}
	return fmt.Sprintf("%-48s says %-9s %-6s %5.1fs  %s", r.Fault+"/"+r.Model+"/"+r.Contender, r.End, works, r.Seconds, strings.Join(notes, " | "))
}

// report is what the tables are made of.
type report struct {
	Results  []Result // all of them
	Runs     []Result // the first of each pair
	Faults   []*Fault
	Models   []*Model
	possible map[string]bool
}

func newReport(results []Result, faults []*Fault, models []*Model) report {
	r := report{Results: results, Runs: headline(results), Faults: faults, Models: models, possible: map[string]bool{}}
	for _, f := range faults {
		r.possible[f.Name] = f.repairTier() > 0
	}
	return r
}

func (r report) runs(keep func(Result) bool) []Result {
	return slices.DeleteFunc(slices.Clone(r.Runs), func(x Result) bool { return !keep(x) })
}

// contenders are those that ran: first those of this repository, in their order.
func (r report) contenders() []string {
	var ran []string
	for _, x := range r.Runs {
		if !slices.Contains(ran, x.Contender) {
			ran = append(ran, x.Contender)
		}
	}
	own := contenderNames()
	place := func(name string) int {
		if i := slices.Index(own, name); i >= 0 {
			return i
		}
		return len(own)
	}
	slices.SortFunc(ran, func(a, b string) int { return cmp.Or(cmp.Compare(place(a), place(b)), cmp.Compare(a, b)) })
	return ran
}

// contenderTable has a row for each contender, with its measures over everything that it met.
func (r report) contenderTable() (head []string, rows [][]string) {
	measures := r.measures()
	head = []string{"contender", "pairs"}
	for _, m := range measures {
		head = append(head, m.name)
	}
	head = append(head, "honest actions refused", "left behind", "tokens", "dollars", "detected after", "repaired after")
	for _, name := range r.contenders() {
		runs := r.runs(func(x Result) bool { return x.Contender == name })
		var failed, refused, left int
		var tokens, dollars, detect, repair []float64
		for _, x := range runs {
			if x.Broken != "" {
				failed, left = failed+1, left+1
				continue
			}
			refused += int(one(len(x.Refused) > 0))
			left += int(one(len(x.Left) > 0))
			tokens, dollars = append(tokens, float64(x.Tokens)), append(dollars, x.Dollars)
			if x.Detect > 0 {
				detect = append(detect, x.Detect)
			}
			if x.Repair > 0 {
				repair = append(repair, x.Repair)
			}
		}
		row := []string{name, fmt.Sprint(len(runs))}
		if failed > 0 {
			row[1] += fmt.Sprintf(" (%d failed)", failed)
		}
		for _, m := range measures {
			row = append(row, m.cell(runs))
		}
		rows = append(rows, append(row, fmt.Sprint(refused), fmt.Sprint(left), median(tokens, "%.0f"), median(dollars, "%.3f"),
			median(detect, "%.1f s"), median(repair, "%.1f s")))
	}
	return head, rows
}

// reference is the contender that the others are compared with.
const reference = "claudeops"

// pairedTable compares every contender with the reference, in what both met.
func (r report) pairedTable() (head []string, rows [][]string) {
	measures := r.measures()
	head = []string{"contender", "shared pairs"}
	for _, m := range measures {
		head = append(head, m.name)
	}
	for _, name := range r.others() {
		row := []string{name, fmt.Sprint(paired(r.Runs, measures[0], reference, name).estimate().N)}
		for _, m := range measures {
			row = append(row, m.difference(r.Runs, reference, name))
		}
		rows = append(rows, row)
	}
	return head, rows
}

func (r report) others() []string {
	return slices.DeleteFunc(r.contenders(), func(name string) bool { return name == reference })
}

// weightTable says what other weights make of the difference in score.
func (r report) weightTable() (head []string, rows [][]string) {
	head = append([]string{"weights"}, r.others()...)
	for _, other := range otherWeights() {
		m := measure{other.name, false, func(x Result) (float64, bool) { return other.w.score(x), true }}
		row := []string{other.name}
		for _, name := range r.others() {
			row = append(row, m.difference(r.Runs, reference, name))
		}
		rows = append(rows, row)
	}
	return head, rows
}

// print prints the tables of contenders and what went wrong.
func (r report) print(w io.Writer) {
	for _, table := range []func() ([]string, [][]string){r.contenderTable, r.pairedTable} {
		t := tabwriter.NewWriter(w, 2, 8, 2, ' ', 0)
		head, rows := table()
		_, _ = fmt.Fprintln(t, strings.Join(head, "\t"))
		for _, row := range rows {
			_, _ = fmt.Fprintln(t, strings.Join(row, "\t"))
		}
		_ = t.Flush()
	}
	_, _ = fmt.Fprintln(w, r.named())
	_, _ = fmt.Fprintln(w, repeated(r.Results))
}

// firstLines are as many lines about changes as somebody reads at a glance.
const firstLines = 5

// named says how often the change that broke something was among the first lines of what changed.
func (r report) named() string {
	change := map[string]*regexp.Regexp{}
	for _, f := range r.Faults {
		if f.Change != "" {
			change[f.Name] = regexp.MustCompile(f.Change)
		}
	}
	var good, all int
	var missed []string
	var tokens []float64
	for _, x := range r.runs(func(x Result) bool { return x.Contender == reference }) {
		if x.TierOne > 0 {
			tokens = append(tokens, float64(x.TierOne))
		}
		pattern := change[x.Fault]
		if pattern == nil {
			continue
		}
		all++
		if slices.ContainsFunc(x.Changed, pattern.MatchString) {
			good++
		} else if !slices.Contains(missed, x.Fault) {
			missed = append(missed, x.Fault)
		}
	}
	return fmt.Sprintf("What broke it was among the first %d lines of what changed in %d of %d runs (missed: %s). Median of the tokens of Tier 1: %s.",
		firstLines, good, all, cmp.Or(strings.Join(missed, ", "), "none"), median(tokens, "%.0f"))
}
