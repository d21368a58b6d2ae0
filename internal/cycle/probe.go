package cycle

import (
	"context"
	"slices"
	"time"

	"claudeops/internal/decide"
	"claudeops/internal/failpoint"
	"claudeops/internal/notice"
	"claudeops/internal/ops"
)

// Health says what probe results mean.
type Health interface {
	// MoreToFail and MoreToRecover are how many more rounds are needed until the results decide: that a bad service fails, that a
	// good one has recovered.
	MoreToFail(environment string, results []ops.Check) int
	MoreToRecover(environment string, results []ops.Check) int
	// SettleTime is how long services may take to work after a repair.
	SettleTime(ctx context.Context, environment string, services []string) time.Duration
	// HoldTime is how long services that failed more than once must stay good before a repair is believed.
	HoldTime(ctx context.Context, environment string, services []string) time.Duration
	// RoundPause is the time between two rounds of probes that verify a repair.
	RoundPause() time.Duration
	// InGrace names the dependency that a service may still be following: it recovered a moment ago.
	InGrace(environment, service string, recovered map[string]time.Time, now time.Time) (dependency string, in bool)
}

// RoundPause is the time between two rounds of probes that decide something.
const RoundPause = 2 * time.Second

// probe runs the environment's probes until their results decide: a failure must be seen as often as the watch wants to see it,
// and a repair must hold for as many checks as the configuration says.
func (a *Advancer) probe(ctx context.Context, env ops.Environment, now ops.Claimed, step ops.Step) ops.Result {
	failpoint.Hit("probe.", string(step.Purpose), ".before")
	specs := probesOf(env, step.Services)
	var result ops.Result
	var parts []ops.ProbeSpec // what the repaired services run in
	var began []ops.Check     // how these were when the repair had ended
	switch step.Purpose {
	case ops.ProbeVerify, ops.ProbePlan, ops.ProbeReflex:
		parts = a.partsOf(env, slices.Concat(decide.BriefFor(notice.Steps{}, now, ops.Session{}, a.Clock()).Services(), step.Services))
		if len(parts) > 0 {
			began = a.Prober.Run(ctx, env.Name, parts, ops.ProbeRunning)
		}
		result.Checks = a.verify(ctx, env, specs, step)
		result = a.excuse(env, now, result)
	case ops.ProbeObserve, ops.ProbeRecheck:
		result.Checks = a.observe(ctx, env, specs, step)
	case ops.ProbeWatch, ops.ProbeRunning, ops.ProbeAlert:
		result.Checks = a.Prober.Run(ctx, env.Name, specs, step.Purpose)
	}
	if ctx.Err() != nil {
		// What was cut short proves nothing; the probe is due again.
		return ops.Result{}
	}
	failpoint.Hit("probe.", string(step.Purpose), ".after")
	bad := slices.DeleteFunc(ops.LastOfEach(result.Checks), func(c ops.Check) bool { return !c.Bad() })
	if len(parts) > 0 && len(bad) == 0 {
		seen := a.running(ctx, env, now, parts, began)
		result.Checks, result.Events = append(result.Checks, seen.Checks...), append(result.Events, seen.Events...)
	}
	for i := range result.Checks {
		c := &result.Checks[i]
		c.CycleID = &now.Cycle.ID
		if step.Target != 0 {
			c.AfterSession = ops.Ptr(step.Target)
		}
	}
	for _, c := range bad {
		result.Events = append(result.Events, ops.Event{
			At: c.At, CycleID: &now.Cycle.ID, Environment: env.Name, Level: ops.LevelWarning, Verb: ops.VerbProbeFailed,
			Service: c.Service, Reason: c.Error, Detail: ops.ProbeDetail{Status: c.Status},
		})
	}
	return result
}

func probesOf(env ops.Environment, services []string) []ops.ProbeSpec {
	if len(services) == 0 {
		return env.Probes
	}
	return slices.DeleteFunc(slices.Clone(env.Probes), func(p ops.ProbeSpec) bool { return !slices.Contains(services, p.Service) })
}

// observe probes once, and what is bad again until that is decided: one failed check may be a hiccup.
func (a *Advancer) observe(ctx context.Context, env ops.Environment, specs []ops.ProbeSpec, step ops.Step) []ops.Check {
	all := a.Prober.Run(ctx, env.Name, specs, step.Purpose)
	for a.Health.MoreToFail(env.Name, all) > 0 && ops.Pause(ctx, RoundPause) {
		var bad []ops.ProbeSpec
		for _, p := range specs {
			if slices.ContainsFunc(ops.LastOfEach(all), func(c ops.Check) bool { return c.Service == p.Service && c.Bad() }) {
				bad = append(bad, p)
			}
		}
		if len(bad) == 0 {
			break
		}
		all = append(all, a.Prober.Run(ctx, env.Name, bad, step.Purpose)...)
	}
	return all
}

