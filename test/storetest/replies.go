package storetest

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"claudeops/internal/desk"
	"claudeops/internal/notice/answer"
	"claudeops/internal/ops"
	"claudeops/internal/store"
)

func replyCases() []testCase {
	return []testCase{
		{"the key of answers is made once", answerKeyIsMadeOnce},
		{"a code stands for its token", codeStandsForItsToken},
		{"a notice tells what can be answered", noticeTellsWhatCanBeAnswered},
		{"a reply answers a question, with its audit and its mark", replyAnswersAQuestion},
		{"a reply approves exactly the plan that was shown", replyApprovesThePlanShown},
		{"a button is used once", buttonIsUsedOnce},
		{"of many replies at once one counts", oneReplyCounts},
		{"a reply after another answer changes nothing and says so", lateReplySaysSo},
		{"a refused reply is recorded and read", refusedReplyIsRecorded},
		{"a reply acknowledges all incidents of a cycle", replyAcknowledgesAll},
	}
}

func (f *Fixture) events(t *testing.T, kind ops.EventKind) []ops.Event {
	t.Helper()
	out, err := f.Store.Journal.Events(t.Context(), store.EventFilter{Kind: string(kind)})
	must(t, err)
	return out
}

// aReply is the press of a button.
func aReply(n int, token answer.Token) answer.Reply {
	if token.Expires.IsZero() {
		token.Expires = Start.Add(time.Hour)
	}
	return answer.Reply{
		Token: token, Code: answer.Code(fmt.Sprintf("%+v", token)), Source: fmt.Sprintf("telegram/1/%d", n), Channel: "Telegram",
		By: "@alice (Telegram 42)", Mark: "telegram/1", Read: fmt.Sprint(n + 1), At: Start.Add(time.Minute),
	}
}

// asleep is a supervisor that nobody wakes.
type asleep struct{ desk.Control }

func (asleep) Wake(ops.CycleID) {}

func restartOfWeb() ops.ActionSpec {
	return ops.ActionSpec{Service: "web", Name: "restart", Kind: ops.ActionRestart, Tier: ops.Tier2}
}

// takes takes a reply, as the desk does at its time.
func (f *Fixture) takes(ctx context.Context, r answer.Reply) (answer.Result, error) {
	p := Policy()
	p.Inventory.Services = []ops.Service{{Name: "web", Actions: []ops.ActionSpec{restartOfWeb()}}}
	d := &desk.Desk{
		Store: f.Store, Control: asleep{}, Clock: func() time.Time { return r.At }, Environments: []ops.Environment{{Name: "home", Policy: p}},
	}
	return d.Reply(ctx, r)
}

func (f *Fixture) reply(t *testing.T, r answer.Reply) answer.Result {
	t.Helper()
	out, err := f.takes(t.Context(), r)
	must(t, err)
	return out
}

func answerKeyIsMadeOnce(t *testing.T, f *Fixture) {
	first, err := f.Store.People.AnswerKey(t.Context())
	must(t, err)
	equal(t, "length", len(first), 32)
	again, err := f.database(t).People.AnswerKey(t.Context())
	must(t, err)
	if !bytes.Equal(first, again) || bytes.Equal(first, make([]byte, 32)) {
		t.Error("another process has another key, or it is empty")
	}
}

func codeStandsForItsToken(t *testing.T, f *Fixture) {
	for range 2 { // a notice that is sent again stores the same
		must(t, f.Store.People.KeepAnswerCodes(t.Context(), []string{"one", "two"}, answer.Code, Start.Add(time.Hour)))
	}
	got, err := f.Store.People.AnswerToken(t.Context(), answer.Code("two"))
	must(t, err)
	equal(t, "token", got, "two")
	_, err = f.Store.People.AnswerToken(t.Context(), answer.Code("three"))
	wantErr(t, err, ops.ErrNotFound)
}

