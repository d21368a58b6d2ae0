package watch

import (
	"context"
	"fmt"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/watch/alert"
	"claudeops/internal/watch/health"
)

// key names a check within an environment.
type key struct{ service, probe string }

// place is what is known about one environment.
type place struct {
	env        ops.Environment
	services   []health.Service
	windows    []health.Window
	rules      health.Rules
	thresholds map[key]health.Thresholds // of the configured probes

	states map[key]health.State
	kept   map[key]ops.Check    // the last result that is a row of its own
	saved  map[key]time.Time    // when the state was written last
	alerts map[string]ops.Alert // firing ones by fingerprint
	causes []ops.Cause

	uncounted []ops.Check // looks that are counted later
	counted   time.Time   // when that was done last
	withheld  []ops.Withheld
	judged    time.Time // when it was judged last
	next      time.Time // when to judge again
}

func newPlace(e ops.Environment, describe func(ops.ProbeSpec) string) (*place, error) {
	g := e.Watch.Grouping
	p := &place{
		env: e, rules: health.Rules{Window: g.Window, Grace: g.Grace, Pause: g.Pause, Repeat: g.Repeat},
		thresholds: map[key]health.Thresholds{}, states: map[key]health.State{}, kept: map[key]ops.Check{},
		saved: map[key]time.Time{}, alerts: map[string]ops.Alert{},
	}
	for _, s := range e.Policy.Inventory.Services {
		p.services = append(p.services, health.Service{Name: s.Name, Group: s.Group, DependsOn: s.DependsOn})
	}
	for _, m := range e.Watch.Maintenance {
		window, err := windowOf(m)
		if err != nil {
			return nil, fmt.Errorf("maintenance %s of %s: %w", m.Name, e.Name, err)
		}
		p.windows = append(p.windows, window)
	}
	flap := health.Flap(e.Watch.Flapping)
	for _, spec := range Probes(e) {
		p.thresholds[key{spec.Service, describe(spec)}] = health.Thresholds{
			FailAfter: spec.FailAfter, RecoverAfter: spec.RecoverAfter, TolerateDegraded: e.Watch.TolerateDegraded, Flap: flap,
		}
	}
	return p, nil
}

// Probes are those of an environment that run all the time.
func Probes(e ops.Environment) []ops.ProbeSpec {
	if e.Policy.Observe == ops.ObserveProbes || e.Policy.Observe == ops.ObserveBoth {
		return e.Probes
	}
	return nil
}

// CheckServices says which dependencies of services cannot be meant.
func CheckServices(services []ops.Service) error {
	var out []health.Service
	for _, s := range services {
		out = append(out, health.Service{Name: s.Name, Group: s.Group, DependsOn: s.DependsOn})
	}
	return health.ValidateServices(out)
}

// CheckMaintenance says what is wrong with a time of maintenance.
func CheckMaintenance(m ops.Maintenance) error {
	_, err := windowOf(m)
	return err
}

func windowOf(m ops.Maintenance) (health.Window, error) {
	w := health.Window{
		Name: m.Name, Matcher: health.Matcher{Service: m.Service, Group: m.Group, Probe: m.Probe}, From: m.From, Until: m.Until, Length: m.Length,
	}
	if m.Schedule != "" {
		s, err := health.ParseSchedule(m.Schedule)
		if err != nil {
			return w, err
		}
		w.Schedule = s
	}
	if m.Zone != "" {
		zone, err := time.LoadLocation(m.Zone)
		if err != nil {
			return w, fmt.Errorf("%q is not a time zone such as Europe/Berlin", m.Zone)
		}
		w.Zone = zone
	}
	return w, w.Validate()
}

// remembered is how long a cause that is over still matters.
const remembered = time.Hour

func (p *place) load(ctx context.Context, s Store, now time.Time) error {
	name := p.env.Name
	states, err := s.States(ctx, name)
	if err != nil {
		return fmt.Errorf("read states of %s: %w", name, err)
	}
	firing, err := s.FiringAlerts(ctx, name)
	if err != nil {
		return fmt.Errorf("read alerts of %s: %w", name, err)
	}
	told := map[key]bool{}
	for _, a := range firing {
		p.alerts[a.Fingerprint] = a
		told[alertKey(a)] = true
	}
	var gone []health.State
	for _, v := range states {
		k := key{v.Service, v.Probe}
		_, configured := p.thresholds[k]
		// What nobody looks at any more must not stay bad for ever.
		if !configured && !told[k] && (!alert.IsAlert(v.Probe) || v.Level != ops.Healthy) {
			gone = append(gone, v)
			continue
		}
		p.states[k], p.saved[k] = v, v.Last.At
	}
	if err := s.ForgetStates(ctx, name, gone); err != nil {
		return fmt.Errorf("forget states of %s: %w", name, err)
	}
	if p.causes, err = s.Causes(ctx, name, now.Add(-p.remember())); err != nil {
		return fmt.Errorf("read causes of %s: %w", name, err)
	}
	return nil
}

// remember is how long a cause is kept after it is over: longer than any pause between two cycles.
func (p *place) remember() time.Duration { return max(remembered, 2*p.rules.Pause) }

func alertKey(a ops.Alert) key { return key{a.Service, alert.ProbeName(a)} }

// forgetOld drops the states of alerts that have been over for a day.
func (p *place) forgetOld(ctx context.Context, w *Watch, now time.Time) {
	var gone []health.State
	for k, v := range p.states {
		if _, configured := p.thresholds[k]; !configured && v.Level == ops.Healthy && now.Sub(v.Since) > 24*time.Hour {
			gone = append(gone, v)
		}
	}
	if err := w.o.Store.ForgetStates(ctx, p.env.Name, gone); err != nil {
		w.complain(ctx, "states of old alerts could not be removed", err)
		return
	}
	for _, v := range gone {
		p.drop(key{v.Service, v.Probe})
	}
}

func (p *place) drop(k key) {
	delete(p.states, k)
	delete(p.saved, k)
	delete(p.kept, k)
}
