package engine

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"claudeops/internal/ops"
)

// Journal is where the engine of one machine reads which cycles have work.
type Journal interface {
	Startable(ctx context.Context) ([]ops.Cycle, error)
}

// Advance takes one cycle as far as it goes now.
type Advance func(ctx context.Context, id ops.CycleID, environment string) error

// LocalOptions are what the engine of one machine works with.
type LocalOptions struct {
	Journal Journal
	Advance Advance
	// Known says whether this host works for the environment.
	Known  func(environment string) bool
	Clock  ops.Clock
	Logger *slog.Logger
	// Sweep is how often the journal is scanned without a wake-up.
	Sweep time.Duration
	// Workers is how many cycles are worked on at once; 0 means as many as there are environments. One that has begun keeps
	// its worker until it ends or waits, so that nothing which came later gets between its sessions.
	Workers int
	Ran     func() // called after every scan; nil calls nothing
}

// Local is the engine of one machine: workers are goroutines, wake-ups a channel, and the journal is scanned at start and after every
// wake-up, so a lost wake-up costs nothing. It runs at most one cycle per environment at a time.
type Local struct {
	o        LocalOptions
	wake     chan struct{}
	stop     context.CancelCauseFunc
	loop     sync.WaitGroup
	draining atomic.Bool
	mu       sync.Mutex
	busy     map[string]*worker // by environment
	pace     *Pace
}

type worker struct {
	cycle ops.CycleID
	stop  context.CancelCauseFunc
}

// NewLocal returns an engine that has not started yet.
func NewLocal(o LocalOptions) *Local {
	o.Sweep = cmp.Or(o.Sweep, 30*time.Second)
	if o.Ran == nil {
		o.Ran = func() {}
	}
	return &Local{o: o, wake: make(chan struct{}, 1), busy: map[string]*worker{}, pace: NewPace(time.Second)}
}

// Start begins to work on what the journal holds.
func (e *Local) Start(ctx context.Context) error {
	ctx, e.stop = context.WithCancelCause(context.WithoutCancel(ctx))
	e.loop.Go(func() { e.run(ctx) })
	e.nudge()
	return nil
}

// Submit says that the cycle may have something to do now.
func (e *Local) Submit(ops.CycleID) { e.nudge() }

// Cancel stops the worker of the cycle.
func (e *Local) Cancel(id ops.CycleID, why string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, w := range e.busy {
		if w.cycle == id {
			w.stop(ops.Stop(ops.StopUser, why))
		}
	}
}

// Drain starts no more cycles.
func (e *Local) Drain() {
	e.mu.Lock() // a scan that is under way starts what it starts before we return
	defer e.mu.Unlock()
	e.draining.Store(true)
}

// Resume starts cycles again.
func (e *Local) Resume() error {
	e.draining.Store(false)
	e.nudge()
	return nil
}

// Draining reports whether no more cycles are started.
func (e *Local) Draining() bool { return e.draining.Load() }

// Stop ends all workers and waits for them until ctx ends.
func (e *Local) Stop(ctx context.Context) error {
	if e.stop == nil {
		return nil
	}
	e.stop(ops.Stop(ops.StopShutdown, "the supervisor is shutting down"))
	if !Ended(ctx, &e.loop) {
		return errors.New("stop engine: workers did not end in time")
	}
	return nil
}

func (e *Local) nudge() {
	select {
	case e.wake <- struct{}{}:
	default: // a wake-up is already waiting, and it will see this change too
	}
}

func (e *Local) run(ctx context.Context) {
	var workers sync.WaitGroup
	defer workers.Wait()
	for {
		next := e.scan(ctx, &workers)
		e.o.Ran()
		timer := time.NewTimer(next)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-e.wake:
			timer.Stop()
		case <-timer.C:
		}
	}
}

// scan starts a worker for every environment that has work and none yet, and says when to look again.
func (e *Local) scan(ctx context.Context, workers *sync.WaitGroup) time.Duration {
	next := e.o.Sweep
	cycles, err := e.o.Journal.Startable(ctx)
	if err != nil {
		if ctx.Err() == nil {
			e.o.Logger.ErrorContext(ctx, "cannot read open cycles; trying again", "error", err)
		}
		return min(next, time.Second)
	}
	now := e.o.Clock()
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, c := range first(cycles) {
		if !e.o.Known(c.Environment) {
			continue
		}
		if w, ok := e.busy[c.Environment]; ok {
			if w.cycle == c.ID && c.CancelRequestedAt != nil {
				w.stop(ops.Stop(ops.StopUser, Why(c)))
			}
			continue
		}
		if e.Draining() {
			continue
		}
		if wait := max(e.pace.Wait(c.ID, now), Due(c, now)); wait > 0 {
			next = min(next, wait)
			continue
		}
		if e.full() && c.CancelRequestedAt == nil {
			continue // it stays queued; a worker that ends wakes the loop
		}
		e.start(ctx, workers, c)
	}
	return max(next, time.Millisecond)
}

// full reports whether every worker has a cycle. To cancel one takes none of them: nothing is started for it.
func (e *Local) full() bool { return e.o.Workers > 0 && len(e.busy) >= e.o.Workers }

// first orders cycles so that one which already holds its environment's slot comes before the queued ones.
func first(cycles []ops.Cycle) []ops.Cycle {
	var running, others []ops.Cycle
	for _, c := range cycles {
		if c.Status == ops.CycleRunning {
			running = append(running, c)
		} else {
			others = append(others, c)
		}
	}
	return append(running, others...)
}

func (e *Local) start(ctx context.Context, workers *sync.WaitGroup, c ops.Cycle) {
	ctx, stop := context.WithCancelCause(ctx)
	e.busy[c.Environment] = &worker{cycle: c.ID, stop: stop}
	workers.Go(func() {
		defer stop(nil)
		err := e.o.Advance(ctx, c.ID, c.Environment)
		e.finished(ctx, c, err)
		e.nudge()
	})
}

func (e *Local) finished(ctx context.Context, c ops.Cycle, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.busy, c.Environment)
	if err == nil {
		e.pace.Forget(c.ID)
		return
	}
	wait := e.pace.Failed(c.ID, e.o.Clock())
	e.o.Logger.ErrorContext(ctx, "cannot advance a cycle; trying again", "cycle", c.ID, "in", wait, "error", err)
}
