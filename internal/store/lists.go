package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"claudeops/internal/ops"
)

// CycleFilter chooses cycles; the zero value means all.
type CycleFilter struct {
	Status      ops.CycleStatus
	Environment string
	Before      ops.CycleID // only older ones: the last id of the page before
	Limit       int
}

// CycleSummary is a cycle with its sessions.
type CycleSummary struct {
	ops.Cycle
	Sessions []ops.Session
}

// Cycles returns a page of cycles with their sessions, newest first.
func (s *Store) Cycles(ctx context.Context, f CycleFilter) ([]CycleSummary, error) {
	var w filter
	if f.Status != "" {
		w.add(`c.status = ?`, f.Status)
	}
	if f.Environment != "" {
		w.add(`c.environment = ?`, f.Environment)
	}
	if f.Before > 0 {
		w.add(`c.id < ?`, f.Before)
	}
	var out []CycleSummary
	err := s.read(ctx, func(tx querier) error {
		cycles, err := list(ctx, tx, scanCycle, selectCycles+w.where()+` ORDER BY c.id DESC LIMIT ?`,
			append(w.args, pageSize(f.Limit))...)
		if err != nil || len(cycles) == 0 {
			return err
		}
		out, err = withSessions(ctx, tx, cycles)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list cycles: %w", err)
	}
	return out, nil
}

// withSessions reads the sessions of a page of cycles in one query.
func withSessions(ctx context.Context, q querier, cycles []ops.Cycle) ([]CycleSummary, error) {
	out := make([]CycleSummary, len(cycles))
	at := make(map[ops.CycleID]int, len(cycles))
	ids := make([]any, len(cycles))
	for i, c := range cycles {
		out[i].Cycle = c
		at[c.ID] = i
		ids[i] = c.ID
	}
	marks := strings.Repeat(", ?", len(ids))[2:]
	sessions, err := list(ctx, q, scanSession, selectSessions+` WHERE s.cycle_id IN (`+marks+`) ORDER BY s.id`, ids...)
	if err != nil {
		return nil, err
	}
	for _, session := range sessions {
		c := &out[at[session.CycleID]]
		c.Sessions = append(c.Sessions, session)
	}
	return out, nil
}

// SessionFilter chooses sessions; the zero value means all.
type SessionFilter struct {
	Status      ops.SessionStatus
	Tier        ops.Tier
	Environment string
	Before      ops.SessionID // only older ones: the last id of the page before
	Limit       int
}

// Sessions returns a page of sessions, newest first.
func (s *Store) Sessions(ctx context.Context, f SessionFilter) ([]ops.Session, error) {
	var w filter
	if f.Status != "" {
		w.add(`s.status = ?`, f.Status)
	}
	if f.Tier > 0 {
		w.add(`s.tier = ?`, f.Tier)
	}
	if f.Environment != "" {
		w.add(`s.environment = ?`, f.Environment)
	}
	if f.Before > 0 {
		w.add(`s.id < ?`, f.Before)
	}
	out, err := list(ctx, s.reader, scanSession, selectSessions+w.where()+` ORDER BY s.id DESC LIMIT ?`,
		append(w.args, pageSize(f.Limit))...)
	if err != nil {
		return nil, fmt.Errorf("list sessions: %w", err)
	}
	return out, nil
}

// CostSince returns what the sessions that ended since then cost, in one environment or, with "", in all. It is not
// known when sessions ran and none of them reported a cost.
func (s *Store) CostSince(ctx context.Context, environment string, since time.Time) (total float64, known bool, err error) {
	w := filter{}
	w.add(`ended_at >= ?`, formatTime(since))
	if environment != "" {
		w.add(`environment = ?`, environment)
	}
	var ran, reported int
	err = s.reader.QueryRowContext(ctx, `SELECT COALESCE(SUM(cost_usd), 0), COUNT(started_at), COUNT(cost_usd) FROM sessions`+w.where(),
		w.args...).Scan(&total, &ran, &reported)
	if err != nil {
		return 0, false, fmt.Errorf("sum costs: %w", err)
	}
	return total, ran == 0 || reported > 0, nil
}

// Counts are the figures of the whole journal that health reports show.
type Counts struct {
	Sessions         int
	Cycles           int
	RunningSessions  int
	LastCycleEndedAt *time.Time
	LastCycleStatus  ops.CycleStatus
}

// Counts counts the journal.
func (s *Store) Counts(ctx context.Context) (Counts, error) {
	var c Counts
	err := s.read(ctx, func(tx querier) error {
		err := tx.QueryRowContext(ctx, `SELECT (SELECT COUNT(*) FROM sessions), (SELECT COUNT(*) FROM cycles),
			(SELECT COUNT(*) FROM sessions WHERE status = ?)`, ops.SessionRunning).
			Scan(&c.Sessions, &c.Cycles, &c.RunningSessions)
		if err != nil {
			return err
		}
		err = tx.QueryRowContext(ctx, `SELECT ended_at, status FROM cycles WHERE ended_at IS NOT NULL
			ORDER BY ended_at DESC, id DESC LIMIT 1`).Scan(toOptTime(&c.LastCycleEndedAt), &c.LastCycleStatus)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		return err
	})
	if err != nil {
		return Counts{}, fmt.Errorf("count journal: %w", err)
	}
	return c, nil
}
