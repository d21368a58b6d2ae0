// Package watch turns the results of probes and the alerts of other systems into cycles, before any model runs.
//
// Results and alerts update the states of package health, which decides what each bad service means: it is held back for a recorded
// reason, or it belongs to a cause, and one cause starts one cycle. States, causes and what is held back are rows, so a restart loses
// nothing.
package watch

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"claudeops/internal/ops"
)

// States stores the states of checks.
type States interface {
	States(ctx context.Context, environment string) ([]ops.CheckState, error)
	RecordResults(ctx context.Context, environment string, kept, counted []ops.Check, states []ops.CheckState, events []ops.Event,
		alerts []ops.Alert) error
	ForgetStates(ctx context.Context, environment string, states []ops.CheckState) error
	// StartsSince returns when services were last started by the supervisor or an agent since a time.
	StartsSince(ctx context.Context, environment string, since time.Time) (map[string]time.Time, error)
	Withheld(ctx context.Context, environment string) ([]ops.Withheld, error)
	SaveWithheld(ctx context.Context, environment string, onHold []ops.Withheld) error
}

// Causes stores causes and starts their cycles.
type Causes interface {
	Causes(ctx context.Context, environment string, since time.Time) ([]ops.Cause, error)
	OpenCause(ctx context.Context, c ops.Cause, n ops.NewCycle, checks []ops.Check, notice *ops.Notice,
		since time.Time) (ops.Cause, bool, error)
	ResolveCause(
		ctx context.Context, c ops.Cause, how string, over func(services []string, open []ops.Incident) ops.Notice, at time.Time,
	) error
	ReleaseCause(ctx context.Context, c ops.Cause, free, keep []string, why string, at time.Time) error
	JoinCause(ctx context.Context, c ops.Cause, services []string) (bool, error)
	ServiceRecovered(ctx context.Context, environment, service string, began time.Time, how string, at time.Time) (int, error)
}

// Claims stores the repairs that are on probation.
type Claims interface {
	OnProbation(ctx context.Context, environment string, at time.Time) ([]ops.Claim, error)
	Proven(ctx context.Context, environment string, since time.Time) ([]ops.Proven, error)
	Relapsed(ctx context.Context, r ops.Relapse) (bool, error)
}

// Alerts stores the alerts of other systems.
type Alerts interface {
	PendingAlerts(ctx context.Context, limit int) ([]ops.Alert, error)
	FiringAlerts(ctx context.Context, environment string) ([]ops.Alert, error)
	ExpireAlerts(ctx context.Context, before, at time.Time) (int64, error)
	Dispute(ctx context.Context, d ops.Dispute, at time.Time) error
}

// Answers stores what people said about problems.
type Answers interface {
	SilencesSince(ctx context.Context, environment string, since time.Time) ([]ops.Silence, error)
	Denials(ctx context.Context, environment string, now time.Time) ([]ops.Approval, error)
}

// Store is all of them.
type Store interface {
	States
	Causes
	Claims
	Alerts
	Answers
}

// Cycles are those that were started.
type Cycles interface {
	Cycle(ctx context.Context, id ops.CycleID) (ops.Cycle, error)
	Load(ctx context.Context, id ops.CycleID) (ops.Claimed, error)
}

// People are shown the problems of services.
type People interface {
	Unresolved(ctx context.Context, environment string) ([]ops.Incident, error)
	Notices
}

// Notices stores what people are told.
type Notices interface {
	AddNotice(ctx context.Context, n ops.Notice) (int64, error)
}

// Options are what a watch needs.
type Options struct {
	Store        Store
	Cycles       Cycles
	People       People
	Environments []ops.Environment
	// Describe returns the name of a probe in its results.
	Describe func(ops.ProbeSpec) string
	// Start wakes the engine for a cycle that was queued; 0 for any that may go on.
	Start func(ops.CycleID)
	// Cancel ends a cycle that is no longer needed and has not started.
	Cancel func(ctx context.Context, id ops.CycleID, why string) error
	Clock  ops.Clock
	Logger *slog.Logger
	// Changed is called after rows were written, with who has to look again.
	Changed func(ops.Reach)
}

