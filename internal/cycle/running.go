package cycle

import (
	"context"
	"fmt"
	"slices"

	"claudeops/internal/decide"
	"claudeops/internal/ops"
)

// runningRounds is how often a container or unit that does not run is looked at: it may just be starting.
const runningRounds = 3

// running looks whether what the affected services run in is up. A page may please the probes of a service that does not run. Services
// that nobody may touch now are left out: the repair was not about them.
func (a *Advancer) running(ctx context.Context, env ops.Environment, now ops.Claimed, step ops.Step) ops.Result {
	services := decide.BriefFor(now, ops.Session{}, a.Clock()).Services()
	held := decide.Held(now, a.Clock())
	services = slices.DeleteFunc(append(services, step.Services...), func(name string) bool { return held[name] != "" })
	specs := a.partsOf(env, services)
	var out ops.Result
	for round := 1; len(specs) > 0; round++ {
		out.Checks = a.Prober.Run(ctx, env.Name, specs, ops.ProbeRunning)
		idle := slices.ContainsFunc(out.Checks, func(c ops.Check) bool { return c.Status != ops.Healthy })
		if !idle || round == runningRounds || !pause(ctx, roundPause) {
			break
		}
	}
	for _, c := range out.Checks {
		if c.Status != ops.Healthy {
			out.Events = append(out.Events, ops.Event{
				At: c.At, CycleID: &now.Cycle.ID, Environment: env.Name, Level: ops.LevelWarning, Kind: ops.EventProbe,
				Service: c.Service, Message: fmt.Sprintf("%s answers its probes, but its %s", c.Service, c.Error),
			})
		}
	}
	return out
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
			out = append(out, ops.ProbeSpec{Service: s.Name, Type: "container", Container: s.Container, Socket: a.Docker(env)})
		case s.Unit != "":
			out = append(out, ops.ProbeSpec{Service: s.Name, Type: "systemd", Unit: s.Unit})
		}
	}
	return out
}
