// Package engine wakes workers. Only the engine differs between one host and several. A wake-up means that a cycle may
// have work; the journal decides whether it has, and which host may do it.
package engine

import (
	"context"

	"claudeops/internal/ops"
)

// Engine wakes workers for cycles.
type Engine interface {
	// Start starts to work on the cycles in the journal and returns at once.
	Start(ctx context.Context) error
	// Submit reports that the cycle may have work now; zero reports a change that may concern any cycle.
	Submit(id ops.CycleID)
	// Cancel stops the worker of the cycle with the given reason, if this host has one.
	Cancel(id ops.CycleID, why string)
	// Drain starts no more cycles on this host. Running cycles continue; their workers may ask Draining and hand the
	// cycle over between two sessions.
	Drain()
	// Draining reports whether Drain was called.
	Draining() bool
	// Stop ends all workers with cause shutdown and waits for them until ctx ends.
	Stop(ctx context.Context) error
}
