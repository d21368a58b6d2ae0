package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"claudeops/internal/notice"
	"claudeops/internal/ops"
	"claudeops/internal/store/db"
)

// selectEarned counts a cycle as helped if the reflex resolved it and nothing has refuted that since.
const selectEarned = `SELECT f.id, f.service, f.probe, f.type, f.status, f.class, f.actions, f.digests, f.environment, f.state, f.cycles,
	f.person, f.why, f.asked_at, f.changed_at,
	(SELECT COUNT(DISTINCT r.cycle_id) FROM action_runs r WHERE r.reflex = 'earned ' || f.id AND r.status <> 'refused'),
	(SELECT COUNT(DISTINCT r.cycle_id) FROM action_runs r JOIN cycles c ON c.id = r.cycle_id
		WHERE r.reflex = 'earned ' || f.id AND c.verified_by = 'reflex' AND c.refuted_at IS NULL) FROM reflexes f`

func scanEarned(row db.Row) (ops.Earned, error) {
	var e ops.Earned
	var err error
	e.Reflex, err = scanReflex(longerRow{row, []any{
		&e.Environment, &e.State, db.ToJSON(&e.Cycles), &e.Person, &e.Why, db.ToTime(&e.AskedAt), db.ToTime(&e.ChangedAt), &e.Done, &e.Helped,
	}})
	return e, err
}

// Reflexes returns the earned reflexes of an environment, in the order in which they were earned.
func (s *People) Reflexes(ctx context.Context, environment string) ([]ops.Earned, error) {
	out, err := db.List(ctx, s.db.Reader(), scanEarned, selectEarned+` WHERE f.environment = ? ORDER BY f.id`, environment)
	if err != nil {
		return nil, fmt.Errorf("list reflexes of %s: %w", environment, err)
	}
	return out, nil
}

// Reflex returns one earned reflex.
func (s *People) Reflex(ctx context.Context, id int64) (ops.Earned, error) {
	out, err := db.One(ctx, s.db.Reader(), scanEarned, selectEarned+` WHERE f.id = ?`, id)
	if err != nil {
		return out, fmt.Errorf("read reflex %d: %w", id, err)
	}
	return out, nil
}

// SwitchReflex records that a person switched an earned reflex on or off. Its actions are run exactly as they are configured then.
func (s *People) SwitchReflex(ctx context.Context, e ops.Earned) error {
	at := s.orNow(e.ChangedAt)
	err := s.db.WriteIn(ctx, "switch_reflex", db.InEnvironment(e.Environment), func(tx db.Querier) error {
		digests, err := db.JSON(db.OrEmpty(e.Digests))
		if err != nil {
			return err
		}
		ok, err := db.Changed(tx.ExecContext(ctx, `UPDATE reflexes SET state = ?, digests = ?, person = ?, why = ?, changed_at = ?
			WHERE id = ? AND state <> ?`, e.State, digests, e.Person, e.Why, db.Time(at), e.ID, e.State))
		if err == nil && !ok {
			err = fmt.Errorf("it is %s already: %w", e.State, ops.ErrConflict)
		}
		if err != nil {
			return err
		}
		did := fmt.Sprintf("%s switched reflex %d (%s) %s", e.Person, e.ID, e.Words(), e.State)
		return insertEvent(ctx, tx, ops.Event{
			Environment: e.Environment, Level: ops.LevelInfo, Kind: ops.EventAudit, Service: e.Service, Message: withReason(did, e.Why),
		}, at)
	})
	if err != nil {
		return fmt.Errorf("switch reflex %d: %w", e.ID, err)
	}
	return nil
}

