// Package enginetest is the conformance suite that every engine passes.
package enginetest

import (
	"context"
	"errors"
	"testing"
	"time"

	"claudeops/internal/engine"
	"claudeops/internal/ops"
)

// Engine is the whole of an engine; each part of the product uses one half.
type Engine interface {
	engine.Engine
	engine.Waker
}

// Harness says how an engine is checked.
type Harness struct {
	// In runs one case: in a bubble of virtual time, or in real time.
	In func(t *testing.T, f func(t *testing.T))
	// Open is called once in every case. What it returns starts an engine that works for a host.
	Open func(t *testing.T) func(h *Host) Engine
	// Several says that engines of several hosts can share one journal.
	Several bool
	// Later is how far ahead the suite lets a cycle wait.
	Later time.Duration
	// Pause is how long the engine leaves a cycle alone after the first failed attempt.
	Pause time.Duration
	// Patience is after how long the suite believes that something will not happen, Quiet when that is what it wants.
	Patience, Quiet time.Duration
}

// Run checks an engine.
func (h Harness) Run(t *testing.T) {
	cases := map[string]func(t *testing.T, s suite){
		"it finds what the journal holds at start":                         findsAtStart,
		"one cycle per environment, environments side by side":             oneCycleEach,
		"a cycle that holds the slot comes before the queued ones":         holderFirst,
		"it wakes at the time a cycle waits for":                           wakesAt,
		"a cycle that waits for a human does not hold the slot":            humanHoldsNothing,
		"a waiting cycle that is canceled is taken up":                     canceledIsTakenUp,
		"cancel reaches the worker with its cause":                         cancels,
		"a mark in the journal cancels too":                                marks,
		"stop ends the workers with cause shutdown and waits for them":     stops,
		"a cycle that cannot be advanced is tried again, ever more slowly": slowsDown,
		"strangers are left alone":                                         leavesStrangers,
		"an answer to a cycle that is going to sleep is not lost":          losesNoAnswer,
		"a wish is granted when the journal can be read again":             outlastsFaults,
		"a host that drains begins nothing":                                drains,
		"200 cycles over 20 environments run once each":                    runsOnce,
	}
	if h.Several {
		cases["two hosts share the work, one cycle at a time in each environment"] = shares
		cases["a host takes only its environments"] = takesItsOwn
		cases["a cycle of another host is left to it"] = leavesOthers
		cases["a mark reaches the worker on another host"] = marksElsewhere
		cases["an answer from another host is not lost"] = losesNoAnswerElsewhere
		cases["a host that drains leaves its cycles to another"] = drainsElsewhere
		cases["a host that stops leaves its cycles to another"] = stopsElsewhere
	}
	for name, check := range cases {
		t.Run(name, func(t *testing.T) {
			h.In(t, func(t *testing.T) { check(t, suite{h, h.Open(t)}) })
		})
	}
}

// suite is what a case works with.
type suite struct {
	Harness
	open func(h *Host) Engine
}

// start runs an engine for as long as the case runs.
func (s suite) start(t *testing.T, h *Host) Engine {
	t.Helper()
	e := s.open(h)
	t.Cleanup(func() { s.stop(t, e) })
	return e
}

func (s suite) stop(t *testing.T, e Engine) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), time.Minute)
	defer cancel()
	if err := e.Stop(ctx); err != nil {
		t.Error(err)
	}
}

// began waits for the cycle to begin on the host.
func (s suite) began(t *testing.T, h *Host, id ops.CycleID) {
	t.Helper()
	if got := s.any(t, h); got != id {
		t.Fatalf("cycle %d began, want %d", got, id)
	}
}

// any waits for a cycle to begin on the host.
func (s suite) any(t *testing.T, h *Host) ops.CycleID {
	t.Helper()
	select {
	case got := <-h.Began:
		return got
	case <-time.After(s.Patience):
		t.Fatal("no cycle began")
		return 0
	}
}

// quiet wants nothing to begin on the host.
func (s suite) quiet(t *testing.T, h *Host) {
	t.Helper()
	select {
	case got := <-h.Began:
		t.Fatalf("cycle %d began", got)
	case <-time.After(s.Quiet + time.Millisecond): // not at the moment of a regular scan
	}
}

// finish lets the running cycle of the environment end.
func (s suite) finish(t *testing.T, h *Host, environment string, err error) {
	t.Helper()
	select {
	case h.Finish[environment] <- err:
	case <-time.After(s.Patience):
		t.Fatalf("no cycle runs in %s", environment)
	}
	<-h.Ended
}

// ended wants the worker to have been stopped with the cause.
func (s suite) ended(t *testing.T, h *Host, cause ops.StopCause, why string) {
	t.Helper()
	select {
	case end := <-h.Ended:
		var stopped *ops.StopError
		if !errors.As(end.Cause, &stopped) || stopped.Cause != cause || stopped.Why != why {
			t.Errorf("the worker ended with %v", end.Cause)
		}
	case <-time.After(s.Patience):
		t.Fatal("the worker was not stopped")
	}
}

// until waits for something to become true.
func (s suite) until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.After(s.Patience); !ok(); {
		select {
		case <-deadline:
			t.Fatal("it did not come about that " + what)
		case <-time.After(s.Patience / 2000):
		}
	}
}
