package decide_test

import (
	"strings"
	"testing"
	"time"

	"claudeops/internal/decide"
	"claudeops/internal/notice"
	"claudeops/internal/ops"
)

func reflexive(change ...func(*ops.Reflex)) func(*ops.Policy) {
	return func(p *ops.Policy) {
		r := ops.Reflex{Service: "web", On: "http", Status: ops.Down, Do: []string{"restart"}, Tries: 2, Per: 6 * time.Hour}
		for _, c := range change {
			c(&r)
		}
		p.Inventory.Services[0].Reflexes = []ops.Reflex{r}
	}
}

// reflexCases are the states of a cycle about web, whose reflex is a restart.
func reflexCases(now time.Time) []nextCase {
	probe := ops.Cycle{Trigger: ops.TriggerProbe}
	seen := func(status ops.Health, purpose ops.ProbePurpose, ago time.Duration) ops.Check {
		return ops.Check{At: now.Add(-ago), Service: "web", Probe: "http", Type: ops.CheckHTTP, Purpose: purpose, Status: status, Error: "HTTP 502"}
	}
	down := []ops.Check{seen(ops.Down, ops.ProbeObserve, 10*time.Second)}
	after := func(status ops.Health) []ops.Check {
		return append(down[:1:1], seen(status, ops.ProbeReflex, time.Second))
	}
	key := "web: http down: restart"
	run := func(status ops.ActionStatus) ops.Journal {
		return ops.Journal{Runs: []ops.ActionRun{{ID: 4, Service: "web", Action: "restart", Does: "docker restart web", Reflex: key, Step: 1, Status: status, Error: "no", EndedAt: ops.Ptr(now.Add(-5 * time.Second))}}}
	}
	started := ops.Journal{Runs: []ops.ActionRun{{ID: 4, Service: "web", Action: "restart", Reflex: key, Step: 1, Status: ops.ActionStarted}}}
	good := policy(probed, acting, reflexive())
	later := policy(probed, acting, reflexive(func(r *ops.Reflex) { r.For = time.Minute }))
	asks := policy(probed, acting, reflexive(), func(p *ops.Policy) { p.Inventory.Services[0].Actions[0].Approval = true })
	asked := func(status ops.ApprovalStatus, ago time.Duration) ops.Journal {
		return ops.Journal{Approvals: []ops.Approval{{ID: 7, Kind: ops.ApprovalReflex, Handler: "restart of web", Status: status, AnsweredBy: "ada", AnsweredAt: ops.Ptr(now.Add(-ago))}}}
	}
	closed := func(j ops.Journal) ops.Journal {
		j.Incidents = []ops.Incident{{ID: 9, Service: "web", Waiting: ops.Ptr(ops.CycleID(1)), Status: ops.IncidentResolved, ResolvedAt: &now, ResolvedBy: "claudeops"}}
		return j
	}
	tried := func(ago ...time.Duration) ops.Journal {
		var j ops.Journal
		for i, a := range ago {
			j.Reflexed = append(j.Reflexed, ops.Reflexed{Reflex: key, Cycle: ops.CycleID(10 + i), Step: 1, At: now.Add(-a)})
		}
		return j
	}
	earned := ops.Reflex{ID: 3, Service: "web", On: "http", Probes: []string{"http"}, Status: ops.Down, Class: "5xx", Do: []string{"restart"}, Digests: []string{policy(probed, acting).Inventory.Services[0].Actions[0].Digest()}, Tries: 2, Per: time.Hour}
	with := func(j ops.Journal, r ops.Reflex) ops.Journal { j.Reflexes = []ops.Reflex{r}; return j }
	byEarned := run(ops.ActionDone)
	byEarned.Runs[0].Reflex = "earned 3"
	acts := func(t *testing.T, s ops.Step) {
		if s.Act == nil || s.Act.Reflex == nil || s.Act.Step != 1 || len(s.Act.Reflex.Digests) != 1 || s.Incident == nil || !s.Incident.Handled {
			t.Errorf("act %+v, incident %+v", s.Act, s.Incident)
		}
	}
	by := func(proof ops.Proof) func(*testing.T, ops.Step) {
		return func(t *testing.T, s ops.Step) {
			if s.ConfirmedBy != proof || s.Session != nil {
				t.Errorf("confirmed by %q", s.ConfirmedBy)
			}
		}
	}
	off := func(t *testing.T, s ops.Step) {
		if len(s.ReflexOff) != 1 || s.ReflexOff[0].ID != 3 {
			t.Errorf("switched off %+v", s.ReflexOff)
		}
	}
	queued := func(name string, p ops.Policy, j ops.Journal, says string) nextCase {
		return nextCase{name: name, row: "nothing ran", cycle: probe, policy: p, checks: down, journal: j, kind: ops.StepQueue, level: ops.LevelWarning, says: says}
	}
	covered := run(ops.ActionDone)
	covered.Withheld = []ops.Withheld{{Service: "web", Why: ops.HoldCovered, Reason: "a cycle was started for it"}}
	approvedAndClosed := closed(asked(ops.ApprovalApproved, 8*time.Second))
	approvedAndClosed.Runs = run(ops.ActionDone).Runs
	return []nextCase{
		{name: "a reflex comes before the first agent", row: "reflex due", cycle: probe, policy: good, checks: down, kind: ops.StepAct, level: ops.LevelInfo, says: "restart of web", check: acts},
		{name: "what was seen before the cycle had its slot is seen again", row: "reflex not seen", cycle: ops.Cycle{Trigger: ops.TriggerProbe, StartedAt: ops.Ptr(now.Add(-time.Second))}, policy: good, checks: down, kind: ops.StepProbe},
		{name: "on schedule too", row: "reflex due", cycle: ops.Cycle{Trigger: ops.TriggerScheduled}, policy: good, checks: down, kind: ops.StepAct, level: ops.LevelInfo, check: acts},
		{name: "and after an alert, if the probe agrees", row: "reflex due", cycle: ops.Cycle{Trigger: ops.TriggerAlert}, policy: good, checks: down, kind: ops.StepAct, level: ops.LevelInfo, check: acts},
		{name: "an alert alone is none", row: "nothing ran", cycle: ops.Cycle{Trigger: ops.TriggerAlert}, policy: good, checks: []ops.Check{seen(ops.Down, ops.ProbeAlert, 0), seen(ops.Healthy, ops.ProbeObserve, 0)}, kind: ops.StepQueue},
		{name: "a person who asks gets an agent", row: "nothing ran", cycle: ops.Cycle{Trigger: ops.TriggerManual}, policy: good, checks: down, kind: ops.StepQueue},
		{name: "another status is not its case", row: "nothing ran", cycle: probe, policy: good, checks: []ops.Check{seen(ops.Degraded, ops.ProbeObserve, 0)}, kind: ops.StepQueue},
		{name: "another probe neither", row: "nothing ran", cycle: probe, policy: policy(probed, acting, reflexive(func(r *ops.Reflex) { r.Probes = []string{"http https://other"} })), checks: down, kind: ops.StepQueue},
		{name: "it waits with the slot free", row: "reflex waits", cycle: probe, policy: later, checks: down, kind: ops.StepDefer},
		{name: "counted from the first failed check", row: "reflex waits", cycle: probe, policy: later, checks: down, journal: ops.Journal{Failing: []ops.Failing{{Service: "web", Probe: "http", Since: now.Add(-56 * time.Second)}}}, kind: ops.StepPause},
		{name: "when it is due probes look again", row: "reflex not seen", cycle: probe, policy: later, checks: []ops.Check{seen(ops.Down, ops.ProbeObserve, time.Minute)}, kind: ops.StepProbe},
		{name: "an old result is looked at again", row: "reflex not seen", cycle: probe, policy: good, checks: []ops.Check{seen(ops.Down, ops.ProbeObserve, time.Hour)}, kind: ops.StepProbe},
		{name: "still down", row: "reflex due", cycle: probe, policy: later, checks: []ops.Check{seen(ops.Down, ops.ProbeObserve, time.Minute), seen(ops.Down, ops.ProbeRecheck, 0)}, kind: ops.StepAct, level: ops.LevelInfo, check: acts},
		{name: "well again while it waited", row: "reflex not needed", cycle: probe, policy: later, checks: []ops.Check{seen(ops.Down, ops.ProbeObserve, time.Minute), seen(ops.Healthy, ops.ProbeRecheck, 0)}, kind: ops.StepFinish, status: ops.CycleResolved, level: ops.LevelInfo, check: by(ops.ProofProbe)},
		{name: "one that was cut off is not repeated", row: "reflex in flight", cycle: probe, policy: good, checks: down, journal: started, kind: ops.StepAct, level: ops.LevelWarning, says: "not repeated"},
		{name: "but looked at", row: "reflex unverified", cycle: probe, policy: good, checks: down, journal: run(ops.ActionInterrupted), kind: ops.StepProbe},
		{name: "a reflex is checked", row: "reflex unverified", cycle: probe, policy: good, checks: down, journal: run(ops.ActionDone), kind: ops.StepProbe, says: "web"},
		{name: "a reflex that helped ends the cycle", row: "reflex helped", cycle: probe, policy: good, checks: after(ops.Healthy), journal: run(ops.ActionDone), kind: ops.StepFinish, status: ops.CycleResolved, level: ops.LevelInfo, says: "without an agent", check: by(ops.ProofReflex)},
		{name: "one that failed gets no credit", row: "reflex helped", cycle: probe, policy: good, checks: after(ops.Healthy), journal: run(ops.ActionFailed), kind: ops.StepFinish, status: ops.CycleResolved, level: ops.LevelInfo, check: by(ops.ProofProbe)},
		{name: "nor one that was undone", row: "reflex helped", cycle: probe, policy: good, checks: after(ops.Healthy), journal: run(ops.ActionUndone), kind: ops.StepFinish, status: ops.CycleResolved, level: ops.LevelInfo, check: by(ops.ProofProbe)},
		{name: "one that did not help starts Tier 1", row: "nothing ran", cycle: probe, policy: good, checks: after(ops.Down), journal: run(ops.ActionDone), kind: ops.StepQueue, level: ops.LevelWarning, says: "docker restart web"},
		queued("one that was refused starts Tier 1", good, run(ops.ActionRefused), "was not done: no"),
		queued("what does not hold is not tried again", good, tried(2*time.Hour, time.Hour), "restart was done 2 times in 2 h, and it does not hold"),
		{name: "tries that are long ago do not count", row: "reflex due", cycle: probe, policy: good, checks: down, journal: tried(7*time.Hour, time.Hour), kind: ops.StepAct, level: ops.LevelInfo, check: acts},
		queued("in a dry run nothing is done", policy(probed, acting, reflexive(), func(p *ops.Policy) { p.DryRun = true }), ops.Journal{}, "dry run"),
		queued("trust suggest only shows it", policy(probed, acting, reflexive(), func(p *ops.Policy) { p.Trust = ops.TrustSuggest }), ops.Journal{}, "trust is suggest"),
		{name: "trust ask wants a yes", row: "reflex unasked", cycle: probe, policy: policy(probed, acting, reflexive(), func(p *ops.Policy) { p.Trust = ops.TrustAsk }), checks: down, kind: ops.StepAwait, level: ops.LevelWarning, notices: 1},
		{name: "also if it was lowered meanwhile", row: "reflex unasked", cycle: probe, policy: good, checks: down, journal: ops.Journal{Lowered: []ops.Lowered{{Service: "web", Level: ops.TrustAsk}}}, kind: ops.StepAwait, level: ops.LevelWarning, notices: 1},
		{name: "trust repair does it", row: "reflex due", cycle: probe, policy: policy(probed, acting, reflexive(), func(p *ops.Policy) { p.Trust = ops.TrustRepair }), checks: down, kind: ops.StepAct, level: ops.LevelInfo, check: acts},
		queued("the maximum tier holds", policy(probed, acting, reflexive(), func(p *ops.Policy) { p.MaxTier = 1 }), ops.Journal{}, "max_tier is 1"),
		queued("an action that is gone is not done", policy(probed, reflexive()), ops.Journal{}, "has no action restart"),
		{name: "a silence holds it", row: "all held", cycle: probe, policy: good, checks: down, journal: ops.Journal{Silences: []ops.Silence{{Service: "web", Until: now.Add(time.Hour)}}}, kind: ops.StepFinish, status: ops.CycleSuppressed, says: "web: silenced"},
		{name: "so does an acknowledged incident", row: "all held", cycle: probe, policy: good, checks: down, journal: ops.Journal{Incidents: []ops.Incident{{ID: 9, Service: "web", Status: ops.IncidentAcknowledged}}}, kind: ops.StepFinish, status: ops.CycleSuppressed},
		{name: "and maintenance", row: "all held", cycle: probe, policy: good, checks: down, journal: ops.Journal{Withheld: []ops.Withheld{{Service: "web", Why: ops.HoldMaintenance, Reason: "maintenance"}}}, kind: ops.StepFinish, status: ops.CycleSuppressed},
		{name: "and a failing dependency", row: "all held", cycle: probe, policy: good, checks: down, journal: ops.Journal{Withheld: []ops.Withheld{{Service: "web", Why: ops.HoldDependency, Reason: "db is down"}}}, kind: ops.StepFinish, status: ops.CycleSuppressed},
		{name: "an action that needs approval is asked for", row: "reflex unasked", cycle: probe, policy: asks, checks: down, kind: ops.StepAwait, level: ops.LevelWarning, notices: 1, says: "/bin/restart", check: func(t *testing.T, s ops.Step) {
			if a := s.Approval; a == nil || a.Kind != ops.ApprovalReflex || a.SessionID != 0 || len(a.Facts) != 1 || s.Incident == nil || !s.Incident.Waits {
				t.Errorf("asks %+v", a)
			}
		}},
		{name: "nobody has answered", row: "reflex asked", cycle: probe, policy: asks, checks: down, journal: asked(ops.ApprovalPending, 0), kind: ops.StepAwait},
		{name: "a yes does it", row: "reflex due", cycle: probe, policy: asks, checks: down, journal: asked(ops.ApprovalApproved, 20*time.Second), kind: ops.StepAct, level: ops.LevelInfo, check: acts},
		{name: "after another look", row: "reflex not seen", cycle: probe, policy: asks, checks: down, journal: asked(ops.ApprovalApproved, time.Second), kind: ops.StepProbe},
		{name: "a no ends the cycle", row: "reflex denied", cycle: probe, policy: asks, checks: down, journal: asked(ops.ApprovalDenied, 0), kind: ops.StepFinish, status: ops.CycleBlocked, level: ops.LevelWarning, says: "ada said no to restart of web"},
		queued("no answer is not a yes", asks, asked(ops.ApprovalExpired, 0), "nobody answered the question"),
		{name: "an approved reflex that was done is verified, although the watch closed the incident", row: "reflex unverified", cycle: probe, policy: asks, checks: down, journal: approvedAndClosed, kind: ops.StepProbe},
		{name: "and it gets the credit", row: "reflex helped", cycle: probe, policy: asks, checks: after(ops.Healthy), journal: approvedAndClosed, kind: ops.StepFinish, status: ops.CycleResolved, level: ops.LevelInfo, check: by(ops.ProofReflex)},
		{name: "who was asked need not answer any more", row: "reflex too late", cycle: probe, policy: asks, checks: down, journal: closed(asked(ops.ApprovalPending, 0)), kind: ops.StepFinish, status: ops.CycleResolved, level: ops.LevelInfo, notices: 1},
		{name: "one on schedule is seen to its end, although the watch has started a cycle meanwhile", row: "reflex unverified", cycle: ops.Cycle{Trigger: ops.TriggerScheduled}, policy: policy(probed, acting, reflexive(), func(p *ops.Policy) { p.Observe = ops.ObserveProbes }), checks: down, journal: covered, kind: ops.StepProbe},
		{name: "an earned reflex is done", row: "reflex due", cycle: probe, policy: policy(probed, acting), checks: down, journal: with(ops.Journal{}, earned), kind: ops.StepAct, level: ops.LevelInfo, check: acts},
		{name: "but not for another kind of failure", row: "nothing ran", cycle: probe, policy: policy(probed, acting), checks: []ops.Check{{At: now, Service: "web", Probe: "http", Type: ops.CheckHTTP, Purpose: ops.ProbeObserve, Status: ops.Down, Error: "connection refused"}}, journal: with(ops.Journal{}, earned), kind: ops.StepQueue},
		queued("nor if its action has changed", policy(probed, acting, func(p *ops.Policy) { p.Inventory.Services[0].Actions[0].Run = []string{"/bin/other"} }), with(ops.Journal{}, earned), "configured differently"),
		{name: "one that did not help is switched off", row: "nothing ran", cycle: probe, policy: policy(probed, acting), checks: after(ops.Down), journal: with(byEarned, earned), kind: ops.StepQueue, level: ops.LevelWarning, check: off},
	}
}

