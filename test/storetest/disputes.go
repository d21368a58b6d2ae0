package storetest

import (
	"strings"
	"testing"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/store"
	"claudeops/internal/watch/health"
)

func disputeCases() []testCase {
	return []testCase{
		{"an alert knows when it last changed", alertKnowsItsChange},
		{"an alert that fires on is told once, whoever tells", disputeIsToldOnce},
		{"an alert that has ended is not told of", endedIsNotDisputed},
		{"only the end of the alert closes its incident", disputeEndsWithTheAlert},
		{"a service that is still bad after a resolve is no longer covered", resolveReleasesCause},
		{"a resolve while a cycle works on it changes nothing for that cycle", resolveKeepsRunningCause},
		{"who resolves is told of alerts, and again later", resolveTellsOfAlerts},
		{"a resolve of a service that is well leaves nothing", resolveOfTheWell},
		{"what agents leave alone is listed", heldIsListed},
	}
}

func (f *Fixture) alert(t *testing.T, fingerprint string) ops.Alert {
	t.Helper()
	for _, a := range f.alerts(t) {
		if a.Fingerprint == fingerprint {
			return a
		}
	}
	t.Fatalf("no alert %s", fingerprint)
	return ops.Alert{}
}

func alertKnowsItsChange(t *testing.T, f *Fixture) {
	tell := func(minute int, change func(*ops.Alert)) ops.Alert {
		a := firing("a", "web")
		a.Content, a.LastAt = "one", Start.Add(time.Duration(minute)*time.Minute)
		change(&a)
		must(t, f.Store.AddAlerts(t.Context(), []ops.Alert{a}))
		return f.alert(t, "a")
	}
	same := func(*ops.Alert) {}
	at := func(minute int) time.Time { return Start.Add(time.Duration(minute) * time.Minute) }
	equal(t, "first", tell(0, func(a *ops.Alert) { a.Content = "" }).ChangedAt, at(0))
	equal(t, "an older version did not know", tell(1, same).ChangedAt, at(0))
	equal(t, "the same again", tell(2, same).ChangedAt, at(0))
	equal(t, "another text", tell(3, func(a *ops.Alert) { a.Summary = "other words" }).ChangedAt, at(0))
	equal(t, "other values", tell(4, func(a *ops.Alert) { a.Content = "two" }).ChangedAt, at(4))
	equal(t, "back", tell(5, same).ChangedAt, at(5))
	tell(6, func(a *ops.Alert) { a.Status = ops.AlertResolved })
	equal(t, "fires again", tell(7, same).ChangedAt, at(7))
}

// disputed opens a cause for a firing alert, ends its cycle as healthy, and returns what is told of it.
func (f *Fixture) disputed(t *testing.T, told int) ops.Dispute {
	t.Helper()
	must(t, f.Store.AddAlerts(t.Context(), []ops.Alert{firing("a", "web")}))
	cause, _ := f.openCause(t, cause("web"), nil)
	policy := Policy()
	policy.Approval.Remind, policy.Approval.Reminds = time.Hour, 3
	_, err := f.Store.Claim(t.Context(), f.Owner, cause.Cycle, policy, Start)
	must(t, err)
	f.EndCycle(t, cause.Cycle)
	return f.dispute(t, cause.Cycle, told)
}

func (f *Fixture) dispute(t *testing.T, cycle ops.CycleID, told int) ops.Dispute {
	t.Helper()
	d := ops.Dispute{
		Cycle: cycle, Environment: "home", Alerts: []ops.Alert{f.alert(t, "a")}, Told: []int{told}, Event: "it still fires.",
		Notice: ops.Notice{Kind: ops.NoticeAlert, Level: ops.LevelWarning, Title: "it still fires", Environment: "home", Service: "web"},
	}
	if told > 1 {
		d.Report = &ops.IncidentReport{Title: "it still fires", Level: ops.LevelWarning, Class: ops.ClassAlert, Services: []string{"web"}}
	}
	return d
}

func (f *Fixture) noticesOf(t *testing.T, kind ops.NoticeKind) int {
	t.Helper()
	all, err := f.Store.NoticeList(t.Context(), store.NoticeFilter{Limit: 100})
	must(t, err)
	n := 0
	for _, x := range all {
		if x.Kind == kind {
			n++
		}
	}
	return n
}

