package watch

import (
	"context"
	"fmt"
	"slices"
	"time"

	"claudeops/internal/decide/health"
	"claudeops/internal/ops"
	"claudeops/internal/watch/alert"
)

// key names a check within an environment.
type key struct{ service, probe string }

// environment is what is known about one environment.
type environment struct {
	config     ops.Environment
	services   []ops.Service
	windows    []health.Window
	grouping   ops.Grouping
	thresholds map[key]health.Thresholds // of the configured probes

	states map[key]ops.CheckState
	kept   map[key]ops.Check    // the last result that was stored
	saved  map[key]time.Time    // when the state was written last
	alerts map[string]ops.Alert // firing ones by fingerprint
	causes []ops.Cause
	lost   map[string]time.Time // services whose failing probe was taken out of the configuration, and when this was noticed

	waiting  []ops.Check // results that change nothing and are written later
	written  time.Time   // when results were written last
	withheld []ops.Withheld
	judged   time.Time // when it was judged last
	next     time.Time // when to judge again
}

func newEnvironment(e ops.Environment, describe func(ops.ProbeSpec) string) (*environment, error) {
	env := &environment{
		config: e, services: e.Policy.Inventory.Services, grouping: e.Watch.Grouping,
		thresholds: map[key]health.Thresholds{}, states: map[key]ops.CheckState{}, kept: map[key]ops.Check{},
		saved: map[key]time.Time{}, alerts: map[string]ops.Alert{}, lost: map[string]time.Time{},
	}
	for _, m := range e.Watch.Maintenance {
		window, err := health.ParseMaintenance(m)
		if err != nil {
			return nil, fmt.Errorf("maintenance %s of %s: %w", m.Name, e.Name, err)
		}
		env.windows = append(env.windows, window)
	}
	for _, spec := range Probes(e) {
		k := key{spec.Service, describe(spec)}
		spec.Name = ""
		env.thresholds[k] = health.Thresholds{
			FailAfter: spec.FailAfter, RecoverAfter: spec.RecoverAfter, Flapping: e.Watch.Flapping, Target: describe(spec),
		}
	}
	return env, nil
}

// Probes are those of an environment that run all the time.
func Probes(e ops.Environment) []ops.ProbeSpec {
	if e.Policy.Observe == ops.ObserveProbes || e.Policy.Observe == ops.ObserveBoth {
		return e.Probes
	}
	return nil
}

// CheckServices refuses dependencies of services that cannot be right.
func CheckServices(services []ops.Service) error { return health.ValidateServices(services) }

// CheckMaintenance says what is wrong with a maintenance window.
func CheckMaintenance(m ops.Maintenance) error {
	_, err := health.ParseMaintenance(m)
	return err
}

// remembered is how long a resolved cause still matters.
const remembered = time.Hour

func (env *environment) load(ctx context.Context, s Store, now time.Time) error {
	name := env.config.Name
	states, err := s.States(ctx, name)
	if err != nil {
		return fmt.Errorf("read states of %s: %w", name, err)
	}
	if err := env.readAlerts(ctx, s); err != nil {
		return err
	}
	firingKeys := map[key]bool{}
	for _, a := range env.alerts {
		firingKeys[alertKey(a)] = true
	}
	var gone, kept []ops.CheckState
	for _, v := range states {
		k := key{v.Service, v.Probe}
		limits, configured := env.thresholds[k]
		if configured && v.Failing() && v.Target != "" && v.Target != limits.Target {
			v = health.Inherit(v, v.Probe)
		}
		// A check that no longer runs must not stay bad.
		if !configured && !firingKeys[k] && (!alert.IsAlert(v.Probe) || v.Level != ops.Healthy) {
			gone = append(gone, v)
			if !v.Failing() || alert.IsAlert(v.Probe) {
				continue
			}
			if k = env.heir(v.Service, states); k.probe == "" {
				env.lost[v.Service] = now
				continue
			}
			v = health.Inherit(v, k.probe)
			kept = append(kept, v)
		}
		env.states[k], env.saved[k] = health.Begun(v, now), v.Last.At
	}
	if err := s.RecordResults(ctx, name, nil, nil, kept, nil, nil); err != nil {
		return err
	}
	if err := s.ForgetStates(ctx, name, gone); err != nil {
		return fmt.Errorf("forget states of %s: %w", name, err)
	}
	if err := env.readCauses(ctx, s, now); err != nil {
		return err
	}
	// What was held back before a restart and is good now must not stay recorded.
	if env.withheld, err = s.Withheld(ctx, name); err != nil {
		return fmt.Errorf("read what is held back in %s: %w", name, err)
	}
	return nil
}

// heir is a new probe of a service, which takes the place of one that was taken out: its address was corrected. Empty: there is none.
func (env *environment) heir(service string, known []ops.CheckState) key {
	for k := range env.thresholds {
		if k.service == service && !slices.ContainsFunc(known, func(v ops.CheckState) bool { return key{v.Service, v.Probe} == k }) {
			return k
		}
	}
	return key{}
}

func (env *environment) readAlerts(ctx context.Context, s Store) error {
	firing, err := s.FiringAlerts(ctx, env.config.Name)
	if err != nil {
		return fmt.Errorf("read alerts of %s: %w", env.config.Name, err)
	}
	clear(env.alerts)
	for _, a := range firing {
		env.alerts[a.Fingerprint] = a
	}
	return nil
}

func (env *environment) readCauses(ctx context.Context, s Store, now time.Time) (err error) {
	if env.causes, err = s.Causes(ctx, env.config.Name, now.Add(-env.remember())); err != nil {
		return fmt.Errorf("read causes of %s: %w", env.config.Name, err)
	}
	return nil
}

// remember is how long a resolved cause is kept: longer than any pause between two cycles.
func (env *environment) remember() time.Duration { return max(remembered, 2*env.grouping.Pause) }

// pause is the shortest time between two cycles for a service that fails again.
func (env *environment) pause() time.Duration {
	if env.grouping.Pause <= 0 {
		return 10 * time.Minute
	}
	return env.grouping.Pause
}

// seen divides the services of a cause: those that recovered, and those of which nobody knows it, because what found them bad is gone.
func (env *environment) seen(c ops.Cause) (recovered, lost []string) {
	for _, name := range c.Services {
		if at, gone := env.lost[name]; gone && !c.At.After(at) {
			lost = append(lost, name)
		} else {
			recovered = append(recovered, name)
		}
	}
	return recovered, lost
}

// having are the services that have a check in such a state. A storm of alerts makes very many, so all are looked through once.
func (env *environment) having(is func(ops.CheckState) bool) map[string]bool {
	out := map[string]bool{}
	for k, v := range env.states {
		if is(v) {
			out[k.service] = true
		}
	}
	return out
}

func alertKey(a ops.Alert) key { return key{a.Service, a.Probe()} }

// forgetOld removes the states of alerts that ended a day ago.
func (env *environment) forgetOld(ctx context.Context, w *Watch, now time.Time) {
	var gone []ops.CheckState
	for k, v := range env.states {
		if _, configured := env.thresholds[k]; !configured && v.Level == ops.Healthy && now.Sub(v.Since) > 24*time.Hour {
			gone = append(gone, v)
		}
	}
	if err := w.o.Store.ForgetStates(ctx, env.config.Name, gone); err != nil {
		w.logError(ctx, "remove the states of old alerts", err)
		return
	}
	for _, v := range gone {
		env.drop(key{v.Service, v.Probe})
	}
}

func (env *environment) drop(k key) {
	delete(env.states, k)
	delete(env.saved, k)
	delete(env.kept, k)
}
