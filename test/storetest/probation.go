package storetest

import (
	"strings"
	"testing"
	"time"

	"claudeops/internal/decide/health"
	"claudeops/internal/ops"
	"claudeops/internal/store"
)

func probationCases() []testCase {
	return []testCase{
		{"what a resolved cycle closes is on probation", resolvedIsOnProbation},
		{"what probes close while it runs is on probation too", closedMeanwhileIsOnProbation},
		{"a look of another cycle proves what it closes", provedByAnotherCycle},
		{"other endings start no probation", otherEndingsStartNone},
		{"a check that fails again opens the same incident and refutes the cycle", relapseReopens},
		{"an incident that is opened again starts afresh", relapseStartsAfresh},
		{"a relapse counts once, also for hosts at once", relapseCountsOnce},
		{"a second repair has a probation of its own", secondProbation},
		{"the cycle of a relapse tells nobody again", cycleOfRelapseIsQuiet},
		{"a service that recovers after a relapse closes it", relapseRecovers},
		{"a report about what is on probation opens it again", reportReopens},
		{"a report that calls people itself tells what did not hold", reportTellsItself},
		{"a report after the probation, or of another check, is a new incident", reportIsNew},
		{"own probes of a cycle find a relapse", ownProbesFindRelapse},
		{"own probes of what is silenced or depends on another find none", ownProbesObeyOnProbation},
		{"whether a container runs is no result of a probe", runningIsNoResult},
	}
}

// verifies is what the own probe of a cycle finds after a repair.
func verifies(service string) ops.Check {
	return ops.Check{At: Start, Purpose: ops.ProbeVerify, Service: service, Probe: "GET", Type: ops.CheckHTTP, Status: ops.Healthy}
}

// repaired is a cycle that worked on services and ends resolved a minute later, with their incidents closed.
func (f *Fixture) repaired(t *testing.T, services ...string) ops.Cycle {
	t.Helper()
	p := Policy()
	p.Approval.Remind = time.Hour
	claimed, err := f.Store.Journal.Claim(t.Context(), f.Owner, f.Submit(t, "home"), p, f.At)
	must(t, err)
	f.open(t, claimed.Cycle.ID, handled(services...))
	step := ops.Step{Kind: ops.StepFinish, Status: ops.CycleResolved, Reason: "Tier 2 repaired it", Confirmed: ops.Ptr(true), ConfirmedBy: ops.ProofProbe}
	result := ops.Result{}
	for _, s := range services {
		step.Recovered = append(step.Recovered, ops.Recovered{Incident: f.openOf(t, s), By: ops.ProofProbe, How: "Tier 2 repaired it"})
		result.Checks = append(result.Checks, verifies(s))
	}
	return f.Commit(t, ops.Transition{Cycle: claimed.Cycle.ID, At: f.At.Add(time.Minute), Result: result, Step: step}).Cycle
}

// openOf is the open incident of a service.
func (f *Fixture) openOf(t *testing.T, service string) int64 {
	t.Helper()
	for _, i := range f.openIncidents(t) {
		if i.Service == service {
			return i.ID
		}
	}
	t.Fatalf("%q has no open incident", service)
	return 0
}

func (f *Fixture) onProbation(t *testing.T, at time.Time) []ops.Claim {
	t.Helper()
	got, err := f.Store.Watch.OnProbation(t.Context(), "home", at)
	must(t, err)
	return got
}

func (f *Fixture) proven(t *testing.T) []ops.Proven {
	t.Helper()
	got, err := f.Store.Watch.Proven(t.Context(), "home", Start)
	must(t, err)
	return got
}

func (f *Fixture) cycleOf(t *testing.T, id ops.CycleID) ops.Cycle {
	t.Helper()
	got, err := f.Store.Journal.Cycle(t.Context(), id)
	must(t, err)
	return got
}

func (f *Fixture) incidentWith(t *testing.T, id int64) ops.Incident {
	t.Helper()
	got, err := f.Store.People.Incident(t.Context(), id)
	must(t, err)
	return got
}

func (f *Fixture) noticeList(t *testing.T) []ops.Notice {
	t.Helper()
	got, err := f.Store.People.NoticeList(t.Context(), store.NoticeFilter{})
	must(t, err)
	return got
}

