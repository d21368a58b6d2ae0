// Package local is the engine of one machine: workers are goroutines, wake-ups a channel, and the journal is scanned
// at start and after every wake-up, so a lost wake-up costs nothing.
package local

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"claudeops/internal/ops"
)

// Journal is what the engine reads to know who has work.
type Journal interface {
	Unfinished(ctx context.Context) ([]ops.Cycle, error)
}

// Advance takes one cycle as far as it goes now.
type Advance func(ctx context.Context, id ops.CycleID, environment string) error

// Options are what an engine works with.
type Options struct {
	Journal Journal
	Advance Advance
	// Known says whether this host works for the environment.
	Known  func(environment string) bool
	Clock  ops.Clock
	Logger *slog.Logger
	// Sweep is how often the journal is scanned without a wake-up.
	Sweep time.Duration
}

// Engine runs at most one cycle per environment at a time.
type Engine struct {
	o      Options
	wake   chan struct{}
	stop   context.CancelCauseFunc
	loop   sync.WaitGroup
	mu     sync.Mutex
	busy   map[string]*worker // by environment
	faults map[ops.CycleID]fault
}

type worker struct {
	cycle ops.CycleID
	stop  context.CancelCauseFunc
}

// fault spaces out the attempts at a cycle whose journal could not be written.
type fault struct {
	count int
	until time.Time
}

// New returns an engine that has not started yet.
func New(o Options) *Engine {
	if o.Sweep == 0 {
		o.Sweep = 30 * time.Second
	}
	return &Engine{o: o, wake: make(chan struct{}, 1), busy: map[string]*worker{}, faults: map[ops.CycleID]fault{}}
}

// Start begins to work on what the journal holds.
func (e *Engine) Start(ctx context.Context) error {
	ctx, e.stop = context.WithCancelCause(context.WithoutCancel(ctx))
	e.loop.Go(func() { e.run(ctx) })
	e.nudge()
	return nil
}

// Submit says that the cycle may have something to do now.
func (e *Engine) Submit(ops.CycleID) { e.nudge() }

// At says that the cycle will have something to do then. The time is a row; the scan finds it.
func (e *Engine) At(ops.CycleID, time.Time) { e.nudge() }

// Cancel stops the worker of the cycle.
func (e *Engine) Cancel(id ops.CycleID, why string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, w := range e.busy {
		if w.cycle == id {
			w.stop(ops.Stop(ops.StopUser, why))
		}
	}
}

// Stop ends all workers and waits for them until ctx ends.
func (e *Engine) Stop(ctx context.Context) error {
	if e.stop == nil {
		return nil
	}
	e.stop(ops.Stop(ops.StopShutdown, "the supervisor is shutting down"))
	done := make(chan struct{})
	go func() { e.loop.Wait(); close(done) }()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return errors.New("stop engine: workers did not end in time")
	}
}

func (e *Engine) nudge() {
	select {
	case e.wake <- struct{}{}:
	default: // a wake-up is already waiting, and it will see this change too
	}
}

func (e *Engine) run(ctx context.Context) {
	var workers sync.WaitGroup
	defer workers.Wait()
	for {
		next := e.scan(ctx, &workers)
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
func (e *Engine) scan(ctx context.Context, workers *sync.WaitGroup) time.Duration {
	next := e.o.Sweep
	cycles, err := e.o.Journal.Unfinished(ctx)
	if err != nil {
		if ctx.Err() == nil {
			e.o.Logger.ErrorContext(ctx, "the journal could not be read; trying again", "error", err)
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
				w.stop(ops.Stop(ops.StopUser, reason(c)))
			}
			continue
		}
		if wait := e.due(c, now); wait > 0 {
			next = min(next, wait)
			continue
		}
		e.start(ctx, workers, c)
	}
	return max(next, time.Millisecond)
}

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

func reason(c ops.Cycle) string {
	if c.CancelReason != "" {
		return c.CancelReason
	}
	return "stopped by the operator"
}

// due says how long the cycle still has to wait; zero means it can run.
func (e *Engine) due(c ops.Cycle, now time.Time) time.Duration {
	const never = time.Hour
	if f, ok := e.faults[c.ID]; ok && f.until.After(now) {
		return f.until.Sub(now)
	}
	if c.CancelRequestedAt != nil {
		return 0
	}
	if c.WakeAt != nil && c.WakeAt.After(now) {
		return c.WakeAt.Sub(now)
	}
	if c.Status == ops.CycleWaitingHuman && c.WakeAt == nil {
		return never
	}
	return 0
}

func (e *Engine) start(ctx context.Context, workers *sync.WaitGroup, c ops.Cycle) {
	ctx, stop := context.WithCancelCause(ctx)
	e.busy[c.Environment] = &worker{cycle: c.ID, stop: stop}
	workers.Go(func() {
		defer stop(nil)
		err := e.o.Advance(ctx, c.ID, c.Environment)
		e.finished(ctx, c, err)
		e.nudge()
	})
}

func (e *Engine) finished(ctx context.Context, c ops.Cycle, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.busy, c.Environment)
	if err == nil {
		delete(e.faults, c.ID)
		return
	}
	f := e.faults[c.ID]
	f.count++
	wait := min(time.Second<<min(f.count-1, 5), 30*time.Second)
	f.until = e.o.Clock().Add(wait)
	e.faults[c.ID] = f
	e.o.Logger.ErrorContext(ctx, "the cycle could not be advanced; it is tried again", "cycle", c.ID, "in", wait, "error", err)
}