func noticeTellsWhatCanBeAnswered(t *testing.T, f *Fixture) {
	r := report("db", "web")
	asked := f.await(t, "home", ops.Step{Approval: question(), Incident: &r})
	n := ops.Notice{CycleID: &asked.Cycle.ID, Kind: ops.NoticeApproval}
	got, err := f.Store.People.NoticeSubject(t.Context(), n)
	must(t, err)
	if got.Approval == nil || got.Approval.ID != asked.Journal.Approvals[0].ID || len(got.Incidents) != 2 {
		t.Fatalf("subject is %+v", got)
	}
	n.Incident = got.Incidents[1].ID
	one, err := f.Store.People.NoticeSubject(t.Context(), n)
	must(t, err)
	equal(t, "one incident", one.Incidents, got.Incidents[1:])
	_, err = f.Store.People.Answer(t.Context(), got.Approval.ID, ops.ApprovalDenied, "bob", "", Start)
	must(t, err)
	for _, i := range got.Incidents {
		_, err = f.Store.People.Acknowledge(t.Context(), i.ID, "bob", "", Start)
		must(t, err)
	}
	got, err = f.Store.People.NoticeSubject(t.Context(), n)
	must(t, err)
	if got.Approval != nil {
		t.Errorf("after the answers: %+v", got)
	}
	none, err := f.Store.People.NoticeSubject(t.Context(), ops.Notice{})
	must(t, err)
	equal(t, "no cycle", none, ops.NoticeSubject{})
}

func replyAnswersAQuestion(t *testing.T, f *Fixture) {
	asked := f.await(t, "home", ops.Step{Approval: question()})
	id := asked.Journal.Approvals[0].ID
	got := f.reply(t, aReply(7, answer.Token{Subject: answer.Subject{Kind: answer.KindApproval, ID: id}, Decision: answer.Deny}))
	equal(t, "result", got, answer.Result{Done: true, Text: fmt.Sprintf("Denied (approval %d). Only this question is answered: the next cycle may ask again.", id)})
	a, err := f.Store.People.Approval(t.Context(), id)
	must(t, err)
	if a.Status != ops.ApprovalDenied || a.AnsweredBy != "@alice (Telegram 42)" || a.Answer != "by Telegram" || !a.AnsweredAt.Equal(Start.Add(time.Minute)) {
		t.Errorf("approval is %+v", a)
	}
	f.wantRunnable(t, Start.Add(time.Minute), asked.Cycle.ID)
	audit := f.events(t, ops.EventAudit)
	if len(audit) != 1 || audit[0].CycleID == nil || *audit[0].CycleID != asked.Cycle.ID || audit[0].Environment != "home" {
		t.Fatalf("audit is %+v", audit)
	}
	wantParts(t, audit[0].Message.Words(), "@alice (Telegram 42)", "by Telegram", fmt.Sprintf("deny approval %d", id))
	mark, err := f.Store.People.ReplyMark(t.Context(), "telegram/1")
	must(t, err)
	equal(t, "mark", mark, "8")
	mark, err = f.Store.People.ReplyMark(t.Context(), "telegram/2")
	must(t, err)
	equal(t, "mark of another", mark, "")
}

func replyApprovesThePlanShown(t *testing.T, f *Fixture) {
	asked := question()
	asked.Plan = []ops.ApprovedStep{{PlanStep: ops.PlanStep{Service: "web", Action: "restart"}}, {PlanStep: ops.PlanStep{Service: "db", Action: "restart"}}}
	asked.PlanHash = "0123456789abcdef"
	c := f.await(t, "home", ops.Step{Approval: asked})
	token := answer.Token{Subject: answer.Subject{Kind: answer.KindApproval, ID: c.Journal.Approvals[0].ID}, Decision: answer.Approve, Plan: "another"}
	got := f.reply(t, aReply(1, token))
	if got.Done {
		t.Error("another plan was approved")
	}
	wantParts(t, got.Text, "Nothing was changed", "the plan is not the one that was shown")
	token.Plan = asked.PlanHash
	if got := f.reply(t, aReply(2, token)); !got.Done {
		t.Errorf("it was not approved: %s", got.Text)
	}
	a, err := f.Store.People.Approval(t.Context(), token.Subject.ID)
	must(t, err)
	equal(t, "steps", a.Steps, []int{1, 2})
	wantParts(t, f.events(t, ops.EventAudit)[0].Message.Words(), "approve approval", "plan 0123456789ab")
}

