package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/store/db"
)

// Dispute records that people are told of alerts that fire on although their cycle has ended. The marks, the notice and the incident are
// one transaction, so that nobody is told twice. If one of the alerts ended or was told of in between, nothing is written and the error
// is ops.ErrConflict.
func (s *Watch) Dispute(ctx context.Context, d ops.Dispute, at time.Time) error {
	at = s.orNow(at)
	err := s.db.WriteIn(ctx, "dispute", db.InEnvironment(d.Environment), func(tx db.Querier) error {
		if err := markDisputed(ctx, tx, d, at); err != nil {
			return err
		}
		if d.Report != nil {
			if _, err := s.reportIncident(ctx, tx, held{id: d.Cycle, environment: d.Environment}, ops.Step{Incident: d.Report}, at); err != nil {
				return err
			}
		}
		err := s.insertEvent(ctx, tx, ops.Event{
			CycleID: &d.Cycle, Environment: d.Environment, Level: d.Notice.Level, Verb: ops.VerbAlertDisputed, Service: d.Notice.Service,
			Reason: d.Event,
		}, at)
		if err != nil {
			return err
		}
		d.Notice.CycleID = &d.Cycle
		_, err = insertNotice(ctx, tx, d.Notice, at)
		return err
	})
	return ops.Wrapped(err, "tell of alerts that fire on")
}

// markDisputed counts how often people were told of alerts.
func markDisputed(ctx context.Context, tx db.Querier, d ops.Dispute, at time.Time) error {
	type change struct{ from, to int }
	ids := map[change][]any{}
	for i, a := range d.Alerts {
		c := change{a.Disputes, d.Told[i]}
		ids[c] = append(ids[c], a.ID)
	}
	const most = 500 // arguments of one statement
	for c, all := range ids {
		for some := range slices.Chunk(all, most) {
			result, err := tx.ExecContext(ctx, `UPDATE alerts SET disputes = ?, disputed_at = COALESCE(disputed_at, ?)
				WHERE disputes = ? AND status = ? AND id IN (`+marks(len(some))+`)`,
				append([]any{c.to, db.Time(at), c.from, ops.AlertFiring}, some...)...)
			if err != nil {
				return err
			}
			if n, err := result.RowsAffected(); err != nil || n != int64(len(some)) {
				return errors.Join(err, ops.NewConflict(ops.ConflictState, "%d of %d alerts ended or were told of", int64(len(some))-n, len(some)))
			}
		}
	}
	return nil
}

// closeDisputes closes the incidents about alerts that fired on and have ended.
func (s *Watch) closeDisputes(ctx context.Context, tx db.Querier, environment string, at time.Time) error {
	over, err := db.List(ctx, tx, scanIncident, selectIncidents+` WHERE i.environment = ? AND i.class = ? AND i.resolved_at IS NULL
		AND NOT EXISTS (SELECT 1 FROM alerts a WHERE a.environment = i.environment AND a.status = ? AND a.disputes > 0
			AND (a.service = i.service OR i.service = '')) ORDER BY i.last_cycle_id, i.id`, environment, ops.ClassAlert, ops.AlertFiring)
	if err != nil || len(over) == 0 {
		return err
	}
	if over, err = s.resolveAll(ctx, tx, over, s.words.AlertsOver(), at); err != nil {
		return err
	}
	for len(over) > 0 {
		last := over[0].LastCycle
		n := 0
		for n < len(over) && over[n].LastCycle == last {
			n++
		}
		told := resolvedNotice(held{id: last, environment: environment}, over[:n], s.words.Over(environment, over[:n]))
		if _, err := insertNotice(ctx, tx, told, at); err != nil {
			return err
		}
		over = over[n:]
	}
	return nil
}

