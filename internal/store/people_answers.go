package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/store/db"
)

// Acknowledge records that a person takes care of an incident and stops its reminders. An incident that is acknowledged or
// resolved already is an ops.ErrConflict that says by whom and when.
func (s *People) Acknowledge(ctx context.Context, id int64, by, reason string, at time.Time) (ops.Incident, error) {
	return s.answerIncident(ctx, "acknowledge", id, acknowledging(id, by, reason, s.orNow(at)))
}

// Snooze postpones the reminders of an incident until a time. A resolved one is an ops.ErrConflict that says by whom and when.
func (s *People) Snooze(ctx context.Context, id int64, by string, until time.Time, reason string, at time.Time) (ops.Incident, error) {
	return s.answerIncident(ctx, "snooze", id, snoozing(id, by, until, reason, s.orNow(at)))
}

// ResolveIncident ends an incident, whatever was answered before, and wakes the cycles that waited for it. If its service is still bad, the
// note of the result says so and what happens next. A resolved one is an ops.ErrConflict that says by whom and when.
func (s *People) ResolveIncident(ctx context.Context, id int64, by, reason string, at time.Time) (ops.Incident, error) {
	at = s.orNow(at)
	var note string
	out, err := s.answerIncident(ctx, "resolve", id, incidentAnswer{
		id: id, by: by, reason: reason, at: at, did: "resolved",
		change: func(ctx context.Context, tx db.Querier) error {
			if err := resolveIncident(ctx, tx, id, by, reason, at); err != nil {
				return err
			}
			i, err := incidentByID(ctx, tx, id)
			if err == nil {
				note, err = s.giveBack(ctx, tx, i, at)
			}
			return err
		},
	})
	out.Note = note
	return out, err
}

// incidentAnswer is what a person does with an incident.
type incidentAnswer struct {
	id     int64
	by     string
	reason string
	at     time.Time
	did    string
	change func(ctx context.Context, tx db.Querier) error
}

func acknowledging(id int64, by, reason string, at time.Time) incidentAnswer {
	return incidentAnswer{id: id, by: by, reason: reason, at: at, did: "acknowledged", change: func(ctx context.Context, tx db.Querier) error {
		ok, err := db.Changed(tx.ExecContext(ctx, `UPDATE incidents SET status = ?, acknowledged_at = ?, acknowledged_by = ?,
			snoozed_until = NULL, remind_at = NULL, updated_at = ? WHERE id = ? AND resolved_at IS NULL AND status <> ?`,
			ops.IncidentAcknowledged, db.Time(at), by, db.Time(at), id, ops.IncidentAcknowledged))
		if err == nil && !ok {
			err = incidentConflict(ctx, tx, id)
		}
		if err != nil {
			return err
		}
		return countAnswer(ctx, tx, id)
	}}
}

func snoozing(id int64, by string, until time.Time, reason string, at time.Time) incidentAnswer {
	did := "snoozed until " + until.UTC().Format(time.RFC3339)
	return incidentAnswer{id: id, by: by, reason: reason, at: at, did: did, change: func(ctx context.Context, tx db.Querier) error {
		ok, err := db.Changed(tx.ExecContext(ctx, `UPDATE incidents SET status = ?, snoozed_until = ?, remind_at = ?, updated_at = ?
			WHERE id = ? AND resolved_at IS NULL`,
			ops.IncidentSnoozed, db.Time(until), db.Time(until), db.Time(at), id))
		if err == nil && !ok {
			err = incidentConflict(ctx, tx, id)
		}
		if err != nil {
			return err
		}
		return countAnswer(ctx, tx, id)
	}}
}

// answerIncident changes an incident for a person and records the event, in one transaction.
func (s *People) answerIncident(ctx context.Context, verb string, id int64, a incidentAnswer) (ops.Incident, error) {
	var out ops.Incident
	err := s.db.Write(ctx, "answer_incident", func(tx db.Querier) (err error) {
		out, err = s.answerIncidentIn(ctx, tx, a)
		return err
	})
	if err != nil {
		return ops.Incident{}, fmt.Errorf("%s incident %d: %w", verb, id, err)
	}
	return out, nil
}

