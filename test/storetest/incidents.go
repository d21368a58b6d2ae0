package storetest

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"claudeops/internal/decide/health"
	"claudeops/internal/desk"
	"claudeops/internal/notice/answer"
	"claudeops/internal/ops"
	"claudeops/internal/store"
)

func incidentCases() []testCase {
	return []testCase{
		{"a report opens one incident per service", reportOpensIncidents},
		{"an incident is over when all of its findings are", findingsEndOneByOne},
		{"a problem of no service is an incident too", serviceIsOptional},
		{"a repeat attaches to the open incident", repeatAttaches},
		{"one cycle counts once", oneCycleCountsOnce},
		{"another fingerprint is another incident", otherFingerprintIsAnother},
		{"parallel reports open one incident", parallelReportsOpenOne},
		{"what recovered is closed and told once", recoveredIsClosed},
		{"a problem that is back after its end is a new one", backAgainIsNew},
		{"incidents are listed in pages", incidentsAreListed},
		{"a cycle sees the open incidents of its environment", journalHasOpenIncidents},
		{"what a tier repairs is an incident that calls nobody", handledCallsNobody},
		{"a call keeps the incident that a tier worked on", calledAfterHandled},
		{"a tier that takes over what people know of changes nothing", handledAfterCalled},
		{"a claim without a proof leaves the incident unverified, told once", claimIsUnverified},
		{"the next bad report reopens what is unverified", unverifiedIsReopened},
		{"an incident knows whether a probe saw it", incidentKnowsItsProbe},
		{"names of no inventory are one incident of the environment", unlistedIsOneIncident},
	}
}

// report is what is known of services that do not answer.
func report(services ...string) ops.IncidentReport {
	r := ops.IncidentReport{
		Title: "no answer", Level: ops.LevelCritical, Class: "unresolved", Services: services, Findings: "the disk is full",
		CostUSD: 0.5, Recommendation: "add a disk",
	}
	for _, s := range services {
		r.Checks = append(r.Checks,
			ops.CheckResult{Service: s, CheckType: ops.CheckDNS, Status: ops.Healthy},
			ops.CheckResult{Service: s, CheckType: ops.CheckHTTP, Status: ops.Down, Error: "status 502"},
			ops.CheckResult{Service: s, CheckType: ops.CheckContainer, Status: ops.Down})
	}
	return r
}

// open commits a report in a running cycle and returns the open incidents.
func (f *Fixture) open(t *testing.T, cycle ops.CycleID, r ops.IncidentReport) []ops.Incident {
	t.Helper()
	return f.Commit(t, ops.Transition{Cycle: cycle, At: f.At, Step: ops.Step{Kind: ops.StepRest, Incident: &r}}).Journal.Incidents
}

// incident opens an incident of a service by a cycle that ends with it.
func (f *Fixture) incident(t *testing.T, environment, service string) ops.Incident {
	t.Helper()
	cycle := f.Claim(t, environment).Cycle.ID
	f.open(t, cycle, report(service))
	f.EndCycle(t, cycle)
	all := f.incidents(t)
	for _, i := range all {
		if i.Environment == environment && i.Service == service {
			return i
		}
	}
	t.Fatalf("no incident of %s in %+v", service, all)
	return ops.Incident{}
}

// incidents returns all incidents, newest first.
func (f *Fixture) incidents(t *testing.T) []ops.Incident {
	t.Helper()
	got, err := f.Store.People.Incidents(t.Context(), store.IncidentFilter{})
	must(t, err)
	return got
}

// handled is a report that calls nobody.
func handled(services ...string) ops.IncidentReport {
	r := report(services...)
	r.Handled, r.Level, r.Titles = true, ops.LevelWarning, map[string]string{"web": "web: status 502"}
	return r
}

func (f *Fixture) needYou(t *testing.T) int {
	t.Helper()
	a, err := f.Store.Reports.Attention(t.Context(), f.At)
	must(t, err)
	p, err := f.Store.Reports.PageState(t.Context())
	must(t, err)
	equal(t, "counters of pages", p.Incidents, a.Open)
	return a.NeedYou()
}

func handledCallsNobody(t *testing.T, f *Fixture) {
	cycle := f.Claim(t, "home").Cycle.ID
	got := f.open(t, cycle, handled("web"))
	if len(got) != 1 || got[0].CalledAt != nil || !got[0].Handled || got[0].RemindAt != nil || got[0].Title != "web: status 502" {
		t.Fatalf("incidents are %+v", got)
	}
	equal(t, "things to look at", f.needYou(t), 0)
	f.Commit(t, ops.Transition{Cycle: cycle, At: f.At, Step: ops.Step{
		Kind: ops.StepFinish, Status: ops.CycleResolved, Recovered: []ops.Recovered{{Incident: got[0].ID, By: ops.ProofProbe, How: "Tier 2 repaired it"}},
	}})
	over, err := f.Store.People.Incident(t.Context(), got[0].ID)
	must(t, err)
	equal(t, "status", over.Status, ops.IncidentResolved)
	equal(t, "how", over.Resolution, "Tier 2 repaired it")
	notices, err := f.Store.People.NoticeList(t.Context(), store.NoticeFilter{})
	must(t, err)
	equal(t, "notices", len(notices), 0)
}

// ended commits the end of an incident by another cycle and returns it.
func (f *Fixture) ended(t *testing.T, id int64, by ops.Proof) ops.Incident {
	t.Helper()
	cycle := f.Claim(t, "home").Cycle.ID
	f.Commit(t, ops.Transition{Cycle: cycle, At: f.At, Step: ops.Step{
		Kind: ops.StepFinish, Status: ops.CycleResolved, Recovered: []ops.Recovered{{Incident: id, By: by, How: "Tier 2 says so"}},
	}})
	got, err := f.Store.People.Incident(t.Context(), id)
	must(t, err)
	return got
}

