package storetest

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/store"
)

func incidentCases() []testCase {
	return []testCase{
		{"a report opens one incident per service", reportOpensIncidents},
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
	got, err := f.Store.Incidents(t.Context(), store.IncidentFilter{})
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
	a, err := f.Store.Attention(t.Context(), f.At)
	must(t, err)
	p, err := f.Store.PageState(t.Context())
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
	over, err := f.Store.Incident(t.Context(), got[0].ID)
	must(t, err)
	equal(t, "status", over.Status, ops.IncidentResolved)
	equal(t, "how", over.Resolution, "Tier 2 repaired it")
	notices, err := f.Store.NoticeList(t.Context(), store.NoticeFilter{})
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
	got, err := f.Store.Incident(t.Context(), id)
	must(t, err)
	return got
}

func (f *Fixture) told(t *testing.T) []string {
	t.Helper()
	notices, err := f.Store.NoticeList(t.Context(), store.NoticeFilter{})
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
		Report: text, OpenedAt: Start, UpdatedAt: Start, CalledAt: ops.Ptr(Start), Own: true,
	}
	equal(t, "incident", got[0], want)
	equal(t, "service", got[1].Service, "web")
	one, err := f.Store.Incident(t.Context(), want.ID)
	must(t, err)
	want.Own = false // that is what a cycle sees
	equal(t, "read", one, want)
	_, err = f.Store.Incident(t.Context(), 999)
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
		_, err := f.Store.Commit(t.Context(), f.Owner, ops.Transition{Cycle: cycle, At: Start, Step: ops.Step{Kind: ops.StepRest, Incident: &r}})
		return err
	})
	equal(t, "commits", won, n)
	equal(t, "incidents", len(f.incidents(t)), 2)
}

func recoveredIsClosed(t *testing.T, f *Fixture) {
	web, db, office := f.incident(t, "home", "web"), f.incident(t, "home", "db"), f.incident(t, "office", "web")
	_, err := f.Store.Acknowledge(t.Context(), db.ID, "alice", "", Start)
	must(t, err)
	before, err := f.Store.Events(t.Context(), store.EventFilter{})
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
	got, err := f.Store.Incident(t.Context(), web.ID)
	must(t, err)
	want := web
	want.Status, want.ResolvedAt, want.UpdatedAt = ops.IncidentResolved, &at, at
	want.ResolvedBy, want.Resolution = "claudeops", "the probe is green"
	equal(t, "resolved", got, want)
	well(db.ID)
	well(db.ID) // nothing is left to tell

	open, err := f.Store.Incidents(t.Context(), store.IncidentFilter{Open: true})
	must(t, err)
	equal(t, "open", ids(open, func(i ops.Incident) int64 { return i.ID }), []int64{office.ID})
	events, err := f.Store.Events(t.Context(), store.EventFilter{After: before[0].ID})
	must(t, err)
	equal(t, "events", ids(events, func(e ops.Event) string { return fmt.Sprint(e.Kind, e.Level, e.Service) }),
		[]string{"incidentinfoweb", "incidentinfodb"})
	notices, err := f.Store.NoticeList(t.Context(), store.NoticeFilter{})
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
	notices, err := f.Store.NoticeList(t.Context(), store.NoticeFilter{})
	must(t, err)
	equal(t, "notices", len(notices), 1)
}

func incidentsAreListed(t *testing.T, f *Fixture) {
	web, db, office := f.incident(t, "home", "web").ID, f.incident(t, "home", "db").ID, f.incident(t, "office", "web").ID
	_, err := f.Store.ResolveIncident(t.Context(), db, "alice", "", Start)
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
		got, err := f.Store.Incidents(t.Context(), tt.filter)
		must(t, err)
		equal(t, "incidents", ids(got, func(i ops.Incident) int64 { return i.ID }), tt.want)
	}
}

func journalHasOpenIncidents(t *testing.T, f *Fixture) {
	web, db := f.incident(t, "home", "web"), f.incident(t, "home", "db")
	f.incident(t, "office", "web")
	_, err := f.Store.ResolveIncident(t.Context(), web.ID, "alice", "", Start)
	must(t, err)
	equal(t, "incidents", f.Claim(t, "home").Journal.Incidents, []ops.Incident{db})
}