func buttonIsUsedOnce(t *testing.T, f *Fixture) {
	i := f.incident(t, "home", "web")
	token := answer.Token{Subject: answer.Subject{Kind: answer.KindIncident, ID: i.ID}, Decision: answer.Snooze}
	first := aReply(1, token)
	got := f.reply(t, first)
	equal(t, "result", got.Text, fmt.Sprintf("Snoozed until 2026-03-14 14:01 UTC (incident %d).", i.ID))
	// The same message delivered a second time does nothing and says nothing.
	repeated := f.reply(t, first)
	if !repeated.Repeated || len(f.events(t, ops.EventAudit)) != 1 {
		t.Errorf("a repeat gives %+v", repeated)
	}
	// A second press is refused, also after the snooze.
	second := aReply(2, token)
	second.At = Start.Add(30 * time.Minute)
	got = f.reply(t, second)
	if got.Done {
		t.Error("the button was used twice")
	}
	wantParts(t, got.Text, "@alice (Telegram 42) used this button at 2026-03-14T12:01:00Z")
	after, err := f.Store.People.Incident(t.Context(), i.ID)
	must(t, err)
	equal(t, "until", after.SnoozedUntil, ops.Ptr(Start.Add(2*time.Hour+time.Minute)))
}

func oneReplyCounts(t *testing.T, f *Fixture) {
	i := f.incident(t, "home", "web")
	token := answer.Token{Subject: answer.Subject{Kind: answer.KindIncident, ID: i.ID}, Decision: answer.Snooze}
	var done atomic.Int32
	var all sync.WaitGroup
	for n := range 20 {
		all.Go(func() {
			got, err := f.takes(t.Context(), aReply(n, token))
			if err != nil {
				t.Error(err)
			}
			if got.Done {
				done.Add(1)
			}
		})
	}
	all.Wait()
	equal(t, "done", done.Load(), int32(1))
}

func lateReplySaysSo(t *testing.T, f *Fixture) {
	asked := f.await(t, "home", ops.Step{Approval: question()})
	id := asked.Journal.Approvals[0].ID
	_, err := f.Store.People.Answer(t.Context(), id, ops.ApprovalApproved, "bob", "", Start)
	must(t, err)
	for n := range 2 { // the second press says the same
		got := f.reply(t, aReply(n, answer.Token{Subject: answer.Subject{Kind: answer.KindApproval, ID: id}, Decision: answer.Deny}))
		if got.Done {
			t.Error("two answers counted")
		}
		wantParts(t, got.Text, "Nothing was changed: bob approved Tier 2 at 2026-03-14T12:00:00Z.")
	}
	i := f.incident(t, "home", "web")
	_, err = f.Store.People.ResolveIncident(t.Context(), i.ID, "carol", "", Start)
	must(t, err)
	got := f.reply(t, aReply(5, answer.Token{Subject: answer.Subject{Kind: answer.KindIncident, ID: i.ID}, Decision: answer.Acknowledge}))
	wantParts(t, got.Text, "carol resolved it")
	for n, unknown := range []answer.Token{
		{Subject: answer.Subject{Kind: answer.KindApproval, ID: 999}, Decision: answer.Deny},
		{Subject: answer.Subject{Kind: answer.KindIncident, ID: 999}, Decision: answer.Snooze},
		{Subject: answer.Subject{Kind: answer.KindCycle, ID: 999}, Decision: answer.Snooze},
		{Subject: answer.Subject{Kind: "policy", ID: 1}, Decision: answer.Approve},
		{Subject: answer.Subject{Kind: answer.KindApproval, ID: id}, Decision: answer.Snooze},
	} {
		if got := f.reply(t, aReply(10+n, unknown)); got.Done || got.Text == "" {
			t.Errorf("%+v gives %+v", unknown, got)
		}
	}
	equal(t, "audited", len(f.events(t, ops.EventAudit)), 8)
}

func refusedReplyIsRecorded(t *testing.T, f *Fixture) {
	r := aReply(1, answer.Token{})
	r.Token, r.Code, r.Refused = answer.Token{}, "x", "the sender is not allowed"
	got := f.reply(t, r)
	if got.Done || got.Text != "Nothing was changed: the sender is not allowed." {
		t.Errorf("result is %+v", got)
	}
	r.Source, r.Read, r.Silent = "telegram/1/9", "10", true
	f.reply(t, r)
	audit := f.events(t, ops.EventAudit)
	if len(audit) != 1 || audit[0].Level != ops.LevelWarning {
		t.Fatalf("audit is %+v", audit)
	}
	wantParts(t, audit[0].Message.Words(), "@alice (Telegram 42)", "Telegram", "refused", "not allowed")
	mark, err := f.Store.People.ReplyMark(t.Context(), "telegram/1")
	must(t, err)
	equal(t, "mark", mark, "10")
}

