package engine

import (
	"time"

	"claudeops/internal/ops"
)

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
	for id := range p.faults {
		if !open(id) {
			delete(p.faults, id)
		}
	}
}