func (f *Fixture) told(t *testing.T) []string {
	t.Helper()
	notices, err := f.Store.People.NoticeList(t.Context(), store.NoticeFilter{})
	must(t, err)
	return ids(notices, func(n ops.Notice) string { return string(n.Kind) + " " + n.Title })
}

func claimIsUnverified(t *testing.T, f *Fixture) {
	open := f.incident(t, "home", "web")
	got := f.ended(t, open.ID, ops.ProofNone)
	if got.Status != ops.IncidentUnverified || got.UnverifiedAt == nil || got.ResolvedAt != nil || got.RemindAt != nil {
		t.Errorf("the incident is %+v", got)
	}
	f.ended(t, open.ID, ops.ProofNone)
	want := []string{fmt.Sprintf("resolved Claude Ops: incident %d (web: no answer) is reported as repaired", open.ID)}
	equal(t, "told", f.told(t), want)
	equal(t, "status", f.ended(t, open.ID, ops.ProofReport).Status, ops.IncidentResolved)
	equal(t, "told at its end", f.told(t), want)
}

func unverifiedIsReopened(t *testing.T, f *Fixture) {
	open := f.incident(t, "home", "web")
	f.ended(t, open.ID, ops.ProofNone)
	cycle := f.Claim(t, "home").Cycle.ID
	again := handled("web")
	again.Checks = []ops.CheckResult{{Service: "web", CheckType: ops.CheckDNS, Status: ops.Down}}
	got := f.open(t, cycle, again)
	if len(got) != 1 || got[0].ID != open.ID || got[0].Status != ops.IncidentOpen || got[0].UnverifiedAt != nil || got[0].CalledAt != nil || !got[0].Own {
		t.Fatalf("a tier takes over %+v", got)
	}
	got = f.open(t, cycle, report("web"))
	if len(got) != 1 || got[0].CalledAt == nil {
		t.Errorf("a human is called about %+v", got)
	}
}

func incidentKnowsItsProbe(t *testing.T, f *Fixture) {
	green := f.incident(t, "home", "web")
	equal(t, "seen", green.ProbeFailedAt, nil)
	session := f.RunningSession(t, "home")
	r := report("web", "db")
	bad := ops.Check{Service: "web", Probe: "http", Type: ops.CheckHTTP, Status: ops.Down, Purpose: ops.ProbeObserve, At: f.At}
	alert := ops.Check{Service: "db", Probe: "alert x", Status: ops.Down, Purpose: ops.ProbeAlert, At: f.At}
	f.Commit(t, ops.Transition{Cycle: session.CycleID, At: f.At, Result: ops.Result{Checks: []ops.Check{bad, alert}}, Step: ops.Step{Kind: ops.StepRest, Incident: &r}})
	for _, i := range f.incidents(t) {
		equal(t, "a probe saw "+i.Service, i.ProbeFailedAt != nil, i.Service == "web")
	}
}

func unlistedIsOneIncident(t *testing.T, f *Fixture) {
	cycle := f.Claim(t, "home").Cycle.ID
	r := report("web")
	r.Unlisted = []string{"ups", "router"}
	got := f.open(t, cycle, r)
	if len(got) != 2 || got[0].Service != "web" || got[0].Class != "unresolved" || got[1].Service != "" || got[1].Class != ops.ClassEnvironment {
		t.Fatalf("incidents are %+v", got)
	}
	wantParts(t, got[1].Title, "ups", "router")
}

func calledAfterHandled(t *testing.T, f *Fixture) {
	cycle := f.Claim(t, "home").Cycle.ID
	first := f.open(t, cycle, handled("web"))[0]
	called := report("web")
	called.Checks, called.Title = nil, "Repair did not finish"
	got := f.open(t, cycle, called)
	if len(got) != 1 || got[0].ID != first.ID || got[0].CalledAt == nil || got[0].Handled || got[0].Level != ops.LevelCritical ||
		got[0].Check != "http" || got[0].Occurrences != 1 {
		t.Fatalf("incidents are %+v", got)
	}
	equal(t, "things to look at", f.needYou(t), 1)
}

func handledAfterCalled(t *testing.T, f *Fixture) {
	before := f.incident(t, "home", "web")
	cycle := f.Claim(t, "home").Cycle.ID
	got := f.open(t, cycle, handled("web"))
	if len(got) != 1 {
		t.Fatalf("incidents are %+v", got)
	}
	before.UpdatedAt, before.Own = got[0].UpdatedAt, true
	equal(t, "incident", got[0], before)
	equal(t, "things to look at", f.needYou(t), 1)
	f.EndCycle(t, cycle)

	// A cycle that ends without a repair leaves what nobody works on to people.
	cycle = f.Claim(t, "home").Cycle.ID
	f.open(t, cycle, handled("db"))
	equal(t, "while it is repaired", f.needYou(t), 1)
	f.EndCycle(t, cycle)
	equal(t, "after the cycle", f.needYou(t), 2)
}

