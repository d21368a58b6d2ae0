package storetest

import (
	"testing"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/store"
)

func awaitCases() []testCase {
	return []testCase{
		{"a waiting cycle gives its slot away", waitingFreesTheSlot},
		{"a waiting cycle wakes at its time", waitingWakesAtItsTime},
		{"an answer wakes the cycle, also after a restart", answerWakesAfterRestart},
		{"a question whose time is over has expired when its cycle wakes", overdueQuestionHasExpired},
		{"a resolved incident wakes the cycle, also after a restart", resolveWakesAfterRestart},
		{"a cycle wakes when the last of its incidents is resolved", lastIncidentWakes},
		{"all cycles that wait on an incident wake", allWaitingWake},
		{"a cycle that waits anew waits for what it reports now", newWaitReplacesTheOld},
		{"an answer that comes while the cycle runs is not slept over", answerIsNotSleptOver},
		{"after a wait the stricter policy holds", stricterPolicyHolds},
		{"a worker that went to wait writes nothing more", waitingIsFenced},
		{"a waiting cycle can be cancelled", waitingCanBeCancelled},
	}
}

// question asks whether Tier 2 may start.
func question() *ops.Approval {
	return &ops.Approval{Kind: ops.ApprovalTier, Tier: ops.Tier2, Handler: "tier2", Reason: "Tier 2 needs a yes"}
}

// await lets a new cycle ask a human and wait.
func (f *Fixture) await(t *testing.T, environment string, step ops.Step) ops.Claimed {
	t.Helper()
	step.Kind, step.Reason = ops.StepAwait, "a human is asked"
	return f.Commit(t, ops.Transition{Cycle: f.Claim(t, environment).Cycle.ID, At: f.At, Step: step})
}

// runnable returns the cycles that can be claimed at a time: queued ones, and waiting ones whose time has come or that were asked
// to cancel.
func (f *Fixture) runnable(t *testing.T, at time.Time) []ops.CycleID {
	t.Helper()
	open, err := f.Store.Journal.Unfinished(t.Context())
	must(t, err)
	out := []ops.CycleID{}
	for _, c := range open {
		due := c.CancelRequestedAt != nil || (c.WakeAt != nil && !c.WakeAt.After(at))
		if due && c.Status == ops.CycleWaitingHuman || c.Status == ops.CycleQueued && (due || c.WakeAt == nil) {
			out = append(out, c.ID)
		}
	}
	return out
}

// wantRunnable checks that exactly these cycles can be claimed at a time.
func (f *Fixture) wantRunnable(t *testing.T, at time.Time, want ...ops.CycleID) {
	t.Helper()
	equal(t, "runnable", f.runnable(t, at), append([]ops.CycleID{}, want...))
	waiting, err := f.Store.Journal.Unfinished(t.Context())
	must(t, err)
	for _, c := range waiting {
		if c.Status != ops.CycleWaitingHuman || len(want) > 0 {
			continue
		}
		_, err := f.Store.Journal.Claim(t.Context(), f.Owner, c.ID, Policy(), at)
		wantErr(t, err, ops.ErrConflict)
	}
}

func (f *Fixture) claimAt(t *testing.T, id ops.CycleID, at time.Time) ops.Claimed {
	t.Helper()
	got, err := f.Store.Journal.Claim(t.Context(), f.Owner, id, Policy(), at)
	must(t, err)
	return got
}

func waitingFreesTheSlot(t *testing.T, f *Fixture) {
	got := f.await(t, "home", ops.Step{Approval: question()})
	equal(t, "status", got.Cycle.Status, ops.CycleWaitingHuman)
	equal(t, "reason", got.Cycle.Reason, "a human is asked")
	equal(t, "owner", got.Cycle.Owner, ops.Owner{})
	if got.Cycle.EndedAt != nil || got.Cycle.WakeAt != nil {
		t.Errorf("cycle is %+v", got.Cycle)
	}
	f.wantRunnable(t, Start.Add(1000*time.Hour))
	f.Claim(t, "home")
	_, err := f.Store.People.Answer(t.Context(), got.Journal.Approvals[0].ID, ops.ApprovalApproved, "alice", "", Start)
	must(t, err)
	_, err = f.Store.Journal.Claim(t.Context(), f.Owner, got.Cycle.ID, Policy(), Start)
	wantErr(t, err, ops.ErrSlotBusy)
}

func waitingWakesAtItsTime(t *testing.T, f *Fixture) {
	until := Start.Add(time.Hour)
	got := f.await(t, "home", ops.Step{Approval: question(), Until: until})
	equal(t, "wake time", got.Cycle.WakeAt, &until)
	f.wantRunnable(t, until.Add(-time.Microsecond))
	f.wantRunnable(t, until, got.Cycle.ID)
	again := f.claimAt(t, got.Cycle.ID, until)
	equal(t, "status", again.Cycle.Status, ops.CycleRunning)
	if again.Cycle.WakeAt != nil {
		t.Error("a running cycle has a wake time")
	}
	// It looks, and waits on with the same question.
	again = f.Commit(t, ops.Transition{Cycle: got.Cycle.ID, At: until, Step: ops.Step{Kind: ops.StepAwait, Approval: question()}})
	equal(t, "approvals", again.Journal.Approvals, got.Journal.Approvals)
	f.wantRunnable(t, until.Add(time.Hour))
}

