package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"claudeops/internal/ops"
)

// stopping holds why a session is stopped. The first reason wins.
type stopping struct {
	mu     sync.Mutex
	halt   ops.Halt
	sealed bool
	asked  chan struct{} // closed with the first reason
}

func newStopping() *stopping { return &stopping{asked: make(chan struct{})} }

func (s *stopping) stop(h ops.Halt) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sealed {
		return
	}
	s.sealed = true
	s.halt = h
	close(s.asked)
}

// seal says that the process ended: nothing that comes later stopped it.
func (s *stopping) seal() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sealed = true
}

func (s *stopping) reason() ops.Halt {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.halt
}

// causeOf translates the end of a context. A context that ends without a cause ends because the
// supervisor does.
func causeOf(ctx context.Context) (ops.StopCause, string) {
	err := context.Cause(ctx)
	var stop *ops.StopError
	if errors.As(err, &stop) && stop.Cause != ops.StopNone {
		return stop.Cause, stop.Error()
	}
	if err == nil || errors.Is(err, context.Canceled) {
		return ops.StopShutdown, "the supervisor is shutting down"
	}
	return ops.StopShutdown, err.Error()
}

// boundaryTime is how long a session may go on after its deadline until its open tool calls were answered.
const boundaryTime = 10 * time.Second

// watchdog stops a session that runs too long, prints nothing for too long, or hangs in one tool call.
type watchdog struct {
	limits   ops.Limits
	begun    time.Time
	deadline time.Time // zero: none

	mu     sync.Mutex
	output time.Time
	open   []openSince
	ending bool          // the program gave its final answer
	asleep time.Time     // until when run sleeps
	sooner chan struct{} // there is an earlier limit than that
}

type openSince struct {
	Call

	at time.Time
}

func newWatchdog(limits ops.Limits) *watchdog {
	now := time.Now()
	return &watchdog{limits: limits, begun: now, output: now, sooner: make(chan struct{}, 1)}
}

// setDeadline sets when the session has to end at the latest. It is called before run.
func (w *watchdog) setDeadline(left time.Duration) { w.deadline = w.begun.Add(left) }

// heard notes that something was printed.
func (w *watchdog) heard() {
	now := time.Now()
	w.mu.Lock()
	w.output = now
	w.mu.Unlock()
}

// update notes which tool calls are open now, and whether the program is about to end by itself.
func (w *watchdog) update(calls []Call, ending bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	open := w.open
	w.open, w.ending = nil, ending
	for _, c := range calls {
		at := w.output
		if i := slices.IndexFunc(open, func(o openSince) bool { return o.ID == c.ID }); i >= 0 {
			at = open[i].at
		}
		w.open = append(w.open, openSince{Call: c, at: at})
	}
	if l := w.next(); l.cause != ops.StopNone && l.at.Before(w.asleep) {
		wake(w.sooner)
	}
}

// call returns the tool call that was opened last and is not answered yet.
func (w *watchdog) call() (Call, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.open) == 0 {
		return Call{}, false
	}
	return w.open[len(w.open)-1].Call, true
}

// busy reports whether the session is not at a boundary: a tool call is open, or it is about to end by itself.
func (w *watchdog) busy() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.isBusy()
}

func (w *watchdog) isBusy() bool { return len(w.open) > 0 || w.ending }

// run stops the session at the first limit it reaches; it returns when the context ends.
func (w *watchdog) run(ctx context.Context, stop func(ops.Halt)) {
	const look = time.Hour // without any limit there may be one later
	timer := time.NewTimer(look)
	defer timer.Stop()
	for {
		w.mu.Lock()
		l := w.next()
		now := time.Now()
		w.asleep = now.Add(look)
		if l.cause != ops.StopNone && l.at.Before(w.asleep) {
			w.asleep = l.at
		}
		wait := w.asleep.Sub(now)
		w.mu.Unlock()
		if wait <= 0 {
			stop(ops.Halt{Cause: l.cause, Why: w.why(l), Boundary: l.cause == ops.StopDeadline})
			return
		}
		timer.Reset(wait)
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-w.sooner:
		}
	}
}

// limit is when a session will be stopped, and why.
type limit struct {
	at    time.Time
	cause ops.StopCause
	tool  string
}

// next returns the first limit that will be reached if nothing changes.
func (w *watchdog) next() limit {
	var first limit
	earlier := func(since time.Time, length time.Duration, cause ops.StopCause, tool string) {
		if length <= 0 {
			return
		}
		if at := since.Add(length); first.cause == ops.StopNone || at.Before(first.at) {
			first = limit{at: at, cause: cause, tool: tool}
		}
	}
	earlier(w.begun, w.limits.Wall, ops.StopWall, "")
	if len(w.open) == 0 {
		earlier(w.output, w.limits.Idle, ops.StopIdle, "")
	}
	for _, o := range w.open {
		earlier(o.at, w.limits.Tool, ops.StopTool, o.Name)
	}
	if at := w.deadline; !at.IsZero() {
		if w.isBusy() {
			at = at.Add(boundaryTime)
		}
		if first.cause == ops.StopNone || at.Before(first.at) {
			first = limit{at: at, cause: ops.StopDeadline}
		}
	}
	return first
}

func (w *watchdog) why(l limit) string {
	switch l.cause {
	case ops.StopWall:
		return fmt.Sprintf("the session ran longer than its limit of %v", w.limits.Wall)
	case ops.StopIdle:
		return fmt.Sprintf("the agent printed nothing for %v while no tool call was open", w.limits.Idle)
	case ops.StopDeadline:
		return "the time of its recovery level is over"
	default:
		return fmt.Sprintf("the tool call %s ran longer than its limit of %v", l.tool, w.limits.Tool)
	}
}
