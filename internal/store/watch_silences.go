package store

import (
	"context"
	"strings"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/store/db"
)

const selectSilences = `SELECT q.id, q.environment, q.service, q.group_name, q.probe, q.labels, q.reason, q.created_by, q.created_at,
	q.starts_at, q.ends_at FROM silences q`

func scanSilence(r db.Row) (ops.Silence, error) {
	var q ops.Silence
	err := r.Scan(&q.ID, &q.Environment, &q.Service, &q.Group, &q.Probe, db.ToJSON(&q.Labels), &q.Reason, &q.Author,
		db.ToTime(&q.CreatedAt), db.ToTime(&q.From), db.ToTime(&q.Until))
	if len(q.Labels) == 0 {
		q.Labels = nil
	}
	return q, err
}

// AddSilence records a silence together with its event.
func (s *Watch) AddSilence(ctx context.Context, q ops.Silence) (ops.Silence, error) {
	q.CreatedAt = s.orNow(q.CreatedAt)
	if q.From.IsZero() {
		q.From = q.CreatedAt
	}
	labels := q.Labels
	if labels == nil {
		labels = map[string]string{}
	}
	err := s.db.Write(ctx, "silence", func(tx db.Querier) error {
		err := tx.QueryRowContext(ctx, `INSERT INTO silences (environment, service, group_name, probe, labels, reason, created_by, created_at,
			starts_at, ends_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING id`,
			q.Environment, q.Service, q.Group, q.Probe, db.JSON(labels), q.Reason, q.Author, db.Time(q.CreatedAt), db.Time(q.From),
			db.Time(q.Until)).Scan(&q.ID)
		if err != nil {
			return err
		}
		return s.recordSilenceEvent(ctx, tx, q, q.Author, &q.Until, q.CreatedAt)
	})
	return ops.Returning(q, err, "add silence")
}

func (s *kernel) recordSilenceEvent(ctx context.Context, tx db.Querier, q ops.Silence, by string, until *time.Time, at time.Time) error {
	return s.insertEvent(ctx, tx, ops.Event{
		Environment: q.Environment, Level: ops.LevelInfo, Verb: ops.VerbSilenceChanged, Actor: ops.Person(by),
		Subject: ops.About(ops.SubjectSilence, q.ID), Reason: q.Reason, Service: strings.Trim(q.Service, "*"),
		Detail: q.Matches(until),
	}, at)
}

// EndSilence ends a silence now. One that has ended is ops.ErrConflict.
func (s *Watch) EndSilence(ctx context.Context, id int64, by string, at time.Time) (ops.Silence, error) {
	at = s.orNow(at)
	var q ops.Silence
	err := s.db.Write(ctx, "silence", func(tx db.Querier) error {
		ok, err := db.Changed(tx.ExecContext(ctx, `UPDATE silences SET ends_at = ? WHERE id = ? AND ends_at > ?`, db.Time(at), id, db.Time(at)))
		if err != nil {
			return err
		}
		if q, err = db.One(ctx, tx, scanSilence, selectSilences+` WHERE q.id = ?`, id); err != nil {
			return err
		}
		if !ok {
			return ops.NewConflict(ops.ConflictState, "it ended at %s", q.Until.Format(time.RFC3339))
		}
		return s.recordSilenceEvent(ctx, tx, q, by, nil, at)
	})
	return ops.Returning(q, err, "end silence %d", id)
}

// SilenceFilter chooses silences; the zero value means all.
type SilenceFilter struct {
	Environment string // also those that hold everywhere
	Active      time.Time
	Before      int64
	Limit       int
}

// Silences returns silences, newest first. With Active only those that have not ended by then.
func (s *Watch) Silences(ctx context.Context, f SilenceFilter) ([]ops.Silence, error) {
	var w db.Filter
	w.Given(`(q.environment = ? OR q.environment = '')`, f.Environment)
	w.Given(`q.ends_at > ?`, f.Active)
	w.Given(`q.id < ?`, f.Before)
	out, err := db.List(ctx, s.db.Reader(), scanSilence, selectSilences+w.Where()+` ORDER BY q.id DESC LIMIT ?`,
		append(w.Args, db.PageSize(f.Limit))...)
	return ops.Returning(out, err, "list silences")
}

// maxSilences limits the silences that are evaluated; people do not write more by hand.
const maxSilences = 1000

// SilencesSince returns the silences of an environment that are active at a time or later.
func (s *Watch) SilencesSince(ctx context.Context, environment string, since time.Time) ([]ops.Silence, error) {
	return s.Silences(ctx, SilenceFilter{Environment: environment, Active: since, Limit: maxSilences})
}

const selectSilencesAt = selectSilences + ` WHERE q.ends_at > ? AND q.starts_at <= ? AND (q.environment = ? OR q.environment = '')
	ORDER BY q.id LIMIT ?`

func silencesArgs(environment string, at time.Time) []any {
	return []any{db.Time(at), db.Time(at), environment, maxSilences}
}

// Holds is what keeps agents from services in an environment.
type Holds struct {
	Silences  []ops.Silence // that have begun and not ended
	Incidents []ops.Incident
	Denials   []ops.Approval
	Withheld  []ops.Withheld // by the watch
}

// Holds reads what keeps agents from services in an environment at a time.
func (s *Watch) Holds(ctx context.Context, environment string, at time.Time) (Holds, error) {
	var out Holds
	err := s.db.ReadOnce(ctx, func(q db.Querier) error {
		return db.AtOnce(ctx, q,
			db.Into(&out.Silences, scanSilence, selectSilencesAt, silencesArgs(environment, at)...),
			incidentsFor(&out.Incidents, environment, 0),
			db.Into(&out.Denials, scanApproval, selectDenials, environment, db.Time(at)),
			db.Into(&out.Withheld, scanWithheld, selectWithheld+` ORDER BY service`, environment))
	})
	return ops.Returning(out, err, "read what is held back in %s", environment)
}
