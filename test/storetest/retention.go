package storetest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/store"
)

// RunRetention checks what is removed of a store when it is old, and what is not. Open returns a new, empty one each time.
func RunRetention(t *testing.T, open func(t *testing.T) *store.Store) {
	t.Helper()
	for _, c := range []testCase{
		{"old transcripts go and their sessions say so", oldTranscriptsGo},
		{"an unfinished cycle keeps everything", unfinishedKeepsEverything},
		{"an open incident keeps what led to it", incidentKeepsItsCycle},
		{"the oldest transcripts go first when all are too much", oldestTranscriptsGoFirst},
		{"results of probes go and their counts stay", checksGoAndCountsStay},
		{"what is settled goes and what is not stays", settledGoes},
		{"more rows than allowed go", tooManyRowsGo},
		{"without limits nothing goes", nothingGoesWithoutLimits},
		{"judgements go and their sessions say so", judgementsGo},
		{"old audit records go, but not those of an unfinished cycle", auditGoesWithItsCycle},
		{"old steps go with the events of their cycle", oldStepsGo},
		{"old changes go", oldChangesGo},
	} {
		t.Run(c.name, func(t *testing.T) { c.run(t, NewFixture(t, open(t))) })
	}
}

const (
	aDay   = 24 * time.Hour
	decade = 3650 * aDay
)

// forADay keeps everything for a day.
func forADay() ops.Retention {
	return ops.Retention{Transcripts: aDay, Checks: aDay, Hours: aDay, Events: aDay, Guard: aDay, Notices: aDay, Alerts: aDay}
}

// remove removes all that is due of a kind and says in how many batches.
func (f *Fixture) remove(t *testing.T, what ops.Record, keep ops.Retention, now time.Time) (rows int64, batches int) {
	t.Helper()
	for {
		n, more, err := f.Store.Journal.RemoveOld(t.Context(), what, keep, now)
		must(t, err)
		if !more {
			return rows, batches
		}
		if rows, batches = rows+n, batches+1; batches > 1000 {
			t.Fatalf("removing %s has no end", what)
		}
	}
}

func (f *Fixture) removeAll(t *testing.T, keep ops.Retention, now time.Time) (rows int64) {
	t.Helper()
	for _, what := range ops.Records() {
		n, _ := f.remove(t, what, keep, now)
		rows += n
	}
	return rows
}

// worked is a session that wrote some lines of a length and then ended with its cycle.
func (f *Fixture) worked(t *testing.T, lines, length int) ops.Session {
	t.Helper()
	s := f.RunningSession(t, "home")
	f.write(t, s, lines, length)
	ended := f.Ended(s, 0.1)
	f.Commit(t, ops.Transition{
		Cycle: s.CycleID, At: f.At.Add(time.Minute), Result: ops.Result{Session: &ended},
		Step: ops.Step{Kind: ops.StepFinish, Status: ops.CycleHealthy, Reason: "all is well"},
	})
	return ended
}

func (f *Fixture) write(t *testing.T, s ops.Session, lines, length int) {
	t.Helper()
	all := make([]ops.Line, lines)
	for i := range all {
		all[i] = ops.Line{Seq: int64(i + 1), At: f.At, Text: strings.Repeat("x", length)}
	}
	must(t, f.Store.Journal.AppendTranscript(t.Context(), f.Owner, s.ID, all))
}

func (f *Fixture) stored(t *testing.T, s ops.Session) int {
	t.Helper()
	lines, err := f.Store.Journal.Transcript(t.Context(), s.ID, 0, 100_000)
	must(t, err)
	return len(lines)
}

func oldTranscriptsGo(t *testing.T, f *Fixture) {
	s := f.worked(t, 1234, 5000)
	keep := ops.Retention{Transcripts: 30 * aDay}
	ended := f.At.Add(time.Minute)
	if n := f.removeAll(t, keep, ended.Add(30*aDay)); n > 0 {
		t.Errorf("%d rows went a moment too early", n)
	}
	removed, err := f.Store.Journal.Removed(t.Context(), s.ID)
	must(t, err)
	equal(t, "removed before", removed, store.Removed{})
	now := ended.Add(30*aDay + time.Second)
	if _, batches := f.remove(t, ops.RecordTranscripts, keep, now); batches < 3 {
		t.Errorf("1234 lines went in %d batches: a writer waits for each of them", batches)
	}
	equal(t, "lines", f.stored(t, s), 0)
	removed, err = f.Store.Journal.Removed(t.Context(), s.ID)
	must(t, err)
	equal(t, "removed", removed, store.Removed{Transcript: &now})
	count, err := f.Store.Journal.TranscriptCount(t.Context(), s.ID)
	must(t, err)
	equal(t, "lines that there were", count, 1234)
	got, err := f.Store.Journal.Session(t.Context(), s.ID)
	must(t, err)
	equal(t, "cost", *got.CostUSD, 0.1)
}

