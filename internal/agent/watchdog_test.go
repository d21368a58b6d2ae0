package agent

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"claudeops/internal/ops"
)

func TestWatchdog(t *testing.T) {
	limits := ops.Limits{Wall: 30 * time.Minute, Idle: 10 * time.Minute, Tool: 20 * time.Minute}
	bash := []toolCall{{id: "t1", name: "Bash"}}
	tests := []struct {
		name   string
		limits ops.Limits
		act    func(w *watchdog)
		cause  ops.StopCause
		after  time.Duration
	}{
		{"silence", limits, func(*watchdog) {}, ops.StopIdle, 10 * time.Minute},
		{"output resets the silence", limits, func(w *watchdog) {
			pass(9 * time.Minute)
			w.heard()
		}, ops.StopIdle, 19 * time.Minute},
		{"an open tool call may be silent", limits, func(w *watchdog) {
			pass(time.Minute)
			w.heard()
			w.tools(bash)
		}, ops.StopTool, 21 * time.Minute},
		{"output does not prolong a tool call", limits, func(w *watchdog) {
			w.tools(bash)
			pass(15 * time.Minute)
			w.heard()
		}, ops.StopTool, 20 * time.Minute},
		{"a second call has its own time", limits, func(w *watchdog) {
			w.tools(bash)
			pass(5 * time.Minute)
			w.heard()
			w.tools([]toolCall{{id: "t1"}, {id: "t2"}})
			pass(5 * time.Minute)
			w.heard()
			w.tools([]toolCall{{id: "t2"}})
		}, ops.StopTool, 25 * time.Minute},
		{"silence counts from the answer", limits, func(w *watchdog) {
			w.tools(bash)
			pass(15 * time.Minute)
			w.heard()
			w.tools(nil)
		}, ops.StopIdle, 25 * time.Minute},
		{"the wall", limits, func(w *watchdog) {
			for range 7 {
				pass(4 * time.Minute)
				w.heard()
			}
		}, ops.StopWall, 30 * time.Minute},
		{"a long session without a wall", ops.Limits{Idle: 5 * time.Hour}, func(*watchdog) {}, ops.StopIdle, 5 * time.Hour},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begun := time.Now()
				w := newWatchdog(tt.limits)
				type stop struct {
					cause ops.StopCause
					after time.Duration
				}
				stopped := make(chan stop, 1)
				go w.run(t.Context(), func(cause ops.StopCause, _ string) { stopped <- stop{cause, time.Since(begun)} })
				tt.act(w)
				if got := <-stopped; got.cause != tt.cause || got.after != tt.after {
					t.Errorf("stopped with %q after %v, want %q after %v", got.cause, got.after, tt.cause, tt.after)
				}
			})
		})
	}
}

func TestAWatchdogWithoutLimitsEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			newWatchdog(ops.Limits{}).run(ctx, func(cause ops.StopCause, _ string) { t.Errorf("stopped with %q", cause) })
		}()
		pass(1000 * time.Hour)
		cancel()
		<-ended
	})
}

func TestTheFirstCauseOfAStopWins(t *testing.T) {
	s := newStopping()
	s.stop(ops.StopIdle, "first")
	s.stop(ops.StopUser, "second")
	s.seal()
	if cause, why := s.reason(); cause != ops.StopIdle || why != "first" {
		t.Errorf("got %q %q", cause, why)
	}
	s = newStopping()
	s.seal()
	s.stop(ops.StopUser, "too late")
	if cause, _ := s.reason(); cause != ops.StopNone {
		t.Errorf("a process that ended was stopped by %q", cause)
	}
}

func TestTheCauseComesFromTheContext(t *testing.T) {
	late := errors.New("too late")
	tests := []struct {
		cancel error
		cause  ops.StopCause
		why    string
	}{
		{ops.Stop(ops.StopUser, "by alice"), ops.StopUser, "by alice"},
		{nil, ops.StopShutdown, "the supervisor is shutting down"},
		{late, ops.StopShutdown, "too late"},
	}
	for _, tt := range tests {
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(tt.cancel)
		if cause, why := causeOf(ctx); cause != tt.cause || why != tt.why {
			t.Errorf("%v: got %q %q", tt.cancel, cause, why)
		}
	}
}

// pass lets time pass in a bubble, where that takes none.
func pass(d time.Duration) {
	time.Sleep(d) //nolint:forbidigo // no real time passes
}