// Watch keeps the states of all environments.
type Watch struct {
	o    Options
	wake chan struct{}

	mu           sync.Mutex
	environments map[string]*environment
	order        []*environment // as configured
	tidied       time.Time
}

// New makes a watch. Load reads the stored states into it.
func New(o Options) (*Watch, error) {
	if o.Changed == nil {
		o.Changed = func(ops.Reach) {}
	}
	w := &Watch{o: o, wake: make(chan struct{}, 1), environments: map[string]*environment{}}
	for _, e := range o.Environments {
		env, err := newEnvironment(e, o.Describe)
		if err != nil {
			return nil, err
		}
		w.environments[e.Name] = env
		w.order = append(w.order, env)
	}
	return w, nil
}

const (
	// minPause is the shortest time between two passes, however often the watch is woken.
	minPause = 250 * time.Millisecond
	// maxPause is the time between two passes when nothing is due.
	maxPause = 30 * time.Second
	// alertExpiry ends an alert that its sender no longer repeats: every sender that repeats does so within hours.
	alertExpiry = 24 * time.Hour
	// tidyEvery is how often old rows are removed.
	tidyEvery = 10 * time.Minute
	// batch is how many alerts share a transaction, and batches how many follow each other; other writers get their turn in between.
	batch   = 100
	batches = 20
)

// Load reads the stored states and removes those of checks that are no longer configured.
func (w *Watch) Load(ctx context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, env := range w.order {
		if err := env.load(ctx, w.o.Store, w.o.Clock()); err != nil {
			return err
		}
	}
	return nil
}

// Wake starts a pass: there may be new alerts, silences or answers.
func (w *Watch) Wake() {
	select {
	case w.wake <- struct{}{}:
	default: // it was woken already
	}
}

// Run processes alerts and judges bad services whenever something may have changed, until ctx ends.
func (w *Watch) Run(ctx context.Context) error {
	for {
		until := w.Pass(ctx)
		if !pause(ctx, minPause, nil) {
			return nil
		}
		if wait := until.Sub(w.o.Clock()); wait > 0 && !pause(ctx, min(wait, maxPause), w.wake) {
			return nil
		}
	}
}

// pause waits for a time or until it is woken, and reports whether to go on.
func pause(ctx context.Context, d time.Duration, wake <-chan struct{}) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
	case <-wake:
	}
	return ctx.Err() == nil
}

// Pass does once what Run does again and again: what is due. It returns when the next pass is.
func (w *Watch) Pass(ctx context.Context) time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.o.Clock()
	next := now.Add(maxPause)
	w.tidy(ctx, now)
	if w.takeAlerts(ctx) {
		next = now // there are more
	}
	for _, env := range w.order {
		w.judge(ctx, env)
		if !env.next.IsZero() && env.next.Before(next) {
			next = env.next
		}
	}
	return next
}

// Deliver takes the results of probes.
func (w *Watch) Deliver(ctx context.Context, checks []ops.Check) {
	w.mu.Lock()
	defer w.mu.Unlock()
	byEnvironment := map[string][]ops.Check{}
	for _, c := range checks {
		byEnvironment[c.Environment] = append(byEnvironment[c.Environment], c)
	}
	for name, results := range byEnvironment {
		env := w.environments[name]
		if env == nil {
			continue
		}
		w.observe(ctx, env, results, nil)
		w.judge(ctx, env)
	}
}

// tidy ends alerts that are no longer repeated and removes old states.
func (w *Watch) tidy(ctx context.Context, now time.Time) {
	if now.Sub(w.tidied) < tidyEvery && !now.Before(w.tidied) {
		return
	}
	w.tidied = now
	n, err := w.o.Store.ExpireAlerts(ctx, now.Add(-alertExpiry), now)
	switch {
	case err != nil:
		w.logError(ctx, "end expired alerts", err)
	case n > 0:
		w.o.Logger.InfoContext(ctx, "ended alerts that were not repeated", "alerts", n, "after", alertExpiry)
	}
	for _, env := range w.order {
		env.forgetOld(ctx, w, now)
	}
}

func (w *Watch) logError(ctx context.Context, action string, err error) {
	if ctx.Err() == nil {
		w.o.Logger.ErrorContext(ctx, "watch step failed", "step", action, "error", err)
	}
}
