package storetest

import (
	"strings"
	"testing"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/store"
	"claudeops/internal/watch/health"
)

// probing claims a cycle under a policy and records what its own probes found.
func (f *Fixture) probing(t *testing.T, policy ops.Policy, bad ...string) ops.Claimed {
	t.Helper()
	claimed, err := f.Store.Claim(t.Context(), f.Owner, f.Submit(t, "home"), policy, f.At)
	must(t, err)
	if len(bad) == 0 {
		return claimed
	}
	var checks []ops.Check
	for _, name := range bad {
		checks = append(
			checks,
			ops.Check{At: f.At, Purpose: ops.ProbeObserve, Service: name, Probe: "GET", Type: ops.CheckHTTP, Status: ops.Down},
		)
	}
	n := ops.NewSession{Attempt: 1, Handler: Handler(ops.Tier1), ContextMode: ops.ContextFresh}
	return f.Commit(t, ops.Transition{
		Cycle: claimed.Cycle.ID, At: f.At, Result: ops.Result{Checks: checks}, Step: ops.Step{Kind: ops.StepQueue, Session: &n},
	})
}

// later is a cycle as it reads after a time.
func (f *Fixture) later(t *testing.T, id ops.CycleID, after time.Duration) ops.Claimed {
	t.Helper()
	tick := ops.Event{Level: ops.LevelInfo, Kind: ops.EventCycle, Message: "time passes"}
	return f.Commit(t, ops.Transition{Cycle: id, At: Start.Add(after), Step: ops.Step{Kind: ops.StepRest, Events: []ops.Event{tick}}})
}

func watched(services ...ops.Service) ops.Policy {
	p := Policy()
	p.Inventory = ops.Inventory{Services: services}
	return p
}

func reasons(held []ops.Withheld) map[string]ops.HoldReason {
	out := map[string]ops.HoldReason{}
	for _, h := range held {
		out[h.Service] = h.Why
	}
	return out
}

func maintenanceHolds(t *testing.T, f *Fixture) {
	p := watched(ops.Service{Name: "db"}, ops.Service{Name: "web"})
	p.Watch.Maintenance = []ops.Maintenance{
		{Name: "disk", Service: "db", From: Start.Add(-time.Hour), Until: Start.Add(time.Hour)},
		{Name: "nightly", Service: "web", Schedule: "02:00", Length: time.Hour, Zone: "Europe/Berlin"},
	}
	// Nothing has been judged since the start: neither an agent's finding nor a probe's may start a tier.
	got := f.probing(t, p)
	equal(t, "before any probe", got.Journal.Withheld, []ops.Withheld{{
		Service: "db", Why: ops.HoldMaintenance, Reason: "db is in maintenance until 13:00:00 UTC.", Until: Start.Add(time.Hour),
	}})
	f.Commit(t, ops.Transition{Cycle: got.Cycle.ID, At: f.At, Step: ops.Step{Kind: ops.StepFinish, Status: ops.CycleHealthy}})
	got = f.probing(t, p, "db", "web")
	equal(t, "after the probe", reasons(got.Journal.Withheld), map[string]ops.HoldReason{"db": ops.HoldMaintenance})
	loaded := f.later(t, got.Cycle.ID, 2*time.Hour)
	equal(t, "after the maintenance", len(loaded.Journal.Withheld), 0)
}

func ownProbesObey(t *testing.T, f *Fixture) {
	_, err := f.Store.AddSilence(t.Context(), ops.Silence{
		Environment: "home", Service: "mail", Reason: "moving", Author: "ann", CreatedAt: Start, From: Start, Until: Start.Add(time.Hour),
	})
	must(t, err)
	must(t, f.Store.SaveWithheld(t.Context(), "home", []ops.Withheld{
		{Service: "cache", Why: ops.HoldRecent, Reason: "cache is down again."},
		{Service: "db", Why: ops.HoldUnsettled, Reason: "db was down at its last check."},
	}))
	p := watched(ops.Service{Name: "db"}, ops.Service{Name: "mail"}, ops.Service{Name: "web", DependsOn: []string{"db"}})
	got := f.probing(t, p, "db", "mail", "web", "db", "mail", "web") // probed twice
	equal(t, "held", reasons(got.Journal.Withheld), map[string]ops.HoldReason{
		"cache": ops.HoldRecent, "mail": ops.HoldSilenced, "web": ops.HoldDependency,
	})
	loaded := f.later(t, got.Cycle.ID, 2*time.Hour)
	equal(t, "without the silence", reasons(loaded.Journal.Withheld), map[string]ops.HoldReason{
		"cache": ops.HoldRecent, "web": ops.HoldDependency,
	})
}

