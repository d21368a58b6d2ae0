package watch

import (
	"context"
	"maps"
	"slices"
	"time"

	"claudeops/internal/decide/health"
	"claudeops/internal/ops"
	"claudeops/internal/watch/alert"
)

// keepEvery is how often a result is stored when nothing changes. All results are counted.
const keepEvery = 5 * time.Minute

// update is what a batch of results changes.
type update struct {
	kept, quiet []ops.Check // to be stored because they say something new, and those that change nothing
	states      map[key]ops.CheckState
	save        []ops.CheckState
	events      []ops.Event
	recovered   []recovery
}

// recovery is a service that may have recovered.
type recovery struct {
	service string
	began   time.Time
	how     string
}

// observe updates the states with results, and records all of them or none.
func (w *Watch) observe(ctx context.Context, env *environment, results []ops.Check, alerts []ops.Alert) bool {
	now := w.o.Clock()
	m := update{states: map[key]ops.CheckState{}}
	starts := w.starts(ctx, env, results, now)
	for _, r := range results {
		env.apply(&m, r, starts[r.Service], now)
	}
	env.waiting = append(env.waiting, m.quiet...)
	env.waiting = env.waiting[max(0, len(env.waiting)-maxWaiting):]
	return w.settle(ctx, env, m, alerts, now)
}

// settle records an update, if it says something new or enough waits, and takes it over.
func (w *Watch) settle(ctx context.Context, env *environment, m update, alerts []ops.Alert, now time.Time) bool {
	news := len(m.kept) > 0 || len(m.save) > 0 || len(m.events) > 0 || len(alerts) > 0
	// The incidents are closed first. Who dies between the two sees the recovery again; the other way round nobody would ever see it.
	if !w.allRecovered(ctx, env, m, now) {
		return false
	}
	if news || env.due(now) {
		if err := w.write(ctx, env, m, alerts, now); err != nil {
			w.logError(ctx, "record results", err)
			return false
		}
		if news {
			w.o.Changed(ops.ReachAll)
		} else {
			w.o.Changed(ops.ReachPages) // they show when a service was last checked
		}
	}
	for k, v := range m.states {
		env.states[k] = v
	}
	return true
}

// write records an update, and with it the results that wait: one commit for many of them.
func (w *Watch) write(ctx context.Context, env *environment, m update, alerts []ops.Alert, now time.Time) error {
	stored := map[key]ops.Check{}
	for _, c := range m.kept {
		if c.Purpose != ops.ProbeAlert {
			stored[key{c.Service, c.Probe}] = c
		}
	}
	kept := slices.Clip(m.kept)
	var counted []ops.Check
	for _, c := range env.waiting {
		k := key{c.Service, c.Probe}
		last, ok := stored[k]
		if !ok {
			last = env.kept[k]
		}
		if c.At.Sub(last.At) >= env.keepEvery() {
			kept, stored[k] = append(kept, c), c
		} else {
			counted = append(counted, c)
		}
	}
	save := env.withLastResults(m)
	if err := w.o.Store.RecordResults(ctx, env.config.Name, kept, counted, save, limitEvents(m.events), alerts); err != nil {
		return err
	}
	env.waiting, env.written = nil, now
	maps.Copy(env.kept, stored)
	for _, v := range save {
		env.saved[key{v.Service, v.Probe}] = now
	}
	return nil
}

// starts are the services that the supervisor or an agent has started lately, if that matters for one of the results.
func (w *Watch) starts(ctx context.Context, env *environment, results []ops.Check, now time.Time) map[string]time.Time {
	if !slices.ContainsFunc(results, func(r ops.Check) bool { return health.MindsRestarts(env.states[key{r.Service, r.Probe}]) }) {
		return nil
	}
	found, err := w.o.Store.StartsSince(ctx, env.config.Name, now.Add(-health.Lookback))
	if err != nil {
		w.logError(ctx, "read which services were started", err)
	}
	return found
}

