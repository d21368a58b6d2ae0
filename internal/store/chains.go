package store

import (
	"context"
	"fmt"
	"time"

	"claudeops/internal/ops"
)

// chainReach is how many cycles one page looks through for what no index finds. A rare match does not make a page slow: the
// page says how far it looked, and the next one goes on there.
const chainReach = 5000

// ChainFilter chooses cycles for a list; the zero value means all.
type ChainFilter struct {
	Status      ops.CycleStatus
	Environment string
	Trigger     ops.Trigger
	Tier        ops.Tier  // reached it
	Service     string    // was about it
	Text        string    // in what was asked or in how it ended
	Since       time.Time // submitted since then
	Before      ops.CycleID
	Limit       int
}

// ChainPage is a page of cycles with their sessions, newest first.
type ChainPage struct {
	Chains []CycleSummary
	// Next is where the following page begins; 0 when there is none.
	Next ops.CycleID
	// Searched is the oldest cycle that was looked at when that, and not the number of matches, ended the page.
	Searched ops.CycleID
}

// searched reports whether the filter asks for something that no index finds.
func (f ChainFilter) searched() bool {
	return f.Trigger != "" || f.Tier > 0 || f.Service != "" || f.Text != "" || !f.Since.IsZero()
}

func (f ChainFilter) where() filter {
	var w filter
	if f.Status != "" {
		w.add(`c.status = ?`, f.Status)
	}
	if f.Environment != "" {
		w.add(`c.environment = ?`, f.Environment)
	}
	if f.Trigger != "" {
		w.add(`c.trigger = ?`, f.Trigger)
	}
	if !f.Since.IsZero() {
		w.add(`c.created_at >= ?`, formatTime(f.Since))
	}
	if f.Tier > 0 {
		w.add(`EXISTS (SELECT 1 FROM sessions t WHERE t.cycle_id = c.id AND t.tier = ?)`, f.Tier)
	}
	if f.Service != "" {
		w.add(`(EXISTS (SELECT 1 FROM escalations d WHERE d.cycle_id = c.id AND LOWER(d.services) LIKE ? ESCAPE '\')
			OR EXISTS (SELECT 1 FROM events v WHERE v.cycle_id = c.id AND v.service = ?))`, contains(`"`+f.Service+`"`), f.Service)
	}
	if f.Text != "" {
		w.add(`(LOWER(c.prompt) LIKE ? ESCAPE '\' OR LOWER(c.reason) LIKE ? ESCAPE '\')`, contains(f.Text), contains(f.Text))
	}
	return w
}

// Chains returns a page of cycles with their sessions, newest first.
func (s *Store) Chains(ctx context.Context, f ChainFilter) (ChainPage, error) {
	var out ChainPage
	limit := pageSize(f.Limit)
	w := f.where()
	err := s.read(ctx, func(tx querier) error {
		before := f.Before
		if before == 0 {
			newest, err := one(ctx, tx, scanInt, `SELECT COALESCE(MAX(id), 0) FROM cycles`)
			if err != nil {
				return err
			}
			before = ops.CycleID(newest + 1)
		}
		w.add(`c.id < ?`, before)
		lowest := ops.CycleID(1)
		if f.searched() {
			lowest = max(1, before-chainReach)
			w.add(`c.id >= ?`, lowest)
		}
		cycles, err := list(ctx, tx, scanCycle, selectCycles+w.where()+` ORDER BY c.id DESC LIMIT ?`, append(w.args, limit+1)...)
		if err != nil {
			return err
		}
		switch {
		case len(cycles) > limit:
			cycles = cycles[:limit]
			out.Next = cycles[limit-1].ID
		case lowest > 1:
			if err := f.goOn(ctx, tx, lowest, &out); err != nil {
				return err
			}
		}
		if len(cycles) > 0 {
			out.Chains, err = withSessions(ctx, tx, cycles)
		}
		return err
	})
	if err != nil {
		return ChainPage{}, fmt.Errorf("list chains: %w", err)
	}
	return out, nil
}

// goOn says where the search goes on, unless everything further back is older than what is asked for.
func (f ChainFilter) goOn(ctx context.Context, q querier, lowest ops.CycleID, out *ChainPage) error {
	if !f.Since.IsZero() {
		created, err := one(ctx, q, scanString, `SELECT COALESCE(MAX(created_at), '') FROM cycles WHERE id = ?`, lowest)
		if err != nil || created < formatTime(f.Since) {
			return err
		}
	}
	out.Next, out.Searched = lowest, lowest
	return nil
}
