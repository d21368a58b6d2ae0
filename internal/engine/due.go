package engine

import (
	"math"
	"time"

	"claudeops/internal/ops"
)

// Never is how long a cycle waits that only a change wakes.
const Never = time.Duration(math.MaxInt64)

// Due is how long the cycle still has to wait; zero means that it can be advanced now.
func Due(c ops.Cycle, now time.Time) time.Duration {
	switch {
	case c.CancelRequestedAt != nil:
		return 0 // a cancelled cycle must end, whatever it waits for
	case c.WakeAt != nil && c.WakeAt.After(now):
		return c.WakeAt.Sub(now)
	case c.Status == ops.CycleWaitingHuman && c.WakeAt == nil:
		return Never
	}
	return 0
}

// Why is the reason given to the worker of a cancelled cycle.
func Why(c ops.Cycle) string {
	if c.CancelReason != "" {
		return c.CancelReason
	}
	return "stopped by the operator"
}