func reportOpensIncidents(t *testing.T, f *Fixture) {
	cycle := f.Claim(t, "home").Cycle.ID
	r := report("web", "db", "web")
	got := f.open(t, cycle, r)
	if len(got) != 2 {
		t.Fatalf("%d incidents were opened", len(got))
	}
	text, err := json.Marshal(r)
	must(t, err)
	want := ops.Incident{
		ID: got[0].ID, Environment: "home", Service: "db", Check: "http", Class: "unresolved", Fingerprint: "home|db|http|unresolved",
		Title: "no answer", Level: ops.LevelCritical, Status: ops.IncidentOpen, Occurrences: 1, FirstCycle: cycle, LastCycle: cycle,
		Report: text, OpenedAt: Start, UpdatedAt: Start, CalledAt: ops.Ptr(Start), Own: true, Findings: []ops.IncidentFinding{},
		CostUSD: ops.Ptr(0.0),
	}
	equal(t, "incident", got[0], want)
	equal(t, "service", got[1].Service, "web")
	one, err := f.Store.People.Incident(t.Context(), want.ID)
	must(t, err)
	want.Own = false // that is what a cycle sees
	equal(t, "read", one, want)
	_, err = f.Store.People.Incident(t.Context(), 999)
	wantErr(t, err, ops.ErrNotFound)
}

func serviceIsOptional(t *testing.T, f *Fixture) {
	got := f.open(t, f.Claim(t, "home").Cycle.ID, report())
	if len(got) != 1 || got[0].Service != "" || got[0].Fingerprint != "home|||unresolved" {
		t.Errorf("incidents are %+v", got)
	}
}

func repeatAttaches(t *testing.T, f *Fixture) {
	first := f.incident(t, "home", "web")
	f.At = Start.Add(time.Hour)
	cycle := f.Claim(t, "home").Cycle.ID
	again := report("web")
	again.Findings, again.Title = "the disk is still full", "no answer again"
	got := f.open(t, cycle, again)
	text, err := json.Marshal(again)
	must(t, err)
	want := first
	want.Occurrences, want.LastCycle, want.Title, want.Report, want.UpdatedAt = 2, cycle, again.Title, text, Start.Add(time.Hour)
	want.Own = true
	equal(t, "incidents", got, []ops.Incident{want})
}

func oneCycleCountsOnce(t *testing.T, f *Fixture) {
	cycle := f.Claim(t, "home").Cycle.ID
	f.open(t, cycle, report("web"))
	equal(t, "occurrences", f.open(t, cycle, report("web"))[0].Occurrences, 1)
}

func otherFingerprintIsAnother(t *testing.T, f *Fixture) {
	cycle := f.Claim(t, "home").Cycle.ID
	f.open(t, cycle, report("web"))
	class := report("web")
	class.Class = "refused"
	f.open(t, cycle, class)
	check := report("web")
	check.Checks = check.Checks[2:]
	got := f.open(t, cycle, check)
	equal(t, "fingerprints", ids(got, func(i ops.Incident) string { return i.Fingerprint }),
		[]string{"home|web|http|unresolved", "home|web|http|refused", "home|web|container|unresolved"})
	f.incident(t, "office", "web")
	equal(t, "all", len(f.incidents(t)), 4)
}

func parallelReportsOpenOne(t *testing.T, f *Fixture) {
	const n = 8
	cycle := f.Claim(t, "home").Cycle.ID
	won := race(t, n, nil, func(int) error {
		r := report("web", "db")
		_, err := f.Store.Journal.Commit(t.Context(), f.Owner, ops.Transition{Cycle: cycle, At: Start, Step: ops.Step{Kind: ops.StepRest, Incident: &r}})
		return err
	})
	equal(t, "commits", won, n)
	equal(t, "incidents", len(f.incidents(t)), 2)
}

func recoveredIsClosed(t *testing.T, f *Fixture) {
	web, db, office := f.incident(t, "home", "web"), f.incident(t, "home", "db"), f.incident(t, "office", "web")
	_, err := f.Store.People.Acknowledge(t.Context(), db.ID, "alice", "", Start)
	must(t, err)
	before, err := f.Store.Journal.Events(t.Context(), store.EventFilter{})
	must(t, err)
	cycle := f.Claim(t, "home").Cycle.ID
	at := Start.Add(time.Hour)
	well := func(id int64) {
		t.Helper()
		f.Commit(t, ops.Transition{Cycle: cycle, At: at, Step: ops.Step{
			Kind: ops.StepRest, Recovered: []ops.Recovered{{Incident: id, By: ops.ProofProbe, How: "the probe is green"}},
		}})
	}
	well(web.ID)
	got, err := f.Store.People.Incident(t.Context(), web.ID)
	must(t, err)
	want := web
	want.Status, want.ResolvedAt, want.UpdatedAt = ops.IncidentResolved, &at, at
	want.ResolvedBy, want.Resolution = "claudeops", "the probe is green"
	equal(t, "resolved", got, want)
	well(db.ID)
	well(db.ID) // nothing is left to tell

	open, err := f.Store.People.Incidents(t.Context(), store.IncidentFilter{Open: true})
	must(t, err)
	equal(t, "open", ids(open, func(i ops.Incident) int64 { return i.ID }), []int64{office.ID})
	events, err := f.Store.Journal.Events(t.Context(), store.EventFilter{After: before[0].ID})
	must(t, err)
	equal(t, "events", ids(events, func(e ops.Event) string { return fmt.Sprint(e.Kind(), e.Level, e.Service) }),
		[]string{"incidentinfoweb", "incidentinfodb"})
	notices, err := f.Store.People.NoticeList(t.Context(), store.NoticeFilter{})
	must(t, err)
	equal(t, "notices", ids(notices, func(n ops.Notice) string { return string(n.Kind) }), []string{"resolved", "resolved"})
	wantParts(t, notices[1].Body, "web", "the probe is green", fmt.Sprint(web.ID))
}

