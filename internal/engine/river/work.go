package river

import (
	"context"
	"errors"
	"math"

	"claudeops/internal/ops"
)

// worker advances one cycle.
type worker struct {
	cycle ops.CycleID
	stop  context.CancelCauseFunc
}

// attempt is one attempt at a cycle, for the wake number known at that time.
type attempt struct {
	cycle       ops.CycleID
	environment string
	seq         int64
}

// take acts on a wake-up. If it cannot, a later look wakes the cycle again: when the busy worker ends, or at once.
func (e *Engine) take(a attempt) {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.busy[a.environment] != nil, e.free() == 0:
	case e.draining, e.pace.Wait(a.cycle, e.o.Clock()) > 0:
		e.nudge()
	default:
		e.begin(a)
	}
}

// free returns how many more cycles can run on this host; the caller holds the lock.
func (e *Engine) free() int {
	if e.o.Workers == 0 {
		return math.MaxInt
	}
	return max(e.o.Workers-len(e.busy), 0)
}

// begin starts a worker; the caller holds the lock and has checked that it may start.
func (e *Engine) begin(a attempt) {
	ctx, stop := e.work()
	e.busy[a.environment] = &worker{cycle: a.cycle, stop: stop}
	e.workers.Go(func() {
		defer stop(nil)
		e.finish(ctx, a, e.o.Advance(ctx, a.cycle, a.environment))
	})
}

func (e *Engine) finish(ctx context.Context, a attempt, err error) {
	e.mu.Lock()
	delete(e.busy, a.environment)
	if err == nil || errors.Is(err, ops.ErrSlotBusy) || errors.Is(err, ops.ErrConflict) {
		e.ended = append(e.ended, a)
	} else {
		wait := e.pace.Failed(a.cycle, e.o.Clock())
		e.o.Logger.ErrorContext(ctx, "the cycle could not be advanced; it will be tried again", "cycle", a.cycle, "in", wait, "error", err)
	}
	e.mu.Unlock()
	e.nudge()
}