// failed is a check that fails again.
func failed(service string) ops.Check {
	return ops.Check{
		At: Start.Add(5 * time.Minute), Environment: "home", Purpose: ops.ProbeWatch, Service: service, Probe: "GET", Type: ops.CheckHTTP,
		Status: ops.Down, Error: "status 500",
	}
}

func (f *Fixture) relapse(t *testing.T, c ops.Claim, at time.Time) bool {
	t.Helper()
	done, err := f.Store.Watch.Relapsed(t.Context(), ops.Relapse{Claim: c, Found: failed(c.Service), At: at, Next: at.Add(4 * time.Minute)})
	must(t, err)
	return done
}

func resolvedIsOnProbation(t *testing.T, f *Fixture) {
	cycle := f.repaired(t, "web")
	until := Start.Add(11 * time.Minute)
	equal(t, "claims", f.onProbation(t, Start.Add(2*time.Minute)), []ops.Claim{{
		Incident: 1, Environment: "home", Service: "web", Check: "http", Cycle: cycle.ID, At: Start.Add(time.Minute), Until: until,
	}})
	equal(t, "proven", f.proven(t), []ops.Proven{{Service: "web", Probe: "GET", At: Start}})
	equal(t, "claims after it", len(f.onProbation(t, until.Add(time.Second))), 0)
	equal(t, "incident", f.incidentWith(t, 1).ProbationUntil, &until)
	equal(t, "cycle", f.cycleOf(t, cycle.ID).ProbationUntil, &until)
	if f.cycleOf(t, cycle.ID).RefutedAt != nil || f.incidentWith(t, 1).ReopenedAt != nil {
		t.Error("it is refuted at once")
	}
}

func closedMeanwhileIsOnProbation(t *testing.T, f *Fixture) {
	cycle := f.Claim(t, "home").Cycle.ID
	f.open(t, cycle, handled("web"))
	_, err := f.Store.Watch.ServiceRecovered(t.Context(), "home", "web", Start, "web is well", Start.Add(time.Minute))
	must(t, err)
	f.Commit(t, ops.Transition{Cycle: cycle, At: Start.Add(2 * time.Minute), Step: ops.Step{Kind: ops.StepFinish, Status: ops.CycleResolved}})
	got := f.onProbation(t, Start.Add(3*time.Minute))
	if len(got) != 1 || !got[0].At.Equal(Start.Add(2*time.Minute)) || len(f.proven(t)) != 0 {
		t.Errorf("claims are %+v", got)
	}
	equal(t, "cycle", f.cycleOf(t, cycle).ProbationUntil, ops.Ptr(Start.Add(12*time.Minute)))
}

func provedByAnotherCycle(t *testing.T, f *Fixture) {
	waits := f.Claim(t, "home").Cycle.ID
	f.open(t, waits, handled("web"))
	f.Commit(t, ops.Transition{Cycle: waits, At: Start, Step: ops.Step{Kind: ops.StepDefer, Until: Start.Add(2 * time.Minute)}})
	looks := f.Claim(t, "home").Cycle.ID
	well := failed("web")
	well.At, well.CycleID, well.Purpose, well.Status, well.Error = Start, &looks, ops.ProbeObserve, ops.Healthy, ""
	f.Commit(t, ops.Transition{
		Cycle: looks, At: Start.Add(time.Minute), Result: ops.Result{Checks: []ops.Check{well}},
		Step: ops.Step{
			Kind: ops.StepFinish, Status: ops.CycleHealthy, Recovered: []ops.Recovered{{Incident: 1, By: ops.ProofProbe, How: "probes find it healthy"}},
		},
	})
	_, err := f.Store.Journal.Claim(t.Context(), f.Owner, waits, Policy(), Start.Add(3*time.Minute))
	must(t, err)
	f.Commit(t, ops.Transition{Cycle: waits, At: Start.Add(3 * time.Minute), Step: ops.Step{Kind: ops.StepFinish, Status: ops.CycleResolved}})
	got := f.onProbation(t, Start.Add(4*time.Minute))
	if len(got) != 1 || got[0].Cycle != waits {
		t.Errorf("claims are %+v", got)
	}
	equal(t, "proven", f.proven(t), []ops.Proven{{Service: "web", Probe: "GET", At: Start}})
}