func disputeIsToldOnce(t *testing.T, f *Fixture) {
	d := f.disputed(t, 1)
	won := race(t, 4, ops.ErrConflict, func(int) error { return f.Store.Dispute(t.Context(), d, Start) })
	equal(t, "told by", won, 1)
	equal(t, "notices", f.noticesOf(t, ops.NoticeAlert), 1)
	got := f.alert(t, "a")
	equal(t, "how often", got.Disputes, 1)
	equal(t, "since", got.DisputedAt, ops.Ptr(Start))
	equal(t, "incidents", len(f.openIncidents(t)), 0)
	must(t, f.Store.AddAlerts(t.Context(), []ops.Alert{firing("a", "web")})) // its sender repeats it
	again := f.dispute(t, d.Cycle, 2)
	must(t, f.Store.Dispute(t.Context(), again, Start.Add(time.Hour)))
	got = f.alert(t, "a")
	equal(t, "how often then", got.Disputes, 2)
	equal(t, "since the first time", got.DisputedAt, ops.Ptr(Start))
	open := f.openIncidents(t)
	if len(open) != 1 || open[0].Class != ops.ClassAlert || open[0].CalledAt == nil || open[0].RemindAt != nil || open[0].LastCycle != d.Cycle {
		t.Errorf("incidents are %+v", open)
	}
}

func endedIsNotDisputed(t *testing.T, f *Fixture) {
	d := f.disputed(t, 1)
	n, err := f.Store.ExpireAlerts(t.Context(), Start.Add(time.Second), Start.Add(time.Minute))
	must(t, err)
	equal(t, "expired", n, 1)
	wantErr(t, f.Store.Dispute(t.Context(), d, Start.Add(time.Minute)), ops.ErrConflict)
	equal(t, "notices", f.noticesOf(t, ops.NoticeAlert), 0)
}

func disputeEndsWithTheAlert(t *testing.T, f *Fixture) {
	d := f.disputed(t, 2)
	must(t, f.Store.Dispute(t.Context(), d, Start))
	settle := func() {
		pending, err := f.Store.PendingAlerts(t.Context(), 10)
		must(t, err)
		must(t, f.Store.RecordResults(t.Context(), "home", nil, nil, nil, nil, pending))
	}
	settle()
	equal(t, "open while it fires", len(f.openIncidents(t)), 1)
	over := firing("a", "web")
	over.Status, over.LastAt = ops.AlertResolved, Start.Add(time.Hour)
	must(t, f.Store.AddAlerts(t.Context(), []ops.Alert{over}))
	settle()
	equal(t, "open after its end", len(f.openIncidents(t)), 0)
	equal(t, "told that it is over", f.noticesOf(t, ops.NoticeResolved), 1)
	equal(t, "how often", f.alert(t, "a").Disputes, 0)
	must(t, f.Store.ResolveCause(t.Context(), f.onlyCause(t), "web recovered", ending("over"), Start.Add(time.Hour)))
	equal(t, "not told twice", f.noticesOf(t, ops.NoticeResolved), 1)
}

func (f *Fixture) onlyCause(t *testing.T) ops.Cause {
	t.Helper()
	all, err := f.Store.Causes(t.Context(), "home", Start)
	must(t, err)
	if len(all) != 1 {
		t.Fatalf("causes are %+v", all)
	}
	return all[0]
}

// red opens a cause for a service that a probe finds down, and leaves an incident of its cycle.
func (f *Fixture) red(t *testing.T, end bool) ops.Incident {
	t.Helper()
	state, _ := health.Observe(health.State{}, look("web", ops.Down), health.Thresholds{FailAfter: 1}, Start)
	must(t, f.Store.RecordResults(t.Context(), "home", nil, nil, []health.State{state}, nil, nil))
	cause, _ := f.openCause(t, cause("web"), nil)
	_, err := f.Store.Claim(t.Context(), f.Owner, cause.Cycle, Policy(), Start)
	must(t, err)
	f.open(t, cause.Cycle, report("web"))
	if end {
		f.EndCycle(t, cause.Cycle)
	}
	return f.openIncidents(t)[0]
}