func replyAcknowledgesAll(t *testing.T, f *Fixture) {
	cycle := f.Claim(t, "home").Cycle.ID
	open := f.open(t, cycle, report("db", "web"))
	f.EndCycle(t, cycle)
	_, err := f.Store.People.Acknowledge(t.Context(), open[0].ID, "bob", "", Start)
	must(t, err)
	got := f.reply(t, aReply(1, answer.Token{Subject: answer.Subject{Kind: answer.KindCycle, ID: int64(cycle)}, Decision: answer.Acknowledge}))
	equal(t, "result", got.Text, fmt.Sprintf("Acknowledged (incident %d).", open[1].ID))
	for _, i := range f.incidents(t) {
		equal(t, "status", i.Status, ops.IncidentAcknowledged)
	}
	equal(t, "the first stays", f.incidents(t)[1].AcknowledgedBy, "bob")
}

func answerCases() []testCase {
	return []testCase{
		{"an acknowledgement counts once", acknowledgementCountsOnce},
		{"a snooze has an end", snoozeHasAnEnd},
		{"an acknowledged incident may be snoozed", acknowledgedMayBeSnoozed},
		{"resolving beats everything", resolvingBeatsEverything},
		{"of many resolutions at once exactly one counts", oneResolutionCounts},
		{"each answer is told", eachAnswerIsTold},
		{"an incident that is not there has no answer", unknownIncident},
	}
}

func acknowledgementCountsOnce(t *testing.T, f *Fixture) {
	i := f.incident(t, "home", "web")
	at := Start.Add(time.Minute)
	got, err := f.Store.People.Acknowledge(t.Context(), i.ID, "alice", "on it", at)
	must(t, err)
	want := i
	want.Status, want.AcknowledgedAt, want.AcknowledgedBy, want.UpdatedAt = ops.IncidentAcknowledged, &at, "alice", at
	equal(t, "incident", got, want)
	if !got.Holds(at.Add(1000 * time.Hour)) {
		t.Error("an acknowledged incident does not hold")
	}
	_, err = f.Store.People.Acknowledge(t.Context(), i.ID, "bob", "", at.Add(time.Minute))
	wantErr(t, err, ops.ErrConflict)
	wantParts(t, err.Error(), "alice", "acknowledged", "2026-03-14T12:01:00Z")
	// A repeat leaves it acknowledged.
	equal(t, "after a repeat", f.incident(t, "home", "web").Status, ops.IncidentAcknowledged)
}

func snoozeHasAnEnd(t *testing.T, f *Fixture) {
	i := f.incident(t, "home", "web")
	until := Start.Add(time.Hour)
	got, err := f.Store.People.Snooze(t.Context(), i.ID, "alice", until, "tomorrow", Start)
	must(t, err)
	equal(t, "status", got.Status, ops.IncidentSnoozed)
	equal(t, "until", got.SnoozedUntil, &until)
	if !got.Holds(until.Add(-time.Second)) || got.Holds(until) {
		t.Error("the snooze does not hold until its end")
	}
	equal(t, "a repeat before", f.incident(t, "home", "web").Status, ops.IncidentSnoozed)
	f.At = until
	equal(t, "a repeat after", f.incident(t, "home", "web").Status, ops.IncidentOpen)
	later := until.Add(time.Hour)
	got, err = f.Store.People.Snooze(t.Context(), i.ID, "bob", later, "", until)
	must(t, err)
	equal(t, "again", got.SnoozedUntil, &later)
}