func otherEndingsStartNone(t *testing.T, f *Fixture) {
	// Closed by a person while the cycle ran.
	cycle := f.Claim(t, "home").Cycle.ID
	f.open(t, cycle, handled("web"))
	_, err := f.Store.People.ResolveIncident(t.Context(), 1, "ann", "", Start)
	must(t, err)
	f.Commit(t, ops.Transition{Cycle: cycle, At: Start, Step: ops.Step{Kind: ops.StepFinish, Status: ops.CycleResolved}})
	// Found well by a look, without a repair; and about the agent itself.
	f.incident(t, "home", "db")
	agent := report()
	agent.Class = ops.ClassAgent
	cycle = f.Claim(t, "home").Cycle.ID
	f.open(t, cycle, agent)
	f.Commit(t, ops.Transition{Cycle: cycle, At: Start, Step: ops.Step{
		Kind: ops.StepFinish, Status: ops.CycleHealthy, Recovered: []ops.Recovered{{Incident: f.openOf(t, "db"), By: ops.ProofReport, How: "well"}},
	}})
	cycle = f.Claim(t, "home").Cycle.ID
	f.Commit(t, ops.Transition{Cycle: cycle, At: Start, Step: ops.Step{
		Kind: ops.StepFinish, Status: ops.CycleResolved, Recovered: []ops.Recovered{{Incident: f.openOf(t, ""), By: ops.ProofReport, How: "it works again"}},
	}})
	equal(t, "claims", len(f.onProbation(t, Start)), 0)
	equal(t, "open", len(f.openIncidents(t)), 0)
}

func relapseReopens(t *testing.T, f *Fixture) {
	cycle := f.repaired(t, "web", "db")
	claim := f.onProbation(t, Start.Add(2*time.Minute))[1]
	equal(t, "service", claim.Service, "web")
	at := Start.Add(6 * time.Minute)
	before, err := f.Store.Journal.Events(t.Context(), store.EventFilter{})
	must(t, err)
	equal(t, "done", f.relapse(t, claim, at), true)
	got := f.incidentWith(t, claim.Incident)
	if got.Status != ops.IncidentOpen || got.ResolvedAt != nil || got.ResolvedBy != "" || got.Resolution != "" || got.Occurrences != 2 ||
		got.ProbationUntil != nil || got.ReopenedAt == nil || !got.ReopenedAt.Equal(at) || got.CalledAt == nil || !got.CalledAt.Equal(at) ||
		got.RemindAt == nil || !got.RemindAt.Equal(at.Add(time.Hour)) || got.ProbeFailedAt == nil || !got.ProbeFailedAt.Equal(at) ||
		got.Title != "web: status 500" || got.Level != ops.LevelCritical || !got.OpenedAt.Equal(Start) || got.Handled {
		t.Errorf("the incident is %+v", got)
	}
	known, err := got.Known()
	must(t, err)
	wantParts(t, known.Recommendation, "the next cycle may start at 2026-03-14 12:10 UTC", "claudeops run")
	equal(t, "findings stay", known.Findings, "the disk is full")
	equal(t, "refuted", f.cycleOf(t, cycle.ID).RefutedAt, &at)
	events, err := f.Store.Journal.Events(t.Context(), store.EventFilter{After: before[0].ID})
	must(t, err)
	equal(t, "events", len(events), 1)
	wantParts(t, events[0].Message.Words(), "incident", "is open again: the repair of cycle 1 did not hold, web is down again: status 500.")
	equal(t, "event of the cycle", *events[0].CycleID, cycle.ID)
	notices := f.noticeList(t)
	equal(t, "notices", len(notices), 1)
	n := notices[0]
	if n.Kind != ops.NoticeNeedsHuman || n.Incident != got.ID || n.Service != "web" || n.Environment != "home" || n.Level != ops.LevelCritical {
		t.Errorf("the notice is %+v", n)
	}
	wantParts(t, n.Title+n.Body, "The repair did not hold", "web is down again: status 500", "cycle 1", "Confirmed: by our own probes", "12:10 UTC")
	gauges, err := f.Store.Reports.Gauges(t.Context(), []string{"home"})
	must(t, err)
	equal(t, "successes", len(gauges.LastSuccess), 0)
	// The other service of the cycle is not touched.
	other := f.onProbation(t, at)
	if len(other) != 1 || other[0].Service != "db" || f.incidentWith(t, other[0].Incident).ReopenedAt != nil {
		t.Errorf("the other claim is %+v", other)
	}
}

