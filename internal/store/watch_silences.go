package store

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"claudeops/internal/notice"
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
	labels := "{}"
	if len(q.Labels) > 0 {
		var err error
		if labels, err = db.JSON(q.Labels); err != nil {
			return ops.Silence{}, fmt.Errorf("add silence: %w", err)
		}
	}
	err := s.db.Write(ctx, "silence", func(tx db.Querier) error {
		err := tx.QueryRowContext(ctx, `INSERT INTO silences (environment, service, group_name, probe, labels, reason, created_by, created_at,
			starts_at, ends_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING id`,
			q.Environment, q.Service, q.Group, q.Probe, labels, q.Reason, q.Author, db.Time(q.CreatedAt), db.Time(q.From), db.Time(q.Until)).
			Scan(&q.ID)
		if err != nil {
			return err
		}
		return recordSilenceEvent(ctx, tx, q, q.Author, &q.Until, q.CreatedAt)
	})
	if err != nil {
		return ops.Silence{}, fmt.Errorf("add silence: %w", err)
	}
	return q, nil
}

func recordSilenceEvent(ctx context.Context, tx db.Querier, q ops.Silence, by string, until *time.Time, at time.Time) error {
	err := insertEvent(ctx, tx, ops.Event{
		Environment: q.Environment, Level: ops.LevelInfo, Verb: ops.VerbSilenceChanged, Actor: ops.Person(by),
		Subject: ops.About(ops.SubjectSilence, q.ID), Reason: q.Reason, Service: strings.Trim(q.Service, "*"),
		Detail: q.Matches(until),
	}, at)
	return err
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
		return recordSilenceEvent(ctx, tx, q, by, nil, at)
	})
	if err != nil {
		return ops.Silence{}, fmt.Errorf("end silence %d: %w", id, err)
	}
	return q, nil
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
	if f.Environment != "" {
		w.Add(`(q.environment = ? OR q.environment = '')`, f.Environment)
	}
	if !f.Active.IsZero() {
		w.Add(`q.ends_at > ?`, db.Time(f.Active))
	}
	if f.Before > 0 {
		w.Add(`q.id < ?`, f.Before)
	}
	out, err := db.List(ctx, s.db.Reader(), scanSilence, selectSilences+w.Where()+` ORDER BY q.id DESC LIMIT ?`,
		append(w.Args, db.PageSize(f.Limit))...)
	if err != nil {
		return nil, fmt.Errorf("list silences: %w", err)
	}
	return out, nil
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

// HeldBack returns what agents leave alone in an environment at a time, and why: silences, maintenance, incidents that a person has taken
// over, put off or is asked about, and services that flap or depend on a failing one.
func (s *Store) HeldBack(ctx context.Context, e ops.Environment, at time.Time) ([]ops.Withheld, error) {
	var out []ops.Withheld
	silences, err := s.SilencesSince(ctx, e.Name, at)
	if err != nil {
		return nil, err
	}
	for _, q := range silences {
		if q.Active(at) {
			out = append(out, ops.Withheld{Service: q.Service, Why: ops.HoldSilenced, Until: q.Until, Reason: notice.HeldBySilence(q)})
		}
	}
	for _, w := range windowsOf(e.Watch) {
		if until, open := w.Active(at); open {
			out = append(out, ops.Withheld{
				Service: w.Service, Why: ops.HoldMaintenance, Until: until, Reason: notice.HeldByMaintenance(w.Maintenance, until),
			})
		}
	}
	incidents, err := s.Unresolved(ctx, e.Name)
	if err != nil {
		return nil, err
	}
	for _, i := range incidents {
		h := ops.Withheld{Service: i.Service, Why: ops.HoldPerson}
		switch {
		case i.Status == ops.IncidentSnoozed && i.Holds(at):
			h.Reason, h.Until = notice.Snoozed(i), *i.SnoozedUntil
		case i.Holds(at):
			h.Reason = notice.Acknowledged(i)
		case i.Waiting != nil:
			h.Reason = notice.AwaitsHuman(i)
		default:
			continue
		}
		h.Reason = notice.HeldService(i.Service, h.Reason)
		out = append(out, h)
	}
	denials, err := s.Denials(ctx, e.Name, at)
	if err != nil {
		return nil, err
	}
	for _, a := range denials {
		for n, f := range a.Facts { // they are in order
			if n == 0 || f.Service != a.Facts[n-1].Service {
				why := notice.HeldService(f.Service, notice.SaidNo(a))
				out = append(out, ops.Withheld{Service: f.Service, Why: ops.HoldPerson, Until: *a.DeniedUntil, Reason: why})
			}
		}
	}
	withheld, err := s.Withheld(ctx, e.Name)
	if err != nil {
		return nil, err
	}
	return append(out, slices.DeleteFunc(withheld, func(w ops.Withheld) bool {
		return w.Why != ops.HoldFlapping && w.Why != ops.HoldDependency
	})...), nil
}
