// Package engine wakes workers. It is the only part that differs between one machine and many: a wake-up means that a cycle may
// have something to do; the journal decides whether it has, and which host may do it.
package engine

import (
	"context"

	"claudeops/internal/ops"
)

// Waker tells an engine that a cycle has something to do.
type Waker interface {
	// Submit says that the cycle may have something to do now; zero says that something changed somewhere.
	Submit(id ops.CycleID)
	// Cancel stops the worker of the cycle, if there is one here, with the cause.
	Cancel(id ops.CycleID, why string)
}

// Engine runs workers for cycles.
type Engine interface {
	// Start begins to work on the open cycles of the journal; it returns at once.
	Start(ctx context.Context) error
	// Drain starts no more cycles here. Running ones continue; a worker that reads Draining may hand its cycle over
	// between two sessions.
	Drain()
	// Resume takes cycles again after Drain. If it fails, the engine still drains.
	Resume() error
	// Draining reports whether no more cycles are started here.
	Draining() bool
	// Stop ends all workers with cause shutdown and waits for them until ctx ends.
	Stop(ctx context.Context) error
}
