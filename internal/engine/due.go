package engine

import (
	"math"
	"time"

	"claudeops/internal/ops"
)

// Never is the wait of a cycle that only a change can wake.
const Never = time.Duration(math.MaxInt64)

// Due returns how long the cycle has to wait; zero means that it can be advanced now.
func Due(c ops.Cycle, now time.Time) time.Duration {
	switch {
	case c.CancelRequestedAt != nil:
		return 0 // a waiting cycle can be cancelled too
	case c.WakeAt != nil && c.WakeAt.After(now):
		return c.WakeAt.Sub(now)
	case c.Status == ops.CycleWaitingHuman && c.WakeAt == nil:
		return Never
	}
	return 0
}

// Why returns the reason for stopping the worker of a cycle whose cancellation was requested.
func Why(c ops.Cycle) string {
	if c.CancelReason != "" {
		return c.CancelReason
	}
	return "stopped by the operator"
}