func answerWakesAfterRestart(t *testing.T, f *Fixture) {
	got := f.await(t, "home", ops.Step{Approval: question()})
	restarted := NewFixture(t, f.Store)
	restarted.wantRunnable(t, Start)
	answer, err := f.Store.People.Answer(t.Context(), got.Journal.Approvals[0].ID, ops.ApprovalDenied, "alice", "not at night",
		Start.Add(time.Minute))
	must(t, err)
	restarted.wantRunnable(t, Start.Add(time.Minute), got.Cycle.ID)
	again := restarted.claimAt(t, got.Cycle.ID, Start.Add(time.Minute))
	equal(t, "approvals", again.Journal.Approvals, []ops.Approval{answer})
	equal(t, "wake number", again.Cycle.WakeSeq, got.Cycle.WakeSeq+1)
	equal(t, "start", again.Cycle.StartedAt, got.Cycle.StartedAt)
}

func overdueQuestionHasExpired(t *testing.T, f *Fixture) {
	q, over := question(), Start.Add(time.Hour)
	q.ExpiresAt = &over
	asked := f.await(t, "home", ops.Step{Approval: q, Until: over})
	_, err := f.Store.People.Answer(t.Context(), asked.Journal.Approvals[0].ID, ops.ApprovalApproved, "alice", "", over) // it waits for its slot
	wantErr(t, err, ops.ErrConflict)
	got := f.claimAt(t, asked.Cycle.ID, over).Journal.Approvals[0]
	equal(t, "status", got.Status, ops.ApprovalExpired)
	equal(t, "when", got.AnsweredAt, &over)
	events, err := f.Store.Journal.Events(t.Context(), store.EventFilter{CycleID: &asked.Cycle.ID})
	must(t, err)
	equal(t, "events", ids(events, func(e ops.Event) string { return string(e.Kind()) }), []string{"approval"})
	_, err = f.Store.People.Answer(t.Context(), got.ID, ops.ApprovalApproved, "alice", "", over)
	wantErr(t, err, ops.ErrConflict)
	f.EndCycle(t, asked.Cycle.ID)

	// What has time left is still a question.
	q.ExpiresAt = ops.Ptr(over.Add(time.Second))
	asked = f.await(t, "home", ops.Step{Approval: q, Until: over})
	equal(t, "status", f.claimAt(t, asked.Cycle.ID, over).Journal.Approvals[0].Status, ops.ApprovalPending)
}

func resolveWakesAfterRestart(t *testing.T, f *Fixture) {
	r := report("web")
	r.Waits = true
	got := f.await(t, "home", ops.Step{Incident: &r})
	equal(t, "waiting", got.Journal.Incidents[0].Waiting, &got.Cycle.ID)
	restarted := NewFixture(t, f.Store)
	id := got.Journal.Incidents[0].ID
	_, err := f.Store.People.Acknowledge(t.Context(), id, "alice", "", Start)
	must(t, err)
	restarted.wantRunnable(t, Start.Add(time.Hour))
	_, err = f.Store.People.ResolveIncident(t.Context(), id, "alice", "new disk", Start.Add(time.Hour))
	must(t, err)
	restarted.wantRunnable(t, Start.Add(time.Hour), got.Cycle.ID)
	again := restarted.claimAt(t, got.Cycle.ID, Start.Add(time.Hour))
	// It sees who ended its wait, and how.
	if len(again.Journal.Incidents) != 1 || again.Journal.Incidents[0].Resolution != "new disk" {
		t.Errorf("incidents are %+v", again.Journal.Incidents)
	}
	equal(t, "wake number", again.Cycle.WakeSeq, got.Cycle.WakeSeq+2)
}

func lastIncidentWakes(t *testing.T, f *Fixture) {
	r := report("db", "web")
	r.Waits = true
	got := f.await(t, "home", ops.Step{Incident: &r})
	_, err := f.Store.People.ResolveIncident(t.Context(), got.Journal.Incidents[0].ID, "alice", "", Start)
	must(t, err)
	f.wantRunnable(t, Start.Add(time.Hour))
	// The other one is found well by another cycle.
	other := f.Claim(t, "home").Cycle.ID
	f.Commit(t, ops.Transition{Cycle: other, At: Start.Add(time.Hour), Step: ops.Step{
		Kind: ops.StepFinish, Status: ops.CycleHealthy, Recovered: []ops.Recovered{{Incident: got.Journal.Incidents[1].ID, By: ops.ProofProbe, How: "the probe is green"}},
	}})
	f.wantRunnable(t, Start.Add(time.Hour), got.Cycle.ID)
}

