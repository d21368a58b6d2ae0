package river

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/riverqueue/river"

	"claudeops/internal/ops"
)

// How long a job waits that cannot be worked here now. River makes jobs available again without its leader only within 5 s.
const (
	longestSnooze = 4 * time.Second
	whileFull     = 500 * time.Millisecond
	whileAdopting = 50 * time.Millisecond
	unknownHere   = time.Second
)

// worker advances one cycle.
type worker struct {
	stop context.CancelCauseFunc
	// asked: another job of its cycle was completed because of it. It may have left the cycle by then, so the sweep looks again.
	asked bool
}

// cycles works on the jobs of cycles.
type cycles struct {
	river.WorkerDefaults[cycleArgs]
	engine *Engine
}

// Timeout is none: a cycle takes as long as its sessions.
func (*cycles) Timeout(*river.Job[cycleArgs]) time.Duration { return -1 }

// Work advances the cycle as far as it goes now. The journal decides: a job that is stale, or that somebody else has replaced, finds
// nothing to claim and is completed.
func (w *cycles) Work(ctx context.Context, job *river.Job[cycleArgs]) error {
	e, a := w.engine, job.Args
	work, wait := e.take(a, job.Queue)
	switch {
	case wait >= 0:
		return river.JobSnooze(wait)
	case work == nil:
		return nil // its worker is here
	}
	e.finish(ctx, a, e.advance(jobContext{work, ctx, job})) //nolint:contextcheck // see above
	return nil
}

// advance returns a panic as an error: River would hide it, and the cycle would stay without a worker.
func (e *Engine) advance(ctx jobContext) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return e.o.Advance(ctx, ctx.job.Args.Cycle, ctx.job.Args.Environment)
}

// jobContext is the context of a worker. It ends when the engine says so, and has the values of River's.
type jobContext struct {
	context.Context //nolint:containedctx // it is one

	river context.Context //nolint:containedctx // see above
	job   *river.Job[cycleArgs]
}

// Value returns the job, a value of the engine's context, or one of River's.
func (c jobContext) Value(key any) any {
	if key == (jobKey{}) {
		return c.job
	}
	if v := c.Context.Value(key); v != nil {
		return v
	}
	return c.river.Value(key)
}

// never is the wait of a job that is not put back.
const never = time.Duration(-1)

// take makes this host work on the cycle. If it cannot do so now, it returns how long the job must wait, or neither a context nor a wait
// if a worker for the cycle is here already.
func (e *Engine) take(a cycleArgs, queue string) (context.Context, time.Duration) {
	e.mu.Lock()
	defer e.mu.Unlock()
	own := queue == hostQueue(e.o.Host)
	wait := e.pace.Wait(a.Cycle, e.o.Clock())
	switch {
	case e.busy[a.Cycle] != nil:
		e.busy[a.Cycle].asked = true
		return nil, never
	case e.draining:
		return nil, 0 // another host takes it
	case !slices.Contains(e.mine, a.Environment):
		e.sayUnknown(a.Environment)
		return nil, unknownHere
	case !own && len(e.adopting) > 0:
		return nil, whileAdopting
	case !own && e.o.Workers > 0 && len(e.busy) >= e.o.Workers:
		return nil, whileFull
	case wait > 0:
		return nil, min(wait, longestSnooze)
	}
	delete(e.adopting, a.Cycle)
	ctx, stop := e.work()
	e.busy[a.Cycle] = &worker{stop: stop}
	e.workers.Add(1)
	return ctx, never
}

func (e *Engine) finish(ctx context.Context, a cycleArgs, err error) {
	defer e.workers.Done()
	e.mu.Lock()
	worker := e.busy[a.Cycle]
	worker.stop(nil)
	delete(e.busy, a.Cycle)
	if worker.asked {
		e.again[a.Cycle] = true
	}
	switch {
	case err == nil:
		e.pace.Forget(a.Cycle)
	case errors.Is(err, ops.ErrSlotBusy), errors.Is(err, ops.ErrConflict), errors.Is(err, ops.ErrFenced):
		// Whoever changed the cycle meanwhile may have taken this job for the one that it would have inserted.
		e.again[a.Cycle] = true
	default:
		e.again[a.Cycle] = true
		wait := e.pace.Failed(a.Cycle, e.o.Clock())
		e.o.Logger.ErrorContext(ctx, "cannot advance a cycle; trying again", "cycle", a.Cycle, "in", wait, "error", err)
	}
	e.mu.Unlock()
	e.look()
}

func (e *Engine) sayUnknown(environment string) {
	if e.said.news("unknown "+environment, time.Now()) {
		e.o.Logger.Warn("a job belongs to an environment that is not configured here; give all hosts with the same labels the same environments",
			"environment", environment)
	}
}

// lastSaid remembers when a message was logged.
type lastSaid struct {
	mu   sync.Mutex
	when map[string]time.Time
}

// news reports whether the message was not logged within the last minute.
func (l *lastSaid) news(what string, at time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if before, ok := l.when[what]; ok && at.Sub(before) < time.Minute {
		return false
	}
	l.when[what] = at
	return true
}
