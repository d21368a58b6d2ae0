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

// attempt is one try at a cycle, for the wake number that was known then.
type attempt struct {
	cycle       ops.CycleID
	environment string
	seq         int64
}

// take acts upon a wake-up. Where it cannot, somebody looks again: the worker that is in the way when it ends, or we.
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

// free is how many more cycles can be worked on here; the caller holds the lock.
func (e *Engine) free() int {
	if e.o.Workers == 0 {
		return math.MaxInt
	}
	return max(e.o.Workers-len(e.busy), 0)
}

// begin starts a worker; the caller holds the lock and has seen that nothing forbids it.
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
		e.o.Logger.ErrorContext(ctx, "cannot advance a cycle; trying again", "cycle", a.cycle, "in", wait, "error", err)
	}
	e.mu.Unlock()
	e.nudge()
}
