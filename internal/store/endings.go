package store

import (
	"context"
	"fmt"

	"claudeops/internal/ops"
)

// Endings are how the environment's last cycles ended, the newest first.
func (s *Store) Endings(ctx context.Context, environment string, limit int) ([]ops.Ending, error) {
	out, err := endings(ctx, s.reader, environment, 0, limit)
	if err != nil {
		return nil, fmt.Errorf("read endings of %s: %w", environment, err)
	}
	return out, nil
}

func endings(ctx context.Context, q querier, environment string, except ops.CycleID, limit int) ([]ops.Ending, error) {
	return list(ctx, q, scanEnding, `SELECT status, ended_at FROM cycles WHERE environment = ? AND ended_at IS NOT NULL AND id <> ?
		ORDER BY ended_at DESC, id DESC LIMIT ?`, environment, except, limit)
}
