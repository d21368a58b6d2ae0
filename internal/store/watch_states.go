package store

import (
	"context"
	"fmt"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/store/db"
	"claudeops/internal/watch/health"
)

func scanState(r db.Row) (health.State, error) {
	var v health.State
	err := r.Scan(db.ToJSON(&v))
	return v, err
}

// States returns the state of every check of an environment.
func (s *Watch) States(ctx context.Context, environment string) ([]health.State, error) {
	out, err := db.List(ctx, s.db.Reader(), scanState, `SELECT state FROM probe_states WHERE environment = ? ORDER BY service, probe`,
		environment)
	if err != nil {
		return nil, fmt.Errorf("list states: %w", err)
	}
	return out, nil
}

// RecordResults writes the results of a batch of probes of an environment in one transaction: the results to keep, the results that
// are only counted, the changed states, the events, and the alerts that were handled.
func (s *Watch) RecordResults(ctx context.Context, environment string, kept, counted []ops.Check, states []health.State, events []ops.Event,
	alerts []ops.Alert,
) error {
	err := s.db.WriteIn(ctx, "looks", db.InEnvironment(environment), func(tx db.Querier) error {
		at := s.clock()
		if err := insertChecks(ctx, tx, kept, at); err != nil {
			return fmt.Errorf("checks: %w", err)
		}
		if err := countChecks(ctx, tx, counted, at); err != nil {
			return fmt.Errorf("counts: %w", err)
		}
		if err := saveStates(ctx, tx, environment, states); err != nil {
			return fmt.Errorf("states: %w", err)
		}
		for _, e := range events {
			if err := insertEvent(ctx, tx, e, at); err != nil {
				return fmt.Errorf("event %s: %w", e.Kind, err)
			}
		}
		if err := settleAlerts(ctx, tx, alerts); err != nil {
			return fmt.Errorf("alerts: %w", err)
		}
		if len(alerts) == 0 {
			return nil
		}
		return s.closeDisputes(ctx, tx, environment, at)
	})
	if err != nil {
		return fmt.Errorf("record looks at %s: %w", environment, err)
	}
	return nil
}

func saveStates(ctx context.Context, tx db.Querier, environment string, states []health.State) error {
	type key struct{ service, probe string }
	for _, part := range db.Distinct(states, func(v health.State) key { return key{v.Service, v.Probe} }) {
		rows := make([][]any, len(part))
		for i, v := range part {
			text, err := db.JSON(v)
			if err != nil {
				return err
			}
			rows[i] = []any{environment, v.Service, v.Probe, v.Level, db.Time(v.Since), text}
		}
		err := db.WriteRows(ctx, tx, `INSERT INTO probe_states (environment, service, probe, level, since, state) VALUES `,
			` ON CONFLICT (environment, service, probe) DO UPDATE SET level = excluded.level, since = excluded.since, state = excluded.state`, rows)
		if err != nil {
			return err
		}
	}
	return nil
}

// ForgetStates removes the states of checks that no longer exist.
func (s *Watch) ForgetStates(ctx context.Context, environment string, states []health.State) error {
	if len(states) == 0 {
		return nil
	}
	err := s.db.WriteIn(ctx, "looks", db.InEnvironment(environment), func(tx db.Querier) error {
		rows := make([][]any, len(states))
		for i, v := range states {
			rows[i] = []any{environment, v.Service, v.Probe}
		}
		// PostgreSQL reads the whole table for a long list of conditions; with a list of values it does not compare each with each.
		return db.WriteRows(ctx, tx, `DELETE FROM probe_states WHERE (environment, service, probe) IN (VALUES `, `)`, rows)
	})
	if err != nil {
		return fmt.Errorf("forget states of %s: %w", environment, err)
	}
	return nil
}

// SaveWithheld replaces the list of failing services of an environment for which no agent is started.
func (s *Watch) SaveWithheld(ctx context.Context, environment string, held []ops.Withheld) error {
	err := s.db.WriteIn(ctx, "withheld", db.InEnvironment(environment), func(tx db.Querier) error {
		if _, err := tx.ExecContext(ctx, `DELETE FROM withheld WHERE environment = ?`, environment); err != nil {
			return err
		}
		rows := make([][]any, len(held))
		for i, h := range held {
			var until *time.Time
			if !h.Until.IsZero() {
				until = &h.Until
			}
			rows[i] = []any{environment, h.Service, h.Why, h.Reason, db.OptTime(until)}
		}
		return db.WriteRows(ctx, tx, `INSERT INTO withheld (environment, service, why, reason, until) VALUES `, ``, rows)
	})
	if err != nil {
		return fmt.Errorf("record what is withheld in %s: %w", environment, err)
	}
	return nil
}

// Withheld returns the failing services of an environment for which no agent is started now, and why.
func (s *Watch) Withheld(ctx context.Context, environment string) ([]ops.Withheld, error) {
	out, err := withheldOf(ctx, s.db.Reader(), environment)
	if err != nil {
		return nil, fmt.Errorf("list what is withheld: %w", err)
	}
	return out, nil
}

const selectWithheld = `SELECT service, why, reason, until FROM withheld WHERE environment = ?`

func withheldOf(ctx context.Context, q db.Querier, environment string) ([]ops.Withheld, error) {
	return db.List(ctx, q, scanWithheld, selectWithheld+` ORDER BY service`, environment)
}

func scanWithheld(r db.Row) (ops.Withheld, error) {
	var h ops.Withheld
	var until *time.Time
	err := r.Scan(&h.Service, &h.Why, &h.Reason, db.ToOptTime(&until))
	if until != nil {
		h.Until = *until
	}
	return h, err
}
