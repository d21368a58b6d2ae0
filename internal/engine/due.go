package engine

import (
	"math"
	"time"

	"claudeops/internal/ops"
)

// Never is how long a cycle waits that only a change can wake.
const Never = time.Duration(math.MaxInt64)

// Due says how long the cycle still has to wait; zero means that it can be advanced now.
func Due(c ops.Cycle, now time.Time) time.Duration {
	switch {
	case c.CancelRequestedAt != nil:
		return 0 // somebody must be able to end it, whatever it waits for
	case c.WakeAt != nil && c.WakeAt.After(now):
		return c.WakeAt.Sub(now)
	case c.Status == ops.CycleWaitingHuman && c.WakeAt == nil:
		return Never
	}
	return 0
}

// Why is what the worker of a cycle hears whose row asks for its end.
func Why(c ops.Cycle) string {
	if c.CancelReason != "" {
		return c.CancelReason
	}
	return "stopped by the operator"
}
