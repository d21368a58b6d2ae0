package store

import (
	"context"

	"claudeops/internal/ops"
	"claudeops/internal/store/db"
)

// Trial is what the last trial of an agent program of a host found; ErrNotFound where there was none.
func (s *Acts) Trial(ctx context.Context, host, agent string) (ops.Trial, error) {
	t, err := db.One(ctx, s.db.Reader(), func(r db.Row) (ops.Trial, error) {
		t := ops.Trial{Agent: agent}
		err := r.Scan(&t.Identity, &t.Program, &t.Version, &t.Held, &t.Command, &t.File, db.ToTime(&t.At))
		return t, err
	}, `SELECT identity, program, version, held, command, file, at FROM agent_trials WHERE host = ? AND agent = ?`, host, agent)
	return ops.Returning(t, err, "read trial of %s", agent)
}

// SetTrial records what a trial found, in the place of the one before.
func (s *Acts) SetTrial(ctx context.Context, host string, t ops.Trial) error {
	err := s.db.Write(ctx, "set_trial", func(tx db.Querier) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO agent_trials (host, agent, identity, program, version, held, command, file, at)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (host, agent) DO UPDATE SET identity = excluded.identity, program = excluded.program,
			version = excluded.version, held = excluded.held, command = excluded.command, file = excluded.file, at = excluded.at`,
			host, t.Agent, t.Identity, t.Program, t.Version, t.Held, t.Command, t.File, db.Time(t.At))
		return err
	})
	return ops.Wrapped(err, "record trial of %s", t.Agent)
}
