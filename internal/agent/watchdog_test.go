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
	bash := []Call{{ID: "t1", Name: "Bash"}}
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
			w.update(bash, false)
		}, ops.StopTool, 21 * time.Minute},
		{"output does not prolong a tool call", limits, func(w *watchdog) {
			w.update(bash, false)
			pass(15 * time.Minute)
			w.heard()
		}, ops.StopTool, 20 * time.Minute},
		{"a second call has its own time", limits, func(w *watchdog) {
			w.update(bash, false)
			pass(5 * time.Minute)
			w.heard()
			w.update([]Call{{ID: "t1"}, {ID: "t2"}}, false)
			pass(5 * time.Minute)
			w.heard()
			w.update([]Call{{ID: "t2"}}, false)
		}, ops.StopTool, 25 * time.Minute},
		{"silence counts from the answer", limits, func(w *watchdog) {
			w.update(bash, false)
			pass(15 * time.Minute)
			w.heard()
			w.update(nil, false)
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
				go w.run(t.Context(), func(h ops.Halt) { stopped <- stop{h.Cause, time.Since(begun)} })
				tt.act(w)
				if got := <-stopped; got.cause != tt.cause || got.after != tt.after {
					t.Errorf("stopped with %q after %v, want %q after %v", got.cause, got.after, tt.cause, tt.after)
				}
			})
		})
	}
}

func TestADeadlineStopsASilentSession(t *testing.T) {
	const after = 5 * time.Minute
	limits := ops.Limits{Wall: time.Hour, Idle: 10 * time.Minute, Tool: 20 * time.Minute}
	bash := []Call{{ID: "t1", Name: "Bash"}}
	for name, tt := range map[string]struct {
		limits ops.Limits
		act    func(w *watchdog)
		cause  ops.StopCause
		after  time.Duration
	}{
		"nothing is printed": {limits, func(*watchdog) {}, ops.StopDeadline, after},
		"no other limit":     {ops.Limits{}, func(*watchdog) {}, ops.StopDeadline, after},
		"an earlier limit":   {ops.Limits{Idle: time.Minute}, func(*watchdog) {}, ops.StopIdle, time.Minute},
		"a call that is open does not end": {limits, func(w *watchdog) {
			w.update(bash, false)
		}, ops.StopDeadline, after + boundaryTime},
		"a call that is open is answered": {limits, func(w *watchdog) {
			w.update(bash, false)
			pass(after + 3*time.Second)
			w.update(nil, false)
		}, ops.StopDeadline, after + 3*time.Second},
		"a call is answered before": {limits, func(w *watchdog) {
			w.update(bash, false)
			pass(time.Minute)
			w.update(nil, false)
		}, ops.StopDeadline, after},
		"calls follow each other": {limits, func(w *watchdog) {
			w.update(bash, false)
			pass(after + 3*time.Second)
			w.update([]Call{{ID: "t2"}}, false)
		}, ops.StopDeadline, after + boundaryTime},
		"it gave its answer": {limits, func(w *watchdog) { w.update(nil, true) }, ops.StopDeadline, after + boundaryTime},
		"a tool limit comes first": {ops.Limits{Tool: after + time.Second}, func(w *watchdog) {
			w.update(bash, false)
		}, ops.StopTool, after + time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begun := time.Now()
				w := newWatchdog(tt.limits)
				w.setDeadline(after)
				stopped := make(chan ops.Halt, 1)
				go w.run(t.Context(), func(h ops.Halt) { stopped <- h })
				tt.act(w)
				got := <-stopped
				if took := time.Since(begun); got.Cause != tt.cause || took != tt.after || got.Why == "" {
					t.Errorf("stopped with %+v after %v, want %q after %v", got, took, tt.cause, tt.after)
				}
			})
		})
	}
}

func TestADeadlineThatHasPassedStopsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWatchdog(ops.Limits{})
		w.setDeadline(-time.Minute)
		begun := time.Now()
		w.run(t.Context(), func(h ops.Halt) {
			if h.Cause != ops.StopDeadline || time.Since(begun) != 0 {
				t.Errorf("stopped with %+v after %v", h, time.Since(begun))
			}
		})
	})
}

func TestAWatchdogWithoutLimitsEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			newWatchdog(ops.Limits{}).run(ctx, func(h ops.Halt) { t.Errorf("stopped with %q", h.Cause) })
		}()
		pass(1000 * time.Hour)
		cancel()
		<-ended
	})
}

func TestTheFirstCauseOfAStopWins(t *testing.T) {
	s := newStopping()
	s.stop(ops.Halt{Cause: ops.StopIdle, Why: "first"})
	s.stop(ops.Halt{Cause: ops.StopUser, Why: "second"})
	s.seal()
	if h := s.reason(); h.Cause != ops.StopIdle || h.Why != "first" {
		t.Errorf("got %+v", h)
	}
	s = newStopping()
	s.seal()
	s.stop(ops.Halt{Cause: ops.StopUser, Why: "too late"})
	if h := s.reason(); h.Cause != ops.StopNone {
		t.Errorf("a process that ended was stopped by %q", h.Cause)
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
