package agent_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"claudeops/internal/agent"
	"claudeops/internal/agent/claude"
	"claudeops/internal/guard/redact"
	"claudeops/internal/ops"
	"claudeops/test/agenttest"
)

func TestAWatcherIsToldInOrderAndAsTheTranscriptTellsItLater(t *testing.T) {
	const secret = "hunter2-hunter2"
	bin := agenttest.Fake(t, agenttest.Scenario{Plays: []agenttest.Play{{Steps: say(
		agenttest.Init(), agenttest.Text("I look"), agenttest.Use("a", "login "+secret), agenttest.Answer("a", "welcome "+secret),
		agenttest.Use("b", "ls"), agenttest.Refused("b", "no"), agenttest.Result(0.1, "done"),
	)}}})
	spec, rec := testSpec(t), &agenttest.Recorder{}
	var got []ops.Activity
	spec.Watch = func(a ops.Activity) *ops.Halt {
		got = append(got, a)
		return nil
	}
	c := agent.NewRunner(claude.New(claude.Options{Bin: bin, Env: testEnv()}), agent.Options{Redactor: redact.New([]string{secret})})
	if res := c.Run(t.Context(), spec, rec); !res.Success() {
		t.Fatalf("got %+v", res)
	}
	var kinds []string
	for _, a := range got {
		kinds = append(kinds, string(a.Kind)+" "+a.UseID+a.Tool)
		if a.At.IsZero() {
			t.Errorf("no time: %+v", a)
		}
	}
	if want := []string{"usage ", "usage ", "call aBash", "result aBash", "usage ", "call bBash", "result bBash"}; !slices.Equal(kinds, want) {
		t.Errorf("got %q\nwant %q", kinds, want)
	}
	var later []ops.Activity
	for _, l := range rec.All {
		later = append(later, c.Activities(l.Text)...)
	}
	for i := range got {
		got[i].At = time.Time{}
		if got[i].Kind == ops.ActivityResult {
			got[i].Tool = ""
		}
	}
	if !reflect.DeepEqual(got, later) || strings.Contains(fmt.Sprint(got), secret) {
		t.Errorf("told    %+v\nrebuilt %+v", got, later)
	}
}

// haltOn stops at the first activity of a kind.
func haltOn(kind ops.ActivityKind, halt ops.Halt) func(ops.Activity) *ops.Halt {
	return func(a ops.Activity) *ops.Halt {
		if a.Kind != kind {
			return nil
		}
		return &halt
	}
}

func TestAHaltEndsTheSessionWithItsCause(t *testing.T) {
	for cause, class := range map[ops.StopCause]ops.FailureClass{ops.StopLoop: "loop", ops.StopBudget: "budget", ops.StopDeadline: "deadline"} {
		t.Run(string(cause), func(t *testing.T) {
			t.Parallel()
			spec := testSpec(t)
			spec.Watch = haltOn(ops.ActivityCall, ops.Halt{Cause: cause, Why: "that is enough"})
			res := runFake(t.Context(), t, agenttest.Scenario{Plays: []agenttest.Play{{OnInterrupt: "result", Steps: append(
				say(agenttest.Init(), agenttest.Use("a", "sleep 60")), agenttest.Step{Hang: true},
			)}}}, spec, &agenttest.Recorder{})
			wantStop(t, res, cause, class)
			if res.StopWhy != "that is enough" || res.OpenTool != "Bash: sleep 60" {
				t.Errorf("got %q, open tool %q", res.StopWhy, res.OpenTool)
			}
		})
	}
}

func TestTheResultCarriesTheCallThatALoopRepeated(t *testing.T) {
	spec := testSpec(t)
	spec.Watch = haltOn(ops.ActivityCall, ops.Halt{Cause: ops.StopLoop, Why: "again and again", Call: "Bash: sleep 60"})
	steps := append(say(agenttest.Init(), agenttest.Use("a", "sleep 60")), agenttest.Step{Hang: true})
	res := runFake(t.Context(), t, play(steps...), spec, &agenttest.Recorder{})
	wantStop(t, res, ops.StopLoop, ops.FailureClass(ops.StopLoop))
	if res.StopCall != "Bash: sleep 60" {
		t.Errorf("got %q", res.StopCall)
	}
}

