package engine

import (
	"time"

	"claudeops/internal/ops"
)

// Pace spaces out the attempts at cycles that cannot be advanced, ever more slowly. Its user guards it.
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

// Wait says how long the cycle is left alone.
func (p *Pace) Wait(id ops.CycleID, now time.Time) time.Duration {
	return max(p.faults[id].until.Sub(now), 0)
}

// Failed notes one more attempt in vain and says how long the next one waits.
func (p *Pace) Failed(id ops.CycleID, now time.Time) time.Duration {
	f := p.faults[id]
	wait := min(p.first<<min(f.count, 5), 30*p.first)
	p.faults[id] = fault{count: f.count + 1, until: now.Add(wait)}
	return wait
}

// Forget lets the cycle begin anew.
func (p *Pace) Forget(id ops.CycleID) { delete(p.faults, id) }

// Keep forgets all cycles but those.
func (p *Pace) Keep(open func(ops.CycleID) bool) {
	for id := range p.faults {
		if !open(id) {
			delete(p.faults, id)
		}
	}
}
