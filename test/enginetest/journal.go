package enginetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"claudeops/internal/ops"
)

// Journal is a journal in memory that lets one host at a time advance a cycle, as the store does.
type Journal struct {
	mu     sync.Mutex
	cycles []ops.Cycle
	seen   map[ops.CycleID]int64 // the wake number at the last claim
	runs   map[ops.CycleID]int   // how often a cycle was claimed
	vain   int                   // how often a claim was refused
	broken error
}

func newJournal() *Journal {
	return &Journal{seen: map[ops.CycleID]int64{}, runs: map[ops.CycleID]int{}}
}

// Add writes a cycle into the journal.
func (j *Journal) Add(c ops.Cycle) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if c.Status == "" {
		c.Status = ops.CycleQueued
	}
	j.cycles = append(j.cycles, c)
}

// Change edits a cycle in the journal.
func (j *Journal) Change(id ops.CycleID, change func(*ops.Cycle)) {
	j.mu.Lock()
	defer j.mu.Unlock()
	change(j.find(id))
}

// Answer is a change from outside: it raises the wake number and lets a waiting cycle be claimed.
func (j *Journal) Answer(id ops.CycleID) {
	j.Change(id, func(c *ops.Cycle) {
		c.WakeSeq++
		if c.Status == ops.CycleWaitingHuman {
			c.WakeAt = ops.Ptr(time.Now())
		}
	})
}

// Mark asks for the end of a cycle.
func (j *Journal) Mark(id ops.CycleID, why string) {
	j.Change(id, func(c *ops.Cycle) {
		c.WakeSeq++
		c.CancelRequestedAt, c.CancelReason = ops.Ptr(time.Now()), why
	})
}

// Break lets every read fail until it is called with nil.
func (j *Journal) Break(err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.broken = err
}

// Unfinished lists the cycles that have not ended.
func (j *Journal) Unfinished(context.Context) ([]ops.Cycle, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	var out []ops.Cycle
	for _, c := range j.cycles {
		if !c.Status.Ended() {
			out = append(out, c)
		}
	}
	return out, j.broken
}

// Seen says up to which wake number the cycle was advanced.
func (j *Journal) Seen(id ops.CycleID) int64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.seen[id]
}

// Counts says how often each cycle ran, and how often a worker came in vain.
func (j *Journal) Counts() (runs map[ops.CycleID]int, vain int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	runs = map[ops.CycleID]int{}
	for id, n := range j.runs {
		runs[id] = n
	}
	return runs, j.vain
}

func (j *Journal) find(id ops.CycleID) *ops.Cycle {
	for i := range j.cycles {
		if j.cycles[i].ID == id {
			return &j.cycles[i]
		}
	}
	return &ops.Cycle{}
}

// claim makes the host the one that advances the cycle.
func (j *Journal) claim(host string, id ops.CycleID) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	c := j.find(id)
	if err := j.claimable(host, c); err != nil {
		j.vain++
		return fmt.Errorf("claim cycle %d: %w", id, err)
	}
	c.Status, c.Owner, c.WakeAt = ops.CycleRunning, ops.Owner{Host: host, Term: 1}, nil
	j.seen[id] = c.WakeSeq
	j.runs[id]++
	return nil
}

func (j *Journal) claimable(host string, c *ops.Cycle) error {
	woken := c.CancelRequestedAt != nil || (c.WakeAt != nil && !c.WakeAt.After(time.Now()))
	switch {
	case c.Status.Ended(), c.Status == ops.CycleRunning && c.Owner.Host != host,
		c.Status == ops.CycleWaitingHuman && !woken, c.Status == ops.CycleQueued && c.WakeAt != nil && !woken:
		return ops.ErrConflict
	}
	for _, other := range j.cycles {
		if other.ID != c.ID && other.Environment == c.Environment && other.Status == ops.CycleRunning {
			return ops.ErrSlotBusy
		}
	}
	return nil
}

// leave records how a worker left the cycle.
func (j *Journal) leave(ctx context.Context, id ops.CycleID, err error) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	c := j.find(id)
	c.Owner, c.Status = ops.Owner{}, ops.CycleQueued
	switch {
	case ctx.Err() != nil && c.CancelRequestedAt != nil:
		c.Status = ops.CycleCancelled
	case ctx.Err() != nil, errors.Is(err, ErrHandOver):
		return nil
	case errors.Is(err, ErrAwait):
		c.Status = ops.CycleWaitingHuman
		if c.WakeSeq > j.seen[id] {
			c.WakeAt = ops.Ptr(time.Now())
		}
		return nil
	case err == nil:
		c.Status = ops.CycleHealthy
	}
	return err
}
