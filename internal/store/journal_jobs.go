package store

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"claudeops/internal/ops"
	"claudeops/internal/store/db"
)

// Jobs inserts one job for each cycle that can be advanced, in the transaction that made it so.
type Jobs interface {
	Insert(ctx context.Context, tx pgx.Tx, cycles []ops.Cycle) error
}

// UseJobs makes every later write that lets a cycle be advanced insert its job. A file needs none: its only host reads the journal.
func (s *Journal) UseJobs(j Jobs) { s.jobs.Store(&j) }

// nextCycle finds the cycle of an environment that can be advanced now: the oldest one that waits for nothing, unless one is running.
const nextCycle = `SELECT c.id, c.environment, c.wake_seq, c.started_at FROM cycles c WHERE c.ended_at IS NULL AND c.status <> 'running'
	AND (c.cancel_requested_at IS NOT NULL OR (c.status = 'queued' AND c.wake_at IS NULL) OR c.wake_at <= ?)
	AND NOT EXISTS (SELECT 1 FROM cycles r WHERE r.environment = c.environment AND r.status = 'running')`

func scanNext(r db.Row) (ops.Cycle, error) {
	c := ops.Cycle{Status: ops.CycleQueued}
	err := r.Scan(&c.ID, &c.Environment, &c.WakeSeq, db.ToOptTime(&c.StartedAt))
	return c, err
}

// offer inserts the job of the environment's next cycle. Whoever frees the slot of an environment, or wakes one of its cycles, calls it.
func (s *kernel) offer(ctx context.Context, tx db.Querier, environment string, at time.Time) error {
	return s.offerWhere(ctx, tx, `c.environment = ?`, environment, at)
}

// offerBeside is offer for the environment of a cycle.
func (s *kernel) offerBeside(ctx context.Context, tx db.Querier, id ops.CycleID, at time.Time) error {
	return s.offerWhere(ctx, tx, `c.environment = (SELECT environment FROM cycles WHERE id = ?)`, int64(id), at)
}

func (s *kernel) offerWhere(ctx context.Context, tx db.Querier, cond string, arg any, at time.Time) error {
	jobs, server := s.jobs.Load(), db.Server(tx)
	if jobs == nil || server == nil {
		return nil
	}
	if now := s.clock(); now.After(at) {
		at = now
	}
	next, err := db.List(ctx, tx, scanNext, nextCycle+` AND `+cond+` ORDER BY c.id LIMIT 1`, db.Time(at), arg)
	if err != nil {
		return fmt.Errorf("find next cycle: %w", err)
	}
	if len(next) == 0 {
		return nil
	}
	if err := (*jobs).Insert(ctx, server, next); err != nil {
		return fmt.Errorf("insert job of cycle %d: %w", next[0].ID, err)
	}
	return nil
}

// Rewake raises the wake numbers of cycles whose jobs are lost: their host took them and died before it claimed the cycles. It returns
// the cycles with their new numbers.
func (s *Journal) Rewake(ctx context.Context, ids []ops.CycleID) ([]ops.Cycle, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	args := make([]any, len(ids))
	for i, id := range ids {
		args[i] = int64(id)
	}
	which := ` WHERE ended_at IS NULL AND id IN (` + db.Placeholders(len(ids)) + `)`
	var out []ops.Cycle
	err := s.db.Write(ctx, "rewake", func(tx db.Querier) error {
		if _, err := tx.ExecContext(ctx, `UPDATE cycles SET wake_seq = wake_seq + 1`+which, args...); err != nil {
			return err
		}
		var err error
		out, err = db.List(ctx, tx, scanCycle, selectCycles+which+` ORDER BY id`, args...)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("wake cycles again: %w", err)
	}
	return out, nil
}

// Cancelled returns the cycles that a host runs and that somebody wants to end.
func (s *Journal) Cancelled(ctx context.Context, host string) ([]ops.Cycle, error) {
	return s.openCycles(ctx, "list cancelled cycles", `c.status = 'running' AND c.owner = ? AND c.cancel_requested_at IS NOT NULL`, host)
}
