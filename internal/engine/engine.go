// Package engine wakes workers. It is the only part that differs between one machine and many: a wake-up means that a cycle may
// have something to do; the journal decides whether it has, and which host may do it.
package engine

import (
	"context"
	"maps"
	"math"
	"sync"
	"time"

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

// Pace lengthens the pause after each failed attempt at a cycle. It is not safe for concurrent use.
type Pace struct {
	first  time.Duration
	faults map[ops.CycleID]fault
}

type fault struct {
	count int
	until time.Time
}

// NewPace returns a pace whose first pause is as long as given; pauses double up to thirty times that.
func NewPace(first time.Duration) *Pace {
	return &Pace{first: first, faults: map[ops.CycleID]fault{}}
}

// Wait is how long to wait before the next attempt.
func (p *Pace) Wait(id ops.CycleID, now time.Time) time.Duration {
	return max(p.faults[id].until.Sub(now), 0)
}

// Failed records a failed attempt and returns the pause before the next one.
func (p *Pace) Failed(id ops.CycleID, now time.Time) time.Duration {
	f := p.faults[id]
	wait := min(p.first<<min(f.count, 5), 30*p.first)
	p.faults[id] = fault{count: f.count + 1, until: now.Add(wait)}
	return wait
}

// Forget resets the pauses of the cycle.
func (p *Pace) Forget(id ops.CycleID) { delete(p.faults, id) }

// Keep resets the pauses of all cycles but the open ones.
func (p *Pace) Keep(open func(ops.CycleID) bool) {
	maps.DeleteFunc(p.faults, func(id ops.CycleID, _ fault) bool { return !open(id) })
}

// Ended waits for a group until ctx ends, and reports whether it has ended.
func Ended(ctx context.Context, group *sync.WaitGroup) bool {
	done := make(chan struct{})
	go func() { group.Wait(); close(done) }()
	select {
	case <-done:
		return true
	case <-ctx.Done():
		return false
	}
}
