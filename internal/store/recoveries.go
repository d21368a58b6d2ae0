package store

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"claudeops/internal/ops"
)

const selectRecoveries = `SELECT y.id, y.cycle_id, COALESCE(y.session_id, 0), y.tier, y.level, y.action, y.error_type,
	y.previous_levels, y.entered_at, y.not_before, y.deadline, y.variant, y.handler, y.reason FROM recoveries y`

func scanRecovery(r row) (ops.Recovery, error) {
	var y ops.Recovery
	err := r.Scan(&y.ID, &y.CycleID, &y.SessionID, &y.Tier, &y.Level, &y.Action, &y.ErrorType,
		toJSON(&y.PreviousLevels), toTime(&y.EnteredAt), toOptTime(&y.NotBefore), toOptTime(&y.Deadline), &y.Variant, &y.Handler,
		&y.Reason)
	return y, err
}

// Recoveries returns the attempts that the ladder ordered in a cycle, in order.
func (s *Store) Recoveries(ctx context.Context, cycle ops.CycleID) ([]ops.Recovery, error) {
	out, err := recoveriesOfCycle(ctx, s.reader, cycle)
	if err != nil {
		return nil, fmt.Errorf("list recoveries of cycle %d: %w", cycle, err)
	}
	return out, nil
}

func recoveriesOfCycle(ctx context.Context, q querier, cycle ops.CycleID) ([]ops.Recovery, error) {
	return list(ctx, q, scanRecovery, selectRecoveries+` WHERE y.cycle_id = ? ORDER BY y.id`, cycle)
}

func insertRecovery(ctx context.Context, tx querier, cycle ops.CycleID, y ops.Recovery, at time.Time) error {
	if y.EnteredAt.IsZero() {
		y.EnteredAt = at
	}
	if y.PreviousLevels == nil {
		y.PreviousLevels = []ops.RecoveryLevel{}
	}
	previous, err := asJSON(y.PreviousLevels)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, `INSERT INTO recoveries (cycle_id, session_id, tier, level, action, error_type, previous_levels,
		entered_at, not_before, deadline, variant, handler, reason) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		cycle, orNull(y.SessionID), y.Tier, y.Level, cmp.Or(y.Action, y.Level.Action()), y.ErrorType, previous,
		formatTime(y.EnteredAt), optTime(y.NotBefore), optTime(y.Deadline), y.Variant, y.Handler, y.Reason)
	return err
}