// answerIncidentIn is answerIncident within a transaction. A conflict has written nothing.
func (s *People) answerIncidentIn(ctx context.Context, tx db.Querier, a incidentAnswer) (ops.Incident, error) {
	if err := a.change(ctx, tx); err != nil {
		return ops.Incident{}, err
	}
	out, err := incidentByID(ctx, tx, a.id)
	if err != nil {
		return ops.Incident{}, err
	}
	err = insertEvent(ctx, tx, ops.Event{
		CycleID: idOrNil(out.LastCycle), Environment: out.Environment, Level: ops.LevelInfo, Kind: kindIncident, Service: out.Service,
		Message: withReason(fmt.Sprintf("%s %s %s", a.by, a.did, describeIncident(out)), a.reason),
	}, a.at)
	if err != nil {
		return ops.Incident{}, err
	}
	return out, s.offer(ctx, tx, out.Environment, a.at)
}

// incidentConflict says who answered first.
func incidentConflict(ctx context.Context, q db.Querier, id int64) error {
	i, err := incidentByID(ctx, q, id)
	if err != nil {
		return err
	}
	switch {
	case i.ResolvedAt != nil:
		return fmt.Errorf("%s resolved it at %s: %w", i.ResolvedBy, i.ResolvedAt.Format(time.RFC3339), ops.ErrConflict)
	case i.Status == ops.IncidentAcknowledged && i.AcknowledgedAt != nil:
		return fmt.Errorf("%s acknowledged it at %s: %w", i.AcknowledgedBy, i.AcknowledgedAt.Format(time.RFC3339), ops.ErrConflict)
	default:
		return fmt.Errorf("it is %s and no reminder is due: %w", i.Status, ops.ErrConflict)
	}
}

// DueReminders returns the incidents with a due reminder, longest due first.
func (s *People) DueReminders(ctx context.Context, now time.Time, limit int) ([]ops.Incident, error) {
	out, err := db.List(ctx, s.db.Reader(), scanIncident, selectIncidents+` WHERE i.remind_at IS NOT NULL AND i.remind_at <= ?
		AND i.resolved_at IS NULL ORDER BY i.remind_at, i.id LIMIT ?`, db.Time(now), db.PageSize(limit))
	if err != nil {
		return nil, fmt.Errorf("list due reminders: %w", err)
	}
	return out, nil
}

// Reminded records a reminder of an incident and adds its notice; next is when the next one is due, nil for never. The notice's
// CreatedAt is the time of the reminder. If none is due any more, because of an answer in between, nothing is sent and the error
// is ops.ErrConflict.
func (s *People) Reminded(ctx context.Context, id int64, next *time.Time, notice ops.Notice) error {
	at := s.orNow(notice.CreatedAt)
	err := s.db.Write(ctx, "reminded", func(tx db.Querier) error {
		if next != nil && !next.After(at) {
			return errors.New("the next reminder must come later than this one")
		}
		// A snoozed incident whose reminder is due is open again.
		ok, err := db.Changed(tx.ExecContext(ctx, `UPDATE incidents SET reminders = reminders + 1, remind_at = ?, status = ?, updated_at = ?
			WHERE id = ? AND resolved_at IS NULL AND remind_at <= ?`,
			db.OptTime(next), ops.IncidentOpen, db.Time(at), id, db.Time(at)))
		if err == nil && !ok {
			err = incidentConflict(ctx, tx, id)
		}
		if err != nil {
			return err
		}
		notice.Status = ops.NoticePending
		_, err = insertNotice(ctx, tx, notice, at)
		return err
	})
	if err != nil {
		return fmt.Errorf("remind of incident %d: %w", id, err)
	}
	return nil
}
