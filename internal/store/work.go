package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"claudeops/internal/ops"
)

// Work is what goes on, and how the last cycle ended.
type Work struct {
	Running     int // sessions
	Queued      int // cycles
	LastEndedAt *time.Time
	LastStatus  ops.CycleStatus
}

// Work looks the figures up; none is counted over a whole table.
func (s *Store) Work(ctx context.Context) (Work, error) {
	var w Work
	err := s.read(ctx, func(tx querier) error {
		err := tx.QueryRowContext(ctx, `SELECT (SELECT COUNT(*) FROM sessions WHERE status = ?), (SELECT COUNT(*) FROM cycles WHERE status = ?)`,
			ops.SessionRunning, ops.CycleQueued).Scan(&w.Running, &w.Queued)
		if err != nil {
			return err
		}
		err = tx.QueryRowContext(ctx, `SELECT ended_at, status FROM cycles WHERE ended_at IS NOT NULL
			ORDER BY ended_at DESC LIMIT 1`).Scan(toOptTime(&w.LastEndedAt), &w.LastStatus)
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
