package ops_test

import (
	"slices"
	"testing"
	"time"

	"claudeops/internal/ops"
)

func TestTheClassOfAFailureIsNotItsWords(t *testing.T) {
	for _, tt := range []struct {
		kind    ops.CheckType
		purpose ops.ProbePurpose
		status  ops.Health
		text    string
		class   string
	}{
		{ops.CheckHTTP, ops.ProbeObserve, ops.Down, "HTTP 502 Bad Gateway", "5xx"},
		{ops.CheckHTTP, ops.ProbeObserve, ops.Down, "HTTP 404 Not Found", "4xx"},
		{ops.CheckHTTP, ops.ProbeObserve, ops.Down, `HTTP 200, but the body does not contain "ok"`, "2xx"},
		{ops.CheckHTTP, ops.ProbeObserve, ops.Down, "connection refused", "refused"},
		{ops.CheckDatabase, ops.ProbeObserve, ops.Down, "connection refused", "refused"},
		{ops.CheckHTTP, ops.ProbeObserve, ops.Down, "no answer within 5s", "timeout"},
		{ops.CheckService, ops.ProbeObserve, ops.Down, "no answer in time", "timeout"},
		{ops.CheckService, ops.ProbeObserve, ops.Down, "exit status 1: HTTP 502", "exit"},
		{ops.CheckService, ops.ProbeObserve, ops.Down, "HTTP 502 says the program", "down"},
		{ops.CheckContainer, ops.ProbeObserve, ops.Down, "the container does not run: exited, exit code 137", "exit"},
		{ops.CheckContainer, ops.ProbeObserve, ops.Down, "the container is unhealthy", "down"},
		{ops.CheckHTTP, ops.ProbeObserve, ops.Degraded, "slow: 2s, more than 1s", "degraded"},
		{ops.CheckHTTP, ops.ProbeObserve, ops.Down, "HTTP", "down"},
		{ops.CheckHTTP, ops.ProbeAlert, ops.Down, "HTTP 502 Bad Gateway", "down"},
	} {
		if got := (ops.Check{Type: tt.kind, Purpose: tt.purpose, Status: tt.status, Error: tt.text}).Class(); got != tt.class {
			t.Errorf("%s %q is %s, want %s", tt.purpose, tt.text, got, tt.class)
		}
	}
}

func TestANoKnowsWhatWasWrong(t *testing.T) {
	at := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	web, db := ops.Fact{Service: "web", Class: "5xx"}, ops.Fact{Service: "db", Class: "down"}
	no := ops.Approval{Status: ops.ApprovalDenied, DeniedUntil: &at, Facts: ops.SortedFacts([]ops.Fact{web, db, web})}
	if !slices.Equal(no.Facts, []ops.Fact{db, web}) {
		t.Errorf("facts are %v", no.Facts)
	}
	if !no.Knew([]ops.Fact{web}) || no.Knew(nil) || no.Knew([]ops.Fact{web, {Service: "web", Class: "4xx"}}) {
		t.Error("it does not know what it knew")
	}
	if no.Refuses(at) || !no.Refuses(at.Add(-time.Second)) || (ops.Approval{Status: ops.ApprovalDenied}).Refuses(at) {
		t.Error("it does not last for its time")
	}
}

func TestAPlanSaysWhatBecameOfItsSteps(t *testing.T) {
	run := func(step int, status ops.ActionStatus) ops.ActionRun {
		return ops.ActionRun{ID: int64(10 + step), ApprovalID: 1, Step: step, Status: status, Error: "because", UndoneBy: 20}
	}
	runs := []ops.ActionRun{
		run(1, ops.ActionDone), run(2, ops.ActionStarted), run(3, ops.ActionFailed), run(4, ops.ActionRefused), run(5, ops.ActionUndone), run(6, ops.ActionInterrupted),
		{ApprovalID: 1, Step: 7, UndoOf: 9, Status: ops.ActionDone},
		{ApprovalID: 2, Step: 8, Status: ops.ActionDone},
	}
	a := ops.Approval{ID: 1, Status: ops.ApprovalApproved, Plan: make([]ops.ApprovedStep, 8), Steps: []int{1, 2, 3, 4, 5, 6, 7}}
	states := func(all []ops.PlanProgress) (out []ops.PlanState) {
		for _, p := range all {
			out = append(out, p.State)
		}
		return out
	}
	ran := []ops.PlanState{ops.PlanDone, ops.PlanRunning, ops.PlanFailed, ops.PlanRefused, ops.PlanFailed, ops.PlanFailed}
	if got := states(a.Progress(runs)); !slices.Equal(got, append(slices.Clone(ran), ops.PlanApproved, ops.PlanNotApproved)) {
		t.Errorf("got %v", got)
	}
	a.Skipped = "not needed"
	got := a.Progress(runs)
	if !slices.Equal(states(got), append(slices.Clone(ran), ops.PlanSkipped, ops.PlanNotApproved)) || got[6].Why != "not needed" || got[4].Why != "it was undone (action 20)" || got[2].Run != 13 {
		t.Errorf("got %+v", got)
	}
	a.Status = ops.ApprovalPending
	if got := a.Progress(nil)[0].State; got != ops.PlanPending {
		t.Errorf("got %s", got)
	}
}
