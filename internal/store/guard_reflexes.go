package store

import (
	"context"
	"errors"
	"slices"
	"time"

	"claudeops/internal/notice"
	"claudeops/internal/ops"
	"claudeops/internal/store/db"
	"claudeops/internal/watch/health"
)

// reflexParts asks for what the reflexes of a cycle need to know.
func reflexParts(ctx context.Context, q db.Querier, j *ops.Journal, c ops.Cycle, has contents, at time.Time) error {
	err := errors.Join(
		read(ctx, q, has.reflexes, &j.Reflexes, scanReflex, selectReflexes+` WHERE f.environment = ? AND f.state = ? ORDER BY f.id`,
			c.Environment, ops.ReflexOn),
		read(ctx, q, has.reflexed, &j.Reflexed, scanReflexed, `SELECT reflex, cycle_id, step, requested_at FROM action_runs
			WHERE environment = ? AND requested_at > ? AND reflex <> '' AND undo_of IS NULL AND status <> ? ORDER BY id`,
			c.Environment, db.Time(at.Add(-ops.ReflexLongest)), ops.ActionRefused),
	)
	wanted := has.reflexes || slices.ContainsFunc(c.Policy.Inventory.Services, func(s ops.Service) bool { return len(s.Reflexes) > 0 })
	if err != nil || !wanted {
		return err
	}
	states, err := db.List(ctx, q, scanState, `SELECT state FROM probe_states WHERE environment = ?`, c.Environment)
	j.Failing = failing(states)
	return err
}

func failing(states []health.State) []ops.Failing {
	var out []ops.Failing
	for _, s := range states {
		if !s.Began.IsZero() {
			out = append(out, ops.Failing{Service: s.Service, Probe: s.Probe, Since: s.Began})
		}
	}
	return out
}

func scanReflexed(r db.Row) (ops.Reflexed, error) {
	var t ops.Reflexed
	err := r.Scan(&t.Reflex, &t.Cycle, &t.Step, db.ToTime(&t.At))
	return t, err
}

const selectReflexes = `SELECT f.id, f.service, f.probe, f.type, f.status, f.class, f.actions, f.digests FROM reflexes f`

func scanReflex(row db.Row) (ops.Reflex, error) {
	r := ops.Reflex{Tries: ops.ReflexTries, Per: ops.ReflexPer}
	var probe string
	err := row.Scan(&r.ID, &r.Service, &probe, &r.On, &r.Status, &r.Class, db.ToJSON(&r.Do), db.ToJSON(&r.Digests))
	r.Probes = []string{probe}
	return r, err
}

// switchOff switches earned reflexes off, also those about which nobody has answered. Only a person switches one on.
func switchOff(ctx context.Context, tx db.Querier, off []ops.ReflexOff, at time.Time) error {
	for _, o := range off {
		_, err := tx.ExecContext(ctx, `UPDATE reflexes SET state = ?, person = ?, why = ?, changed_at = ? WHERE id = ? AND state <> ?`,
			ops.ReflexIsOff, ops.Supervisor, o.Why, db.Time(at), o.ID, ops.ReflexIsOff)
		if err != nil {
			return err
		}
	}
	return nil
}

// creditReflex adds to the text of a notice about the end of a problem that a reflex was done for it, if no agent was started. That it
// repaired it is said only once the probes of its cycle have.
func creditReflex(ctx context.Context, tx db.Querier, cycle ops.CycleID, text string) (string, error) {
	proven := false
	done, err := db.List(ctx, tx, func(r db.Row) (what string, err error) {
		return what, r.Scan(&what, &proven)
	}, `SELECT r.action || ' of ' || r.service, COALESCE(c.verified_by, '') = ? FROM action_runs r JOIN cycles c ON c.id = r.cycle_id
		WHERE r.cycle_id = ? AND r.reflex <> '' AND r.undo_of IS NULL AND r.status = ?
		AND NOT EXISTS (SELECT 1 FROM sessions s WHERE s.cycle_id = r.cycle_id) ORDER BY r.id`,
		ops.ProofReflex, cycle, ops.ActionDone)
	if err != nil || len(done) == 0 {
		return text, err
	}
	return notice.ByReflex(done, proven) + "\n\n" + text, nil
}
