package daemon

import (
	"cmp"
	"context"
	"slices"
	"time"

	"claudeops/internal/failpoint"
	"claudeops/internal/ops"
	"claudeops/internal/watch/health"
	"claudeops/internal/watch/probe"
)

// probeHealth judges the results of a cycle's own probes as the watch would.
type probeHealth struct {
	host   *Host
	limits map[string]health.Limits
}

func (h *Host) newProbeHealth(envs map[string]ops.Environment) *probeHealth {
	p := &probeHealth{host: h, limits: map[string]health.Limits{}}
	for name, e := range envs {
		p.limits[name] = health.LimitsOf(e, probe.Describe)
	}
	return p
}

func (p *probeHealth) MoreToFail(environment string, results []ops.Check) int {
	return health.MoreToFail(results, p.limits[environment])
}

func (p *probeHealth) MoreToRecover(environment string, results []ops.Check) int {
	return health.MoreToRecover(results, p.limits[environment])
}

// SettleTime is the longest time that one of the services may take to start. What cannot be read counts as not known.
func (p *probeHealth) SettleTime(ctx context.Context, environment string, services []string) time.Duration {
	var longest time.Duration
	e := p.host.environment(environment)
	bound := cmp.Or(e.Watch.SettleMax, longestSettle)
	for _, s := range e.Policy.Inventory.Services {
		if !slices.Contains(services, s.Name) {
			continue
		}
		starts, err := p.host.store.StartTimes(ctx, environment, s.Name)
		if err != nil {
			p.host.Logger.WarnContext(ctx, "start times of a service cannot be read", "service", s.Name, "error", err)
		}
		took := min(settleTime, bound)
		if s.Settle > 0 || len(starts) > 0 {
			took = health.SettleTime(s.Settle, starts, bound)
		}
		longest = max(longest, took)
	}
	return failpoint.Wait("settle", cmp.Or(longest, min(settleTime, bound)))
}

// HoldTime is the longest time that one of the services must stay good. What cannot be read counts as not known.
func (p *probeHealth) HoldTime(ctx context.Context, environment string, services []string) time.Duration {
	var longest time.Duration
	e := p.host.environment(environment)
	bound := cmp.Or(e.Watch.SettleMax, longestSettle)
	since := p.host.Clock().Add(-holdWindow)
	if len(services) == 0 {
		for _, s := range e.Policy.Inventory.Services {
			services = append(services, s.Name)
		}
	}
	for _, name := range services {
		results, err := p.host.store.ChecksSince(ctx, environment, name, since)
		if err != nil {
			p.host.Logger.WarnContext(ctx, "results of a service cannot be read", "service", name, "error", err)
			continue
		}
		longest = max(longest, health.HoldTime(results, bound))
	}
	return failpoint.Wait("settle", longest)
}

// holdWindow is how far back failures still say something about a repair.
const holdWindow = 10 * time.Minute

func (p *probeHealth) InGrace(environment, service string, recovered map[string]time.Time, now time.Time) (string, bool) {
	e := p.host.environment(environment)
	dependency, _, in := health.InGrace(e.Policy.Inventory.Services, e.Watch.Grouping, service, recovered, now)
	return dependency, in
}

// longestSettle is the bound where none is configured.
const longestSettle = 2 * time.Minute

func (h *Host) environment(name string) ops.Environment {
	for _, e := range h.envs {
		if e.Name == name {
			return e
		}
	}
	return ops.Environment{}
}
