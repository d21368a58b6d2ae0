package decide_test

import (
	"fmt"
	"strings"
	"testing"

	"claudeops/internal/decide"
	"claudeops/internal/ops"
	"claudeops/test/cycletest"
)

// leastRecorded is how many chains must be replayed for the test to be worth its name.
const leastRecorded = 50

// Every decision of every recorded chain is made again from what it was made from. Whoever changes one on purpose records the
// chains anew with `make record` and reads in the diff what else has changed.
func TestRecordedChainsAreDecidedAsTheyWere(t *testing.T) {
	files := cycletest.Recorded(t)
	if len(files) < leastRecorded {
		t.Errorf("%d chains are recorded, want at least %d", len(files), leastRecorded)
	}
	decisions := 0
	for _, file := range files {
		r, all := cycletest.ReadRecording(t, file)
		if file != "testdata/replay/"+r.Chain+".json" {
			t.Errorf("%s holds the chain %q", file, r.Chain)
		}
		decisions += len(all)
		for _, changed := range replay(t, r.Chain, all) {
			t.Error(changed)
		}
	}
	t.Logf("%d decisions of %d chains", decisions, len(files))
}

// replay decides a chain again and tells what is decided otherwise.
func replay(t *testing.T, chain string, all []cycletest.Taken) []string {
	t.Helper()
	var out []string
	for i, d := range all {
		is := next(d.Cycle, d.Journal, d.Cycle.Policy, d.At)
		for _, difference := range cycletest.Differences(t, d.Step, is) {
			out = append(out, fmt.Sprintf("chain %s, step %d of %d (%s by row %q): %s", chain, i+1, len(all), d.Step.Kind, d.Step.Row, difference))
		}
	}
	return out
}

// Together the recordings take every row of the table, so that no row can change unnoticed.
func TestRecordedChainsTakeEveryRow(t *testing.T) {
	seen := map[string]int{}
	levels := map[ops.RecoveryLevel]int{}
	ends := map[ops.CycleStatus]int{}
	for _, file := range cycletest.Recorded(t) {
		r, all := cycletest.ReadRecording(t, file)
		ends[r.Ends]++
		for _, d := range all {
			seen[d.Step.Row]++
			if d.Step.Recovery != nil {
				levels[d.Step.Recovery.Level]++
			}
		}
	}
	for _, row := range decide.Rows() {
		if seen[row] == 0 {
			t.Errorf("no recorded chain takes the row %q", row)
		}
	}
	for level := ops.RecoveryRetry; level <= ops.RecoveryForceDone; level++ {
		if levels[level] == 0 {
			t.Errorf("no recorded chain reaches level %d", level)
		}
	}
	for _, end := range []ops.CycleStatus{
		ops.CycleHealthy, ops.CycleResolved, ops.CycleNeedsHuman, ops.CycleSuppressed, ops.CycleBlocked, ops.CyclePartial,
		ops.CycleFailed, ops.CycleCancelled,
	} {
		if ends[end] == 0 {
			t.Errorf("no recorded chain ends %s", end)
		}
	}
}

// The replay must see a decision that changed: each of these is a change that an edit of a threshold or a rule would make.
func TestAChangedDecisionIsNamed(t *testing.T) {
	for name, tt := range map[string]struct {
		chain  string
		change func(*cycletest.Taken)
		says   []string
	}{
		"a lower maximum tier":  {"three-tiers-by-handoff", func(d *cycletest.Taken) { d.Cycle.Policy.MaxTier = 2 }, []string{"chain three-tiers-by-handoff, step", `Kind was "queue", is "finish"`}},
		"a lower threshold":     {"three-tiers-by-resume", func(d *cycletest.Taken) { d.Cycle.Policy.ContextThreshold = 0.01 }, []string{`Session.ContextMode was "resume", is "handoff"`}},
		"less time to recover":  {"rate-limited-twice", func(d *cycletest.Taken) { d.Cycle.Policy.Recovery.Limits.TotalTime = 1 }, []string{"chain rate-limited-twice", "Recovery"}},
		"a decision of another": {"healthy", func(d *cycletest.Taken) { d.Step.Reason = "because" }, []string{`Reason was "because", is `}},
	} {
		t.Run(name, func(t *testing.T) {
			_, all := cycletest.ReadRecording(t, "testdata/replay/"+tt.chain+".json")
			if changed := replay(t, tt.chain, all); len(changed) > 0 {
				t.Fatalf("before: %v", changed)
			}
			for i := range all {
				tt.change(&all[i])
			}
			found := strings.Join(replay(t, tt.chain, all), "\n")
			for _, part := range tt.says {
				if !strings.Contains(found, part) {
					t.Errorf("%q is not in:\n%s", part, found)
				}
			}
		})
	}
}

func TestARecordingWithAFieldNobodyKnowsIsRefused(t *testing.T) {
	for name, raw := range map[string]string{
		"of the cycle":       `{"chain":"x","ends":"healthy","steps":[{"at":"2000-01-01T00:00:00Z","set":{"cycle.ID":1,"cycle.Renamed":1},"step":{}}]}`,
		"of a session":       `{"chain":"x","ends":"healthy","steps":[{"at":"2000-01-01T00:00:00Z","set":{"cycle.ID":1,"journal.Sessions.0":{"ID":1,"Renamed":1}},"step":{}}]}`,
		"of the policy":      `{"chain":"x","ends":"healthy","steps":[{"at":"2000-01-01T00:00:00Z","set":{"cycle.ID":1,"cycle.Policy":{"renamed":1}},"step":{}}]}`,
		"of the decision":    `{"chain":"x","ends":"healthy","steps":[{"at":"2000-01-01T00:00:00Z","set":{"cycle.ID":1},"step":{"Renamed":1}}]}`,
		"of the file itself": `{"chain":"x","ends":"healthy","renamed":1,"steps":[]}`,
	} {
		if _, _, err := cycletest.DecodeRecording([]byte(raw)); err == nil || !strings.Contains(strings.ToLower(err.Error()), "renamed") {
			t.Errorf("%s: error is %v", name, err)
		}
	}
}
