package apitest

import (
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
	id, err := j.Store.SubmitCycle(j.t.Context(), n)
	j.must(err)
	_, err = j.Store.Claim(j.t.Context(), j.owner, id, policy, j.Now)
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
	j.must(j.Store.AddChecks(j.t.Context(), []ops.Check{{
		At: j.Now, Environment: "default", Service: service, Probe: "GET http://" + service + "/", Type: ops.CheckHTTP, Status: status,
		Error: message, Purpose: ops.ProbeObserve, ResponseTimeMS: 12,
	}}))
}