func relapseStartsAfresh(t *testing.T, f *Fixture) {
	web := f.incident(t, "home", "web")
	_, err := f.Store.People.Acknowledge(t.Context(), web.ID, "ann", "mine", Start)
	must(t, err)
	cycle := f.Claim(t, "home").Cycle.ID
	f.Commit(t, ops.Transition{Cycle: cycle, At: Start.Add(time.Minute), Step: ops.Step{
		Kind: ops.StepFinish, Status: ops.CycleResolved, Recovered: []ops.Recovered{{Incident: web.ID, By: ops.ProofProbe, How: "done"}},
	}})
	equal(t, "done", f.relapse(t, f.onProbation(t, Start.Add(time.Minute))[0], Start.Add(3*time.Minute)), true)
	got := f.incidentWith(t, web.ID)
	if got.Status != ops.IncidentOpen || got.AcknowledgedAt != nil || got.AcknowledgedBy != "" || got.Holds(f.At) {
		t.Errorf("the incident is %+v", got)
	}
	equal(t, "who acknowledged is told again", f.noticeList(t)[0].Incident, web.ID)
	// And whoever takes it over now has it.
	_, err = f.Store.People.Acknowledge(t.Context(), web.ID, "ann", "mine again", Start.Add(4*time.Minute))
	must(t, err)
	if got = f.incidentWith(t, web.ID); got.RemindAt != nil || !got.Holds(f.At) || got.ReopenedAt == nil {
		t.Errorf("the incident is %+v", got)
	}
}

func relapseCountsOnce(t *testing.T, f *Fixture) {
	f.repaired(t, "web")
	claim := f.onProbation(t, Start.Add(2*time.Minute))[0]
	done := make(chan bool, 8)
	race(t, 8, nil, func(int) error {
		ok, err := f.Store.Watch.Relapsed(t.Context(), ops.Relapse{Claim: claim, Found: failed("web"), At: Start.Add(3 * time.Minute)})
		done <- ok
		return err
	})
	close(done)
	n := 0
	for ok := range done {
		if ok {
			n++
		}
	}
	equal(t, "relapses", n, 1)
	equal(t, "notices", len(f.noticeList(t)), 1)
	equal(t, "occurrences", f.incidentWith(t, claim.Incident).Occurrences, 2)
}

func secondProbation(t *testing.T, f *Fixture) {
	first := f.repaired(t, "web")
	f.relapse(t, f.onProbation(t, Start.Add(2*time.Minute))[0], Start.Add(3*time.Minute))
	f.At = Start.Add(20 * time.Minute)
	second := f.Claim(t, "home").Cycle.ID
	f.open(t, second, handled("web"))
	f.Commit(t, ops.Transition{Cycle: second, At: f.At, Step: ops.Step{
		Kind: ops.StepFinish, Status: ops.CycleResolved, Recovered: []ops.Recovered{{Incident: f.openOf(t, "web"), By: ops.ProofProbe, How: "now really"}},
	}})
	got := f.onProbation(t, f.At)
	if len(got) != 1 || got[0].Incident != 1 || got[0].Cycle != second || !got[0].Until.Equal(f.At.Add(ops.Probation)) {
		t.Errorf("claims are %+v", got)
	}
	if a, b := f.cycleOf(t, first.ID), f.cycleOf(t, second); a.RefutedAt == nil || a.ProbationUntil != nil || b.RefutedAt != nil || b.ProbationUntil == nil {
		t.Errorf("the first cycle is %+v, the second %+v", a, b)
	}
	at := f.At.Add(time.Minute)
	equal(t, "done", f.relapse(t, got[0], at), true)
	equal(t, "refuted", f.cycleOf(t, second).RefutedAt, &at)
	equal(t, "occurrences", f.incidentWith(t, 1).Occurrences, 3)
}

