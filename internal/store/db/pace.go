package db

import (
	"sync/atomic"
	"time"
)

const (
	// paceTarget is how long a batch may keep other writers waiting.
	paceTarget = 5 * time.Millisecond
	paceWhole  = 100 // percent of the size that a batch has at most
	paceLeast  = 10
)

// Pace adapts the size of batches to the time that they take: a writer that comes meanwhile waits for the end of one. Its zero value allows
// whole batches.
type Pace struct {
	less atomic.Int64 // percent by which batches are smaller
}

// Of is the size of the next batch, of at most n.
func (p *Pace) Of(n int64) int64 { return max(1, n*(paceWhole-p.less.Load())/paceWhole) }

// Took tells how long a batch took. One that was slow halves the next one; a quick one lets it grow by an eighth.
func (p *Pace) Took(d time.Duration) {
	size := paceWhole - p.less.Load()
	switch {
	case d > paceTarget:
		size = max(paceLeast, size/2)
	case d < paceTarget/2:
		size = min(paceWhole, size+size/8+1)
	}
	p.less.Store(paceWhole - size)
}