// ReleaseCause records that a cause covers some of its services no longer, although they are still bad: after the pause between two cycles
// they start another one. It keeps the others. Why is the event.
func (s *Watch) ReleaseCause(ctx context.Context, c ops.Cause, free, keep []string, why string, at time.Time) error {
	err := s.db.WriteIn(ctx, "release_cause", db.InEnvironment(c.Environment), func(tx db.Querier) error {
		over := c
		if len(keep) > 0 { // what goes has a cause of its own from now on, which is over
			ok, err := db.Changed(tx.ExecContext(ctx, `UPDATE causes SET services = ? WHERE id = ? AND resolved_at IS NULL`, db.JSON(keep), c.ID))
			if err != nil || !ok {
				return err
			}
			over.Services, over.Key = free, c.Key+" "+free[0]
			if err := insertCause(ctx, tx, &over); err != nil {
				return err
			}
		}
		ok, err := releaseCause(ctx, tx, over.ID, at)
		if err != nil || !ok {
			return err
		}
		return s.insertEvent(ctx, tx, ops.Event{
			CycleID: &c.Cycle, Environment: c.Environment, Level: ops.LevelInfo, Verb: ops.VerbCycleReleased, Service: free[0],
			Reason: why,
		}, s.clock())
	})
	return ops.Wrapped(err, "release cause %d", c.ID)
}

func releaseCause(ctx context.Context, tx db.Querier, id int64, at time.Time) (bool, error) {
	return db.Changed(tx.ExecContext(ctx, `UPDATE causes SET resolved_at = ? WHERE id = ? AND resolved_at IS NULL`, db.Time(at), id))
}

// LeftWrong says what is still wrong with the service of an incident that a person resolved, and what happens next; empty: nothing is.
func (s *Watch) LeftWrong(ctx context.Context, i ops.Incident) (string, error) {
	left, err := leftWrong(ctx, s.db.Reader(), i)
	if err != nil {
		return "", fmt.Errorf("read what incident %d leaves: %w", i.ID, err)
	}
	return s.words.StillWrong(i.Service, left.level, left.alerts, left.hold), nil
}

// left is what is wrong with a service whose incident was resolved.
type left struct {
	level  ops.Health // by its probes
	alerts []ops.Alert
	hold   string // why nothing is started for it
}

func leftWrong(ctx context.Context, q db.Querier, i ops.Incident) (left, error) {
	var out left
	if i.Service == "" {
		return out, nil
	}
	states, err := db.List(ctx, q, scanState, `SELECT state FROM probe_states WHERE environment = ? AND service = ? AND level IN (?, ?)`,
		i.Environment, i.Service, ops.Down, ops.Degraded)
	if err != nil {
		return out, err
	}
	for _, v := range slices.DeleteFunc(states, func(v ops.CheckState) bool { return v.Last.Purpose == ops.ProbeAlert }) {
		if out.level != ops.Down {
			out.level = v.Level
		}
	}
	out.alerts, err = db.List(ctx, q, scanAlert, selectAlerts+` WHERE a.environment = ? AND a.service = ? AND a.status = ? AND a.level <> ?
		ORDER BY a.id`, i.Environment, i.Service, ops.AlertFiring, ops.LevelInfo)
	if err != nil {
		return out, err
	}
	h, err := db.One(ctx, q, scanWithheld, selectWithheld+` AND service = ?`, i.Environment, i.Service)
	if err == nil && h.Why.Inhibits() {
		out.hold = h.Reason
	}
	if errors.Is(err, ops.ErrNotFound) {
		err = nil
	}
	return out, err
}

// giveBack is what follows when a person resolves the incident of a service that is still bad: the cause that covers the service is over,
// so that it gets another cycle after the pause, and the person counts as told of the alerts that still fire.
func (s *kernel) giveBack(ctx context.Context, tx db.Querier, i ops.Incident, at time.Time) (string, error) {
	l, err := leftWrong(ctx, tx, i)
	if err != nil {
		return "", err
	}
	for _, a := range l.alerts {
		if _, err := tx.ExecContext(ctx, `UPDATE alerts SET disputes = 1, disputed_at = ? WHERE id = ?`, db.Time(at), a.ID); err != nil {
			return "", err
		}
	}
	note := s.words.StillWrong(i.Service, l.level, l.alerts, l.hold)
	if l.level == "" {
		return note, nil
	}
	// A cycle that runs works on it; its end says more.
	causes, err := db.List(ctx, tx, scanCause, selectCauses+` JOIN cycles c ON c.id = z.cycle_id WHERE z.environment = ?
		AND z.resolved_at IS NULL AND c.status NOT IN (?, ?) ORDER BY z.id`, i.Environment, ops.CycleRunning, ops.CycleQueued)
	if err != nil {
		return "", err
	}
	for _, c := range causes {
		if c.Cycle != i.LastCycle && !slices.Contains(c.Services, i.Service) {
			continue
		}
		if _, err := releaseCause(ctx, tx, c.ID, at); err != nil {
			return "", err
		}
	}
	return note, nil
}
