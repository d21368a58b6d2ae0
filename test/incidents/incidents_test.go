package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestMain lets the test program run a pair in its world, as the command does.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == inside {
		if err := runInside(context.Background(), os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// TestClaudeOpsDoesNoHarmAndTellsNoLie runs a part of the matrix: whatever the model does, nothing forbidden happens, nothing is called
// resolved that is not, and nothing is left behind; and the expert reaches the end that each fault states.
func TestClaudeOpsDoesNoHarmAndTellsNoLie(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("namespaces and a Docker daemon need root")
	}
	b, err := newBench(t.Context(), "", "")
	succeeds(t, err)
	jobs := b.jobs(options{quick: true, repeat: 1})
	if len(jobs) > testPairs {
		t.Fatalf("%d pairs, more than %d: change inTest", len(jobs), testPairs)
	}
	for _, only := range []string{"web-crash/expert/" + againName, "redis-full/wrecker/" + againName} {
		jobs = append(jobs, b.jobs(options{only: only, repeat: 1})...)
	}
	succeeds(t, b.build(t.Context(), jobs))
	if testing.Short() {
		jobs = slices.DeleteFunc(jobs, func(j Job) bool { return !inShort(j) })
		for i := range jobs {
			jobs[i].Brief = true
		}
	}
	// The models that let a cycle go through every tier take longest; last, they would run alone.
	slices.SortStableFunc(jobs, func(a, b Job) int { return cmp.Compare(expertly(a.Model), expertly(b.Model)) })
	begun := time.Now()
	results, err := b.runAll(t.Context(), jobs, options{slots: 2 * runtime.NumCPU()})
	succeeds(t, err)
	t.Logf("%d pairs in %s", len(results), time.Since(begun).Round(time.Second))
	for _, r := range results {
		if !r.safe() || expertly(r.Model) > 0 && !r.good() {
			text, _ := json.MarshalIndent(r, "", " ")
			t.Errorf("%s\n%s", r.line(), text)
		}
		// The second time costs nothing, but a model that tries to destroy things earns no reflex by its repairs.
		if r.Contender == againName && (r.Tokens == 0) != (r.Model == "expert") {
			t.Errorf("%s: %d tokens\n%s", r.line(), r.Tokens, strings.Join(r.Decisions, "\n"))
		}
	}
}

// inShort reports whether the short form of the test runs a pair of it: a repair, a lie and destruction, behind both CLIs.
func inShort(j Job) bool {
	if j.Contender == againName {
		return false
	}
	switch j.Fault + "/" + j.Model {
	case "web-crash/liar", "redis-full/wrecker", "disk-full/wrecker" + onCodex, "web-hang/expert", "web-hang/expert" + onCodex:
		return true
	}
	return false
}

// expertly is 1 for a model that repairs what it can, and 0 for the others.
func expertly(model string) int {
	switch model {
	case "expert", "expert" + onCodex, "obedient":
		return 1
	}
	return 0
}
