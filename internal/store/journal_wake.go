package store

import (
	"context"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/store/db"
)

// wakeWaiting counts an answer from outside and makes a waiting cycle claimable from now on. A running cycle sees the count too,
// so it does not start to wait when there is an answer that it has not seen.
const wakeWaiting = `UPDATE cycles SET wake_seq = wake_seq + 1,
	wake_at = CASE WHEN status = 'waiting_human' AND (wake_at IS NULL OR wake_at > ?) THEN ? ELSE wake_at END
	WHERE ended_at IS NULL`

func wakeCycle(ctx context.Context, tx db.Querier, id ops.CycleID, at time.Time) error {
	err := db.Later(ctx, tx, wakeWaiting+` AND id = ?`, db.Time(at), db.Time(at), id)
	return err
}

// wakeAfter wakes the cycles that wait only for this incident, or for others that are resolved too.
func wakeAfter(ctx context.Context, tx db.Querier, incident int64, at time.Time) error {
	_, err := tx.ExecContext(ctx, wakeWaiting+` AND id IN (SELECT cycle_id FROM incident_waits WHERE incident_id = ?)
		AND NOT EXISTS (SELECT 1 FROM incident_waits w JOIN incidents i ON i.id = w.incident_id
			WHERE w.cycle_id = cycles.id AND i.resolved_at IS NULL)`, db.Time(at), db.Time(at), incident)
	return err
}

// countAnswer counts an answer for the cycles that wait for an incident, without waking them.
func countAnswer(ctx context.Context, tx db.Querier, incident int64) error {
	_, err := tx.ExecContext(ctx, `UPDATE cycles SET wake_seq = wake_seq + 1
		WHERE ended_at IS NULL AND id IN (SELECT cycle_id FROM incident_waits WHERE incident_id = ?)`, incident)
	return err
}

// awaitHuman makes a cycle wait and frees its slot. An answer that came after its claim wakes it at once.
func awaitHuman(ctx context.Context, tx db.Querier, t ops.Transition) error {
	var until *time.Time
	if !t.Step.Until.IsZero() {
		until = &t.Step.Until
	}
	err := db.Later(ctx, tx, `UPDATE cycles SET status = ?, reason = ?, owner = NULL, term = 0,
		wake_at = CASE WHEN wake_seq > seen_seq THEN ? ELSE ? END WHERE id = ?`,
		ops.CycleWaitingHuman, t.Step.Reason, db.Time(t.At), db.OptTime(until), t.Cycle)
	return err
}

// deferCycle puts a cycle back into the queue until a time and frees its slot.
func deferCycle(ctx context.Context, tx db.Querier, t ops.Transition) error {
	err := db.Later(ctx, tx, `UPDATE cycles SET status = ?, reason = ?, owner = NULL, term = 0, wake_at = ? WHERE id = ?`,
		ops.CycleQueued, t.Step.Reason, db.Time(t.Step.Until), t.Cycle)
	return err
}
