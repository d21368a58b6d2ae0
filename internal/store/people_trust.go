package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/store/db"
)

const selectLowered = `SELECT environment, service, level, changed_by, reason, changed_at FROM trust WHERE environment = ? ORDER BY service`

func scanLowered(r db.Row, l *ops.Lowered) error {
	return r.Scan(&l.Environment, &l.Service, &l.Level, &l.By, &l.Reason, db.ToTime(&l.At))
}

// Lowered returns the services of an environment in which the trust is lower than the configuration allows.
func (s *People) Lowered(ctx context.Context, environment string) ([]ops.Lowered, error) {
	out, err := db.List(ctx, s.db.Reader(), scanLowered, selectLowered, environment)
	return ops.Returning(out, err, "list levels of trust in %s", environment)
}

// SetTrust records the level that a person chose for a service. One that the configuration gives anyway needs no row.
func (s *People) SetTrust(ctx context.Context, p ops.Policy, l ops.Lowered) error {
	l.At = s.orNow(l.At)
	err := s.db.WriteIn(ctx, "trust", db.InEnvironment(l.Environment), func(tx db.Querier) error {
		before, err := trusts(ctx, tx, p, l)
		if err != nil {
			return err
		}
		if l.Level.Below(p.TrustOf(l.Service)) {
			err = saveLowered(ctx, tx, l)
		} else {
			_, err = tx.ExecContext(ctx, `DELETE FROM trust WHERE environment = ? AND service = ?`, l.Environment, l.Service)
		}
		if err != nil {
			return err
		}
		return s.insertEvent(ctx, tx, ops.Event{
			Environment: l.Environment, Level: ops.LevelInfo, Verb: ops.VerbTrustChanged, Actor: ops.Person(l.By), Reason: l.Reason,
			Service: l.Service, Detail: ops.TrustDetail{From: before, To: l.Level},
		}, l.At)
	})
	return ops.Wrapped(err, "change trust in %s", l.Service)
}

func trusts(ctx context.Context, tx db.Querier, p ops.Policy, l ops.Lowered) (ops.Trust, error) {
	lowered, err := db.List(ctx, tx, scanLowered, selectLowered, l.Environment)
	return p.Trusts(l.Service, lowered), err
}

