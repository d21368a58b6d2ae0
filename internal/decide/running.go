package decide

import (
	"slices"

	"claudeops/internal/ops"
)

// notRunning lists the containers and units of the affected services that did not run after the last session. Healthy probes do not
// prove a repair then: something else may answer them.
func (v view) notRunning() []ops.Check {
	return slices.DeleteFunc(v.checks(ops.ProbeRunning, v.last.ID), func(c ops.Check) bool { return c.Status == ops.Healthy })
}

// unproven ends a repair that the probes like and that they do not prove: what it was about does not run.
func unproven(step ops.Step, idle []ops.Check) ops.Step {
	step.Confirmed, step.ConfirmedBy = ops.Ptr(false), ops.ProofNone
	step.Recovered = slices.DeleteFunc(step.Recovered, func(r ops.Recovered) bool {
		return slices.ContainsFunc(idle, func(c ops.Check) bool { return c.Service == r.Service })
	})
	return step
}
