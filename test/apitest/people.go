package apitest

import (
	"time"

	"claudeops/internal/ops"
)

// Await plays a cycle through one run and lets it wait for a person with the step, which asks, reports, or both; a step
// that finishes ends the cycle instead. It returns the cycle and the session that led there.
func (j *Journal) Await(n ops.NewCycle, policy ops.Policy, step ops.Step, run Run) (ops.CycleID, ops.SessionID) {
	j.t.Helper()
	if n.Environment == "" {
		n.Environment = "default"
	}
	if n.Trigger == "" {
		n.Trigger = ops.TriggerScheduled
	}
	n.At = j.Now
	id, err := j.Store.Journal.SubmitCycle(j.t.Context(), n)
	j.must(err)
	_, err = j.Store.Journal.Claim(j.t.Context(), j.owner, id, policy, j.Now)
	j.must(err)
	j.commit(id, ops.Result{}, ops.Step{Kind: ops.StepQueue, Session: j.intent(run, nil, nil)})
	session := j.play(id, run)
	if step.Kind == "" {
		step.Kind = ops.StepAwait
	}
	if step.Approval != nil {
		step.Approval.SessionID = session.ID
	}
	if run.Decision != nil {
		run.Decision.CycleID, run.Decision.SessionID = id, session.ID
		step.Decision = run.Decision
	}
	j.commit(id, ops.Result{Session: &session, Events: run.Events}, step)
	return id, session.ID
}

// Check records what a probe of a service found.
func (j *Journal) Check(service string, status ops.Health, message string) {
	j.t.Helper()
	j.must(j.Store.Watch.AddChecks(j.t.Context(), []ops.Check{{
		At: j.Now, Environment: "default", Service: service, Probe: "GET http://" + service + "/", Type: ops.CheckHTTP, Status: status,
		Error: message, Purpose: ops.ProbeObserve, ResponseTimeMS: 12,
	}}))
}

// Repair lets a cycle repair a service: its incident is closed, and on probation.
func (j *Journal) Repair(service string) ops.CycleID {
	j.t.Helper()
	report := ops.IncidentReport{
		Title: service + ": HTTP 502", Level: ops.LevelWarning, Class: "down", Services: []string{service}, Handled: true,
		Checks: []ops.CheckResult{{Service: service, CheckType: ops.CheckHTTP, Status: ops.Down, Error: "HTTP 502"}},
	}
	id, _ := j.Await(ops.NewCycle{Problem: service + ": HTTP 502"}, ops.Policy{MaxTier: ops.LastTier}, ops.Step{Kind: ops.StepRest, Incident: &report},
		Run{Tier: 2, Model: "sonnet", Outcome: ops.OutcomeResolved})
	open, err := j.Store.People.Unresolved(j.t.Context(), "default")
	j.must(err)
	var ended []ops.Recovered
	for _, i := range open {
		if i.Service == service {
			ended = append(ended, ops.Recovered{Incident: i.ID, By: ops.ProofProbe, How: "Tier 2 repaired it"})
		}
	}
	j.commit(id, ops.Result{}, ops.Step{
		Kind: ops.StepFinish, Status: ops.CycleResolved, Reason: "Tier 2 repaired it; 1 check confirmed by our own probes", Confirmed: ops.Ptr(true),
		ConfirmedBy: ops.ProofProbe, Recovered: ended,
	})
	return id
}

// Relapse lets what is on probation fail again.
func (j *Journal) Relapse(service string) {
	j.t.Helper()
	claims, err := j.Store.Watch.OnProbation(j.t.Context(), "default", j.Now)
	j.must(err)
	for _, c := range claims {
		if c.Service != service {
			continue
		}
		found := ops.Check{At: j.Now, Purpose: ops.ProbeWatch, Service: service, Type: ops.CheckHTTP, Status: ops.Down, Error: "HTTP 503"}
		done, err := j.Store.Watch.Relapsed(j.t.Context(), ops.Relapse{Claim: c, Found: found, At: j.Now, Next: c.At.Add(7 * time.Minute)})
		j.must(err)
		if !done {
			j.t.Fatalf("%s is not on probation", service)
		}
	}
}

// Earn lets three cycles repair a service by a restart, so that people are asked whether that becomes a reflex.
func (j *Journal) Earn(environment, service string) {
	j.t.Helper()
	for range ops.Earnings {
		id, _ := j.Await(ops.NewCycle{Environment: environment, Problem: service + ": HTTP 502"}, ops.Policy{MaxTier: ops.LastTier}, ops.Step{Kind: ops.StepRest},
			Run{Tier: 2, Model: "sonnet", Outcome: ops.OutcomeResolved})
		j.commit(id, ops.Result{}, ops.Step{
			Kind: ops.StepFinish, Status: ops.CycleResolved, Confirmed: ops.Ptr(true), ConfirmedBy: ops.ProofProbe,
			Repair: &ops.Repair{Service: service, Probe: "GET /", Type: ops.CheckHTTP, Status: ops.Down, Class: "5xx", Actions: []string{"restart"}},
		})
	}
	_, err := j.Store.People.AskForReflexes(j.t.Context(), j.Now.Add(ops.Probation))
	j.must(err)
}
