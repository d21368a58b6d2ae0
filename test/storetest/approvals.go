package storetest

import (
	"strings"
	"testing"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/store"
)

func approvalCases() []testCase {
	return []testCase{
		{"a question reads back", questionReadsBack},
		{"an answer is recorded with its event", answerIsRecorded},
		{"of fifty answers at once exactly one counts", oneAnswerCounts},
		{"only an answer answers", onlyAnswersAnswer},
		{"after a yes the incident needs nobody until its cycle ends", afterAYes},
		{"a cycle asks one question at a time", oneQuestionAtATime},
		{"the end of a cycle ends its question", endEndsTheQuestion},
		{"questions are listed in pages", questionsAreListed},
		{"questions whose time is over are found", expiringQuestionsAreFound},
	}
}

func questionReadsBack(t *testing.T, f *Fixture) {
	session := f.RunningSession(t, "home")
	tr := f.Escalation(session, 1)
	tr.Step.Kind, tr.Step.Session = ops.StepAwait, nil
	tr.Step.Approval = &ops.Approval{
		SessionID: session.ID, Kind: ops.ApprovalReview, Tier: ops.Tier2, Handler: "tier2", Status: ops.ApprovalApproved,
		Reason: "60 of 100", ExpiresAt: ops.Ptr(Start.Add(time.Hour)),
	}
	got := f.Commit(t, tr).Journal.Approvals
	want := *tr.Step.Approval
	want.ID, want.CycleID, want.Environment, want.Status, want.RequestedAt = got[0].ID, session.CycleID, "home", ops.ApprovalPending, tr.At
	equal(t, "approvals", got, []ops.Approval{want})
	one, err := f.Store.People.Approval(t.Context(), want.ID)
	must(t, err)
	equal(t, "approval", one, want)
	_, err = f.Store.People.Approval(t.Context(), 999)
	wantErr(t, err, ops.ErrNotFound)
}

func answerIsRecorded(t *testing.T, f *Fixture) {
	asked := f.await(t, "home", ops.Step{Approval: question()})
	at := Start.Add(time.Minute)
	got, err := f.Store.People.Answer(t.Context(), asked.Journal.Approvals[0].ID, ops.ApprovalApproved, "alice", "go on", at)
	must(t, err)
	want := asked.Journal.Approvals[0]
	want.Status, want.AnsweredAt, want.AnsweredBy, want.Answer = ops.ApprovalApproved, &at, "alice", "go on"
	equal(t, "approval", got, want)
	events, err := f.Store.Journal.Events(t.Context(), store.EventFilter{CycleID: &asked.Cycle.ID})
	must(t, err)
	if len(events) != 1 || events[0].Kind() != "approval" || events[0].Environment != "home" || !events[0].At.Equal(at) {
		t.Fatalf("events are %+v", events)
	}
	wantParts(t, events[0].Message.Words(), "alice", "approved", "Tier 2", "go on")

	_, err = f.Store.People.Answer(t.Context(), got.ID, ops.ApprovalDenied, "bob", "stop", at.Add(time.Minute))
	wantErr(t, err, ops.ErrConflict)
	wantParts(t, err.Error(), "alice", "approved", "2026-03-14T12:01:00Z")
	again, err := f.Store.People.Approval(t.Context(), got.ID)
	must(t, err)
	equal(t, "approval", again, want)
}

func wantParts(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if !strings.Contains(text, p) {
			t.Errorf("%q does not say %q", text, p)
		}
	}
}

func oneAnswerCounts(t *testing.T, f *Fixture) {
	asked := f.await(t, "home", ops.Step{Approval: question()})
	id := asked.Journal.Approvals[0].ID
	answers := []ops.ApprovalStatus{ops.ApprovalApproved, ops.ApprovalDenied, ops.ApprovalExpired}
	won := race(t, 50, ops.ErrConflict, func(i int) error {
		_, err := f.Store.People.Answer(t.Context(), id, answers[i%len(answers)], "somebody", "", Start)
		return err
	})
	equal(t, "answers", won, 1)
	events, err := f.Store.Journal.Events(t.Context(), store.EventFilter{CycleID: &asked.Cycle.ID})
	must(t, err)
	equal(t, "events", len(events), 1)
	c, err := f.Store.Journal.Cycle(t.Context(), asked.Cycle.ID)
	must(t, err)
	equal(t, "wake number", c.WakeSeq, asked.Cycle.WakeSeq+1)
}

func onlyAnswersAnswer(t *testing.T, f *Fixture) {
	asked := f.await(t, "home", ops.Step{Approval: question()})
	id := asked.Journal.Approvals[0].ID
	for _, status := range []ops.ApprovalStatus{ops.ApprovalPending, "", "maybe"} {
		if _, err := f.Store.People.Answer(t.Context(), id, status, "alice", "", Start); err == nil {
			t.Errorf("%q was taken for an answer", status)
		}
	}
	_, err := f.Store.People.Answer(t.Context(), 999, ops.ApprovalApproved, "alice", "", Start)
	wantErr(t, err, ops.ErrNotFound)
	f.wantRunnable(t, Start)
}