func saveLowered(ctx context.Context, tx db.Querier, l ops.Lowered) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO trust (environment, service, level, changed_by, reason, changed_at) VALUES (?, ?, ?, ?, ?, ?)
		ON CONFLICT (environment, service) DO UPDATE SET level = excluded.level, changed_by = excluded.changed_by, reason = excluded.reason,
			changed_at = excluded.changed_at`, l.Environment, l.Service, l.Level, l.By, l.Reason, db.Time(l.At))
	return err
}

// reduceTrust lowers the trust in a service by one step, because something went wrong in a cycle, and tells people. It does nothing where
// no level was ever given, and nothing for the second time in the same cycle.
func (s *kernel) reduceTrust(ctx context.Context, tx db.Querier, c ops.Cycle, r ops.Reduced, at time.Time) error {
	lowered, err := db.List(ctx, tx, scanLowered, selectLowered, c.Environment)
	if err != nil {
		return err
	}
	own := slices.IndexFunc(lowered, func(l ops.Lowered) bool { return l.Service == r.Service })
	if c.Policy.TrustOf(r.Service) == "" && own < 0 || own >= 0 && lowered[own].By == ops.Supervisor && !lowered[own].At.Before(c.CreatedAt) {
		return nil
	}
	before := c.Policy.Trusts(r.Service, lowered)
	l := ops.Lowered{
		Environment: c.Environment, Service: r.Service, Level: before.Reduced(), By: ops.Supervisor, Reason: r.Why, At: at,
	}
	if l.Level == before {
		return nil
	}
	if err := saveLowered(ctx, tx, l); err != nil {
		return err
	}
	err = s.insertEvent(ctx, tx, ops.Event{
		CycleID: &c.ID, Environment: c.Environment, Level: ops.LevelWarning, Verb: ops.VerbTrustLowered, Service: r.Service,
		Reason: r.Why, Detail: ops.TrustDetail{From: before, To: l.Level},
	}, at)
	if err != nil {
		return err
	}
	text := s.words.LessTrusted(l, before)
	_, err = insertNotice(ctx, tx, ops.Notice{
		CycleID: &c.ID, Kind: ops.NoticeTrust, Level: ops.LevelWarning, Title: text.Title, Body: text.Body,
		Environment: c.Environment, Service: r.Service,
	}, at)
	return err
}

// reduceAfter lowers the trust in what a step says.
func (s *kernel) reduceAfter(ctx context.Context, tx db.Querier, id ops.CycleID, reduced []ops.Reduced, at time.Time) error {
	if len(reduced) == 0 {
		return nil
	}
	c, err := cycleByID(ctx, tx, id)
	for n := 0; err == nil && n < len(reduced); n++ {
		err = s.reduceTrust(ctx, tx, c, reduced[n], at)
	}
	return err
}

// afterUndo lowers the trust in a service whose action was undone, and switches off what was earned with it. What a person asked for
// says nothing about agents.
func (s *kernel) afterUndo(ctx context.Context, tx db.Querier, id int64, at time.Time) error {
	r, err := actionByID(ctx, tx, id)
	if err != nil || r.CycleID == nil {
		return err
	}
	if err := s.doubtReflexes(ctx, tx, *r.CycleID, r.Service, s.words.ReflexUndone(r), at); err != nil || r.Person != "" {
		return err
	}
	return s.reduceAfter(ctx, tx, *r.CycleID, []ops.Reduced{{Service: r.Service, Why: s.words.UndoneAction(r)}}, at)
}

// alarms: the guard raised an alarm about a session.
func alarms(e ops.Event) bool {
	return e.Kind() == ops.EventGuard && e.Level == ops.LevelCritical && e.SessionID != nil
}

// reduceAlarmed lowers the trust in the services that a session worked on when the guard raised an alarm about it.
func (s *kernel) reduceAlarmed(ctx context.Context, tx db.Querier, e ops.Event, at time.Time) error {
	if !alarms(e) {
		return nil
	}
	cycle, err := db.One(ctx, tx, db.ScanInt, `SELECT cycle_id FROM sessions WHERE id = ? AND tier > ?`, *e.SessionID, ops.Tier1)
	if errors.Is(err, ops.ErrNotFound) {
		return nil // it only looked
	}
	if err != nil {
		return err
	}
	services, err := db.List(ctx, tx, db.ScanString, `SELECT DISTINCT i.service FROM incidents i JOIN incident_cycles k ON k.incident_id = i.id
		WHERE k.cycle_id = ? AND i.service <> '' ORDER BY i.service`, cycle)
	reduced := ops.Map(services, func(name string) ops.Reduced { return ops.Reduced{Service: name, Why: s.words.GuardAlarm(e)} })
	if err != nil {
		return err
	}
	return s.reduceAfter(ctx, tx, ops.CycleID(cycle), reduced, at)
}

// TrustRecord counts what became of the work on a service.
func (s *Reports) TrustRecord(ctx context.Context, environment, service string) (ops.TrustRecord, error) {
	const cycles = `(SELECT k.cycle_id FROM incident_cycles k JOIN incidents i ON i.id = k.incident_id
		WHERE i.environment = ? AND i.service = ?)`
	var out ops.TrustRecord
	counts := []struct {
		to    *int
		query string
		args  []any
	}{
		{
			&out.Proposed, `(SELECT cycle_id FROM approvals WHERE kind IN (?, ?) UNION ALL SELECT cycle_id FROM escalations WHERE check_name = ?) p
				WHERE p.cycle_id IN ` + cycles,
			[]any{ops.ApprovalTier, ops.ApprovalReflex, ops.ObjectionTrust, environment, service},
		},
		{
			&out.Approved, `approvals WHERE kind IN (?, ?) AND status = ? AND cycle_id IN ` + cycles,
			[]any{ops.ApprovalTier, ops.ApprovalReflex, ops.ApprovalApproved, environment, service},
		},
		{
			&out.Proven, `approvals a JOIN cycles c ON c.id = a.cycle_id WHERE a.kind IN (?, ?) AND a.status = ? AND c.status = ? AND c.verified
				AND c.refuted_at IS NULL AND a.cycle_id IN ` + cycles,
			[]any{ops.ApprovalTier, ops.ApprovalReflex, ops.ApprovalApproved, ops.CycleResolved, environment, service},
		},
		{
			&out.Verified, `cycles c WHERE c.status = ? AND c.verified AND c.refuted_at IS NULL AND c.id IN ` + cycles + `
				AND (EXISTS (SELECT 1 FROM sessions s WHERE s.cycle_id = c.id AND s.tier > ?)
					OR EXISTS (SELECT 1 FROM action_runs r WHERE r.cycle_id = c.id AND r.status = ?))`,
			[]any{ops.CycleResolved, environment, service, ops.Tier1, ops.ActionDone},
		},
		{
			&out.Refuted, `cycles c WHERE c.id IN ` + cycles + ` AND (c.refuted_at IS NOT NULL
				OR EXISTS (SELECT 1 FROM steps t WHERE t.cycle_id = c.id AND t."row" = 'claim refuted')
				AND EXISTS (SELECT 1 FROM checks k WHERE k.cycle_id = c.id AND k.service = ? AND k.purpose = ? AND k.status <> ?))`,
			[]any{environment, service, service, ops.ProbeVerify, ops.Healthy},
		},
		{
			&out.Undone, `action_runs WHERE environment = ? AND service = ? AND status = ? AND person = ''`,
			[]any{environment, service, ops.ActionUndone},
		},
	}
	for _, c := range counts {
		n, err := db.One(ctx, s.db.Reader(), db.ScanInt, `SELECT COUNT(*) FROM `+c.query, c.args...)
		if err != nil {
			return out, fmt.Errorf("count the work on %s: %w", service, err)
		}
		*c.to = int(n)
	}
	return out, nil
}

// standstillName is the row of a standstill among what is stored about the database itself.
const standstillName = "standstill"

const atStandstill = `EXISTS (SELECT 1 FROM store_state WHERE name = '` + standstillName + `')`

func scanStandstill(r db.Row, h *ops.Standstill) error { return r.Scan(db.ToJSON(h)) }

const selectStandstill = `SELECT value FROM store_state WHERE name = ?`

func standstill(ctx context.Context, q db.Querier) (*ops.Standstill, error) {
	found, err := db.List(ctx, q, scanStandstill, selectStandstill, standstillName)
	if err != nil || len(found) == 0 {
		return nil, err
	}
	return &found[0], nil
}

// Standstill returns who stopped everything, or nil.
func (s *People) Standstill(ctx context.Context) (*ops.Standstill, error) {
	h, err := standstill(ctx, s.db.Reader())
	return ops.Returning(h, err, "read whether everything is stopped")
}

// StopAll stops everything, on all hosts, until ResumeAll. Whoever was first stays.
func (s *People) StopAll(ctx context.Context, h ops.Standstill) (ops.Standstill, error) {
	h.At = s.orNow(h.At)
	err := s.db.Write(ctx, "stop", func(tx db.Querier) error {
		first, err := standstill(ctx, tx)
		if err != nil {
			return err
		}
		if first != nil {
			return ops.Answered(first.By, "stopped it", first.At)
		}
		if _, err := tx.ExecContext(ctx, `INSERT INTO store_state (name, value) VALUES (?, ?)`, standstillName, db.JSON(h)); err != nil {
			return err
		}
		return s.insertEvent(ctx, tx, ops.Event{
			Level: ops.LevelWarning, Verb: ops.VerbAllStopped, Actor: ops.Person(h.By), Reason: h.Reason,
		}, h.At)
	})
	return ops.Returning(h, err, "stop everything")
}

// ResumeAll lets everything start again, and returns what was taken back.
func (s *People) ResumeAll(ctx context.Context, by, reason string, at time.Time) (ops.Standstill, error) {
	var h ops.Standstill
	err := s.db.Write(ctx, "stop", func(tx db.Querier) error {
		was, err := standstill(ctx, tx)
		if err != nil {
			return err
		}
		if was == nil {
			return ops.NewConflict(ops.ConflictState, "nothing is stopped")
		}
		h = *was
		if _, err := tx.ExecContext(ctx, `DELETE FROM store_state WHERE name = ?`, standstillName); err != nil {
			return err
		}
		return s.insertEvent(ctx, tx, ops.Event{
			Level: ops.LevelInfo, Verb: ops.VerbAllResumed, Actor: ops.Person(by), Reason: reason,
		}, s.orNow(at))
	})
	return ops.Returning(h, err, "let everything start again")
}

// ToStop returns the cycles that a host runs although everything is stopped. One whose action has begun is left until that has ended.
func (s *Journal) ToStop(ctx context.Context, host string) ([]ops.Cycle, error) {
	return s.openCycles(ctx, "list cycles to stop", atStandstill+` AND c.status = 'running' AND c.owner = ? AND c.cancel_requested_at IS NULL
		AND NOT EXISTS (SELECT 1 FROM action_runs r WHERE r.cycle_id = c.id AND r.status = 'started')`, host)
}
