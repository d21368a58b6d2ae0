package store

import (
	"context"
	"fmt"

	"claudeops/internal/ops"
	"claudeops/internal/store/db"
)

const canaryColumns = `host, profile, version, settings, program, model, passed, detail, cost_usd, at`

func scanCanary(r db.Row) (ops.Canary, error) {
	var c ops.Canary
	err := r.Scan(&c.Host, &c.Profile, &c.Version, &c.Settings, &c.Program, &c.Model, &c.Passed, &c.Detail, &c.CostUSD, db.ToTime(&c.At))
	return c, err
}

// SaveCanary keeps what the trial of an agent CLI showed. A later trial replaces an earlier one.
func (s *Reports) SaveCanary(ctx context.Context, c ops.Canary) error {
	c.At = s.orNow(c.At)
	err := s.db.Write(ctx, "agent_canary", func(tx db.Querier) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO agent_canaries (`+canaryColumns+`) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
			ON CONFLICT (host, profile, version, settings) DO UPDATE SET program = excluded.program, model = excluded.model,
				passed = excluded.passed, detail = excluded.detail, cost_usd = excluded.cost_usd, at = excluded.at`,
			c.Host, c.Profile, c.Version, c.Settings, c.Program, c.Model, c.Passed, c.Detail, c.CostUSD, db.Time(c.At))
		if err != nil {
			return err
		}
		event := ops.Event{Level: ops.LevelInfo, Kind: ops.EventGuard}
		event.Message = fmt.Sprintf("%s %s was tried on %s: %s", c.Profile, c.Version, c.Host, c.Detail)
		if !c.Passed {
			event.Level = ops.LevelWarning
			event.Message = fmt.Sprintf("%s %s is not trusted on %s: %s", c.Profile, c.Version, c.Host, c.Detail)
		}
		return insertEvent(ctx, tx, event, c.At)
	})
	if err != nil {
		return fmt.Errorf("keep trial of %s: %w", c.Profile, err)
	}
	return nil
}

// Canary returns the trial of one version of an agent CLI.
func (s *Reports) Canary(ctx context.Context, host, profile, version, settings string) (ops.Canary, error) {
	c, err := db.One(ctx, s.db.Reader(), scanCanary, `SELECT `+canaryColumns+` FROM agent_canaries
		WHERE host = ? AND profile = ? AND version = ? AND settings = ?`, host, profile, version, settings)
	if err != nil {
		return ops.Canary{}, fmt.Errorf("read trial of %s: %w", profile, err)
	}
	return c, nil
}

// Canaries are all trials of a host, the newest first.
func (s *Reports) Canaries(ctx context.Context, host string) ([]ops.Canary, error) {
	all, err := db.List(ctx, s.db.Reader(), scanCanary, `SELECT `+canaryColumns+` FROM agent_canaries WHERE host = ?
		ORDER BY at DESC, profile, version`, host)
	if err != nil {
		return nil, fmt.Errorf("read trials of agents: %w", err)
	}
	return all, nil
}