func backAgainIsNew(t *testing.T, f *Fixture) {
	old := f.incident(t, "home", "web")
	cycle := f.Claim(t, "home").Cycle.ID
	r := report("web")
	// What is reported in the same step as the recovery was not open before.
	got := f.Commit(t, ops.Transition{Cycle: cycle, At: Start, Step: ops.Step{
		Kind: ops.StepRest, Incident: &r, Recovered: []ops.Recovered{{Incident: old.ID, By: ops.ProofProbe, How: "it answered once"}},
	}}).Journal.Incidents
	if len(got) != 1 || got[0].ID == old.ID || got[0].Occurrences != 1 {
		t.Errorf("incidents are %+v", got)
	}
	notices, err := f.Store.People.NoticeList(t.Context(), store.NoticeFilter{})
	must(t, err)
	equal(t, "notices", len(notices), 1)
}

func incidentsAreListed(t *testing.T, f *Fixture) {
	web, db, office := f.incident(t, "home", "web").ID, f.incident(t, "home", "db").ID, f.incident(t, "office", "web").ID
	_, err := f.Store.People.ResolveIncident(t.Context(), db, "alice", "", Start)
	must(t, err)
	for _, tt := range []struct {
		filter store.IncidentFilter
		want   []int64
	}{
		{store.IncidentFilter{}, []int64{office, db, web}},
		{store.IncidentFilter{Open: true}, []int64{office, web}},
		{store.IncidentFilter{Environment: "home"}, []int64{db, web}},
		{store.IncidentFilter{Service: "web"}, []int64{office, web}},
		{store.IncidentFilter{Limit: 1}, []int64{office}},
		{store.IncidentFilter{Before: office, Limit: 1}, []int64{db}},
	} {
		got, err := f.Store.People.Incidents(t.Context(), tt.filter)
		must(t, err)
		equal(t, "incidents", ids(got, func(i ops.Incident) int64 { return i.ID }), tt.want)
	}
}

func journalHasOpenIncidents(t *testing.T, f *Fixture) {
	web, db := f.incident(t, "home", "web"), f.incident(t, "home", "db")
	f.incident(t, "office", "web")
	_, err := f.Store.People.ResolveIncident(t.Context(), web.ID, "alice", "", Start)
	must(t, err)
	equal(t, "incidents", f.Claim(t, "home").Journal.Incidents, []ops.Incident{db})
}

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
		must(t, f.Store.Watch.AddAlerts(t.Context(), []ops.Alert{a}))
		return f.alert(t, "a")
	}
	same := func(*ops.Alert) {}
	at := func(minute int) time.Time { return Start.Add(time.Duration(minute) * time.Minute) }
	equal(t, "first", tell(0, same).ChangedAt, at(0))
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
	must(t, f.Store.Watch.AddAlerts(t.Context(), []ops.Alert{firing("a", "web")}))
	cause, _ := f.openCause(t, cause("web"), nil)
	policy := Policy()
	policy.Approval.Remind, policy.Approval.Reminds = time.Hour, 3
	_, err := f.Store.Journal.Claim(t.Context(), f.Owner, cause.Cycle, policy, Start)
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
	all, err := f.Store.People.NoticeList(t.Context(), store.NoticeFilter{Limit: 100})
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
	won := race(t, 4, ops.ErrConflict, func(int) error { return f.Store.Watch.Dispute(t.Context(), d, Start) })
	equal(t, "told by", won, 1)
	equal(t, "notices", f.noticesOf(t, ops.NoticeAlert), 1)
	got := f.alert(t, "a")
	equal(t, "how often", got.Disputes, 1)
	equal(t, "since", got.DisputedAt, ops.Ptr(Start))
	equal(t, "incidents", len(f.openIncidents(t)), 0)
	must(t, f.Store.Watch.AddAlerts(t.Context(), []ops.Alert{firing("a", "web")})) // its sender repeats it
	again := f.dispute(t, d.Cycle, 2)
	must(t, f.Store.Watch.Dispute(t.Context(), again, Start.Add(time.Hour)))
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
	n, err := f.Store.Watch.ExpireAlerts(t.Context(), Start.Add(time.Second), Start.Add(time.Minute))
	must(t, err)
	equal(t, "expired", n, 1)
	wantErr(t, f.Store.Watch.Dispute(t.Context(), d, Start.Add(time.Minute)), ops.ErrConflict)
	equal(t, "notices", f.noticesOf(t, ops.NoticeAlert), 0)
}

func disputeEndsWithTheAlert(t *testing.T, f *Fixture) {
	d := f.disputed(t, 2)
	must(t, f.Store.Watch.Dispute(t.Context(), d, Start))
	settle := func() {
		pending, err := f.Store.Watch.PendingAlerts(t.Context(), 10)
		must(t, err)
		must(t, f.Store.Watch.RecordResults(t.Context(), "home", nil, nil, nil, nil, pending))
	}
	settle()
	equal(t, "open while it fires", len(f.openIncidents(t)), 1)
	over := firing("a", "web")
	over.Status, over.LastAt = ops.AlertResolved, Start.Add(time.Hour)
	must(t, f.Store.Watch.AddAlerts(t.Context(), []ops.Alert{over}))
	settle()
	equal(t, "open after its end", len(f.openIncidents(t)), 0)
	equal(t, "told that it is over", f.noticesOf(t, ops.NoticeResolved), 1)
	equal(t, "how often", f.alert(t, "a").Disputes, 0)
	must(t, f.Store.Watch.ResolveCause(t.Context(), f.onlyCause(t), "web recovered", ending("over"), Start.Add(time.Hour)))
	equal(t, "not told twice", f.noticesOf(t, ops.NoticeResolved), 1)
}