// What a person holds is told, and the decision itself weighs it: a cycle's own question must not hold that cycle.
func questionHoldsOthers(t *testing.T, f *Fixture) {
	asked := f.await(t, "home", ops.Step{
		Approval: question(),
		Incident: &ops.IncidentReport{Title: "may it?", Level: ops.LevelCritical, Class: "down", Services: []string{"web"}, Waits: true},
	})
	must(t, f.Store.SaveWithheld(t.Context(), "home", []ops.Withheld{{Service: "web", Why: ops.HoldPerson, Reason: "a cycle waits for an answer."}}))
	loaded, err := f.Store.Load(t.Context(), asked.Cycle.ID)
	must(t, err)
	equal(t, "held", reasons(loaded.Journal.Withheld), map[string]ops.HoldReason{"web": ops.HoldPerson})
	if loaded.Journal.Withheld[0].Why.Inhibits() {
		t.Error("the watch's note about a person decides for the cycle")
	}
	equal(t, "waits", *loaded.Journal.Incidents[0].Waiting, asked.Cycle.ID)
}

func lastCheckIsKnown(t *testing.T, f *Fixture) {
	var s health.State
	result := ops.Check{Environment: "home", Purpose: ops.ProbeWatch, Service: "web", Probe: "GET", Type: ops.CheckHTTP, Status: ops.Healthy}
	for n := range 3 {
		result.At, result.ResponseTimeMS = Start.Add(time.Duration(n)*time.Minute), int64(n)
		s, _ = health.Observe(s, result, health.Thresholds{}, result.At)
		if n == 0 { // the others change nothing
			must(t, f.Store.RecordResults(t.Context(), "home", []ops.Check{result}, nil, []health.State{s}, nil, nil))
			continue
		}
		must(t, f.Store.RecordResults(t.Context(), "home", nil, []ops.Check{result}, []health.State{s}, nil, nil))
	}
	for _, environment := range []string{"", "home"} {
		got, err := f.Store.LatestChecks(t.Context(), environment)
		must(t, err)
		result.ID = got[0].ID
		equal(t, "latest", got, []ops.Check{result})
	}
	// What fails again and again is not shown as good between two failures.
	for n := 3; n < 20; n++ {
		result.At, result.Status, result.Error = Start.Add(time.Duration(n)*20*time.Second), ops.Healthy, ""
		if n%4 == 0 {
			result.Status, result.Error = ops.Down, "HTTP 502"
		}
		s, _ = health.Observe(s, result, health.Thresholds{}, result.At)
		must(t, f.Store.RecordResults(t.Context(), "home", []ops.Check{result}, nil, []health.State{s}, nil, nil))
	}
	got, err := f.Store.LatestChecks(t.Context(), "home")
	must(t, err)
	if len(got) != 1 || got[0].Status != ops.Degraded || !strings.Contains(got[0].Error, "it failed 3 times") || got[0].Note == "" {
		t.Errorf("shown is %+v", got)
	}
}

func startIsLearned(t *testing.T, f *Fixture) {
	session := f.RunningSession(t, "home")
	result := func(after time.Duration, service string, h ops.Health) ops.Check {
		return ops.Check{
			At:          Start.Add(after),
			Environment: "home",
			Purpose:     ops.ProbeWatch,
			Service:     service,
			Probe:       "GET",
			Type:        ops.CheckHTTP,
			Status:      h,
		}
	}
	for _, after := range []time.Duration{0, 10 * time.Minute} {
		f.at(after)
		wantAllowed(t, f.hook(t, session, "", restart("web")...))
		wantAllowed(t, f.shell(t, session, restart("web")...))
		took := 40*time.Second + after/10
		must(t, f.Store.AddChecks(t.Context(), []ops.Check{
			result(after+5*time.Second, "web", ops.Down), result(after+10*time.Second, "db", ops.Healthy), result(after+took, "web", ops.Healthy),
		}))
	}
	got, err := f.Store.StartTimes(t.Context(), "home", "web")
	must(t, err)
	equal(t, "starts", got, []time.Duration{100 * time.Second, 40 * time.Second})
	got, err = f.Store.StartTimes(t.Context(), "home", "db")
	must(t, err)
	equal(t, "starts of another", len(got), 0)
	for since, want := range map[time.Duration]map[string]time.Time{
		0: {"web": Start.Add(10 * time.Minute)}, 10 * time.Minute: {"web": Start.Add(10 * time.Minute)}, 11 * time.Minute: {},
	} {
		starts, err := f.Store.StartsSince(t.Context(), "home", Start.Add(since))
		must(t, err)
		equal(t, "started since", starts, want)
	}
	f.at(12 * time.Minute)
	f.begin(t, store.ActionIntent{At: f.At, Run: ops.ActionRun{
		Environment: "home", Service: "web", Action: "restart", Kind: ops.ActionRestart, Tier: ops.Tier2, Person: "ann", Why: "it hangs",
	}})
	starts, err := f.Store.StartsSince(t.Context(), "home", Start.Add(11*time.Minute))
	must(t, err)
	equal(t, "started by a person's request", starts, map[string]time.Time{"web": Start.Add(12 * time.Minute)})
	starts, err = f.Store.StartsSince(t.Context(), "other", Start)
	must(t, err)
	equal(t, "started elsewhere", len(starts), 0)
	results, err := f.Store.ChecksSince(t.Context(), "home", "web", Start.Add(time.Minute))
	must(t, err)
	equal(t, "results since", len(results), 2)
	equal(t, "the oldest first", results[0].Status, ops.Down)
}
