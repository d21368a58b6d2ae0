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
