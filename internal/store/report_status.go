package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/store/db"
)

// PageState changes whenever something changes that a page shows, and has the counts that every page shows. Two equal ones mean
// that nothing was written in between, by any host, except output of sessions.
type PageState struct {
	Approvals int // unanswered questions
	Incidents int // open ones; without those that have a pending question, or that a cycle repairs
	Running   int // sessions whose process may exist
	Queued    int // cycles that have not started

	Cycle, Session, Event, Check, Guard, Recovery, Verification int64 // the newest rows
	SessionEnded, CycleEnded, IncidentChanged, CycleStates      string
}

// handledAlone: a cycle works on the incident, and nobody was called.
const handledAlone = `(i.called_at IS NULL AND EXISTS (SELECT 1 FROM cycles c WHERE c.id = i.last_cycle_id AND c.ended_at IS NULL))`

// PageState reads the counters. Each is an index lookup; none counts a whole table.
func (s *Store) PageState(ctx context.Context) (PageState, error) {
	var p PageState
	err := s.db.Reader().QueryRowContext(ctx, `SELECT
		(SELECT COUNT(*) FROM approvals WHERE status = ?),
		(SELECT COUNT(*) FROM incidents i WHERE i.resolved_at IS NULL AND i.status = 'open' AND NOT EXISTS (SELECT 1 FROM incident_waits w
			JOIN approvals a ON a.cycle_id = w.cycle_id WHERE w.incident_id = i.id AND a.status = 'pending') AND NOT `+handledAlone+`),
		(SELECT COUNT(*) FROM sessions WHERE status = ?),
		(SELECT COUNT(*) FROM cycles WHERE status = ?),
		(SELECT COALESCE(MAX(id), 0) FROM cycles), (SELECT COALESCE(MAX(id), 0) FROM sessions),
		(SELECT COALESCE(MAX(id), 0) FROM events), (SELECT COALESCE(MAX(id), 0) FROM checks),
		(SELECT COALESCE(MAX(id), 0) FROM guard_decisions), (SELECT COALESCE(MAX(id), 0) FROM recoveries),
		(SELECT COALESCE(MAX(id), 0) FROM verifications),
		(SELECT COALESCE(MAX(ended_at), '') FROM sessions WHERE ended_at IS NOT NULL),
		(SELECT COALESCE(MAX(ended_at), '') FROM cycles),
		(SELECT COALESCE(MAX(updated_at), '') FROM incidents WHERE resolved_at IS NULL),
		(SELECT CAST(COALESCE(SUM(id * (wake_seq + 1) * LENGTH(status)), 0) AS TEXT) FROM cycles WHERE ended_at IS NULL)`,
		ops.ApprovalPending, ops.SessionRunning, ops.CycleQueued).
		Scan(&p.Approvals, &p.Incidents, &p.Running, &p.Queued, &p.Cycle, &p.Session, &p.Event, &p.Check, &p.Guard, &p.Recovery,
			&p.Verification, &p.SessionEnded, &p.CycleEnded, &p.IncidentChanged, &p.CycleStates)
	if err != nil {
		return PageState{}, fmt.Errorf("read page state: %w", err)
	}
	return p, nil
}

// Attention counts what waits for people.
type Attention struct {
	Approvals    int // unanswered questions
	Open         int // open incidents, and those whose snooze is over; without those that have a pending question, or that a cycle repairs
	Acknowledged int
	Snoozed      int
}

// NeedYou is how many things a person should look at now.
func (a Attention) NeedYou() int { return a.Approvals + a.Open }

// Attention counts questions and incidents that are not over.
func (s *Store) Attention(ctx context.Context, now time.Time) (Attention, error) {
	var a Attention
	err := s.db.Reader().QueryRowContext(ctx, `SELECT (SELECT COUNT(*) FROM approvals WHERE status = ?),
			COALESCE(SUM(CASE WHEN (i.status = ? OR (i.status = ? AND i.snoozed_until <= ?)) AND NOT EXISTS (
				SELECT 1 FROM incident_waits w JOIN approvals a ON a.cycle_id = w.cycle_id WHERE w.incident_id = i.id AND a.status = ?
			) AND NOT `+handledAlone+` THEN 1 ELSE 0 END), 0),
			COALESCE(SUM(CASE WHEN i.status = ? THEN 1 ELSE 0 END), 0),
			COALESCE(SUM(CASE WHEN i.status = ? AND i.snoozed_until > ? THEN 1 ELSE 0 END), 0)
		FROM incidents i WHERE i.resolved_at IS NULL`,
		ops.ApprovalPending, ops.IncidentOpen, ops.IncidentSnoozed, db.Time(now), ops.ApprovalPending, ops.IncidentAcknowledged,
		ops.IncidentSnoozed, db.Time(now)).Scan(&a.Approvals, &a.Open, &a.Acknowledged, &a.Snoozed)
	if err != nil {
		return Attention{}, fmt.Errorf("count what waits for people: %w", err)
	}
	return a, nil
}

// Work is the current activity and the end of the last cycle.
type Work struct {
	Running     int // sessions
	Queued      int // cycles
	LastEndedAt *time.Time
	LastStatus  ops.CycleStatus
}

// Work reads these figures; none counts a whole table.
func (s *Store) Work(ctx context.Context) (Work, error) {
	var w Work
	err := s.db.Read(ctx, func(tx db.Querier) error {
		err := tx.QueryRowContext(ctx, `SELECT (SELECT COUNT(*) FROM sessions WHERE status = ?), (SELECT COUNT(*) FROM cycles WHERE status = ?)`,
			ops.SessionRunning, ops.CycleQueued).Scan(&w.Running, &w.Queued)
		if err != nil {
			return err
		}
		err = tx.QueryRowContext(ctx, `SELECT ended_at, status FROM cycles WHERE ended_at IS NOT NULL
			ORDER BY ended_at DESC LIMIT 1`).Scan(db.ToOptTime(&w.LastEndedAt), &w.LastStatus)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		return err
	})
	if err != nil {
		return Work{}, fmt.Errorf("read work: %w", err)
	}
	return w, nil
}

// Counts are the figures of the whole journal for health reports.
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
	err := s.db.Read(ctx, func(tx db.Querier) error {
		err := tx.QueryRowContext(ctx, `SELECT (SELECT COUNT(*) FROM sessions), (SELECT COUNT(*) FROM cycles),
			(SELECT COUNT(*) FROM sessions WHERE status = ?)`, ops.SessionRunning).
			Scan(&c.Sessions, &c.Cycles, &c.RunningSessions)
		if err != nil {
			return err
		}
		err = tx.QueryRowContext(ctx, `SELECT ended_at, status FROM cycles WHERE ended_at IS NOT NULL
			ORDER BY ended_at DESC, id DESC LIMIT 1`).Scan(db.ToOptTime(&c.LastCycleEndedAt), &c.LastCycleStatus)
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