func afterAYes(t *testing.T, f *Fixture) {
	asked := f.refusable(t)
	counted := func(what string, want int) {
		t.Helper()
		got, err := f.Store.Reports.Attention(t.Context(), f.At)
		must(t, err)
		equal(t, what, got.NeedYou(), want)
	}
	counted("while it is asked", 1)
	_, err := f.Store.People.Answer(t.Context(), asked.ID, ops.ApprovalApproved, "alice", "", f.At.Add(time.Minute))
	must(t, err)
	counted("after the yes", 0)
	f.claimAt(t, asked.CycleID, f.At.Add(2*time.Minute))
	f.EndCycle(t, asked.CycleID)
	counted("after its end", 1)
}

func oneQuestionAtATime(t *testing.T, f *Fixture) {
	asked := f.await(t, "home", ops.Step{Approval: question(), Until: Start})
	f.claimAt(t, asked.Cycle.ID, Start)
	other := question()
	other.Tier, other.Handler = ops.Tier3, "tier3"
	again := ops.Transition{Cycle: asked.Cycle.ID, At: Start, Step: ops.Step{Kind: ops.StepAwait, Approval: other}}
	_, err := f.Store.Journal.Commit(t.Context(), f.Owner, again)
	wantErr(t, err, ops.ErrConflict)
	_, err = f.Store.People.Answer(t.Context(), asked.Journal.Approvals[0].ID, ops.ApprovalApproved, "alice", "", Start)
	must(t, err)
	equal(t, "approvals", len(f.Commit(t, again).Journal.Approvals), 2)
}

func endEndsTheQuestion(t *testing.T, f *Fixture) {
	asked := f.await(t, "home", ops.Step{Approval: question(), Until: Start})
	f.claimAt(t, asked.Cycle.ID, Start)
	got := f.EndCycle(t, asked.Cycle.ID).Journal.Approvals[0]
	equal(t, "status", got.Status, ops.ApprovalWithdrawn)
	equal(t, "answer", got.Answer, "the cycle ended")
	_, err := f.Store.People.Answer(t.Context(), got.ID, ops.ApprovalApproved, "alice", "", Start)
	wantErr(t, err, ops.ErrConflict)

	// What was answered stays as it was.
	asked = f.await(t, "home", ops.Step{Approval: question()})
	answer, err := f.Store.People.Answer(t.Context(), asked.Journal.Approvals[0].ID, ops.ApprovalDenied, "alice", "no", Start)
	must(t, err)
	f.claimAt(t, asked.Cycle.ID, Start)
	equal(t, "answered", f.EndCycle(t, asked.Cycle.ID).Journal.Approvals, []ops.Approval{answer})
}

func questionsAreListed(t *testing.T, f *Fixture) {
	var all []int64
	for _, environment := range []string{"home", "office", "garden"} {
		all = append(all, f.await(t, environment, ops.Step{Approval: question()}).Journal.Approvals[0].ID)
	}
	_, err := f.Store.People.Answer(t.Context(), all[0], ops.ApprovalDenied, "alice", "", Start)
	must(t, err)
	for _, tt := range []struct {
		filter store.ApprovalFilter
		want   []int64
	}{
		{store.ApprovalFilter{}, []int64{all[2], all[1], all[0]}},
		{store.ApprovalFilter{Status: ops.ApprovalPending}, []int64{all[2], all[1]}},
		{store.ApprovalFilter{Status: ops.ApprovalDenied}, []int64{all[0]}},
		{store.ApprovalFilter{Environment: "office"}, []int64{all[1]}},
		{store.ApprovalFilter{Limit: 1}, []int64{all[2]}},
		{store.ApprovalFilter{Before: all[2], Limit: 1}, []int64{all[1]}},
	} {
		got, err := f.Store.People.Approvals(t.Context(), tt.filter)
		must(t, err)
		equal(t, "approvals", ids(got, func(a ops.Approval) int64 { return a.ID }), tt.want)
	}
}

func expiringQuestionsAreFound(t *testing.T, f *Fixture) {
	ask := func(environment string, expires *time.Time) int64 {
		q := question()
		q.ExpiresAt = expires
		return f.await(t, environment, ops.Step{Approval: q}).Journal.Approvals[0].ID
	}
	ask("home", nil)
	late := ask("office", ops.Ptr(Start.Add(2*time.Hour)))
	soon := ask("garden", ops.Ptr(Start.Add(time.Hour)))
	find := func(at time.Time) []int64 {
		got, err := f.Store.People.ExpiringApprovals(t.Context(), at)
		must(t, err)
		return ids(got, func(a ops.Approval) int64 { return a.ID })
	}
	equal(t, "before", find(Start.Add(time.Hour-time.Microsecond)), []int64{})
	equal(t, "later", find(Start.Add(2*time.Hour)), []int64{soon, late})
	_, err := f.Store.People.Answer(t.Context(), soon, ops.ApprovalExpired, "claudeops", "nobody answered", Start.Add(time.Hour))
	must(t, err)
	equal(t, "after an answer", find(Start.Add(2*time.Hour)), []int64{late})
}