func acknowledgedMayBeSnoozed(t *testing.T, f *Fixture) {
	i := f.incident(t, "home", "web")
	_, err := f.Store.People.Acknowledge(t.Context(), i.ID, "alice", "", Start)
	must(t, err)
	got, err := f.Store.People.Snooze(t.Context(), i.ID, "bob", Start.Add(time.Hour), "", Start)
	must(t, err)
	equal(t, "status", got.Status, ops.IncidentSnoozed)
	got, err = f.Store.People.Acknowledge(t.Context(), i.ID, "carol", "", Start.Add(time.Minute))
	must(t, err)
	equal(t, "who", got.AcknowledgedBy, "carol")
	if got.SnoozedUntil != nil {
		t.Errorf("it is snoozed until %s", got.SnoozedUntil)
	}
}

func resolvingBeatsEverything(t *testing.T, f *Fixture) {
	answers := map[string]func(id int64) error{
		"open": func(int64) error { return nil },
		"acknowledged": func(id int64) error {
			_, err := f.Store.People.Acknowledge(t.Context(), id, "bob", "", Start)
			return err
		},
		"snoozed": func(id int64) error {
			_, err := f.Store.People.Snooze(t.Context(), id, "bob", Start.Add(time.Hour), "", Start)
			return err
		},
	}
	for service, answer := range answers {
		i := f.incident(t, "home", service)
		must(t, answer(i.ID))
		got, err := f.Store.People.ResolveIncident(t.Context(), i.ID, "alice", "new disk", Start.Add(time.Minute))
		must(t, err)
		equal(t, "status", got.Status, ops.IncidentResolved)
		equal(t, "by", got.ResolvedBy, "alice")
		equal(t, "how", got.Resolution, "new disk")
		_, resolved := f.Store.People.ResolveIncident(t.Context(), i.ID, "bob", "", Start.Add(time.Hour))
		_, acknowledged := f.Store.People.Acknowledge(t.Context(), i.ID, "bob", "", Start.Add(time.Hour))
		_, snoozed := f.Store.People.Snooze(t.Context(), i.ID, "bob", Start.Add(2*time.Hour), "", Start.Add(time.Hour))
		for _, err := range []error{resolved, acknowledged, snoozed} {
			wantErr(t, err, ops.ErrConflict)
			wantParts(t, err.Error(), "alice", "resolved", "2026-03-14T12:01:00Z")
		}
		again, err := f.Store.People.Incident(t.Context(), i.ID)
		must(t, err)
		equal(t, "incident", again, got)
	}
}

func oneResolutionCounts(t *testing.T, f *Fixture) {
	i := f.incident(t, "home", "web")
	won := race(t, 20, ops.ErrConflict, func(int) error {
		_, err := f.Store.People.ResolveIncident(t.Context(), i.ID, "somebody", "", Start)
		return err
	})
	equal(t, "resolutions", won, 1)
}

func eachAnswerIsTold(t *testing.T, f *Fixture) {
	i := f.incident(t, "home", "web")
	_, err := f.Store.People.Acknowledge(t.Context(), i.ID, "alice", "on it", Start)
	must(t, err)
	_, err = f.Store.People.Snooze(t.Context(), i.ID, "bob", Start.Add(time.Hour), "the disk comes", Start)
	must(t, err)
	_, err = f.Store.People.ResolveIncident(t.Context(), i.ID, "carol", "new disk", Start)
	must(t, err)
	events, err := f.Store.Journal.Events(t.Context(), store.EventFilter{CycleID: &i.LastCycle})
	must(t, err)
	if len(events) != 3 {
		t.Fatalf("%d events", len(events))
	}
	for n, parts := range [][]string{
		{"carol", "resolved", "new disk"}, {"bob", "snoozed", "until 2026-03-14T13:00:00Z: the disk comes"}, {"alice", "acknowledged", "on it"},
	} {
		wantParts(t, events[n].Message.Words(), parts...)
		equal(t, "kind", string(events[n].Kind())+events[n].Service+events[n].Environment, "incidentwebhome")
	}
}

func unknownIncident(t *testing.T, f *Fixture) {
	_, acknowledged := f.Store.People.Acknowledge(t.Context(), 999, "alice", "", Start)
	_, snoozed := f.Store.People.Snooze(t.Context(), 999, "alice", Start.Add(time.Hour), "", Start)
	_, resolved := f.Store.People.ResolveIncident(t.Context(), 999, "alice", "", Start)
	for _, err := range []error{acknowledged, snoozed, resolved} {
		wantErr(t, err, ops.ErrNotFound)
	}
}