// Two services fail: what is due is done for both, and another service that needs an agent does not wait.
// A look whose reflex ran verifies it, although the watch has started another cycle for the service meanwhile.
func TestALookFinishesWhatItsReflexBegan(t *testing.T) {
	now := time.Date(2026, 11, 14, 3, 0, 0, 0, time.UTC)
	p := policy(probed, acting, reflexive())
	j := ops.Journal{
		Checks:    []ops.Check{{At: now, Service: "web", Probe: "http", Type: ops.CheckHTTP, Purpose: ops.ProbeObserve, Status: ops.Down}},
		Runs:      []ops.ActionRun{{Service: "web", Action: "restart", Reflex: p.Inventory.Services[0].Reflexes[0].Key(), Step: 1, Status: ops.ActionDone, EndedAt: &now}},
		Elsewhere: []ops.Hold{{Service: "web", From: ops.Tier1, By: ops.HoldByCycle, Why: "cycle 7 was started for it"}},
	}
	cycle := ops.Cycle{ID: 1, Status: ops.CycleRunning, Trigger: ops.TriggerScheduled, Charge: ops.Charge{Open: true}}
	if step := next(cycle, j, p, now); step.Row != "reflex unverified" {
		t.Errorf("row %q: %s", step.Row, step.Reason)
	}
}