func cycleOfRelapseIsQuiet(t *testing.T, f *Fixture) {
	f.repaired(t, "web")
	f.relapse(t, f.onProbation(t, Start.Add(2*time.Minute))[0], Start.Add(6*time.Minute))
	opened := &ops.Notice{Kind: "opened", Level: ops.LevelCritical, Title: "web is down", Key: "opened:k"}
	again := cause("web")
	again.Began, again.At = Start.Add(5*time.Minute), Start.Add(10*time.Minute)
	got, started := f.openCause(t, again, opened)
	equal(t, "started", started, true)
	equal(t, "notices", len(f.noticeList(t)), 1)
	equal(t, "the incident's last cycle", f.incidentWith(t, 1).LastCycle, got.Cycle)
	// With others of which nobody was told, it is told.
	more := cause("mail", "web")
	more.Key, more.Began, more.At = "k2", Start.Add(5*time.Minute), Start.Add(20*time.Minute)
	f.openCause(t, more, &ops.Notice{Kind: "opened", Level: ops.LevelCritical, Title: "mail is down", Key: "opened:k2"})
	equal(t, "notices of both", len(f.noticeList(t)), 2)
	// A failure that began after the relapse is another one.
	next := cause("web")
	next.Key, next.Began, next.At = "k3", Start.Add(30*time.Minute), Start.Add(31*time.Minute)
	f.openCause(t, next, &ops.Notice{Kind: "opened", Level: ops.LevelCritical, Title: "web is down", Key: "opened:k3"})
	equal(t, "notices of another failure", len(f.noticeList(t)), 3)
}

func relapseRecovers(t *testing.T, f *Fixture) {
	f.repaired(t, "web")
	f.relapse(t, f.onProbation(t, Start.Add(2*time.Minute))[0], Start.Add(6*time.Minute))
	n, err := f.Store.Watch.ServiceRecovered(t.Context(), "home", "web", Start.Add(5*time.Minute), "web recovered", Start.Add(8*time.Minute))
	must(t, err)
	equal(t, "closed", n, 1)
	got := f.incidentWith(t, 1)
	if got.ResolvedAt == nil || got.ProbationUntil != nil || got.ReopenedAt == nil || !got.ReopenedAt.Equal(Start.Add(6*time.Minute)) {
		t.Errorf("the incident is %+v", got)
	}
	equal(t, "on probation again", len(f.onProbation(t, Start.Add(6*time.Minute))), 0)
	equal(t, "told twice: that it did not hold, and that it is over", len(f.noticeList(t)), 2)
}

func reportReopens(t *testing.T, f *Fixture) {
	cycle := f.repaired(t, "web")
	f.At = Start.Add(5 * time.Minute)
	second := f.Claim(t, "home").Cycle.ID
	got := f.open(t, second, handled("web"))
	if len(got) != 1 || got[0].ID != 1 || got[0].Occurrences != 2 || got[0].CalledAt == nil || got[0].ReopenedAt == nil || got[0].Title != "web: status 502" {
		t.Errorf("incidents are %+v", got)
	}
	equal(t, "refuted", f.cycleOf(t, cycle.ID).RefutedAt, &f.At)
	notices := f.noticeList(t)
	equal(t, "notices", len(notices), 1)
	wantParts(t, notices[0].Title+notices[0].Body, "The repair did not hold", "cycle 2 works on it")
	// No probe has seen it, so none closes it.
	n, err := f.Store.Watch.ServiceRecovered(t.Context(), "home", "web", Start.Add(4*time.Minute), "web recovered", Start.Add(8*time.Minute))
	must(t, err)
	equal(t, "closed", n, 0)
}

func reportTellsItself(t *testing.T, f *Fixture) {
	f.repaired(t, "web")
	f.At = Start.Add(5 * time.Minute)
	second := f.Claim(t, "home").Cycle.ID
	r := report("web")
	r.Checks = nil // it names no check
	f.Commit(t, ops.Transition{Cycle: second, At: f.At, Step: ops.Step{
		Kind: ops.StepFinish, Status: ops.CycleNeedsHuman, Incident: &r,
		Notices: []ops.Notice{{Kind: ops.NoticeNeedsHuman, Level: ops.LevelCritical, Title: "help", Body: "It is down.\n"}},
	}})
	got := f.incidents(t)
	if len(got) != 1 || got[0].Occurrences != 2 || got[0].Status != ops.IncidentOpen || got[0].CalledAt == nil || !got[0].CalledAt.Equal(f.At) ||
		got[0].LastCycle != second {
		t.Errorf("incidents are %+v", got)
	}
	notices := f.noticeList(t)
	equal(t, "notices", len(notices), 1)
	wantParts(t, notices[0].Body, "It is down.\n- Did not hold: the repair of web that cycle 1 claimed at 2026-03-14 12:01 UTC, confirmed by our own probes\n")
}

