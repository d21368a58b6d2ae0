package cycle

import (
	"context"
	"fmt"
	"slices"
	"time"

	"claudeops/internal/failpoint"
	"claudeops/internal/ops"
)

// probe runs the environment's probes. A verification gets some time to turn green, since a service that was just
// restarted needs a moment.
func (a *Advancer) probe(ctx context.Context, env ops.Environment, now ops.Claimed, step ops.Step) ops.Result {
	failpoint.Hit("probe.", string(step.Purpose), ".before")
	specs := env.Probes
	if len(step.Services) > 0 {
		specs = nil
		for _, p := range env.Probes {
			if slices.Contains(step.Services, p.Service) {
				specs = append(specs, p)
			}
		}
	}
	checks := a.Prober.Run(ctx, env.Name, specs, step.Purpose)
	if step.Purpose == ops.ProbeVerify {
		settled, cancel := context.WithTimeout(ctx, a.Settle)
		defer cancel()
		for down(checks) && pause(settled, time.Second) {
			checks = a.Prober.Run(ctx, env.Name, specs, step.Purpose)
		}
	}
	if ctx.Err() != nil {
		// What was cut short proves nothing; the probe is due again.
		return ops.Result{}
	}
	failpoint.Hit("probe.", string(step.Purpose), ".after")
	result := ops.Result{Checks: checks}
	for i := range checks {
		checks[i].CycleID = &now.Cycle.ID
		if step.Target != 0 {
			checks[i].AfterSession = ops.Ptr(step.Target)
		}
		if checks[i].Status == ops.Down {
			result.Events = append(result.Events, ops.Event{
				At: checks[i].At, CycleID: &now.Cycle.ID, Environment: env.Name, Level: ops.LevelWarning, Kind: ops.EventProbe,
				Service: checks[i].Service, Message: fmt.Sprintf("%s is down: %s", checks[i].Service, checks[i].Error),
			})
		}
	}
	return result
}

func down(checks []ops.Check) bool {
	return slices.ContainsFunc(checks, func(c ops.Check) bool { return c.Status == ops.Down })
}

func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