func TestReflexesOfTwoServices(t *testing.T) {
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	service := func(name string, wait time.Duration) ops.Service {
		return ops.Service{
			Name: name, Probed: true, Actions: []ops.ActionSpec{{Name: "restart", Service: name, Kind: ops.ActionCommand, Tier: ops.Tier2}},
			Reflexes: []ops.Reflex{{Service: name, On: "http", Status: ops.Down, Do: []string{"restart"}, For: wait, Tries: 1, Per: time.Hour}},
		}
	}
	check := func(name string, status ops.Health, purpose ops.ProbePurpose) ops.Check {
		return ops.Check{At: now, Service: name, Probe: "http", Type: ops.CheckHTTP, Purpose: purpose, Status: status}
	}
	done := func(name string) ops.ActionRun {
		return ops.ActionRun{Service: name, Action: "restart", Reflex: name + ": http down: restart", Step: 1, Status: ops.ActionDone, EndedAt: &now}
	}
	p := policy(func(p *ops.Policy) {
		p.Inventory.Services = []ops.Service{service("db", 0), service("web", time.Hour), {Name: "mail", Probed: true}}
	})
	both := []ops.Check{check("web", ops.Down, ops.ProbeObserve), check("db", ops.Down, ops.ProbeObserve)}
	for name, c := range map[string]struct {
		journal ops.Journal
		row     string
		service string
	}{
		"what is due first":      {ops.Journal{Checks: both}, "reflex due", "db"},
		"then a look at it":      {ops.Journal{Checks: both, Runs: []ops.ActionRun{done("db")}}, "reflex unverified", ""},
		"then the other waits":   {ops.Journal{Checks: append(both[:2:2], check("db", ops.Healthy, ops.ProbeReflex), check("web", ops.Down, ops.ProbeReflex)), Runs: []ops.ActionRun{done("db")}}, "reflex waits", ""},
		"a third one does not":   {ops.Journal{Checks: append(both[:1:1], check("mail", ops.Down, ops.ProbeObserve))}, "nothing ran", ""},
		"what failed is no wait": {ops.Journal{Checks: append(both[:2:2], check("db", ops.Down, ops.ProbeReflex), check("web", ops.Healthy, ops.ProbeReflex)), Runs: []ops.ActionRun{done("db")}}, "nothing ran", ""},
		"both helped":            {ops.Journal{Checks: append(both[:2:2], check("db", ops.Healthy, ops.ProbeReflex), check("web", ops.Healthy, ops.ProbeReflex)), Runs: []ops.ActionRun{done("db"), done("web")}}, "reflex helped", ""},
	} {
		t.Run(name, func(t *testing.T) {
			cycle := ops.Cycle{ID: 1, Status: ops.CycleRunning, Trigger: ops.TriggerProbe}
			charged(&cycle, &c.journal, p)
			step := next(cycle, c.journal, p, now)
			if step.Row != c.row || c.service != "" && step.Act.Reflex.Service != c.service {
				t.Errorf("row %q: %s", step.Row, step.Reason)
			}
		})
	}
}

func TestTier1IsToldWhatAReflexDid(t *testing.T) {
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	j := ops.Journal{
		Sessions: []ops.Session{session(1, 1, ops.SessionQueued)},
		Checks:   []ops.Check{{At: now, Service: "web", Probe: "http", Type: ops.CheckHTTP, Purpose: ops.ProbeReflex, Status: ops.Down}},
		Runs: []ops.ActionRun{{
			Service: "web", Action: "restart", Does: "docker restart web", Reflex: "web: http down: restart", Step: 1, Status: ops.ActionDone, StartedAt: &now,
			After: []ops.ServiceHealth{{Service: "web", Status: ops.Down, Error: "HTTP 502"}},
		}},
	}
	got := decide.BriefFor(notice.Steps{}, ops.Claimed{Cycle: ops.Cycle{ID: 1, Policy: policy(probed, acting, reflexive())}, Journal: j}, j.Sessions[0], now).Reflexes()
	if want := "restart of web (docker restart web) at 2026-05-01T12:00:00Z was done; afterwards it was down HTTP 502"; strings.Join(got, "|") != want {
		t.Errorf("told %q", got)
	}
}