func allWaitingWake(t *testing.T, f *Fixture) {
	r := report("web")
	r.Waits = true
	first := f.await(t, "home", ops.Step{Incident: &r})
	second := f.await(t, "home", ops.Step{Incident: &r})
	id := first.Journal.Incidents[0].ID
	equal(t, "incidents", len(second.Journal.Incidents), 1)
	// Each sees that it waits itself.
	equal(t, "first", f.load(t, first.Cycle.ID).Journal.Incidents[0].Waiting, &first.Cycle.ID)
	equal(t, "second", f.load(t, second.Cycle.ID).Journal.Incidents[0].Waiting, &second.Cycle.ID)
	got, err := f.Store.People.ResolveIncident(t.Context(), id, "alice", "", Start)
	must(t, err)
	equal(t, "listed", got.Waiting, &second.Cycle.ID)
	f.wantRunnable(t, Start, first.Cycle.ID, second.Cycle.ID)
	for _, c := range []ops.CycleID{first.Cycle.ID, second.Cycle.ID} {
		f.claimAt(t, c, Start)
		f.EndCycle(t, c)
	}
	got, err = f.Store.People.Incident(t.Context(), id)
	must(t, err)
	if got.Waiting != nil {
		t.Errorf("cycle %d waits after its end", *got.Waiting)
	}
}

func newWaitReplacesTheOld(t *testing.T, f *Fixture) {
	r := report("db", "web")
	r.Waits = true
	got := f.await(t, "home", ops.Step{Incident: &r, Until: Start})
	f.claimAt(t, got.Cycle.ID, Start)
	again := report("web")
	again.Waits = true
	got = f.Commit(t, ops.Transition{Cycle: got.Cycle.ID, At: Start, Step: ops.Step{Kind: ops.StepAwait, Incident: &again}})
	if i := got.Journal.Incidents; len(i) != 2 || i[0].Waiting != nil || i[1].Waiting == nil {
		t.Fatalf("incidents are %+v", i)
	}
	_, err := f.Store.People.ResolveIncident(t.Context(), got.Journal.Incidents[1].ID, "alice", "", Start)
	must(t, err)
	f.wantRunnable(t, Start, got.Cycle.ID)
}

func answerIsNotSleptOver(t *testing.T, f *Fixture) {
	got := f.await(t, "home", ops.Step{Approval: question(), Until: Start})
	f.claimAt(t, got.Cycle.ID, Start)
	// The worker decides to wait on, and has not seen this.
	_, err := f.Store.People.Answer(t.Context(), got.Journal.Approvals[0].ID, ops.ApprovalApproved, "alice", "", Start)
	must(t, err)
	again := f.Commit(t, ops.Transition{Cycle: got.Cycle.ID, At: Start.Add(time.Second), Step: ops.Step{Kind: ops.StepAwait}})
	equal(t, "wake time", again.Cycle.WakeAt, ops.Ptr(Start.Add(time.Second)))
	f.claimAt(t, got.Cycle.ID, Start.Add(time.Second))
	// Now it has.
	f.Commit(t, ops.Transition{Cycle: got.Cycle.ID, At: Start.Add(time.Second), Step: ops.Step{Kind: ops.StepAwait}})
	f.wantRunnable(t, Start.Add(time.Hour))
}

func stricterPolicyHolds(t *testing.T, f *Fixture) {
	got := f.await(t, "home", ops.Step{Until: Start})
	now := Policy()
	now.MaxTier, now.BudgetDayUSD, now.ApprovalTier, now.Entry = ops.Tier2, 3, ops.Tier2, "other"
	claimed, err := f.Store.Journal.Claim(t.Context(), f.Owner, got.Cycle.ID, now, Start)
	must(t, err)
	want := Policy().Stricter(now)
	equal(t, "policy", claimed.Cycle.Policy, want)
	equal(t, "entry", claimed.Cycle.Policy.Entry, "tier1")
	// It is not loosened again.
	must(t, f.Store.Journal.Release(t.Context(), f.Owner, got.Cycle.ID))
	equal(t, "later", f.claimAt(t, got.Cycle.ID, Start).Cycle.Policy, want)
	f.Commit(t, ops.Transition{Cycle: got.Cycle.ID, At: Start, Step: ops.Step{Kind: ops.StepAwait, Until: Start}})
	equal(t, "after another wait", f.claimAt(t, got.Cycle.ID, Start).Cycle.Policy, want)
}

func waitingIsFenced(t *testing.T, f *Fixture) {
	session := f.RunningSession(t, "home")
	f.Commit(t, ops.Transition{Cycle: session.CycleID, At: Start, Step: ops.Step{Kind: ops.StepAwait, Approval: question()}})
	f.refusesEveryWrite(t, f.Owner, session)
}

func waitingCanBeCancelled(t *testing.T, f *Fixture) {
	got := f.await(t, "home", ops.Step{Approval: question()})
	_, err := f.Store.Journal.RequestCancel(t.Context(), got.Cycle.ID, "never mind", Start)
	must(t, err)
	f.wantRunnable(t, Start, got.Cycle.ID)
	f.claimAt(t, got.Cycle.ID, Start)
	f.EndCycle(t, got.Cycle.ID)
}
