package enginetest

import (
	"context"
	"errors"

	"claudeops/internal/ops"
)

// How a worker may leave a cycle that has not ended.
var (
	// ErrAwait lets the cycle wait for a human.
	ErrAwait = errors.New("it waits for a human")
	// ErrHandOver leaves the cycle to another worker.
	ErrHandOver = errors.New("another worker continues")
)

// Host is what an engine works for: a name, some environments, and cycles that end when the test says so.
type Host struct {
	*Journal
	Name         string
	Environments []string
	Began        chan ops.CycleID
	Ended        chan Ending
	// Finish lets the running cycle of the environment end.
	Finish map[string]chan error
	// Work, if set, is what a cycle does instead of waiting for Finish; nobody hears of it.
	Work func(ctx context.Context, id ops.CycleID) error
}

// Ending is how a worker left a cycle.
type Ending struct {
	ID    ops.CycleID
	Cause error
}

// NewHost returns a host that works for the environments.
func NewHost(environments ...string) *Host { return newHost(newJournal(), "one", environments) }

// Beside returns another host on the same journal.
func (h *Host) Beside(name string, environments ...string) *Host {
	return newHost(h.Journal, name, environments)
}

func newHost(j *Journal, name string, environments []string) *Host {
	h := &Host{
		Journal: j, Name: name, Environments: environments,
		Began: make(chan ops.CycleID, 100), Ended: make(chan Ending, 100), Finish: map[string]chan error{},
	}
	for _, e := range environments {
		h.Finish[e] = make(chan error)
	}
	return h
}

// Known reports whether the host works for the environment.
func (h *Host) Known(environment string) bool { _, ok := h.Finish[environment]; return ok }

// Advance runs a cycle until the test finishes it or the engine stops it.
func (h *Host) Advance(ctx context.Context, id ops.CycleID, environment string) error {
	if err := h.claim(h.Name, id); err != nil {
		return err
	}
	if h.Work != nil {
		return h.leave(ctx, id, h.Work(ctx, id))
	}
	h.Began <- id
	var err error
	select {
	case err = <-h.Finish[environment]:
	case <-ctx.Done():
	}
	err = h.leave(ctx, id, err)
	h.Ended <- Ending{id, context.Cause(ctx)}
	return err
}
