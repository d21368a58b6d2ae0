package storetest

import (
	"testing"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/store"
)

func reminderCases() []testCase {
	return []testCase{
		{"a reminder is due as the policy says", reminderIsDue},
		{"a reminder is counted and sent once", reminderIsSentOnce},
		{"who answered is not reminded", answeredIsNotReminded},
		{"the end of a snooze is a reminder", snoozeEndReminds},
	}
}

// reminding opens an incident under a policy that reminds every hour.
func (f *Fixture) reminding(t *testing.T, service string) ops.Incident {
	t.Helper()
	policy := Policy()
	policy.Approval.Remind, policy.Approval.Reminds = time.Hour, 3
	claimed, err := f.Store.Claim(t.Context(), f.Owner, f.Submit(t, "home"), policy, f.At)
	must(t, err)
	opened := f.open(t, claimed.Cycle.ID, report(service))
	f.EndCycle(t, claimed.Cycle.ID)
	return opened[len(opened)-1]
}

func (f *Fixture) due(t *testing.T, at time.Time) []int64 {
	t.Helper()
	got, err := f.Store.DueReminders(t.Context(), at, 0)
	must(t, err)
	return ids(got, func(i ops.Incident) int64 { return i.ID })
}

func reminderIsDue(t *testing.T, f *Fixture) {
	i := f.reminding(t, "web")
	equal(t, "time", i.RemindAt, ops.Ptr(Start.Add(time.Hour)))
	equal(t, "never", f.incident(t, "home", "db").RemindAt, nil)
	f.At = Start.Add(-time.Minute)
	early := f.reminding(t, "mail")
	equal(t, "before", f.due(t, Start), []int64{})
	equal(t, "after", f.due(t, Start.Add(time.Hour)), []int64{early.ID, i.ID})
	// A repeat puts it off no further.
	f.At = Start.Add(30 * time.Minute)
	equal(t, "after a repeat", f.incident(t, "home", "web").RemindAt, i.RemindAt)
}

func reminderIsSentOnce(t *testing.T, f *Fixture) {
	i := f.reminding(t, "web")
	at := Start.Add(time.Hour)
	n := ops.Notice{Kind: "reminder", Level: ops.LevelWarning, Title: "still open", CreatedAt: at}
	next := at.Add(time.Hour)
	won := race(t, 4, ops.ErrConflict, func(int) error { return f.Store.Reminded(t.Context(), i.ID, &next, n) })
	equal(t, "sent", won, 1)
	got, err := f.Store.Incident(t.Context(), i.ID)
	must(t, err)
	equal(t, "reminders", got.Reminders, 1)
	equal(t, "next", got.RemindAt, &next)
	n.CreatedAt = next
	must(t, f.Store.Reminded(t.Context(), i.ID, nil, n))
	equal(t, "after the last", f.due(t, next.Add(1000*time.Hour)), []int64{})
	notices, err := f.Store.NoticeList(t.Context(), store.NoticeFilter{})
	must(t, err)
	equal(t, "notices", len(notices), 2)
	equal(t, "notice", notices[1].Title+string(notices[1].Status), "still open"+string(ops.NoticePending))
	wantErr(t, f.Store.Reminded(t.Context(), 999, nil, n), ops.ErrNotFound)
}

func answeredIsNotReminded(t *testing.T, f *Fixture) {
	acknowledged, resolved := f.reminding(t, "web"), f.reminding(t, "db")
	_, err := f.Store.Acknowledge(t.Context(), acknowledged.ID, "alice", "", Start)
	must(t, err)
	_, err = f.Store.ResolveIncident(t.Context(), resolved.ID, "alice", "", Start)
	must(t, err)
	equal(t, "due", f.due(t, Start.Add(1000*time.Hour)), []int64{})
	for _, i := range []ops.Incident{acknowledged, resolved} {
		// The answer came after the look at what is due.
		err := f.Store.Reminded(t.Context(), i.ID, nil, ops.Notice{Kind: "reminder", Level: ops.LevelInfo, CreatedAt: Start.Add(time.Hour)})
		wantErr(t, err, ops.ErrConflict)
		wantParts(t, err.Error(), "alice")
	}
	notices, err := f.Store.NoticeList(t.Context(), store.NoticeFilter{})
	must(t, err)
	equal(t, "notices", len(notices), 0)
}

func snoozeEndReminds(t *testing.T, f *Fixture) {
	i := f.reminding(t, "web")
	until := Start.Add(3 * time.Hour)
	_, err := f.Store.Snooze(t.Context(), i.ID, "alice", until, "", Start)
	must(t, err)
	equal(t, "before", f.due(t, until.Add(-time.Second)), []int64{})
	err = f.Store.Reminded(t.Context(), i.ID, nil, ops.Notice{Kind: "reminder", Level: ops.LevelInfo, CreatedAt: until.Add(-time.Second)})
	wantErr(t, err, ops.ErrConflict)
	equal(t, "at its end", f.due(t, until), []int64{i.ID})
	must(t, f.Store.Reminded(t.Context(), i.ID, nil, ops.Notice{Kind: "reminder", Level: ops.LevelInfo, CreatedAt: until}))
	got, err := f.Store.Incident(t.Context(), i.ID)
	must(t, err)
	equal(t, "status", got.Status, ops.IncidentOpen)
}
