// Package watch turns what probes find and alerts tell into cycles, before any model runs.
//
// Looks and alerts move the states of package health, which decides what each bad service means: it is held back for a reason
// that is written down, or it is part of a cause, and one cause starts one cycle. States, causes and what is held back are rows;
// a restart forgets nothing.
package watch

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/watch/health"
)

// States is where the states of checks are kept.
type States interface {
	States(ctx context.Context, environment string) ([]health.State, error)
	RecordLooks(ctx context.Context, environment string, kept, counted []ops.Check, states []health.State, events []ops.Event,
		alerts []ops.Alert) error
	ForgetStates(ctx context.Context, environment string, states []health.State) error
	SaveWithheld(ctx context.Context, environment string, held []ops.Withheld) error
}

// Causes is where causes start cycles, and end.
type Causes interface {
	Causes(ctx context.Context, environment string, since time.Time) ([]ops.Cause, error)
	OpenCause(ctx context.Context, c ops.Cause, n ops.NewCycle, checks []ops.Check, notice *ops.Notice, since time.Time) (ops.Cause, bool, error)
	ResolveCause(ctx context.Context, c ops.Cause, how string, notice *ops.Notice, at time.Time) error
	ServiceRecovered(ctx context.Context, environment, service string, began time.Time, how string, at time.Time) (int, error)
}

// Alerts is where alerts of other systems wait.
type Alerts interface {
	PendingAlerts(ctx context.Context, limit int) ([]ops.Alert, error)
	FiringAlerts(ctx context.Context, environment string) ([]ops.Alert, error)
	ExpireAlerts(ctx context.Context, before, at time.Time) (int64, error)
}

// People is what people say about what is bad.
type People interface {
	SilencesSince(ctx context.Context, environment string, since time.Time) ([]ops.Silence, error)
	Unresolved(ctx context.Context, environment string) ([]ops.Incident, error)
	Cycle(ctx context.Context, id ops.CycleID) (ops.Cycle, error)
}

// Store is all of them.
type Store interface {
	States
	Causes
	Alerts
	People
}

// Options are what a watch works with.
type Options struct {
	Store        Store
	Environments []ops.Environment
	// Describe names a probe as its results do.
	Describe func(ops.ProbeSpec) string
	// Start wakes the engine for a cycle that was queued.
	Start func(ops.CycleID)
	// Cancel ends a cycle that is no longer needed before it started.
	Cancel func(ctx context.Context, id ops.CycleID, why string) error
	Clock  ops.Clock
	Logger *slog.Logger
	// Changed is called after rows were written.
	Changed func()
	Expire  time.Duration // an alert nobody repeats for so long is over; 0: never
}

// Watch keeps the states of all environments.
type Watch struct {
	o    Options
	wake chan struct{}

	mu     sync.Mutex
	places map[string]*place
	order  []*place // as configured
	tidied time.Time
}

// New makes a watch that knows nothing yet.
func New(o Options) (*Watch, error) {
	if o.Changed == nil {
		o.Changed = func() {}
	}
	w := &Watch{o: o, wake: make(chan struct{}, 1), places: map[string]*place{}}
	for _, e := range o.Environments {
		p, err := newPlace(e, o.Describe)
		if err != nil {
			return nil, err
		}
		w.places[e.Name] = p
		w.order = append(w.order, p)
	}
	return w, nil
}

const (
	// pace bounds how often the rows are looked at, however often somebody wakes.
	pace = 250 * time.Millisecond
	// longest is how long the watch sleeps when nothing is due.
	longest = 30 * time.Second
	// tidyEvery is how often what is old is removed.
	tidyEvery = 10 * time.Minute
	// batch is how many alerts share a transaction, and batches how many follow each other: others write in between.
	batch   = 25
	batches = 40
)

// Load reads what an earlier life knew, and forgets what is no longer watched.
func (w *Watch) Load(ctx context.Context) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range w.order {
		if err := p.load(ctx, w.o.Store, w.o.Clock()); err != nil {
			return err
		}
	}
	return nil
}

// Wake says that there may be new alerts, silences or answers of people.
func (w *Watch) Wake() {
	select {
	case w.wake <- struct{}{}:
	default: // somebody has done so already
	}
}

// Run takes alerts and judges what is bad whenever that may have changed, until ctx ends.
func (w *Watch) Run(ctx context.Context) error {
	for {
		until := w.pass(ctx)
		if !pause(ctx, pace, nil) {
			return nil
		}
		if wait := until.Sub(w.o.Clock()); wait > 0 && !pause(ctx, min(wait, longest), w.wake) {
			return nil
		}
	}
}

// pause waits, or until it is woken, and reports whether to go on.
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

// pass does once what is due and says when the next pass is.
func (w *Watch) pass(ctx context.Context) time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.o.Clock()
	next := now.Add(longest)
	w.tidy(ctx, now)
	if w.takeAlerts(ctx) {
		next = now // more wait
	}
	for _, p := range w.order {
		w.judge(ctx, p)
		if !p.next.IsZero() && p.next.Before(next) {
			next = p.next
		}
	}
	return next
}

// Deliver takes the results of probes.
func (w *Watch) Deliver(ctx context.Context, checks []ops.Check) {
	w.mu.Lock()
	defer w.mu.Unlock()
	byPlace := map[string][]ops.Check{}
	for _, c := range checks {
		byPlace[c.Environment] = append(byPlace[c.Environment], c)
	}
	for name, looks := range byPlace {
		p := w.places[name]
		if p == nil {
			continue
		}
		w.observe(ctx, p, looks, nil)
		w.judge(ctx, p)
	}
}

// Held says for an environment what is held back, and until when.
func (w *Watch) Held(environment string) []ops.Withheld {
	w.mu.Lock()
	defer w.mu.Unlock()
	if p := w.places[environment]; p != nil {
		return append([]ops.Withheld{}, p.withheld...)
	}
	return nil
}

// tidy ends alerts nobody repeats and removes what is old.
func (w *Watch) tidy(ctx context.Context, now time.Time) {
	if now.Sub(w.tidied) < tidyEvery && !now.Before(w.tidied) {
		return
	}
	w.tidied = now
	if w.o.Expire > 0 {
		n, err := w.o.Store.ExpireAlerts(ctx, now.Add(-w.o.Expire), now)
		switch {
		case err != nil:
			w.complain(ctx, "alerts that nobody repeats could not be ended", err)
		case n > 0:
			w.o.Logger.InfoContext(ctx, "alerts that nobody repeats are taken as over", "alerts", n, "after", w.o.Expire)
		}
	}
	for _, p := range w.order {
		p.forgetOld(ctx, w, now)
	}
}

func (w *Watch) complain(ctx context.Context, what string, err error) {
	if ctx.Err() == nil {
		w.o.Logger.ErrorContext(ctx, what, "error", err)
	}
}
