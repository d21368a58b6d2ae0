package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/watch/health"
)

func scanState(r row) (health.State, error) {
	var v health.State
	err := r.Scan(toJSON(&v))
	return v, err
}

// States returns what is known about every check of an environment.
func (s *Store) States(ctx context.Context, environment string) ([]health.State, error) {
	out, err := list(ctx, s.reader, scanState, `SELECT state FROM probe_states WHERE environment = ? ORDER BY service, probe`, environment)
	if err != nil {
		return nil, fmt.Errorf("list states: %w", err)
	}
	return out, nil
}

// RecordResults writes in one transaction what came of a batch of looks at an environment: the results worth keeping (counted are
// all), the states that moved, the events that tell of it, and the alerts that were among them.
func (s *Store) RecordResults(ctx context.Context, environment string, kept, counted []ops.Check, states []health.State, events []ops.Event,
	alerts []ops.Alert,
) error {
	err := s.write(ctx, "looks", func(tx querier) error {
		at := s.clock()
		for _, c := range kept {
			if err := insertCheck(ctx, tx, c, at); err != nil {
				return fmt.Errorf("check of %s: %w", c.Service, err)
			}
		}
		for _, c := range counted {
			if err := countCheck(ctx, tx, c); err != nil {
				return fmt.Errorf("count of %s: %w", c.Service, err)
			}
		}
		for _, v := range states {
			if err := saveState(ctx, tx, environment, v); err != nil {
				return fmt.Errorf("state of %s: %w", v.Service, err)
			}
		}
		for _, e := range events {
			if _, err := insertEvent(ctx, tx, e, at); err != nil {
				return fmt.Errorf("event %s: %w", e.Kind, err)
			}
		}
		for _, a := range alerts {
			if err := settleAlert(ctx, tx, a); err != nil {
				return fmt.Errorf("alert %d: %w", a.ID, err)
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("record looks at %s: %w", environment, err)
	}
	return nil
}

func saveState(ctx context.Context, tx querier, environment string, v health.State) error {
	text, err := asJSON(v)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, `INSERT INTO probe_states (environment, service, probe, level, since, state) VALUES (?, ?, ?, ?, ?, ?)
		ON CONFLICT (environment, service, probe) DO UPDATE SET level = excluded.level, since = excluded.since, state = excluded.state`,
		environment, v.Service, v.Probe, v.Level, formatTime(v.Since), text)
	return err
}

// ForgetStates removes what is known about checks that are gone.
func (s *Store) ForgetStates(ctx context.Context, environment string, states []health.State) error {
	if len(states) == 0 {
		return nil
	}
	err := s.write(ctx, "looks", func(tx querier) error {
		for _, v := range states {
			_, err := tx.ExecContext(ctx, `DELETE FROM probe_states WHERE environment = ? AND service = ? AND probe = ?`, environment, v.Service, v.Probe)
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("forget states of %s: %w", environment, err)
	}
	return nil
}

// SaveWithheld replaces what is held back of an environment's bad services.
func (s *Store) SaveWithheld(ctx context.Context, environment string, held []ops.Withheld) error {
	err := s.write(ctx, "withheld", func(tx querier) error {
		if _, err := tx.ExecContext(ctx, `DELETE FROM withheld WHERE environment = ?`, environment); err != nil {
			return err
		}
		for _, h := range held {
			var until *time.Time
			if !h.Until.IsZero() {
				until = &h.Until
			}
			_, err := tx.ExecContext(ctx, `INSERT INTO withheld (environment, service, why, reason, until) VALUES (?, ?, ?, ?, ?)`,
				environment, h.Service, h.Why, h.Reason, optTime(until))
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("record what is withheld in %s: %w", environment, err)
	}
	return nil
}

// Withheld returns the bad services of an environment for which no agent is started now, and why.
func (s *Store) Withheld(ctx context.Context, environment string) ([]ops.Withheld, error) {
	out, err := withheldOf(ctx, s.reader, environment)
	if err != nil {
		return nil, fmt.Errorf("list what is withheld: %w", err)
	}
	return out, nil
}

func withheldOf(ctx context.Context, q querier, environment string) ([]ops.Withheld, error) {
	return list(ctx, q, func(r row) (ops.Withheld, error) {
		var h ops.Withheld
		var until *time.Time
		err := r.Scan(&h.Service, &h.Why, &h.Reason, toOptTime(&until))
		if until != nil {
			h.Until = *until
		}
		return h, err
	}, `SELECT service, why, reason, until FROM withheld WHERE environment = ? ORDER BY service`, environment)
}

// lastLook is when an agent last looked at an environment; nil when none has.
func lastLook(ctx context.Context, q querier, environment string) (*time.Time, error) {
	at, err := one(ctx, q, func(r row) (*time.Time, error) {
		var at *time.Time
		err := r.Scan(toOptTime(&at))
		return at, err
	}, `SELECT ended_at FROM sessions WHERE environment = ? AND tier = 1 AND role = 'work' AND status = 'completed' ORDER BY id DESC LIMIT 1`, environment)
	if errors.Is(err, ops.ErrNotFound) {
		return nil, nil //nolint:nilnil // nobody has looked, and that is no error
	}
	return at, err
}
