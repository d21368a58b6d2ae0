package cycle_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"claudeops/internal/cycle"
	"claudeops/internal/ops"
)

// leastRecorded is how many chains must be replayed for the test to be worth its name.
const leastRecorded = 50

// Every decision of every recorded chain is made again from what it was made from. Whoever changes one on purpose records the
// chains anew with `make record` and reads in the diff what else has changed.
func TestRecordedChainsAreDecidedAsTheyWere(t *testing.T) {
	files := recorded(t)
	if len(files) < leastRecorded {
		t.Errorf("%d chains are recorded, want at least %d", len(files), leastRecorded)
	}
	decisions := 0
	for _, file := range files {
		r, all := readRecording(t, file)
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
func replay(t *testing.T, chain string, all []taken) []string {
	t.Helper()
	var out []string
	for i, d := range all {
		is := cycle.Next(d.cycle, d.journal, d.cycle.Policy, d.at)
		for _, difference := range differences(t, d.step, is) {
			out = append(out, fmt.Sprintf("chain %s, step %d of %d (%s by row %q): %s", chain, i+1, len(all), d.step.Kind, d.step.Row, difference))
		}
	}
	return out
}

func differences(t *testing.T, was, is ops.Step) []string {
	t.Helper()
	return compare("", generic(t, was), generic(t, is))
}

// generic is a step as plain values, as it is written.
func generic(t *testing.T, s ops.Step) any {
	t.Helper()
	var out any
	if err := json.Unmarshal(plainJSON(t, sparse(reflect.ValueOf(s))), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// compare names every value that differs, by its path.
func compare(path string, was, is any) []string {
	if reflect.DeepEqual(was, is) {
		return nil
	}
	before, both := was.(map[string]any)
	after, ok := is.(map[string]any)
	if both && ok {
		keys := maps.Clone(before)
		maps.Copy(keys, after)
		var out []string
		for _, k := range slices.Sorted(maps.Keys(keys)) {
			if _, known := before[k]; !known && strings.HasPrefix(path, ".Decision.Inputs") && nothing(after[k]) {
				continue // a decision keeps the whole policy, also what was added to it since
			}
			out = append(out, compare(path+"."+k, before[k], after[k])...)
		}
		return out
	}
	list, both := was.([]any)
	other, ok := is.([]any)
	if both && ok && len(list) == len(other) {
		var out []string
		for i := range list {
			out = append(out, compare(fmt.Sprintf("%s[%d]", path, i), list[i], other[i])...)
		}
		return out
	}
	return []string{fmt.Sprintf("%s was %s, is %s", strings.TrimPrefix(path, "."), briefly(was), briefly(is))}
}

// nothing reports whether a value says nothing.
func nothing(v any) bool {
	switch v := v.(type) {
	case map[string]any:
		return !slices.ContainsFunc(slices.Collect(maps.Values(v)), func(x any) bool { return !nothing(x) })
	case []any:
		return len(v) == 0
	}
	return v == nil || reflect.ValueOf(v).IsZero()
}

func briefly(v any) string {
	const most = 300
	raw, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	if len(raw) > most {
		return string(raw[:most]) + "…"
	}
	return string(raw)
}

// Together the recordings take every row of the table, so that no row can change unnoticed.
func TestRecordedChainsTakeEveryRow(t *testing.T) {
	seen := map[string]int{}
	levels := map[ops.RecoveryLevel]int{}
	ends := map[ops.CycleStatus]int{}
	for _, file := range recorded(t) {
		r, all := readRecording(t, file)
		ends[r.Ends]++
		for _, d := range all {
			seen[d.step.Row]++
			if d.step.Recovery != nil {
				levels[d.step.Recovery.Level]++
			}
		}
	}
	for _, row := range cycle.Rows() {
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
		change func(*taken)
		says   []string
	}{
		"a lower maximum tier":  {"three-tiers-by-handoff", func(d *taken) { d.cycle.Policy.MaxTier = 2 }, []string{"chain three-tiers-by-handoff, step", `Kind was "queue", is "finish"`}},
		"a lower threshold":     {"three-tiers-by-resume", func(d *taken) { d.cycle.Policy.ContextThreshold = 0.01 }, []string{`Session.ContextMode was "resume", is "handoff"`}},
		"fewer retries":         {"rate-limited-twice", func(d *taken) { d.cycle.Policy.Recovery.Limits.Retries = 1 }, []string{"chain rate-limited-twice", "Recovery"}},
		"a decision of another": {"healthy", func(d *taken) { d.step.Reason = "because" }, []string{`Reason was "because", is `}},
	} {
		t.Run(name, func(t *testing.T) {
			_, all := readRecording(t, "testdata/replay/"+tt.chain+".json")
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
		"of the cycle":       `{"chain":"x","ends":"healthy","steps":[{"at":"2000-01-01T00:00:00Z","set":{"cycle.Renamed":1},"step":{}}]}`,
		"of a session":       `{"chain":"x","ends":"healthy","steps":[{"at":"2000-01-01T00:00:00Z","set":{"journal.Sessions.0":{"ID":1,"Renamed":1}},"step":{}}]}`,
		"of the policy":      `{"chain":"x","ends":"healthy","steps":[{"at":"2000-01-01T00:00:00Z","set":{"cycle.Policy":{"renamed":1}},"step":{}}]}`,
		"of the decision":    `{"chain":"x","ends":"healthy","steps":[{"at":"2000-01-01T00:00:00Z","step":{"Renamed":1}}]}`,
		"of the file itself": `{"chain":"x","ends":"healthy","renamed":1,"steps":[]}`,
	} {
		if _, _, err := decodeRecording([]byte(raw)); err == nil || !strings.Contains(strings.ToLower(err.Error()), "renamed") {
			t.Errorf("%s: error is %v", name, err)
		}
	}
}
