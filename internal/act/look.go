package act

import (
	"context"
	"slices"
	"time"

	"claudeops/internal/ops"
)

// lookLimit bounds one look at the services, also while the supervisor stops.
const lookLimit = 20 * time.Second

// watchedServices are those that an action can make worse: its own, and those that depend on it.
func watchedServices(env ops.Environment, spec ops.ActionSpec) []string {
	return append([]string{spec.Service}, env.Policy.Inventory.Dependents(spec.Service)...)
}

// Look probes services once and says how each of them is. Services without probes are left out.
func (r *Runner) Look(ctx context.Context, env ops.Environment, services []string) []ops.ServiceHealth {
	return r.look(ctx, env, services)
}

func (r *Runner) look(ctx context.Context, env ops.Environment, services []string) []ops.ServiceHealth {
	var specs []ops.ProbeSpec
	for _, p := range env.Probes {
		if slices.Contains(services, p.Service) {
			specs = append(specs, p)
		}
	}
	if len(specs) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, lookLimit)
	defer cancel()
	return summarize(services, r.o.Prober.Run(ctx, env.Name, specs, ops.ProbeVerify))
}

// summarize is the worst result of each service.
func summarize(services []string, checks []ops.Check) []ops.ServiceHealth {
	rank := map[ops.Health]int{ops.Healthy: 0, ops.Degraded: 1, ops.Down: 2}
	var out []ops.ServiceHealth
	for _, service := range services {
		var worst *ops.ServiceHealth
		for _, c := range checks {
			if c.Service == service && (worst == nil || rank[c.Status] > rank[worst.Status]) {
				worst = &ops.ServiceHealth{Service: service, Status: c.Status, Error: c.Error}
			}
		}
		if worst != nil {
			out = append(out, *worst)
		}
	}
	return out
}

// settled looks until no service is worse than in goal (healthy, where goal does not name it), or the time that they may take to
// start is over.
func (r *Runner) settled(ctx context.Context, env ops.Environment, services []string, goal []ops.ServiceHealth,
	wait bool,
) []ops.ServiceHealth {
	if ctx.Err() != nil {
		ctx = context.WithoutCancel(ctx) // what ran has run, and what is true is recorded
		wait = false
	}
	limit := time.Duration(0)
	if wait {
		limit = r.o.Settle(ctx, env.Name, services)
	}
	until, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	for {
		found := r.look(ctx, env, services)
		if len(ops.Worse(goal, found)) == 0 || !pause(until, r.o.Round) {
			return found
		}
	}
}

func pause(ctx context.Context, d time.Duration) bool {
	if ctx.Err() != nil {
		return false
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