func findingsEndOneByOne(t *testing.T, f *Fixture) {
	cycle := f.Claim(t, "home").Cycle.ID
	r := report("web")
	r.Found = []ops.IncidentFinding{
		{Service: "web", By: ops.FoundByProbe, Type: ops.CheckHTTP, What: "web: HTTP 502"},
		{Service: "web", By: ops.FoundByAgent, Type: ops.CheckService, What: "web: the disk is dying"},
		{Service: "db", By: ops.FoundByAgent, Type: ops.CheckService, What: "db: not of this incident"},
	}
	i := f.open(t, cycle, r)[0]
	equal(t, "findings", len(i.Findings), 2)
	n, err := f.Store.Watch.ServiceRecovered(t.Context(), "home", "web", Start, "web answers", Start.Add(time.Minute))
	must(t, err)
	equal(t, "closed by the probe", n, 0)
	equal(t, "open", len(f.openIncidents(t)), 1)
	equal(t, "told that it is over", f.noticesOf(t, ops.NoticeResolved), 0)
	f.open(t, cycle, r) // found again: the probe must see it well again
	reported := ops.Recovered{Incident: i.ID, By: ops.ProofReport, How: "cycle 9 found it healthy", Ends: []ops.FindingKind{ops.FoundByAgent}}
	for _, well := range [][]ops.CheckType{{ops.CheckHTTP}, {ops.CheckHTTP, ops.CheckService}} {
		reported.Types = well
		f.Commit(t, ops.Transition{Cycle: cycle, At: Start.Add(time.Minute), Step: ops.Step{Kind: ops.StepRest, Recovered: []ops.Recovered{reported}}})
		equal(t, "open after a report", len(f.openIncidents(t)), 1)
	}
	n, err = f.Store.Watch.ServiceRecovered(t.Context(), "home", "web", Start, "web answers", Start.Add(2*time.Minute))
	must(t, err)
	equal(t, "closed by both", n, 1)
	all, err := f.Store.People.NoticeList(t.Context(), store.NoticeFilter{Limit: 1})
	must(t, err)
	if len(all) != 1 || all[0].Kind != ops.NoticeResolved || !strings.Contains(all[0].Body, "the disk is dying: cycle 9 found it healthy") || !strings.Contains(all[0].Body, "HTTP 502: web answers") {
		t.Errorf("told %+v", all)
	}
}

func (f *Fixture) onlyCause(t *testing.T) ops.Cause {
	t.Helper()
	all, err := f.Store.Watch.Causes(t.Context(), "home", Start)
	must(t, err)
	if len(all) != 1 {
		t.Fatalf("causes are %+v", all)
	}
	return all[0]
}

// red opens a cause for a service that a probe finds down, and leaves an incident of its cycle.
func (f *Fixture) red(t *testing.T, end bool) ops.Incident {
	t.Helper()
	state, _ := health.Observe(ops.CheckState{}, look("web", ops.Down), health.Thresholds{FailAfter: 1}, Start)
	must(t, f.Store.Watch.RecordResults(t.Context(), "home", nil, nil, []ops.CheckState{state}, nil, nil))
	cause, _ := f.openCause(t, cause("web"), nil)
	_, err := f.Store.Journal.Claim(t.Context(), f.Owner, cause.Cycle, Policy(), Start)
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
	got, err := f.Store.People.ResolveIncident(t.Context(), i.ID, "ann", "done", at)
	must(t, err)
	if !strings.Contains(got.Note, "web is still down by its own probes") {
		t.Errorf("the note is %q", got.Note)
	}
	released, err := f.Store.Watch.Causes(t.Context(), "home", at)
	must(t, err)
	equal(t, "causes that were over since", len(released), 1)
	equal(t, "over", released[0].ResolvedAt, &at)
	left, err := f.Store.Watch.LeftWrong(t.Context(), got)
	must(t, err)
	equal(t, "the page says the same", left, got.Note)
	onHold := []ops.Withheld{{Service: "web", Why: ops.HoldSilenced, Reason: "web is down, but silenced until 18:00."}}
	must(t, f.Store.Watch.SaveWithheld(t.Context(), "home", onHold))
	left, err = f.Store.Watch.LeftWrong(t.Context(), got)
	must(t, err)
	if !strings.Contains(left, "nothing is started for it: web is down, but silenced") {
		t.Errorf("of a silenced service it says %q", left)
	}
}

func resolveKeepsRunningCause(t *testing.T, f *Fixture) {
	i := f.red(t, false)
	_, err := f.Store.People.ResolveIncident(t.Context(), i.ID, "ann", "done", Start)
	must(t, err)
	equal(t, "over", f.onlyCause(t).ResolvedAt, nil)
}

func resolveTellsOfAlerts(t *testing.T, f *Fixture) {
	must(t, f.Store.Watch.AddAlerts(t.Context(), []ops.Alert{firing("a", "web")}))
	cause, _ := f.openCause(t, cause("web"), nil)
	_, err := f.Store.Journal.Claim(t.Context(), f.Owner, cause.Cycle, Policy(), Start)
	must(t, err)
	f.incidentOf(t, cause.Cycle, "web")
	at := Start.Add(time.Hour)
	got, err := f.Store.People.ResolveIncident(t.Context(), f.openIncidents(t)[0].ID, "ann", "done", at)
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
	got, err := f.Store.People.ResolveIncident(t.Context(), i.ID, "ann", "done", Start)
	must(t, err)
	equal(t, "note", got.Note, "")
}

