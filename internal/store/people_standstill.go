package store

import (
	"context"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/store/db"
)

// standstillName is the row of a standstill among what is stored about the database itself.
const standstillName = "standstill"

const atStandstill = `EXISTS (SELECT 1 FROM store_state WHERE name = '` + standstillName + `')`

func scanStandstill(r db.Row) (h ops.Standstill, err error) { return h, r.Scan(db.ToJSON(&h)) }

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