func TestAHaltAtABoundaryLetsOpenCallsEnd(t *testing.T) {
	spec, rec := testSpec(t), &agenttest.Recorder{}
	// The fake would die of an early interrupt while its calls are open.
	spec.Watch = haltOn(ops.ActivityCall, ops.Halt{Cause: ops.StopBudget, Why: "spent", Boundary: true})
	res := runFake(t.Context(), t, play(
		agenttest.Step{Out: agenttest.Use("a", "one")},
		agenttest.Step{Out: strings.Replace(agenttest.Use("b", "two"), "msg_b", "msg_a", 1), Sleep: 100 * time.Millisecond},
		agenttest.Step{Out: agenttest.Answer("a", "1"), Sleep: 100 * time.Millisecond},
		agenttest.Step{Out: agenttest.Answer("b", "2")},
		agenttest.Step{Hang: true},
	), spec, rec)
	wantStop(t, res, ops.StopBudget, "budget")
	if res.OpenTool != "" || !strings.Contains(rec.Text(), `"content":"2"`) {
		t.Errorf("open tool %q\n%s", res.OpenTool, rec.Text())
	}
}

func TestAHaltAtABoundaryStopsAtOnceWhenNoCallIsOpen(t *testing.T) {
	spec := testSpec(t)
	spec.Watch = haltOn(ops.ActivityUsage, ops.Halt{Cause: ops.StopDeadline, Why: "late", Boundary: true})
	res := runFake(t.Context(), t, play(append(say(agenttest.Init(), agenttest.Text("thinking")), agenttest.Step{Hang: true})...), spec, &agenttest.Recorder{})
	wantStop(t, res, ops.StopDeadline, "deadline")
}

func TestAnImmediateHaltDoesNotWaitForTheBoundaryOfAnother(t *testing.T) {
	spec := testSpec(t)
	spec.Watch = func(a ops.Activity) *ops.Halt {
		if a.Kind == ops.ActivityUsage {
			return &ops.Halt{Cause: ops.StopBudget, Why: "spent", Boundary: true}
		}
		return &ops.Halt{Cause: ops.StopLoop, Why: "again"}
	}
	res := runFake(t.Context(), t, play(append(say(agenttest.Use("a", "x")), agenttest.Step{Hang: true})...), spec, &agenttest.Recorder{})
	wantStop(t, res, ops.StopLoop, "loop")
}

func TestTheWallStillCutsACallThatABoundaryWaitsFor(t *testing.T) {
	spec := testSpec(t)
	spec.Limits.Wall = 300 * time.Millisecond
	spec.Watch = haltOn(ops.ActivityCall, ops.Halt{Cause: ops.StopBudget, Why: "spent", Boundary: true})
	res := runFake(t.Context(), t, play(append(say(agenttest.Use("a", "x")), agenttest.Step{Hang: true})...), spec, &agenttest.Recorder{})
	wantStop(t, res, ops.StopWall, "wall_limit")
	if res.OpenTool != "Bash: x" {
		t.Errorf("open tool %q", res.OpenTool)
	}
}

// TestASessionThatEndsByItselfIsNotStopped plays a session that gives its outcome although it was to stop at the next boundary.
func TestASessionThatEndsByItselfIsNotStopped(t *testing.T) {
	spec := testSpec(t)
	spec.Watch = haltOn(ops.ActivityUsage, ops.Halt{Cause: ops.StopBudget, Why: "spent", Boundary: true})
	use := strings.Replace(agenttest.Use("s", "x"), `"name":"Bash"`, `"name":"StructuredOutput"`, 1)
	res := runFake(t.Context(), t, play(say(use, agenttest.Answer("s", "ok"), agenttest.Structured(0.1, "done", `{"a":1}`))...), spec, &agenttest.Recorder{})
	if !res.Success() || string(res.Structured) != `{"a":1}` {
		t.Errorf("got %+v", res)
	}
}
