package store

import (
	"context"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/store/db"
)

// PageState changes whenever something changes that a page shows, and has the counts that every page shows. Two equal ones mean
// that nothing was written in between, by any host, except output of sessions.
type PageState struct {
	Approvals int // unanswered questions
	Incidents int // those that need a person
	Running   int // sessions whose process may exist
	Queued    int // cycles that have not started

	Unverified int // incidents with a claimed repair that nothing confirms

	Cycle, Session, Event, Check, Guard, Recovery, Verification int64 // the newest rows
	SessionEnded, CycleEnded, IncidentChanged, CycleStates      string
	Standstill                                                  ops.Standstill // somebody stopped everything; nobody: the zero value

	// Held identifies what is withheld and why; the count of failed checks is part of that.
	Held string
}

// handledAlone: a cycle works on the incident, and nobody was called, or whoever was called has said yes.
const handledAlone = `(EXISTS (SELECT 1 FROM cycles c WHERE c.id = i.last_cycle_id AND c.ended_at IS NULL AND (
	i.called_at IS NULL
	OR EXISTS (SELECT 1 FROM approvals y WHERE y.cycle_id = c.id AND y.status = 'approved' AND y.answered_at >= i.called_at))))`

// needsYou: the incident needs a person at a time. It is open, or its snooze is over; no question about it is pending, no cycle
// repairs it alone, and no lasting no is about it. It takes the time twice. Whoever counts or lists what needs a person uses this.
const needsYou = `(i.resolved_at IS NULL AND (i.status = 'open' OR (i.status = 'snoozed' AND i.snoozed_until <= ?)) AND NOT EXISTS (
	SELECT 1 FROM incident_waits w JOIN approvals a ON a.cycle_id = w.cycle_id WHERE w.incident_id = i.id AND a.status = 'pending')
	AND NOT ` + handledAlone + ` AND NOT ` + deniedNow + `)`