// withLastResults adds the states of results that change nothing to those that are saved: the pages show from them when a service was
// last checked.
func (env *environment) withLastResults(m update) []ops.CheckState {
	save := m.save
	saved := map[key]bool{}
	for _, v := range save {
		saved[key{v.Service, v.Probe}] = true
	}
	for _, c := range env.waiting {
		k := key{c.Service, c.Probe}
		v, changed := m.states[k]
		if !changed {
			v, changed = env.states[k]
		}
		if changed && !saved[k] {
			saved[k] = true
			save = append(save, v)
		}
	}
	return save
}

func (env *environment) apply(m *update, result ops.Check, started, now time.Time) {
	k := key{result.Service, result.Probe}
	before, ok := m.states[k]
	if !ok {
		before = env.states[k]
	}
	limits, configured := env.thresholds[k]
	if !configured {
		if result.Purpose != ops.ProbeAlert {
			return // its probe was removed while it ran
		}
		limits = health.Thresholds{FailAfter: 1, RecoverAfter: 1, Flapping: env.config.Watch.Flapping}
		if before.Level == "" && result.Status == ops.Healthy {
			return // the end of an alert that was never received
		}
	}
	after, changes := health.Observe(health.Restarted(before, started), result, limits, now)
	m.states[k] = after
	news := len(changes) > 0 || moved(before, after)
	switch {
	case env.differs(k, before, result, now):
		m.kept, news = append(m.kept, result), true
	case result.Purpose == ops.ProbeAlert: // repeated alerts say nothing new about the service
		news = news || now.Sub(env.saved[k]) >= keepEvery || now.Before(env.saved[k])
	default:
		m.quiet = append(m.quiet, result)
	}
	if news {
		m.save = append(m.save, after)
	}
	for _, c := range changes {
		m.events = append(m.events, env.event(c, result.Purpose))
		if c.Kind == health.Recovered {
			m.recovered = append(m.recovered, recovery{result.Service, before.Began, c.Reason})
		}
	}
}

// differs reports whether a result is another than the last stored one, or there is none.
func (env *environment) differs(k key, before ops.CheckState, result ops.Check, now time.Time) bool {
	if result.Purpose == ops.ProbeAlert {
		return before.Last.Status != result.Status
	}
	last, ok := env.kept[k]
	return !ok || last.Status != result.Status || last.Error != result.Error || now.Before(last.At)
}

// keepEvery is how often a result is stored when nothing changes.
func (env *environment) keepEvery() time.Duration {
	if env.config.Interval > 0 {
		return min(keepEvery, env.config.Interval)
	}
	return keepEvery
}

// moved: more than the counts of a check that stays as it is has changed.
func moved(before, after ops.CheckState) bool {
	return before.Level != after.Level || before.Unknown.Error != after.Unknown.Error || before.Flapping != after.Flapping ||
		((after.Level != ops.Healthy || before.Bad != 0 || after.Bad != 0) && after.Last.Purpose != ops.ProbeAlert)
}

const (
	// waitAtMost is how long results that change nothing may wait to be written: the pages show the time of the last check, and a crash
	// loses no more of the statistics.
	waitAtMost = 10 * time.Second
	// enough of them are written at once.
	enough = 2000
	// maxWaiting is how many may wait while the database is away; older ones are then left out of the statistics.
	maxWaiting = 10 * enough
)

// due reports whether the results that wait are written now.
func (env *environment) due(now time.Time) bool {
	if len(env.waiting) == 0 {
		return false
	}
	if env.written.IsZero() || now.Before(env.written) {
		env.written = now
	}
	return now.Sub(env.written) >= waitAtMost || len(env.waiting) >= enough
}

// Flush writes the results that wait. Call it at the end, after the last results were delivered.
func (w *Watch) Flush(ctx context.Context) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, env := range w.order {
		if len(env.waiting) == 0 {
			continue
		}
		if err := w.write(ctx, env, update{}, nil, w.o.Clock()); err != nil {
			w.logError(ctx, "record the last results", err)
		}
	}
}

// maxEvents is how many events one batch of results may leave.
const maxEvents = 20

// limitEvents keeps the first events of a flood, and one that says how many more there were.
func limitEvents(events []ops.Event) []ops.Event {
	if len(events) <= maxEvents {
		return events
	}
	last := events[maxEvents-1]
	last.Service, last.Reason, last.Detail = "", "", ops.WatchDetail{More: len(events) - maxEvents + 1}
	return append(events[:maxEvents-1:maxEvents-1], last)
}

