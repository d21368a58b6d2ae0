// Package enginetest is the conformance suite that every engine passes.
package enginetest

import (
	"context"
	"sync"
	"testing"
	"time"

	"claudeops/internal/engine"
	"claudeops/internal/ops"
)

// Host is what an engine works for: a journal in memory, and cycles that end when the test says so.
type Host struct {
	mu     sync.Mutex
	cycles []ops.Cycle
	Began  chan ops.CycleID
	Ended  chan Ending
	// Finish lets the oldest running cycle of the environment end.
	Finish map[string]chan error
}

// Ending is how a worker left a cycle.
type Ending struct {
	ID    ops.CycleID
	Cause error
}

// NewHost returns a host that works for the environments.
func NewHost(environments ...string) *Host {
	h := &Host{Began: make(chan ops.CycleID, 100), Ended: make(chan Ending, 100), Finish: map[string]chan error{}}
	for _, e := range environments {
		h.Finish[e] = make(chan error)
	}
	return h
}

// Add writes a cycle into the journal.
func (h *Host) Add(c ops.Cycle) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if c.Status == "" {
		c.Status = ops.CycleQueued
	}
	h.cycles = append(h.cycles, c)
}

// Change edits a cycle in the journal.
func (h *Host) Change(id ops.CycleID, change func(*ops.Cycle)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range h.cycles {
		if h.cycles[i].ID == id {
			change(&h.cycles[i])
		}
	}
}

// Unfinished lists the cycles that have not ended.
func (h *Host) Unfinished(context.Context) ([]ops.Cycle, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	var out []ops.Cycle
	for _, c := range h.cycles {
		if !c.Status.Ended() {
			out = append(out, c)
		}
	}
	return out, nil
}

// Known reports whether the host works for the environment.
func (h *Host) Known(environment string) bool { _, ok := h.Finish[environment]; return ok }

// Advance runs a cycle until the test finishes it or the engine stops it.
func (h *Host) Advance(ctx context.Context, id ops.CycleID, environment string) error {
	h.Began <- id
	var err error
	select {
	case err = <-h.Finish[environment]:
		if err == nil {
			h.Change(id, func(c *ops.Cycle) { c.Status = ops.CycleHealthy })
		}
	case <-ctx.Done():
		h.Change(id, func(c *ops.Cycle) {
			c.Status = ops.CycleQueued
			if c.CancelRequestedAt != nil {
				c.Status = ops.CycleCancelled
			}
		})
	}
	h.Ended <- Ending{id, context.Cause(ctx)}
	return err
}

