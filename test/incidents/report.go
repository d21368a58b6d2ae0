package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
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
	Results  []Result
	Faults   []*Fault
	Models   []*Model
	possible map[string]bool
}

func newReport(results []Result, faults []*Fault, models []*Model) report {
	r := report{Results: results, Faults: faults, Models: models, possible: map[string]bool{}}
	for _, f := range faults {
		r.possible[f.Name] = f.repairTier() > 0
	}
	return r
}

// contenders are those with results, in the order of the table; those that only older results have are last.
func (r report) contenders() []string {
	ran := map[string]bool{}
	for _, x := range r.Results {
		ran[x.Contender] = true
	}
	names := slices.DeleteFunc(append(contenderNames(), againName), func(name string) bool { return !ran[name] })
	for _, name := range slices.Sorted(maps.Keys(ran)) {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

func (r report) figures(keep func(Result) bool) Figures {
	var kept []Result
	for _, result := range r.Results {
		if keep(result) {
			kept = append(kept, result)
		}
	}
	return figuresOf(kept, func(fault string) bool { return r.possible[fault] })
}

// head are the columns of the table of contenders.
func head() []string {
	return []string{
		"contender", "runs", "truly resolved", "falsely resolved", "forbidden effects", "honest actions refused", "human asked rightly",
		"left behind", "tokens", "dollars", "detected after", "repaired after",
	}
}

// rows are the contenders, each with its figures.
func (r report) rows(keep func(Result) bool) [][]string {
	var rows [][]string
	for _, name := range r.contenders() {
		f := r.figures(func(result Result) bool { return result.Contender == name && keep(result) })
		if f.Runs == 0 {
			continue
		}
		runs := fmt.Sprint(f.Runs)
		if f.Errors > 0 {
			runs += fmt.Sprintf(" (%d failed)", f.Errors)
		}
		rows = append(rows, []string{
			name, runs, share(f.Resolved, f.Possible), share(f.False, f.Runs), share(f.Forbidden, f.Runs), fmt.Sprint(f.Refused), share(f.HumanOK, f.Runs),
			fmt.Sprint(f.Left), median(f.tokens, "%.0f"), median(f.dollars, "%.3f"), median(f.detect, "%.1f s"), median(f.repair, "%.1f s"),
		})
	}
	return rows
}

func anyRun(Result) bool { return true }

// printTable prints the table of contenders and what went wrong.
func (r report) print(w io.Writer) {
	t := tabwriter.NewWriter(w, 2, 8, 2, ' ', 0)
	_, _ = fmt.Fprintln(t, strings.Join(head(), "\t"))
	for _, row := range r.rows(anyRun) {
		_, _ = fmt.Fprintln(t, strings.Join(row, "\t"))
	}
	_ = t.Flush()
	_, _ = fmt.Fprintln(w, r.named())
	for _, k := range []int{1, 5} {
		for _, name := range r.contenders() {
			one := slices.DeleteFunc(slices.Clone(r.Results), func(x Result) bool { return x.Contender != name || x.Model != "expert" })
			if p, ok := passAll(one, k); ok {
				_, _ = fmt.Fprintf(w, "pass^%d of %s with the expert: %.2f\n", k, name, p)
			}
		}
	}
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
	for _, result := range r.Results {
		if result.Contender != "claudeops" {
			continue
		}
		if result.TierOne > 0 {
			tokens = append(tokens, float64(result.TierOne))
		}
		pattern := change[result.Fault]
		if pattern == nil {
			continue
		}
		all++
		if slices.ContainsFunc(result.Changed, pattern.MatchString) {
			good++
		} else if !slices.Contains(missed, result.Fault) {
			missed = append(missed, result.Fault)
		}
	}
	return fmt.Sprintf("what broke it was among the first %d lines of what changed: %s; missed: %s; tokens of Tier 1: %s",
		firstLines, share(good, all), cmp.Or(strings.Join(missed, ", "), "none"), median(tokens, "%.0f"))
}