func unfinishedKeepsEverything(t *testing.T, f *Fixture) {
	s := f.RunningSession(t, "home")
	f.write(t, s, 10, 10)
	f.hook(t, s, "use-1")
	tier2 := f.Commit(t, f.Escalation(s, 1)).Journal.Last()
	must(t, f.Store.Watch.AddChecks(t.Context(), []ops.Check{{
		At: Start, Environment: "home", CycleID: &s.CycleID, Service: "web", Probe: "http", Status: ops.Down, Purpose: ops.ProbeObserve,
		Type: ops.CheckHTTP,
	}}))
	_, err := f.Store.Journal.AddEvent(t.Context(), ops.Event{
		At: Start, CycleID: &s.CycleID, Environment: "home", Level: ops.LevelInfo, Verb: ops.VerbCycleResolved,
		Reason: "y",
	})
	must(t, err)
	before := f.snapshot(t, s.CycleID)
	keep := forADay()
	keep.Hours = 0 // the counts by the hour belong to no cycle
	if n := f.removeAll(t, keep, Start.Add(decade)); n > 0 {
		t.Errorf("%d rows went", n)
	}
	equal(t, "journal", f.snapshot(t, s.CycleID), before)
	must(t, f.Start(t, tier2.ID, "planned", f.At))
}

func incidentKeepsItsCycle(t *testing.T, f *Fixture) {
	s := f.RunningSession(t, "home")
	f.write(t, s, 10, 10)
	ended := f.Ended(s, 0.1)
	f.Commit(t, ops.Transition{Cycle: s.CycleID, At: f.At, Result: ops.Result{Session: &ended}, Step: ops.Step{
		Kind: ops.StepFinish, Status: ops.CycleNeedsHuman, Reason: "broken",
		Events:   []ops.Event{{Level: ops.LevelWarning, Verb: ops.VerbCycleResolved, Reason: "broken"}},
		Incident: &ops.IncidentReport{Title: "web is down", Level: ops.LevelCritical, Class: "down", Services: []string{"web"}},
	}})
	open, err := f.Store.People.Unresolved(t.Context(), "home")
	must(t, err)
	_, err = f.Store.People.Snooze(t.Context(), open[0].ID, "ada", f.At.Add(decade), "later", f.At)
	must(t, err)
	history, err := f.Store.Reports.IncidentHistory(t.Context(), open[0])
	must(t, err)
	if n := f.removeAll(t, forADay(), Start.Add(decade)); n > 0 {
		t.Errorf("%d rows went while the incident is open", n)
	}
	after, err := f.Store.Reports.IncidentHistory(t.Context(), open[0])
	must(t, err)
	equal(t, "history", after, history)
	_, err = f.Store.People.ResolveIncident(t.Context(), open[0].ID, "ada", "new disk", f.At)
	must(t, err)
	f.removeAll(t, forADay(), Start.Add(decade))
	equal(t, "lines", f.stored(t, s), 0)
	events, err := f.Store.Journal.Events(t.Context(), store.EventFilter{})
	must(t, err)
	equal(t, "events", len(events), 0)
}

func oldestTranscriptsGoFirst(t *testing.T, f *Fixture) {
	var all []ops.Session
	for range 4 {
		all = append(all, f.worked(t, 10, 1000))
		f.At = f.At.Add(time.Hour)
	}
	running := f.RunningSession(t, "home")
	f.write(t, running, 10, 1000)
	f.remove(t, ops.RecordTranscripts, ops.Retention{TranscriptBytes: 40_000}, f.At)
	for i, s := range all {
		equal(t, fmt.Sprintf("lines of %d within the size", i), f.stored(t, s), 10)
	}
	f.remove(t, ops.RecordTranscripts, ops.Retention{TranscriptBytes: 25_000}, f.At)
	for i, want := range []int{0, 0, 10, 10} {
		equal(t, fmt.Sprintf("lines of %d", i), f.stored(t, all[i]), want)
	}
	equal(t, "lines of the running one", f.stored(t, running), 10)
	f.remove(t, ops.RecordTranscripts, ops.Retention{TranscriptBytes: 1}, f.At)
	equal(t, "lines of the running one", f.stored(t, running), 10)
}