func heldIsListed(t *testing.T, f *Fixture) {
	e := ops.Environment{Name: "home", Watch: ops.Watch{Maintenance: []ops.Maintenance{
		{Name: "backup", Service: "db", From: Start, Until: Start.Add(time.Hour)}, {Service: "old", From: Start.Add(-2 * time.Hour), Until: Start},
	}}}
	none, err := (&desk.Desk{Store: f.Store}).HeldBack(t.Context(), ops.Environment{Name: "home"}, Start)
	must(t, err)
	equal(t, "nothing", len(none), 0)
	_, err = f.Store.Watch.AddSilence(t.Context(), silence())
	must(t, err)
	taken, later := f.incident(t, "home", "a"), f.incident(t, "home", "b")
	f.incident(t, "home", "open")
	f.incident(t, "office", "elsewhere")
	_, err = f.Store.People.Acknowledge(t.Context(), taken.ID, "ann", "", Start)
	must(t, err)
	_, err = f.Store.People.Snooze(t.Context(), later.ID, "ann", Start.Add(time.Hour), "", Start)
	must(t, err)
	asks := report("c")
	asks.Waits = true
	f.await(t, "home", ops.Step{Approval: question(), Incident: &asks})
	must(t, f.Store.Watch.SaveWithheld(t.Context(), "home", []ops.Withheld{
		{Service: "x", Why: ops.HoldFlapping, Reason: "x is flapping."}, {Service: "y", Why: ops.HoldCovered, Reason: "y has a cycle."},
	}))
	onHold, err := (&desk.Desk{Store: f.Store}).HeldBack(t.Context(), e, Start)
	must(t, err)
	var got []string
	for _, h := range onHold {
		got = append(got, string(h.Why)+" "+h.Service)
		if h.Reason == "" {
			t.Errorf("no reason: %+v", h)
		}
	}
	equal(t, "held", got, []string{"silenced web*", "maintenance db", "person a", "person b", "person c", "flapping x"})
}

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
	c, err := f.Store.Journal.Claim(t.Context(), f.Owner, f.Submit(t, "home"), policy, f.At)
	must(t, err)
	asked, waits := question(), report("web")
	asked.Facts, waits.Waits = facts(), true
	step := ops.Step{Kind: ops.StepAwait, Reason: "a human is asked", Approval: asked, Incident: &waits}
	return f.Commit(t, ops.Transition{Cycle: c.Cycle.ID, At: f.At, Step: step}).Journal.Approvals[0]
}

// denials are what a cycle of an environment is told about.
func (f *Fixture) denials(t *testing.T, environment string, at time.Time) []ops.Approval {
	t.Helper()
	c, err := f.Store.Journal.Claim(t.Context(), f.Owner, f.Submit(t, environment), Policy(), at)
	must(t, err)
	f.EndCycle(t, c.Cycle.ID)
	listed, err := f.Store.Watch.Denials(t.Context(), environment, at)
	must(t, err)
	equal(t, "listed", listed, c.Journal.Denials)
	return c.Journal.Denials
}

func noLasts(t *testing.T, f *Fixture) {
	asked := f.refusable(t)
	equal(t, "facts", asked.Facts, facts())
	got, err := f.Store.People.Deny(t.Context(), asked.ID, ops.Ptr(2*time.Hour), "alice", "no", Start)
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
	got, err := f.Store.People.Deny(t.Context(), asked.ID, nil, "alice", "no", Start)
	must(t, err)
	equal(t, "usual", got.DeniedUntil, ops.Ptr(Start.Add(24*time.Hour)))
	_, err = f.Store.People.Deny(t.Context(), asked.ID, nil, "bob", "no", Start)
	wantErr(t, err, ops.ErrConflict)
	_, err = f.Store.People.Answer(t.Context(), asked.ID, ops.ApprovalApproved, "bob", "yes", Start)
	wantErr(t, err, ops.ErrConflict)
	at := Start.Add(time.Hour)
	got, err = f.Store.People.Deny(t.Context(), asked.ID, ops.Ptr(time.Hour), "bob", "shorter", at)
	must(t, err)
	equal(t, "changed", got.DeniedUntil, ops.Ptr(Start.Add(2*time.Hour)))
	equal(t, "who answered", got.AnsweredBy, "alice")
	got, err = f.Store.People.Deny(t.Context(), asked.ID, ops.Ptr(time.Duration(0)), "bob", "ask me again", at)
	must(t, err)
	equal(t, "taken back", got.DeniedUntil, nil)
	equal(t, "denials", f.denials(t, "home", at), nil)
	events, err := f.Store.Journal.Events(t.Context(), store.EventFilter{CycleID: &asked.CycleID})
	must(t, err)
	wantParts(t, events[0].Message.Words(), "bob changed the answer", "Only this question is answered", "ask me again")

	asked = f.refusable(t)
	_, err = f.Store.People.Answer(t.Context(), asked.ID, ops.ApprovalApproved, "alice", "", Start)
	must(t, err)
	_, err = f.Store.People.Deny(t.Context(), asked.ID, ops.Ptr(time.Hour), "bob", "", Start)
	wantErr(t, err, ops.ErrConflict)
}

func noNeedsFacts(t *testing.T, f *Fixture) {
	asked := f.await(t, "home", ops.Step{Approval: question()}).Journal.Approvals[0]
	got, err := f.Store.People.Deny(t.Context(), asked.ID, ops.Ptr(time.Hour), "alice", "", Start)
	must(t, err)
	equal(t, "without facts", got.DeniedUntil, nil)
	asked = f.refusable(t)
	got, err = f.Store.People.Deny(t.Context(), asked.ID, ops.Ptr(time.Duration(0)), "alice", "", Start)
	must(t, err)
	equal(t, "this question only", got.DeniedUntil, nil)
	equal(t, "denials", f.denials(t, "home", Start), nil)
}

