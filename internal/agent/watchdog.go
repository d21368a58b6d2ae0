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

// stopping holds why a session is stopped. The first cause wins.
type stopping struct {
	mu     sync.Mutex
	cause  ops.StopCause
	why    string
	sealed bool
	asked  chan struct{} // closed with the first cause
}

func newStopping() *stopping { return &stopping{asked: make(chan struct{})} }

func (s *stopping) stop(cause ops.StopCause, why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sealed {
		return
	}
	s.sealed = true
	s.cause, s.why = cause, why
	close(s.asked)
}

// seal says that the process ended: nothing that comes later stopped it.
func (s *stopping) seal() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sealed = true
}

func (s *stopping) reason() (ops.StopCause, string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cause, s.why
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

// watchdog stops a session that runs too long, is silent too long, or hangs in one tool call.
type watchdog struct {
	limits ops.Limits
	begun  time.Time

	mu     sync.Mutex
	output time.Time
	open   []openSince
	asleep time.Time     // until when run sleeps
	sooner chan struct{} // there is an earlier limit than that
}

type openSince struct {
	toolCall
	at time.Time
}

func newWatchdog(limits ops.Limits) *watchdog {
	now := time.Now()
	return &watchdog{limits: limits, begun: now, output: now, sooner: make(chan struct{}, 1)}
}

// heard notes that something was printed.
func (w *watchdog) heard() {
	now := time.Now()
	w.mu.Lock()
	w.output = now
	w.mu.Unlock()
}

// tools notes which tool calls are open now.
func (w *watchdog) tools(calls []toolCall) {
	w.mu.Lock()
	defer w.mu.Unlock()
	open := w.open
	w.open = nil
	for _, c := range calls {
		at := w.output
		if i := slices.IndexFunc(open, func(o openSince) bool { return o.id == c.id }); i >= 0 {
			at = open[i].at
		}
		w.open = append(w.open, openSince{toolCall: c, at: at})
	}
	if l := w.next(); l.cause != ops.StopNone && l.at.Before(w.asleep) {
		nudge(w.sooner)
	}
}

// call returns the tool call that was opened last and is not answered yet.
func (w *watchdog) call() (toolCall, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.open) == 0 {
		return toolCall{}, false
	}
	return w.open[len(w.open)-1].toolCall, true
}

// run stops the session at the first limit it reaches; it returns when the context ends.
func (w *watchdog) run(ctx context.Context, stop func(ops.StopCause, string)) {
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
			stop(l.cause, w.why(l))
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

// next returns the first limit as things stand.
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
		earlier(o.at, w.limits.Tool, ops.StopTool, o.name)
	}
	return first
}

func (w *watchdog) why(l limit) string {
	switch l.cause {
	case ops.StopWall:
		return fmt.Sprintf("the session ran longer than its limit of %v", w.limits.Wall)
	case ops.StopIdle:
		return fmt.Sprintf("the agent printed nothing for %v while no tool call was open", w.limits.Idle)
	default:
		return fmt.Sprintf("the tool call %s ran longer than its limit of %v", l.tool, w.limits.Tool)
	}
}