// Run checks an engine. Start is called inside a bubble of virtual time.
func Run(t *testing.T, in func(t *testing.T, f func(t *testing.T)), start func(t *testing.T, h *Host) engine.Engine) {
	cases := map[string]func(t *testing.T){
		"it finds what the journal holds at start": func(t *testing.T) {
			h := NewHost("a")
			h.Add(ops.Cycle{ID: 1, Environment: "a"})
			e := start(t, h)
			want(t, h, 1)
			stop(t, e)
		},
		"one cycle per environment, environments side by side": func(t *testing.T) {
			h := NewHost("a", "b")
			e := start(t, h)
			h.Add(ops.Cycle{ID: 1, Environment: "a"})
			h.Add(ops.Cycle{ID: 2, Environment: "a"})
			h.Add(ops.Cycle{ID: 3, Environment: "b"})
			e.Submit(1)
			got := map[ops.CycleID]bool{<-h.Began: true, <-h.Began: true}
			if !got[1] || !got[3] {
				t.Fatalf("running are %v", got)
			}
			h.Finish["a"] <- nil
			want(t, h, 2)
			stop(t, e)
		},
		"a cycle that holds the slot comes before the queued ones": func(t *testing.T) {
			h := NewHost("a")
			h.Add(ops.Cycle{ID: 1, Environment: "a"})
			h.Add(ops.Cycle{ID: 2, Environment: "a", Status: ops.CycleRunning})
			e := start(t, h)
			want(t, h, 2)
			stop(t, e)
		},
		"it wakes at the time a cycle waits for": func(t *testing.T) {
			h := NewHost("a")
			e := start(t, h)
			at := time.Now().Add(90 * time.Second)
			h.Add(ops.Cycle{ID: 1, Environment: "a", WakeAt: &at})
			e.At(1, at)
			want(t, h, 1)
			if time.Now().Before(at) {
				t.Errorf("woken %s early", time.Until(at))
			}
			stop(t, e)
		},
		"a cycle that waits for a human does not hold the slot": func(t *testing.T) {
			h := NewHost("a")
			h.Add(ops.Cycle{ID: 1, Environment: "a", Status: ops.CycleWaitingHuman})
			h.Add(ops.Cycle{ID: 2, Environment: "a"})
			e := start(t, h)
			want(t, h, 2)
			stop(t, e)
		},
		"cancel reaches the worker with its cause": func(t *testing.T) {
			h := NewHost("a")
			h.Add(ops.Cycle{ID: 1, Environment: "a"})
			e := start(t, h)
			want(t, h, 1)
			h.Change(1, func(c *ops.Cycle) { c.CancelRequestedAt = ops.Ptr(time.Now()) })
			e.Cancel(1, "by ada")
			wantCause(t, h, ops.StopUser, "by ada")
			stop(t, e)
		},
		"a mark in the journal cancels too": func(t *testing.T) {
			h := NewHost("a")
			h.Add(ops.Cycle{ID: 1, Environment: "a"})
			e := start(t, h)
			want(t, h, 1)
			h.Change(1, func(c *ops.Cycle) { c.CancelRequestedAt, c.CancelReason = ops.Ptr(time.Now()), "from another process" })
			e.Submit(1)
			wantCause(t, h, ops.StopUser, "from another process")
			stop(t, e)
		},
		"stop ends the workers with cause shutdown and waits for them": func(t *testing.T) {
			h := NewHost("a")
			h.Add(ops.Cycle{ID: 1, Environment: "a"})
			e := start(t, h)
			want(t, h, 1)
			stop(t, e)
			wantCause(t, h, ops.StopShutdown, "the supervisor is shutting down")
		},
		"a cycle that cannot be advanced is tried again, ever more slowly": func(t *testing.T) {
			h := NewHost("a")
			h.Add(ops.Cycle{ID: 1, Environment: "a"})
			began := time.Now()
			e := start(t, h)
			for range 4 {
				want(t, h, 1)
				h.Finish["a"] <- context.DeadlineExceeded
			}
			want(t, h, 1)
			if waited := time.Since(began); waited < 15*time.Second || waited > time.Minute {
				t.Errorf("five attempts took %s", waited)
			}
			stop(t, e)
		},
		"strangers are left alone": func(t *testing.T) {
			h := NewHost("a")
			h.Add(ops.Cycle{ID: 1, Environment: "gone"})
			h.Add(ops.Cycle{ID: 2, Environment: "a"})
			e := start(t, h)
			want(t, h, 2)
			stop(t, e)
		},
	}
	for name, check := range cases {
		t.Run(name, func(t *testing.T) { in(t, check) })
	}
}

func want(t *testing.T, h *Host, id ops.CycleID) {
	t.Helper()
	select {
	case got := <-h.Began:
		if got != id {
			t.Fatalf("cycle %d began, want %d", got, id)
		}
	case <-time.After(10 * time.Minute):
		t.Fatalf("cycle %d did not begin", id)
	}
}

func wantCause(t *testing.T, h *Host, cause ops.StopCause, why string) {
	t.Helper()
	end := <-h.Ended
	var stopped *ops.StopError
	if e, ok := end.Cause.(*ops.StopError); ok { //nolint:errorlint // the cause itself is asked for
		stopped = e
	}
	if stopped == nil || stopped.Cause != cause || stopped.Why != why {
		t.Errorf("the worker ended with %v", end.Cause)
	}
}

func stop(t *testing.T, e engine.Engine) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := e.Stop(ctx); err != nil {
		t.Fatal(err)
	}
}