// event makes the event of a change.
func (env *environment) event(c health.Change, purpose ops.ProbePurpose) ops.Event {
	e := ops.Event{
		At: c.At, Environment: env.config.Name, Level: ops.LevelWarning, Verb: ops.VerbWatchChanged, Service: c.Service,
		Reason: c.Reason,
	}
	if purpose == ops.ProbeAlert {
		e.Verb = ops.VerbAlertChanged
	}
	if c.Kind == health.Recovered || c.Kind == health.FlapEnded || c.Kind == health.Eased {
		e.Level = ops.LevelInfo
	}
	return e
}

// allRecovered closes the incidents of services whose checks are all good after an update, and reports whether it could.
func (w *Watch) allRecovered(ctx context.Context, env *environment, m update, now time.Time) bool {
	if len(m.recovered) == 0 {
		return true
	}
	open, err := w.o.People.Unresolved(ctx, env.config.Name)
	if err != nil {
		w.logError(ctx, "read the incidents of services that recovered", err)
		return false
	}
	concerned := map[string]bool{}
	for _, i := range open {
		concerned[i.Service] = true
	}
	for _, v := range m.states {
		if v.Failing() {
			delete(concerned, v.Service)
		}
	}
	for k, v := range env.states {
		if _, changed := m.states[k]; !changed && v.Failing() {
			delete(concerned, v.Service)
		}
	}
	return !slices.ContainsFunc(m.recovered, func(r recovery) bool { return concerned[r.service] && !w.recovered(ctx, env, r, now) })
}

// recovered closes the incidents of a service whose checks are all good.
func (w *Watch) recovered(ctx context.Context, env *environment, r recovery, now time.Time) bool {
	closed, err := w.o.Store.ServiceRecovered(ctx, env.config.Name, r.service, r.began, r.how, now)
	if err != nil {
		w.logError(ctx, "close the incidents of a service that recovered", err)
		return false
	}
	if closed > 0 {
		w.ended()
	}
	return true
}

// takeAlerts processes the alerts of other systems, and reports whether there are more.
func (w *Watch) takeAlerts(ctx context.Context) bool {
	for range batches {
		if !w.takeBatch(ctx) {
			return false
		}
	}
	return true
}

func (w *Watch) takeBatch(ctx context.Context) bool {
	pending, err := w.o.Store.PendingAlerts(ctx, batch)
	if err != nil {
		w.logError(ctx, "read alerts", err)
		return false
	}
	if len(pending) == 0 {
		return false
	}
	byEnvironment := map[string][]ops.Alert{}
	for _, a := range pending {
		byEnvironment[a.Environment] = append(byEnvironment[a.Environment], a)
	}
	for name, alerts := range byEnvironment {
		env := w.environments[name]
		if env == nil {
			// Its environment was removed.
			if err := w.o.Store.RecordResults(ctx, name, nil, nil, nil, nil, alerts); err != nil {
				w.logError(ctx, "mark alerts of an unknown environment as processed", err)
			}
			continue
		}
		w.takeFrom(ctx, env, alerts)
	}
	return len(pending) == batch
}

func (w *Watch) takeFrom(ctx context.Context, env *environment, alerts []ops.Alert) {
	now := w.o.Clock()
	var results []ops.Check
	var gone []ops.CheckState
	for _, a := range alerts {
		result := alert.Check(a)
		result.At = now // the sender's clock may be wrong
		results = append(results, result)
		old, was := env.alerts[a.Fingerprint]
		if was && alertKey(old) != alertKey(a) { // its name has changed
			gone = append(gone, env.states[alertKey(old)])
		}
	}
	if !w.observe(ctx, env, results, alerts) {
		return
	}
	if err := w.o.Store.ForgetStates(ctx, env.config.Name, gone); err != nil {
		w.logError(ctx, "remove the old name of an alert", err)
	}
	for _, v := range gone {
		env.drop(key{v.Service, v.Probe})
	}
	for _, a := range alerts {
		if a.Status == ops.AlertFiring {
			env.alerts[a.Fingerprint] = a
		} else {
			delete(env.alerts, a.Fingerprint)
		}
	}
}