// verify probes until a repair has held for as many checks as it must, or the time that the services have to start is over.
func (a *Advancer) verify(ctx context.Context, env ops.Environment, specs []ops.ProbeSpec, step ops.Step) []ops.Check {
	hold := a.Health.HoldTime(ctx, env.Name, step.Services)
	settled, cancel := context.WithTimeout(ctx, a.Health.SettleTime(ctx, env.Name, step.Services))
	defer cancel()
	all := a.Prober.Run(ctx, env.Name, specs, step.Purpose)
	good := a.Clock()
	for {
		more := a.Health.MoreToRecover(env.Name, all)
		bad := slices.ContainsFunc(ops.LastOfEach(all), ops.Check.Bad)
		if bad {
			good = a.Clock()
		}
		if !bad && more == 0 && a.Clock().Sub(good) >= hold {
			return all
		}
		until := ctx // what is good now may finish its run after the limit
		if bad {
			until = settled
		}
		if !ops.Pause(until, a.Health.RoundPause()) {
			return all
		}
		all = append(all, a.Prober.Run(ctx, env.Name, specs, step.Purpose)...)
	}
}

// excuse leaves out the dependents of what was repaired that still have time to follow it: they do not refute the repair.
func (a *Advancer) excuse(env ops.Environment, now ops.Claimed, r ops.Result) ops.Result {
	recovered := map[string]time.Time{}
	for _, c := range ops.LastOfEach(r.Checks) {
		if c.Status == ops.Healthy {
			recovered[c.Service] = c.At
		}
	}
	for _, c := range ops.LastOfEach(r.Checks) {
		if !c.Bad() {
			continue
		}
		dependency, in := a.Health.InGrace(env.Name, c.Service, recovered, a.Clock())
		if !in {
			continue
		}
		r.Checks = slices.DeleteFunc(r.Checks, func(o ops.Check) bool { return o.Service == c.Service })
		r.Events = append(r.Events, ops.Event{
			At: c.At, CycleID: &now.Cycle.ID, Environment: env.Name, Level: ops.LevelInfo, Verb: ops.VerbProbeWaited, Service: c.Service,
			Detail: ops.ProbeDetail{Status: c.Status, DependsOn: dependency},
		})
	}
	return r
}

const (
	// runningRounds is how often a container or unit that does not run is looked at: it may just be starting.
	runningRounds = 3
	// runningApart is the time between two of these looks: what starts and dies all the time runs at every other one.
	runningApart = 5 * time.Second
)

// running looks whether what the services of the chain run in is up and has stayed up since it began to be looked at. A page may please the
// probes of a service that does not run.
func (a *Advancer) running(ctx context.Context, env ops.Environment, now ops.Claimed, parts []ops.ProbeSpec, began []ops.Check) ops.Result {
	var out ops.Result
	for round := 1; ; round++ {
		out.Checks = a.Prober.Run(ctx, env.Name, parts, ops.ProbeRunning)
		began = append(began, out.Checks...)
		markRestarts(out.Checks, began)
		idle := slices.ContainsFunc(out.Checks, func(c ops.Check) bool { return c.Status != ops.Healthy })
		if len(out.Checks) == 0 || !idle && round > 1 || round == runningRounds || !ops.Pause(ctx, runningApart) {
			break
		}
	}
	for _, c := range out.Checks {
		if c.Status != ops.Healthy {
			out.Events = append(out.Events, ops.Event{
				At: c.At, CycleID: &now.Cycle.ID, Environment: env.Name, Level: ops.LevelWarning, Verb: ops.VerbProbeDisagreed,
				Service: c.Service, Reason: c.Error, Detail: ops.ProbeDetail{Status: c.Status},
			})
		}
	}
	return out
}

// markRestarts marks containers that run, and that the engine has started again since a look before found them up.
func markRestarts(checks, before []ops.Check) {
	for i, c := range checks {
		for _, b := range before {
			if b.Service == c.Service && b.Probe == c.Probe && b.Status == ops.Healthy && c.Status == ops.Healthy &&
				c.Instance.RestartsSince(b.Instance) > 0 {
				checks[i].Status, checks[i].Error = ops.Down, c.Probe+" was started again by itself after the repair"
			}
		}
	}
}

// partsOf are the containers and units that services name and that no probe of theirs looks at anyway.
func (a *Advancer) partsOf(env ops.Environment, services []string) []ops.ProbeSpec {
	var out []ops.ProbeSpec
	for _, s := range env.Policy.Inventory.Services {
		probed := slices.ContainsFunc(env.Probes, func(p ops.ProbeSpec) bool {
			return p.Service == s.Name && (p.Container == s.Container && s.Container != "" || p.Unit == s.Unit && s.Unit != "")
		})
		switch {
		case probed || !slices.Contains(services, s.Name):
		case s.Container != "":
			out = append(out, ops.ProbeSpec{Service: s.Name, Type: "container", Container: s.Container})
		case s.Unit != "":
			out = append(out, ops.ProbeSpec{Service: s.Name, Type: "systemd", Unit: s.Unit})
		}
	}
	return out
}
