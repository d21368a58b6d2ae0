package store

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/store/db"
)

// The names of the ids after which traces are sent: rows from before tracing began are not.
const (
	cycleFloor   = "trace_floor_cycle"
	sessionFloor = "trace_floor_session"
)

// BeginTraces records after which ids traces are sent. Only the first call does so.
func (s *Reports) BeginTraces(ctx context.Context) error {
	err := s.db.Write(ctx, "traces", func(tx db.Querier) error {
		for name, table := range map[string]string{cycleFloor: "cycles", sessionFloor: "sessions"} {
			_, err := tx.ExecContext(ctx, `INSERT INTO store_state (name, value)
				SELECT ?, CAST(COALESCE(MAX(id), 0) AS TEXT) FROM `+table+` WHERE ended_at IS NOT NULL ON CONFLICT (name) DO NOTHING`, name)
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("begin traces: %w", err)
	}
	return nil
}

func floorOf(ctx context.Context, tx db.Querier, name string) (int64, error) {
	text, err := db.One(ctx, tx, db.ScanString, `SELECT value FROM store_state WHERE name = ?`, name)
	if errors.Is(err, ops.ErrNotFound) {
		return math.MaxInt64, nil // tracing has not begun
	}
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(text, 10, 64)
}

// Untraced returns at most limit sessions and limit cycles that were not sent yet.
func (s *Reports) Untraced(ctx context.Context, limit int) (ops.Untraced, error) {
	out := ops.Untraced{Of: map[ops.CycleID]ops.Cycle{}}
	err := s.db.Read(ctx, func(tx db.Querier) error {
		floor, err := floorOf(ctx, tx, sessionFloor)
		if err != nil {
			return err
		}
		out.Sessions, err = db.List(ctx, tx, scanSession, selectSessions+` WHERE s.ended_at IS NOT NULL AND s.traced_at IS NULL AND s.id > ?
			ORDER BY s.id LIMIT ?`, floor, limit)
		if err != nil {
			return err
		}
		for _, session := range out.Sessions {
			if out.Of[session.CycleID], err = cycleByID(ctx, tx, session.CycleID); err != nil {
				return err
			}
		}
		if floor, err = floorOf(ctx, tx, cycleFloor); err != nil {
			return err
		}
		out.Cycles, err = db.List(ctx, tx, scanCycle, selectCycles+` WHERE c.ended_at IS NOT NULL AND c.traced_at IS NULL AND c.id > ?
			ORDER BY c.id LIMIT ?`, floor, limit)
		return err
	})
	if err != nil {
		return ops.Untraced{}, fmt.Errorf("list untraced rows: %w", err)
	}
	return out, nil
}

// MarkTraced records that rows were sent to a collector.
func (s *Reports) MarkTraced(ctx context.Context, sessions []ops.SessionID, cycles []ops.CycleID, at time.Time) error {
	err := s.db.Write(ctx, "traced", func(tx db.Querier) error {
		if err := markTraced(ctx, tx, "sessions", sessions, at); err != nil {
			return err
		}
		return markTraced(ctx, tx, "cycles", cycles, at)
	})
	if err != nil {
		return fmt.Errorf("mark as traced: %w", err)
	}
	return nil
}

func markTraced[T ~int64](ctx context.Context, tx db.Querier, table string, ids []T, at time.Time) error {
	if len(ids) == 0 {
		return nil
	}
	args := []any{db.Time(at)}
	for _, id := range ids {
		args = append(args, int64(id))
	}
	_, err := tx.ExecContext(ctx, `UPDATE `+table+` SET traced_at = ? WHERE id IN (`+strings.Repeat(", ?", len(ids))[2:]+`)`, args...)
	return err
}