func reportIsNew(t *testing.T, f *Fixture) {
	cycle := f.repaired(t, "web")
	f.At = Start.Add(5 * time.Minute)
	other := handled("web")
	other.Checks = other.Checks[2:] // the container, not http
	second := f.Claim(t, "home").Cycle.ID
	got := f.open(t, second, other)
	if len(got) != 1 || got[0].ID == 1 {
		t.Errorf("another check: incidents are %+v", got)
	}
	f.EndCycle(t, second)
	f.At = Start.Add(12 * time.Minute)
	got = f.open(t, f.Claim(t, "home").Cycle.ID, handled("web"))
	if len(got) != 2 || got[1].ID == 1 {
		t.Errorf("after the probation: incidents are %+v", got)
	}
	if f.cycleOf(t, cycle.ID).RefutedAt != nil || len(f.noticeList(t)) != 0 {
		t.Errorf("the cycle is %+v", f.cycleOf(t, cycle.ID))
	}
}

func ownProbesFindRelapse(t *testing.T, f *Fixture) {
	cycle := f.repaired(t, "web")
	f.At = Start.Add(5 * time.Minute)
	got := f.probing(t, Policy(), "web")
	if len(got.Journal.Incidents) != 1 || got.Journal.Incidents[0].ID != 1 || got.Journal.Incidents[0].ProbeFailedAt == nil {
		t.Errorf("incidents are %+v", got.Journal.Incidents)
	}
	equal(t, "refuted", f.cycleOf(t, cycle.ID).RefutedAt, &f.At)
	notices := f.noticeList(t)
	equal(t, "notices", len(notices), 1)
	wantParts(t, notices[0].Body, "cycle 2 works on it")
	// A tier that takes it over tells nobody again.
	f.open(t, got.Cycle.ID, handled("web"))
	equal(t, "notices after", len(f.noticeList(t)), 1)
	equal(t, "occurrences", f.incidentWith(t, 1).Occurrences, 2)
}

func ownProbesObeyOnProbation(t *testing.T, f *Fixture) {
	f.repaired(t, "mail", "web")
	f.At = Start.Add(5 * time.Minute)
	_, err := f.Store.Watch.AddSilence(t.Context(), ops.Silence{
		Environment: "home", Service: "mail", Probe: "GET", Reason: "moving", Author: "ann", CreatedAt: f.At, From: f.At, Until: f.At.Add(time.Hour),
	})
	must(t, err)
	must(t, f.Store.Watch.RecordResults(t.Context(), "home", nil, nil, []ops.CheckState{failing("db"), failing("web")}, nil, nil))
	p := watched(ops.Service{Name: "db"}, ops.Service{Name: "mail"}, ops.Service{Name: "web", DependsOn: []string{"db"}})
	got := f.probing(t, p, "db", "mail", "web")
	equal(t, "incidents", len(got.Journal.Incidents), 0)
	equal(t, "claims", len(f.onProbation(t, f.At)), 2)
	equal(t, "notices", len(f.noticeList(t)), 0)
}

func failing(service string) ops.CheckState {
	s, _ := health.Observe(ops.CheckState{}, failed(service), health.Thresholds{FailAfter: 1}, Start.Add(5*time.Minute))
	return s
}

func runningIsNoResult(t *testing.T, f *Fixture) {
	cycle := f.Claim(t, "home").Cycle.ID
	idle := ops.Check{At: Start, Purpose: ops.ProbeRunning, Service: "web", Probe: "container web", Type: ops.CheckContainer, Status: ops.Down}
	got := f.Commit(t, ops.Transition{Cycle: cycle, At: Start, Result: ops.Result{Checks: []ops.Check{verifies("web"), idle}}, Step: ops.Step{Kind: ops.StepRest}})
	equal(t, "journal", len(got.Journal.Checks), 2)
	latest, err := f.Store.Watch.LatestChecks(t.Context(), "home")
	must(t, err)
	all, err := f.Store.Watch.LatestChecks(t.Context(), "")
	must(t, err)
	own, err := f.Store.Watch.ChecksOf(t.Context(), "home", "web")
	must(t, err)
	since, err := f.Store.Watch.ChecksSince(t.Context(), "home", "web", Start)
	must(t, err)
	for what, checks := range map[string][]ops.Check{"latest": latest, "of all": all, "of the service": own, "since": since} {
		if len(checks) != 1 || strings.HasPrefix(checks[0].Probe, "container") {
			t.Errorf("%s: %+v", what, checks)
		}
	}
}