func noOnAPhone(t *testing.T, f *Fixture) {
	asked := f.refusable(t)
	got := f.reply(t, aReply(1, answer.Token{Subject: answer.Subject{Kind: answer.KindApproval, ID: asked.ID}, Decision: answer.Deny}))
	wantParts(t, got.Text, "Denied (approval", "No agent works on web (http 5xx) until 2026-03-15T12:0", "or until the facts change. Probes keep looking.")
	if len(f.denials(t, "home", Start.Add(23*time.Hour))) != 1 {
		t.Error("it does not last")
	}
}

func noIsLeftAlone(t *testing.T, f *Fixture) {
	asked := f.refusable(t)
	_, err := f.Store.People.Deny(t.Context(), asked.ID, ops.Ptr(2*time.Hour), "alice", "no", Start)
	must(t, err)
	f.claimAt(t, asked.CycleID, Start)
	f.EndCycle(t, asked.CycleID)
	i := f.incidents(t)[0]
	equal(t, "status", i.Status, ops.IncidentOpen)
	equal(t, "denied until", i.DeniedUntil, ops.Ptr(Start.Add(2*time.Hour)))
	equal(t, "need you", f.needYou(t), 0)
	equal(t, "attention after its end", f.attention(t, Start.Add(2*time.Hour)), store.Attention{Open: 1})
	equal(t, "reminded of it", f.due(t, Start.Add(3*time.Hour-time.Second)), []int64{})
	equal(t, "reminded after its end", f.due(t, Start.Add(3*time.Hour)), []int64{i.ID})
	// Another cycle that calls people about it is another matter.
	f.incident(t, "home", "web")
	i = f.incidents(t)[0]
	equal(t, "of another cycle", i.DeniedUntil, nil)
	equal(t, "need you", f.needYou(t), 1)
}

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
	claimed, err := f.Store.Journal.Claim(t.Context(), f.Owner, f.Submit(t, "home"), policy, f.At)
	must(t, err)
	opened := f.open(t, claimed.Cycle.ID, report(service))
	f.EndCycle(t, claimed.Cycle.ID)
	return opened[len(opened)-1]
}

func (f *Fixture) due(t *testing.T, at time.Time) []int64 {
	t.Helper()
	got, err := f.Store.People.DueReminders(t.Context(), at, 0)
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
	won := race(t, 4, ops.ErrConflict, func(int) error { return f.Store.People.Reminded(t.Context(), i.ID, &next, n) })
	equal(t, "sent", won, 1)
	got, err := f.Store.People.Incident(t.Context(), i.ID)
	must(t, err)
	equal(t, "reminders", got.Reminders, 1)
	equal(t, "next", got.RemindAt, &next)
	n.CreatedAt = next
	must(t, f.Store.People.Reminded(t.Context(), i.ID, nil, n))
	equal(t, "after the last", f.due(t, next.Add(1000*time.Hour)), []int64{})
	notices, err := f.Store.People.NoticeList(t.Context(), store.NoticeFilter{})
	must(t, err)
	equal(t, "notices", len(notices), 2)
	equal(t, "notice", notices[1].Title+string(notices[1].Status), "still open"+string(ops.NoticePending))
	wantErr(t, f.Store.People.Reminded(t.Context(), 999, nil, n), ops.ErrNotFound)
}

func answeredIsNotReminded(t *testing.T, f *Fixture) {
	acknowledged, resolved := f.reminding(t, "web"), f.reminding(t, "db")
	_, err := f.Store.People.Acknowledge(t.Context(), acknowledged.ID, "alice", "", Start)
	must(t, err)
	_, err = f.Store.People.ResolveIncident(t.Context(), resolved.ID, "alice", "", Start)
	must(t, err)
	equal(t, "due", f.due(t, Start.Add(1000*time.Hour)), []int64{})
	for _, i := range []ops.Incident{acknowledged, resolved} {
		// The answer came after the look at what is due.
		err := f.Store.People.Reminded(t.Context(), i.ID, nil, ops.Notice{Kind: "reminder", Level: ops.LevelInfo, CreatedAt: Start.Add(time.Hour)})
		wantErr(t, err, ops.ErrConflict)
		wantParts(t, err.Error(), "alice")
	}
	notices, err := f.Store.People.NoticeList(t.Context(), store.NoticeFilter{})
	must(t, err)
	equal(t, "notices", len(notices), 0)
}

func snoozeEndReminds(t *testing.T, f *Fixture) {
	i := f.reminding(t, "web")
	until := Start.Add(3 * time.Hour)
	_, err := f.Store.People.Snooze(t.Context(), i.ID, "alice", until, "", Start)
	must(t, err)
	equal(t, "before", f.due(t, until.Add(-time.Second)), []int64{})
	err = f.Store.People.Reminded(t.Context(), i.ID, nil, ops.Notice{Kind: "reminder", Level: ops.LevelInfo, CreatedAt: until.Add(-time.Second)})
	wantErr(t, err, ops.ErrConflict)
	equal(t, "at its end", f.due(t, until), []int64{i.ID})
	must(t, f.Store.People.Reminded(t.Context(), i.ID, nil, ops.Notice{Kind: "reminder", Level: ops.LevelInfo, CreatedAt: until}))
	got, err := f.Store.People.Incident(t.Context(), i.ID)
	must(t, err)
	equal(t, "status", got.Status, ops.IncidentOpen)
}

