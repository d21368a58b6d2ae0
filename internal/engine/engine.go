// Package engine wakes workers. It is the only thing that differs between one machine and many: a wake-up says
// that a cycle may have something to do; whether it has, and who may do it, is decided by the journal.
package engine

import (
	"context"
	"time"

	"claudeops/internal/ops"
)

// Engine wakes workers for cycles.
type Engine interface {
	// Start begins to work on what the journal holds; it returns at once.
	Start(ctx context.Context) error
	// Submit says that the cycle may have something to do now; zero says that something changed somewhere.
	Submit(id ops.CycleID)
	// At says that the cycle will have something to do then.
	At(id ops.CycleID, when time.Time)
	// Cancel stops the worker of the cycle, if there is one here, with the cause.
	Cancel(id ops.CycleID, why string)
	// Drain lets no cycle begin here from now on. Those that run go on; a worker that asks Draining may hand its
	// cycle over where that costs nothing.
	Drain()
	// Draining reports whether no cycle begins here any more.
	Draining() bool
	// Stop ends all workers with cause shutdown and waits for them until ctx ends.
	Stop(ctx context.Context) error
}
