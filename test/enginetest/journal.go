package enginetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"claudeops/internal/engine"
	"claudeops/internal/ops"
)

// Journal is a journal in memory that lets one host at a time advance a cycle, as the store does.
type Journal struct {
	mu      sync.Mutex
	cycles  []ops.Cycle
	answers map[ops.CycleID]int64 // how many changes came from outside
	seen    map[ops.CycleID]int64 // and how many of them the last claim saw
	runs    map[ops.CycleID]int   // how often a cycle was claimed
	vain    int                   // how often a claim was refused
	broken  error
	offer   func(context.Context, ops.Cycle)
}

func newJournal() *Journal {
	return &Journal{answers: map[ops.CycleID]int64{}, seen: map[ops.CycleID]int64{}, runs: map[ops.CycleID]int{}}
}

// Offer makes every change pass on the cycle that can be advanced after it, as the store does within the transaction.
func (j *Journal) Offer(offer func(context.Context, ops.Cycle)) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.offer = offer
}

// changed offers the next cycle of an environment, unless one is running there; the caller holds the lock.
func (j *Journal) changed(ctx context.Context, environment string) {
	var next *ops.Cycle
	for _, c := range j.cycles {
		switch {
		case c.Environment != environment || c.Status.Ended():
		case c.Status == ops.CycleRunning:
			return
		case next == nil && engine.Due(c, time.Now()) == 0:
			next = &c
		}
	}
	if next != nil && j.offer != nil {
		j.offer(context.WithoutCancel(ctx), *next)
	}
}

// Add writes a cycle into the journal.
func (j *Journal) Add(c ops.Cycle) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if c.Status == "" {
		c.Status = ops.CycleQueued
	}
	j.cycles = append(j.cycles, c)
	j.changed(context.Background(), c.Environment)
}

// Lose writes a cycle into the journal, but offers it to nobody.
func (j *Journal) Lose(c ops.Cycle) {
	j.mu.Lock()
	offer := j.offer
	j.offer = nil
	j.mu.Unlock()
	j.Add(c)
	j.Offer(offer)
}

// Change edits a cycle in the journal.
func (j *Journal) Change(id ops.CycleID, change func(*ops.Cycle)) {
	j.mu.Lock()
	defer j.mu.Unlock()
	c := j.find(id)
	change(c)
	j.changed(context.Background(), c.Environment)
}

// Answer is a change from outside: it raises the wake number and lets a waiting cycle be claimed.
func (j *Journal) Answer(id ops.CycleID) {
	j.Change(id, func(c *ops.Cycle) {
		c.WakeSeq++
		j.answers[id]++
		if c.Status == ops.CycleWaitingHuman {
			c.WakeAt = ops.Ptr(time.Now())
		}
	})
}

// Mark asks for the end of a cycle.
func (j *Journal) Mark(id ops.CycleID, why string) {
	j.Change(id, func(c *ops.Cycle) {
		c.WakeSeq++
		j.answers[id]++
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

// Startable lists the cycles that an engine may have to do something about: here all that have not ended.
func (j *Journal) Startable(ctx context.Context) ([]ops.Cycle, error) { return j.Unfinished(ctx) }

// Cancelled lists the cycles that the host runs and that somebody wants to end.
func (j *Journal) Cancelled(_ context.Context, host string) ([]ops.Cycle, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	var out []ops.Cycle
	for _, c := range j.cycles {
		if c.Status == ops.CycleRunning && c.Owner.Host == host && c.CancelRequestedAt != nil {
			out = append(out, c)
		}
	}
	return out, j.broken
}

// Rewake raises the wake numbers of cycles.
func (j *Journal) Rewake(_ context.Context, ids []ops.CycleID) ([]ops.Cycle, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	var out []ops.Cycle
	for _, id := range ids {
		if c := j.find(id); c.ID == id && !c.Status.Ended() {
			c.WakeSeq++
			out = append(out, *c)
		}
	}
	return out, j.broken
}

// Seen says how many of the changes from outside the last claim saw.
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
	if j.broken != nil {
		return fmt.Errorf("claim cycle %d: %w", id, j.broken)
	}
	if err := j.claimable(host, c); err != nil {
		j.vain++
		return fmt.Errorf("claim cycle %d: %w", id, err)
	}
	c.Status, c.Owner, c.WakeAt = ops.CycleRunning, ops.Owner{Host: host, Term: 1}, nil
	j.seen[id] = j.answers[id]
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
	defer j.changed(ctx, c.Environment)
	switch {
	case ctx.Err() != nil && c.CancelRequestedAt != nil:
		c.Status = ops.CycleCancelled
	case ctx.Err() != nil, errors.Is(err, ErrHandOver):
		return nil
	case errors.Is(err, ErrAwait):
		c.Status = ops.CycleWaitingHuman
		if j.answers[id] > j.seen[id] {
			c.WakeAt = ops.Ptr(time.Now())
		}
		return nil
	case err == nil:
		c.Status = ops.CycleHealthy
	}
	return err
}
