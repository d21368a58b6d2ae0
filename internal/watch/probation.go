package watch

import (
	"context"
	"slices"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/watch/health"
)

// claims are the repairs that are on probation. What settled just before the end of a probation is still found in the next pass.
func (w *Watch) claims(ctx context.Context, env *environment, now time.Time) []ops.Claim {
	out, err := w.o.Store.OnProbation(ctx, env.config.Name, now.Add(-maxPause))
	if err != nil {
		w.logError(ctx, "read what is on probation", err)
	}
	return out
}

// confirm takes over what the probes of a cycle found after its repair: they look more often, and a service that fails again before the
// watch has seen it good would be taken for one that never recovered, and be covered by a cycle that has ended.
func (w *Watch) confirm(ctx context.Context, env *environment, now time.Time) {
	proven, err := w.o.Store.Proven(ctx, env.config.Name, now.Add(-ops.Probation-maxPause))
	if err != nil {
		w.logError(ctx, "read what cycles proved", err)
		return
	}
	m := update{states: map[key]health.State{}}
	for _, p := range proven {
		k := key{p.Service, p.Probe}
		v, known := env.states[k]
		if !known {
			continue
		}
		after, change, changed := health.Confirm(v, p.At)
		if !changed || m.states[k].Service != "" {
			continue
		}
		m.states[k] = after
		m.save = append(m.save, after)
		m.events = append(m.events, env.event(change, after.Last.Purpose))
		m.recovered = append(m.recovered, recovery{k.service, v.Began, change.Reason})
	}
	if len(m.save) == 0 || !w.allRecovered(ctx, env, m, now) {
		return
	}
	if err := w.o.Store.RecordResults(ctx, env.config.Name, nil, nil, m.save, limitEvents(m.events), nil); err != nil {
		w.logError(ctx, "record what a cycle found", err)
		return
	}
	for _, v := range m.save {
		k := key{v.Service, v.Probe}
		env.states[k], env.saved[k] = v, now
	}
}

// relapses opens the incidents again whose check fails on probation, and says when the next cycle may start. What is silenced, in
// maintenance or fails for another service is not held against the repair.
func (w *Watch) relapses(ctx context.Context, env *environment, claims []ops.Claim, p health.Picture, j health.Judgement, now time.Time) {
	for _, c := range claims {
		found, ok := env.failsAgain(c, p, now)
		held := slices.IndexFunc(j.Held, func(h ops.Withheld) bool { return h.Service == c.Service })
		if !ok || held >= 0 && j.Held[held].Why == ops.HoldDependency {
			continue
		}
		r := ops.Relapse{Claim: c, Found: found, At: now}
		if held >= 0 {
			r = r.After(j.Held[held])
		} else {
			r.Next = now
		}
		done, err := w.o.Store.Relapsed(ctx, r)
		switch {
		case err != nil:
			w.logError(ctx, "open an incident again", err)
		case done:
			w.o.Logger.WarnContext(ctx, "a repair did not hold", "cycle", c.Cycle, "incident", c.Incident, "service", c.Service,
				"environment", env.config.Name)
			w.o.Changed()
		}
	}
}

// failsAgain is the last result of the check that failed first of those that the claim is about.
func (env *environment) failsAgain(c ops.Claim, p health.Picture, now time.Time) (found ops.Check, ok bool) {
	var first health.State
	for _, v := range env.states {
		if !v.Failing() || !c.About(v.Last) || !v.Since.After(c.At) || v.Since.After(c.Until) || health.Quiet(p, env.grouping, v.Last, now) {
			continue
		}
		if !ok || v.Since.Before(first.Since) {
			first, ok = v, true
		}
	}
	return first.Last, ok
}