// earn records a repair by actions of the supervisor. Where enough of them did the same about the same failure, it asks people once
// whether that becomes a reflex. What was undone or did not hold does not count.
func earn(ctx context.Context, tx db.Querier, cycle held, r ops.Repair, at time.Time) error {
	actions, err := db.JSON(r.Actions)
	if err != nil {
		return err
	}
	err = db.Exec(ctx, tx, `INSERT INTO repairs (environment, service, probe, type, status, class, actions, cycle_id, at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`, cycle.environment, r.Service, r.Probe, r.Type, r.Status, r.Class, actions, cycle.id, db.Time(at))
	if err != nil {
		return err
	}
	ids, err := db.List(ctx, tx, db.ScanInt, `SELECT p.cycle_id FROM repairs p JOIN cycles c ON c.id = p.cycle_id
		WHERE p.environment = ? AND p.service = ? AND p.probe = ? AND p.class = ? AND p.status = ? AND p.actions = ? AND c.refuted_at IS NULL
			AND NOT EXISTS (SELECT 1 FROM action_runs r WHERE r.cycle_id = p.cycle_id AND r.status = ?)
		ORDER BY p.id DESC LIMIT ?`,
		cycle.environment, r.Service, r.Probe, r.Class, r.Status, actions, ops.ActionUndone, ops.Earnings)
	if err != nil || len(ids) < ops.Earnings {
		return err
	}
	slices.Sort(ids)
	cycles, err := db.JSON(ids)
	if err != nil {
		return err
	}
	var id int64
	err = tx.QueryRowContext(ctx, `INSERT INTO reflexes (environment, service, probe, type, status, class, actions, digests, state, cycles,
		asked_at, changed_at) VALUES (?, ?, ?, ?, ?, ?, ?, '[]', ?, ?, ?, ?)
		ON CONFLICT (environment, service, probe, class, actions) DO NOTHING RETURNING id`,
		cycle.environment, r.Service, r.Probe, r.Type, r.Status, r.Class, actions, ops.ReflexAsked, cycles, db.Time(at), db.Time(at)).Scan(&id)
	if errors.Is(err, sql.ErrNoRows) {
		return nil // people were asked before
	}
	if err != nil {
		return err
	}
	earned, err := db.One(ctx, tx, scanEarned, selectEarned+` WHERE f.id = ?`, id)
	if err != nil {
		return err
	}
	return askForReflex(ctx, tx, cycle, earned, at)
}

// askForReflex asks in the notice that tells of the repair, or in one of its own where nobody hears of it.
func askForReflex(ctx context.Context, tx db.Querier, cycle held, e ops.Earned, at time.Time) error {
	text := notice.ReflexEarned(e)
	told, err := db.Changed(tx.ExecContext(ctx, `UPDATE notifications SET body = body || ? WHERE cycle_id = ? AND kind = ? AND created_at = ?
		AND service = ?`, "\n\n"+text.Body, cycle.id, ops.NoticeResolved, db.Time(at), e.Service))
	if err == nil && !told {
		err = queueNotice(ctx, tx, ops.Notice{
			CycleID: &cycle.id, Kind: ops.NoticeResolved, Level: ops.LevelInfo, Title: text.Title, Body: text.Body,
			Environment: e.Environment, Service: e.Service,
		}, at)
	}
	if err != nil {
		return err
	}
	return insertEvent(ctx, tx, ops.Event{
		CycleID: &cycle.id, Environment: e.Environment, Level: ops.LevelInfo, Kind: ops.EventAction, Service: e.Service, Message: text.Title,
	}, at)
}

// doubtReflexes switches the earned reflexes of a service off that a cycle speaks against: it is one of their origins, or they were done
// in it.
func doubtReflexes(ctx context.Context, tx db.Querier, cycle ops.CycleID, service, why string, at time.Time) error {
	all, err := db.List(ctx, tx, scanEarned, selectEarned+` WHERE f.service = ? AND f.state <> ? AND f.environment =
		(SELECT environment FROM cycles WHERE id = ?)`, service, ops.ReflexIsOff, cycle)
	if err != nil || len(all) == 0 {
		return err
	}
	done, err := db.List(ctx, tx, db.ScanString, `SELECT reflex FROM action_runs WHERE cycle_id = ? AND reflex <> ''`, cycle)
	if err != nil {
		return err
	}
	for _, e := range all {
		if !slices.Contains(e.Cycles, cycle) && !slices.Contains(done, e.Key()) {
			continue
		}
		if err := switchOff(ctx, tx, []ops.ReflexOff{{ID: e.ID, Why: why}}, at); err != nil {
			return err
		}
		err := insertEvent(ctx, tx, ops.Event{
			CycleID: &cycle, Environment: e.Environment, Level: ops.LevelWarning, Kind: ops.EventAction, Service: service,
			Message: notice.ReflexIsOff(e, why),
		}, at)
		if err != nil {
			return err
		}
	}
	return nil
}
