package storetest

import (
	"testing"
	"time"

	"claudeops/internal/notice/answer"
	"claudeops/internal/ops"
	"claudeops/internal/store"
)

func denialCases() []testCase {
	return []testCase{
		{"a no lasts for its time, in its environment", noLasts},
		{"a no can be given another time, and taken back", noIsChanged},
		{"a no needs something that can be compared", noNeedsFacts},
		{"a no on a phone lasts as usual", noOnAPhone},
		{"whoever said no is left alone until it is over", noIsLeftAlone},
	}
}

func facts() []ops.Fact {
	return []ops.Fact{{Service: "web", Probe: "GET /", Type: ops.CheckHTTP, Class: "5xx"}}
}

// refusable lets a cycle under a policy that reminds every hour ask about web.
func (f *Fixture) refusable(t *testing.T) ops.Approval {
	t.Helper()
	policy := Policy()
	policy.Approval.Remind, policy.Approval.Reminds = time.Hour, 3
	c, err := f.Store.Claim(t.Context(), f.Owner, f.Submit(t, "home"), policy, f.At)
	must(t, err)
	asked, waits := question(), report("web")
	asked.Facts, waits.Waits = facts(), true
	step := ops.Step{Kind: ops.StepAwait, Reason: "a human is asked", Approval: asked, Incident: &waits}
	return f.Commit(t, ops.Transition{Cycle: c.Cycle.ID, At: f.At, Step: step}).Journal.Approvals[0]
}

// denials are what a cycle of an environment is told about.
func (f *Fixture) denials(t *testing.T, environment string, at time.Time) []ops.Approval {
	t.Helper()
	c, err := f.Store.Claim(t.Context(), f.Owner, f.Submit(t, environment), Policy(), at)
	must(t, err)
	f.EndCycle(t, c.Cycle.ID)
	listed, err := f.Store.Denials(t.Context(), environment, at)
	must(t, err)
	equal(t, "listed", listed, c.Journal.Denials)
	return c.Journal.Denials
}

func noLasts(t *testing.T, f *Fixture) {
	asked := f.refusable(t)
	equal(t, "facts", asked.Facts, facts())
	got, err := f.Store.Deny(t.Context(), asked.ID, ops.Ptr(2*time.Hour), "alice", "no", Start)
	must(t, err)
	equal(t, "until", got.DeniedUntil, ops.Ptr(Start.Add(2*time.Hour)))
	equal(t, "status", got.Status, ops.ApprovalDenied)
	equal(t, "before its end", f.denials(t, "home", Start.Add(2*time.Hour-time.Microsecond)), []ops.Approval{got})
	equal(t, "at its end", f.denials(t, "home", Start.Add(2*time.Hour)), nil)
	equal(t, "elsewhere", f.denials(t, "office", Start), nil)
	f.wantRunnable(t, Start, asked.CycleID)
}

func noIsChanged(t *testing.T, f *Fixture) {
	asked := f.refusable(t)
	got, err := f.Store.Deny(t.Context(), asked.ID, nil, "alice", "no", Start)
	must(t, err)
	equal(t, "usual", got.DeniedUntil, ops.Ptr(Start.Add(24*time.Hour)))
	_, err = f.Store.Deny(t.Context(), asked.ID, nil, "bob", "no", Start)
	wantErr(t, err, ops.ErrConflict)
	_, err = f.Store.Answer(t.Context(), asked.ID, ops.ApprovalApproved, "bob", "yes", Start)
	wantErr(t, err, ops.ErrConflict)
	at := Start.Add(time.Hour)
	got, err = f.Store.Deny(t.Context(), asked.ID, ops.Ptr(time.Hour), "bob", "shorter", at)
	must(t, err)
	equal(t, "changed", got.DeniedUntil, ops.Ptr(Start.Add(2*time.Hour)))
	equal(t, "who answered", got.AnsweredBy, "alice")
	got, err = f.Store.Deny(t.Context(), asked.ID, ops.Ptr(time.Duration(0)), "bob", "ask me again", at)
	must(t, err)
	equal(t, "taken back", got.DeniedUntil, nil)
	equal(t, "denials", f.denials(t, "home", at), nil)
	events, err := f.Store.Events(t.Context(), store.EventFilter{CycleID: &asked.CycleID})
	must(t, err)
	wantParts(t, events[0].Message, "bob changed the answer", "Only this question is answered", "ask me again")

	asked = f.refusable(t)
	_, err = f.Store.Answer(t.Context(), asked.ID, ops.ApprovalApproved, "alice", "", Start)
	must(t, err)
	_, err = f.Store.Deny(t.Context(), asked.ID, ops.Ptr(time.Hour), "bob", "", Start)
	wantErr(t, err, ops.ErrConflict)
}

func noNeedsFacts(t *testing.T, f *Fixture) {
	asked := f.await(t, "home", ops.Step{Approval: question()}).Journal.Approvals[0]
	got, err := f.Store.Deny(t.Context(), asked.ID, ops.Ptr(time.Hour), "alice", "", Start)
	must(t, err)
	equal(t, "without facts", got.DeniedUntil, nil)
	asked = f.refusable(t)
	got, err = f.Store.Deny(t.Context(), asked.ID, ops.Ptr(time.Duration(0)), "alice", "", Start)
	must(t, err)
	equal(t, "this question only", got.DeniedUntil, nil)
	equal(t, "denials", f.denials(t, "home", Start), nil)
}

func noOnAPhone(t *testing.T, f *Fixture) {
	asked := f.refusable(t)
	got := f.reply(t, aReply(1, answer.Token{Kind: answer.KindApproval, Approval: asked.ID, Decision: answer.Deny}))
	wantParts(t, got.Text, "Denied (approval", "No agent works on web (http 5xx) until 2026-03-15T12:0", "or until the facts change. Probes keep looking.")
	if len(f.denials(t, "home", Start.Add(23*time.Hour))) != 1 {
		t.Error("it does not last")
	}
}

func noIsLeftAlone(t *testing.T, f *Fixture) {
	asked := f.refusable(t)
	_, err := f.Store.Deny(t.Context(), asked.ID, ops.Ptr(2*time.Hour), "alice", "no", Start)
	must(t, err)
	f.claimAt(t, asked.CycleID, Start)
	f.EndCycle(t, asked.CycleID)
	i := f.incidents(t)[0]
	equal(t, "status", i.Status, ops.IncidentOpen)
	equal(t, "denied until", i.DeniedUntil, ops.Ptr(Start.Add(2*time.Hour)))
	equal(t, "need you", f.needYou(t), 0)
	equal(t, "unanswered", ops.NoticeSubject{Incidents: []ops.Incident{i}}.Unanswered(), false)
	equal(t, "attention after its end", f.attention(t, Start.Add(2*time.Hour)), store.Attention{Open: 1})
	equal(t, "reminded of it", f.due(t, Start.Add(3*time.Hour-time.Second)), []int64{})
	equal(t, "reminded after its end", f.due(t, Start.Add(3*time.Hour)), []int64{i.ID})
	// Another cycle that calls people about it is another matter.
	f.incident(t, "home", "web")
	i = f.incidents(t)[0]
	equal(t, "of another cycle", i.DeniedUntil, nil)
	equal(t, "need you", f.needYou(t), 1)
}
