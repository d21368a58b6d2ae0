package decide_test

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"claudeops/internal/decide"
	"claudeops/internal/ops"
	"claudeops/test/cycletest"
)

var noon = time.Date(2026, 3, 14, 12, 0, 0, 0, time.UTC)

func frame(t *testing.T, record *decide.Record, taken decide.Taken) (decide.Frame, []byte) {
	t.Helper()
	raw, err := record.Frame(taken)
	if err != nil {
		t.Fatal(err)
	}
	var f decide.Frame
	if err := json.Unmarshal(raw, &f); err != nil {
		t.Fatal(err)
	}
	return f, raw
}

func paths(f decide.Frame) []string { return slices.Sorted(maps.Keys(f.Set)) }

// Every decision of the recorded chains is read as it was written, in the form of the recordings and in that of the database.
func TestFramesAreReadAsTheyWereWritten(t *testing.T) {
	files, err := filepath.Glob("testdata/replay/*.json")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		recorded, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		r, all, err := cycletest.DecodeRecording(recorded)
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if string(cycletest.EncodeRecording(t, r.Chain, r.Ends, all)) != string(recorded) {
			t.Errorf("%s is written otherwise", file)
		}
		var record decide.Record
		var frames []json.RawMessage
		for i := range all {
			all[i] = all[i].Lean()
			_, raw := frame(t, &record, all[i])
			frames = append(frames, raw)
		}
		got, err := cycletest.DecodeFrames(frames)
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		for i := range all {
			if !reflect.DeepEqual(got[i], all[i]) {
				t.Errorf("%s: step %d is\n%+v\nand was\n%+v", file, i+1, got[i], all[i])
			}
		}
	}
}

// What has not changed is not said again, above all the policy and what a session said.
func TestAFrameSaysWhatHasChanged(t *testing.T) {
	var record decide.Record
	taken := decide.Taken{
		At:    noon,
		Cycle: ops.Cycle{ID: 7, Status: ops.CycleRunning, Policy: cycletest.Policy()},
		Journal: ops.Journal{
			Sessions: []ops.Session{{ID: 1, Status: ops.SessionCompleted, OutcomeJSON: json.RawMessage(`{"outcome":"healthy"}`), Error: "none"}},
			Windows:  map[string]int64{"model-1.5": 1},
		},
		Step: ops.Step{Kind: ops.StepFinish, Row: "healthy"},
	}
	first, _ := frame(t, &record, taken)
	if want := []string{"cycle.ID", "cycle.Policy", "cycle.Status", "journal.Sessions.0", "journal.Windows"}; !slices.Equal(paths(first), want) {
		t.Errorf("the first frame sets %q, want %q", paths(first), want)
	}
	s := taken.Journal.Sessions[0]
	s.EndedAt, s.Error = &noon, ""
	taken.Journal.Sessions = []ops.Session{s, {ID: 2}}
	taken.Journal.Windows = map[string]int64{"model-1.5": 2}
	second, _ := frame(t, &record, taken)
	if want := []string{"journal.Sessions.0", "journal.Sessions.1", "journal.Windows"}; !slices.Equal(paths(second), want) {
		t.Errorf("the second frame sets %q, want %q", paths(second), want)
	}
	taken.Journal.Sessions = taken.Journal.Sessions[:1]
	if shorter, _ := frame(t, &record, taken); !slices.Equal(shorter.Gone, []string{"journal.Sessions.1"}) {
		t.Errorf("%q are gone", shorter.Gone)
	}
	frame(t, &record, taken)
	if third, _ := frame(t, &record, taken); len(third.Set)+len(third.Gone) > 0 {
		t.Errorf("nothing has changed, and the frame says %+v", third)
	}
	if anew, _ := frame(t, &decide.Record{}, taken); anew.Set["cycle.Policy"] == nil {
		t.Error("another record does not begin anew")
	}
}

func TestWhatNothingIsDecidedFromIsLeftOut(t *testing.T) {
	inputs := json.RawMessage(`{"policy":{}}`)
	taken := decide.Taken{
		Journal: ops.Journal{Decisions: []ops.Decision{{ID: 1, Inputs: inputs}}},
		Step:    ops.Step{Decision: &ops.Decision{Reason: "why", Inputs: inputs}},
	}
	_, raw := frame(t, &decide.Record{}, taken.Lean())
	if strings.Contains(string(raw), "policy") || !strings.Contains(string(raw), "why") {
		t.Errorf("the frame is %s", raw)
	}
	if taken.Journal.Decisions[0].Inputs == nil || taken.Step.Decision.Inputs == nil {
		t.Error("it was taken from the original")
	}
}

// A frame that cannot be written changes nothing for the next one.
func TestAFilmGoesOnAfterWhatCannotBeWritten(t *testing.T) {
	var record decide.Record
	taken := decide.Taken{At: noon, Cycle: ops.Cycle{ID: 7, Status: ops.CycleRunning}}
	_, first := frame(t, &record, taken)
	broken := taken
	broken.Cycle.Reason, broken.Cycle.Result = "a reason", json.RawMessage(`{`)
	if _, err := record.Frame(broken); err == nil || !strings.Contains(err.Error(), "cycle.Result") {
		t.Errorf("error is %v", err)
	}
	taken.Cycle.Status = ops.CycleHealthy
	_, second := frame(t, &record, taken)
	got, err := cycletest.DecodeFrames([]json.RawMessage{first, second})
	if err != nil || got[1].Cycle.Status != ops.CycleHealthy || got[1].Cycle.Reason != "" {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestAFrameWithoutItsBeginningIsRefused(t *testing.T) {
	var record decide.Record
	taken := decide.Taken{At: noon, Cycle: ops.Cycle{ID: 7, Status: ops.CycleRunning}}
	frame(t, &record, taken)
	taken.Cycle.Status = ops.CycleHealthy
	_, second := frame(t, &record, taken)
	if _, err := cycletest.DecodeFrames([]json.RawMessage{second}); err == nil {
		t.Error("it was read")
	}
}