// PageState reads the counters. Each is an index lookup; none counts a whole table.
func (s *Reports) PageState(ctx context.Context) (PageState, error) {
	var p PageState
	now := db.Time(s.clock())
	err := s.db.Reader().QueryRowContext(ctx, `SELECT
		(SELECT COUNT(*) FROM approvals WHERE status = ?),
		(SELECT COUNT(*) FROM incidents i WHERE `+needsYou+`),
		(SELECT COUNT(*) FROM incidents i WHERE i.resolved_at IS NULL AND i.status = 'unverified'),
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
		ops.ApprovalPending, now, now, ops.SessionRunning, ops.CycleQueued).
		Scan(&p.Approvals, &p.Incidents, &p.Unverified, &p.Running, &p.Queued, &p.Cycle, &p.Session, &p.Event, &p.Check, &p.Guard, &p.Recovery,
			&p.Verification, &p.SessionEnded, &p.CycleEnded, &p.IncidentChanged, &p.CycleStates)
	if err != nil {
		return PageState{}, fmt.Errorf("read page state: %w", err)
	}
	held, err := db.List(ctx, s.db.Reader(), scanHeld, selectHeld+` ORDER BY environment, service LIMIT ?`, mostOfSituation)
	if err != nil {
		return PageState{}, fmt.Errorf("read page state: %w", err)
	}
	still, err := standstill(ctx, s.db.Reader())
	if err != nil {
		return PageState{}, fmt.Errorf("read page state: %w", err)
	}
	if still != nil {
		p.Standstill = *still
	}
	sum := fnv.New64a()
	_, _ = fmt.Fprint(sum, held) // a hash never fails
	p.Held = hex.EncodeToString(sum.Sum(nil))
	return p, nil
}

// Attention counts what waits for people.
type Attention struct {
	Approvals    int // unanswered questions
	Open         int // incidents that need a person
	Acknowledged int
	Snoozed      int
	Unverified   int // a repair is claimed, and nothing confirms it
}

// NeedYou is how many things a person should look at now.
func (a Attention) NeedYou() int { return a.Approvals + a.Open }

// Attention counts questions and incidents that are not over.
func (s *Reports) Attention(ctx context.Context, now time.Time) (Attention, error) {
	var a Attention
	err := s.db.Reader().QueryRowContext(ctx, `SELECT (SELECT COUNT(*) FROM approvals WHERE status = ?),
			COALESCE(SUM(CASE WHEN `+needsYou+` THEN 1 ELSE 0 END), 0),
			COALESCE(SUM(CASE WHEN i.status = ? THEN 1 ELSE 0 END), 0),
			COALESCE(SUM(CASE WHEN i.status = ? AND i.snoozed_until > ? THEN 1 ELSE 0 END), 0),
			COALESCE(SUM(CASE WHEN i.status = ? THEN 1 ELSE 0 END), 0)
		FROM incidents i WHERE i.resolved_at IS NULL`, ops.ApprovalPending, db.Time(now), db.Time(now), ops.IncidentAcknowledged,
		ops.IncidentSnoozed,
		db.Time(now), ops.IncidentUnverified).Scan(&a.Approvals, &a.Open, &a.Acknowledged, &a.Snoozed, &a.Unverified)
	return ops.Returning(a, err, "count what waits for people")
}

// Work is the current activity and the end of the last cycle.
type Work struct {
	Running     int // sessions
	Queued      int // cycles
	LastEndedAt *time.Time
	LastStatus  ops.CycleStatus
}

// Work reads these figures; none counts a whole table.
func (s *Reports) Work(ctx context.Context) (Work, error) {
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
	return ops.Returning(w, err, "read work")
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
func (s *Reports) Counts(ctx context.Context) (Counts, error) {
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
	return ops.Returning(c, err, "count journal")
}

// Situation holds the rows that say what is done about problems now.
type Situation struct {
	Open      []CycleSummary // cycles that have not ended, newest first, each with what it works on now
	Causes    []ops.Cause    // open ones, newest first
	Ended     []CycleSummary // the cycles of those causes that have ended
	Held      []HeldService
	States    []ProbeState // of the given services
	Approvals []ops.Approval
	Incidents []ops.Incident // not resolved
}

// HeldService is a failing service for which no agent is started.
type HeldService struct {
	Environment string
	ops.Withheld
}

// ProbeState is the state of one check.
type ProbeState struct {
	Environment string
	ops.CheckState
}

// mostOfSituation limits each list: people read a few lines.
const mostOfSituation = 100

// Situation reads what is done about problems, and the states of some services by environment. Every list is short or limited, so
// that it takes no longer with very many services.
func (s *Reports) Situation(ctx context.Context, services map[string][]string) (Situation, error) {
	var out Situation
	err := s.db.Read(ctx, func(tx db.Querier) error {
		cycles, err := db.List(ctx, tx, scanCycle, selectCycles+` WHERE c.ended_at IS NULL ORDER BY c.id DESC LIMIT ?`, mostOfSituation)
		if err != nil {
			return err
		}
		if out.Open, err = withSessions(ctx, tx, cycles); err != nil {
			return err
		}
		if len(cycles) > 0 {
			var now []ops.Cycle
			if err := db.Together(ctx, tx, charges(&now, "")); err != nil {
				return err
			}
			for i := range out.Open {
				if n := slices.IndexFunc(now, func(c ops.Cycle) bool { return c.ID == out.Open[i].ID }); n >= 0 {
					out.Open[i].Charge = now[n].Charge
				}
			}
		}
		if out.Causes, err = db.List(ctx, tx, scanCause, selectCauses+` WHERE z.resolved_at IS NULL ORDER BY z.id DESC LIMIT ?`,
			mostOfSituation); err != nil {
			return err
		}
		ended, err := endedCycles(ctx, tx, out.Causes)
		if err != nil {
			return err
		}
		if out.Ended, err = withSessions(ctx, tx, ended); err != nil {
			return err
		}
		if out.Held, err = heldServices(ctx, tx, services); err != nil {
			return err
		}
		if out.States, err = probeStates(ctx, tx, services); err != nil {
			return err
		}
		if out.Approvals, err = db.List(ctx, tx, scanApproval, selectApprovals+` WHERE a.status = ? ORDER BY a.id LIMIT ?`,
			ops.ApprovalPending, mostOfSituation); err != nil {
			return err
		}
		out.Incidents, err = db.List(ctx, tx, scanIncident, selectIncidents+` WHERE i.resolved_at IS NULL ORDER BY i.id DESC LIMIT ?`,
			mostOfSituation)
		return err
	})
	return ops.Returning(out, err, "read situation")
}

func endedCycles(ctx context.Context, q db.Querier, causes []ops.Cause) ([]ops.Cycle, error) {
	if len(causes) == 0 {
		return nil, nil
	}
	ids := ops.Map(causes, func(c ops.Cause) any { return c.Cycle })
	return db.List(ctx, q, scanCycle, selectCycles+` WHERE c.ended_at IS NOT NULL AND c.id IN (`+marks(len(ids))+`)`, ids...)
}

func marks(n int) string { return strings.Repeat(", ?", n)[2:] }

// named asks once per environment for the rows of some of its services.
func named(services map[string][]string, ask func(condition string, args []any) error) error {
	for environment, names := range services {
		args := make([]any, 0, len(names)+1)
		args = append(args, environment)
		for _, n := range names {
			args = append(args, n)
		}
		if err := ask(` WHERE environment = ? AND service IN (`+marks(len(names))+`)`, args); err != nil {
			return err
		}
	}
	return nil
}

func heldServices(ctx context.Context, q db.Querier, services map[string][]string) (out []HeldService, err error) {
	err = named(services, func(condition string, args []any) error {
		found, err := db.List(ctx, q, scanHeld, selectHeld+condition, args...)
		out = append(out, found...)
		return err
	})
	return out, err
}

const selectHeld = `SELECT environment, service, why, reason, until FROM withheld`

func scanHeld(r db.Row, h *HeldService) error {
	var until *time.Time
	err := r.Scan(&h.Environment, &h.Service, &h.Why, &h.Reason, db.ToOptTime(&until))
	if until != nil {
		h.Until = *until
	}
	return err
}

func probeStates(ctx context.Context, q db.Querier, services map[string][]string) (out []ProbeState, err error) {
	err = named(services, func(condition string, args []any) error {
		found, err := db.List(ctx, q, func(r db.Row, v *ProbeState) error {
			return r.Scan(&v.Environment, db.ToJSON(&v.CheckState))
		}, `SELECT environment, state FROM probe_states`+condition, args...)
		out = append(out, found...)
		return err
	})
	return out, err
}