func dryRunCases() []testCase {
	return []testCase{
		{"a dry run keeps its incident, whichever check finds it", dryRunKeepsIncident},
		{"a dry run is told once, a later call is reminded of", dryRunIsNotReminded},
		{"a dry run that the watch started knows what was told", dryRunKnowsWhatWasTold},
		{"the end of what several cycles found is told once", endIsToldOnce},
	}
}

// dry reports a service in a dry run, found by a check.
func (f *Fixture) dry(t *testing.T, found ops.CheckType) ops.Incident {
	t.Helper()
	policy := Policy()
	policy.Approval.Remind, policy.Approval.Reminds = time.Hour, 3
	claimed, err := f.Store.Journal.Claim(t.Context(), f.Owner, f.Submit(t, "home"), policy, f.At)
	must(t, err)
	r := report("web")
	r.DryRun, r.Checks = found != "", nil
	if found != "" {
		r.Checks = []ops.CheckResult{{Service: "web", CheckType: found, Status: ops.Down}}
	}
	opened := f.open(t, claimed.Cycle.ID, r)
	f.EndCycle(t, claimed.Cycle.ID)
	equal(t, "open incidents", len(opened), 1)
	return opened[0]
}

func dryRunKeepsIncident(t *testing.T, f *Fixture) {
	first := f.dry(t, ops.CheckHTTP)
	for n, found := range []ops.CheckType{ops.CheckContainer, ops.CheckDNS, ops.CheckHTTP} {
		next := f.dry(t, found)
		equal(t, "incident", next.ID, first.ID)
		equal(t, "check", next.Check, string(ops.CheckHTTP))
		equal(t, "occurrences", next.Occurrences, n+2)
	}
}

func dryRunIsNotReminded(t *testing.T, f *Fixture) {
	told := f.dry(t, ops.CheckHTTP)
	equal(t, "told", told.CalledAt != nil, true)
	equal(t, "reminder", told.RemindAt, nil)
	f.At = Start.Add(time.Minute)
	equal(t, "reminder of a repeat", f.dry(t, ops.CheckHTTP).RemindAt, nil)
	claimed, err := f.Store.Journal.Claim(t.Context(), f.Owner, f.Submit(t, "home"), func() ops.Policy {
		p := Policy()
		p.Approval.Remind = time.Hour
		return p
	}(), f.At)
	must(t, err)
	called := f.open(t, claimed.Cycle.ID, report("web"))
	equal(t, "the same incident", called[0].ID, told.ID)
	equal(t, "reminder of a call", called[0].RemindAt, ops.Ptr(f.At.Add(time.Hour)))
}

func endIsToldOnce(t *testing.T, f *Fixture) {
	c, _ := f.openCause(t, cause("web"), nil)
	for _, id := range []ops.CycleID{c.Cycle, f.Submit(t, "home")} { // the cycle of the cause, and a later one that finds the same
		_, err := f.Store.Journal.Claim(t.Context(), f.Owner, id, Policy(), f.At)
		must(t, err)
		f.open(t, id, report("web"))
		f.EndCycle(t, id)
	}
	over := func() int {
		t.Helper()
		all, err := f.Store.People.NoticeList(t.Context(), store.NoticeFilter{Limit: 10})
		must(t, err)
		n := 0
		for _, one := range all {
			if one.Kind == ops.NoticeResolved {
				n++
			}
		}
		return n
	}
	_, err := f.Store.Watch.ServiceRecovered(t.Context(), "home", "web", Start.Add(-time.Hour), "web recovered", Start.Add(time.Minute))
	must(t, err)
	equal(t, "told by the service", over(), 1)
	must(t, f.Store.Watch.ResolveCause(t.Context(), c, "web recovered", ending("web has recovered"), Start.Add(time.Minute)))
	equal(t, "told by the cause", over(), 1)
}

func dryRunKnowsWhatWasTold(t *testing.T, f *Fixture) {
	notice := func() *ops.Notice {
		return &ops.Notice{Kind: ops.NoticeOpened, Level: ops.LevelCritical, Title: "web is down", Key: "opened:k"}
	}
	told := func(id ops.CycleID, dry bool) []string {
		t.Helper()
		policy := Policy()
		policy.DryRun = dry
		claimed, err := f.Store.Journal.Claim(t.Context(), f.Owner, id, policy, f.At)
		must(t, err)
		return claimed.Journal.Notified
	}
	c := cause("web")
	c.Affected = []string{"shop"}
	first, _ := f.openCause(t, c, notice())
	equal(t, "told", told(first.Cycle, true), []string{"web", "shop"})
	f.EndCycle(t, first.Cycle)

	again, _ := f.openCause(t, c, notice())
	equal(t, "a notice that is not sent again tells nobody", told(again.Cycle, true), nil)
	f.EndCycle(t, again.Cycle)

	f.At = Start.Add(24 * time.Hour)
	c.At = f.At
	for _, tt := range []struct {
		name   string
		status ops.NoticeStatus
		dry    bool
		want   []string
	}{
		{"sent", ops.NoticeSent, true, []string{"web", "shop"}},
		{"to nobody", ops.NoticeSkipped, true, nil},
		{"in vain", ops.NoticeDead, true, nil},
		{"nobody asks", ops.NoticeSent, false, nil},
	} {
		n := notice()
		n.Key += tt.name
		next, _ := f.openCause(t, c, n)
		all, err := f.Store.People.NoticeList(t.Context(), store.NoticeFilter{Limit: 1})
		must(t, err)
		all[0].Status = tt.status
		must(t, f.Store.People.SettleNotice(t.Context(), all[0], nil))
		equal(t, tt.name, told(next.Cycle, tt.dry), tt.want)
		f.EndCycle(t, next.Cycle)
	}
}