func resolveReleasesCause(t *testing.T, f *Fixture) {
	i := f.red(t, true)
	at := Start.Add(3 * time.Hour)
	got, err := f.Store.ResolveIncident(t.Context(), i.ID, "ann", "done", at)
	must(t, err)
	if !strings.Contains(got.Note, "web is still down by its own probes") {
		t.Errorf("the note is %q", got.Note)
	}
	released, err := f.Store.Causes(t.Context(), "home", at)
	must(t, err)
	equal(t, "causes that were over since", len(released), 1)
	equal(t, "over", released[0].ResolvedAt, &at)
	left, err := f.Store.LeftWrong(t.Context(), got)
	must(t, err)
	equal(t, "the page says the same", left, got.Note)
	held := []ops.Withheld{{Service: "web", Why: ops.HoldSilenced, Reason: "web is down, but silenced until 18:00."}}
	must(t, f.Store.SaveWithheld(t.Context(), "home", held))
	left, err = f.Store.LeftWrong(t.Context(), got)
	must(t, err)
	if !strings.Contains(left, "nothing is started for it: web is down, but silenced") {
		t.Errorf("of a silenced service it says %q", left)
	}
}

func resolveKeepsRunningCause(t *testing.T, f *Fixture) {
	i := f.red(t, false)
	_, err := f.Store.ResolveIncident(t.Context(), i.ID, "ann", "done", Start)
	must(t, err)
	equal(t, "over", f.onlyCause(t).ResolvedAt, nil)
}

func resolveTellsOfAlerts(t *testing.T, f *Fixture) {
	must(t, f.Store.AddAlerts(t.Context(), []ops.Alert{firing("a", "web")}))
	cause, _ := f.openCause(t, cause("web"), nil)
	_, err := f.Store.Claim(t.Context(), f.Owner, cause.Cycle, Policy(), Start)
	must(t, err)
	f.incidentOf(t, cause.Cycle, "web")
	at := Start.Add(time.Hour)
	got, err := f.Store.ResolveIncident(t.Context(), f.openIncidents(t)[0].ID, "ann", "done", at)
	must(t, err)
	if !strings.Contains(got.Note, "still fires (Down)") || strings.Contains(got.Note, "probes") {
		t.Errorf("the note is %q", got.Note)
	}
	a := f.alert(t, "a")
	equal(t, "told", a.Disputes, 1)
	equal(t, "since", a.DisputedAt, &at)
	equal(t, "its cause", f.onlyCause(t).ResolvedAt, nil)
}

func resolveOfTheWell(t *testing.T, f *Fixture) {
	i := f.incident(t, "home", "web")
	got, err := f.Store.ResolveIncident(t.Context(), i.ID, "ann", "done", Start)
	must(t, err)
	equal(t, "note", got.Note, "")
}

func heldIsListed(t *testing.T, f *Fixture) {
	e := ops.Environment{Name: "home", Watch: ops.Watch{Maintenance: []ops.Maintenance{
		{Name: "backup", Service: "db", From: Start, Until: Start.Add(time.Hour)}, {Service: "old", From: Start.Add(-2 * time.Hour), Until: Start},
	}}}
	none, err := f.Store.HeldBack(t.Context(), ops.Environment{Name: "home"}, Start)
	must(t, err)
	equal(t, "nothing", len(none), 0)
	_, err = f.Store.AddSilence(t.Context(), silence())
	must(t, err)
	taken, later := f.incident(t, "home", "a"), f.incident(t, "home", "b")
	f.incident(t, "home", "open")
	f.incident(t, "office", "elsewhere")
	_, err = f.Store.Acknowledge(t.Context(), taken.ID, "ann", "", Start)
	must(t, err)
	_, err = f.Store.Snooze(t.Context(), later.ID, "ann", Start.Add(time.Hour), "", Start)
	must(t, err)
	asks := report("c")
	asks.Waits = true
	f.await(t, "home", ops.Step{Approval: question(), Incident: &asks})
	must(t, f.Store.SaveWithheld(t.Context(), "home", []ops.Withheld{
		{Service: "x", Why: ops.HoldFlapping, Reason: "x is flapping."}, {Service: "y", Why: ops.HoldCovered, Reason: "y has a cycle."},
	}))
	held, err := f.Store.HeldBack(t.Context(), e, Start)
	must(t, err)
	var got []string
	for _, h := range held {
		got = append(got, string(h.Why)+" "+h.Service)
		if h.Reason == "" {
			t.Errorf("no reason: %+v", h)
		}
	}
	equal(t, "held", got, []string{"silenced web*", "maintenance db", "person a", "person b", "person c", "flapping x"})
}
