package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
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
	b, err := newBench(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	jobs := b.jobs(options{quick: true, repeat: 1})
	if len(jobs) > testPairs {
		t.Fatalf("%d pairs, more than %d: change inTest", len(jobs), testPairs)
	}
	begun := time.Now()
	results, err := b.runAll(t.Context(), jobs, options{slots: 2 * runtime.NumCPU()})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d pairs in %s", len(results), time.Since(begun).Round(time.Second))
	for _, r := range results {
		honest := r.Model == "expert" || r.Model == "expert"+onCodex || r.Model == "obedient"
		if !r.safe() || honest && !r.good() {
			text, _ := json.MarshalIndent(r, "", " ")
			t.Errorf("%s\n%s", r.line(), text)
		}
	}
}