func checksGoAndCountsStay(t *testing.T, f *Fixture) {
	for i := range 48 {
		f.check(t, "home", "web", ops.Down, Start.Add(time.Duration(i)*time.Hour))
	}
	filter := store.HealthFilter{Since: Start, Until: Start.Add(48 * time.Hour), Bucket: aDay}
	hours := filter
	hours.Bucket = time.Hour
	before, hoursBefore := f.drawn(t, filter), f.drawn(t, hours)
	keep := ops.Retention{Checks: aDay}
	n, _ := f.remove(t, ops.RecordChecks, keep, Start.Add(36*time.Hour))
	equal(t, "rows", n, 12)
	equal(t, "counts by the day", f.drawn(t, filter), before)
	equal(t, "counts by the hour", f.drawn(t, hours), hoursBefore)
	latest, err := f.Store.Watch.LatestChecks(t.Context(), "home")
	must(t, err)
	equal(t, "latest", len(latest), 1)
	keep.Hours = aDay
	f.removeAll(t, keep, Start.Add(decade))
	equal(t, "counts by the day", f.drawn(t, filter), before)
	if f.drawn(t, hours) == hoursBefore {
		t.Error("the counts by the hour are still there")
	}
}

func settledGoes(t *testing.T, f *Fixture) {
	sent := f.notice(t, "sent", Start)
	f.notice(t, "pending", Start)
	sent.Status, sent.SentAt = ops.NoticeSent, &f.At
	must(t, f.Store.People.SettleNotice(t.Context(), sent, nil))
	must(t, f.Store.Watch.AddAlerts(t.Context(), []ops.Alert{
		{
			Environment: "home", Source: "generic", Fingerprint: "over", Name: "Down", Status: ops.AlertResolved, Level: ops.LevelWarning, StartsAt: Start,
			FirstAt: Start, LastAt: Start,
		},
		{
			Environment: "home", Source: "generic", Fingerprint: "firing", Status: ops.AlertFiring, Level: ops.LevelWarning, StartsAt: Start,
			FirstAt: Start, LastAt: Start,
		},
	}))
	pending, err := f.Store.Watch.PendingAlerts(t.Context(), 10)
	must(t, err)
	must(t, f.Store.Watch.RecordResults(t.Context(), "home", nil, nil, nil, nil, pending))
	f.removeAll(t, forADay(), Start.Add(decade))
	notices, err := f.Store.People.NoticeList(t.Context(), store.NoticeFilter{})
	must(t, err)
	if len(notices) != 1 || notices[0].Title != "pending" {
		t.Errorf("notices left: %+v", notices)
	}
	alerts, err := f.Store.Watch.Alerts(t.Context(), store.AlertFilter{})
	must(t, err)
	if len(alerts) != 1 || alerts[0].Fingerprint != "firing" {
		t.Errorf("alerts left: %+v", alerts)
	}
}

func tooManyRowsGo(t *testing.T, f *Fixture) {
	for i := range 30 {
		_, err := f.Store.Journal.AddEvent(t.Context(), ops.Event{
			At: Start, Environment: "home", Level: ops.LevelInfo, Verb: ops.VerbCycleResolved,
			Reason: fmt.Sprint(i),
		})
		must(t, err)
	}
	f.removeAll(t, ops.Retention{Rows: 10}, Start)
	events, err := f.Store.Journal.Events(t.Context(), store.EventFilter{})
	must(t, err)
	if len(events) != 10 || events[0].Message.Words() != "29" {
		t.Errorf("%d events left, the newest %+v", len(events), events[0])
	}
}

func nothingGoesWithoutLimits(t *testing.T, f *Fixture) {
	s := f.worked(t, 10, 10)
	f.check(t, "home", "web", ops.Healthy, Start)
	before := f.snapshot(t, s.CycleID)
	if n := f.removeAll(t, ops.Retention{}, Start.Add(decade)); n > 0 {
		t.Errorf("%d rows went", n)
	}
	equal(t, "journal", f.snapshot(t, s.CycleID), before)
}

func judgementsGo(t *testing.T, f *Fixture) {
	s := f.RunningSession(t, "home")
	f.hook(t, s, "use-1")
	f.hook(t, s, "use-2")
	f.EndCycle(t, s.CycleID)
	now := Start.Add(2 * aDay)
	n, _ := f.remove(t, ops.RecordGuard, forADay(), now)
	equal(t, "rows", n, 2)
	removed, err := f.Store.Journal.Removed(t.Context(), s.ID)
	must(t, err)
	equal(t, "removed", removed, store.Removed{Guard: &now})
}
