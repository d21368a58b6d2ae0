package store

import (
	"context"
	"fmt"
	"strings"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/store/db"
)

const selectAlerts = `SELECT a.id, a.environment, a.source, a.fingerprint, a.status, a.level, a.name, a.service, a.summary, a.labels,
	a.url, a.starts_at, a.ends_at, a.told, a.first_at, a.last_at, a.seq, a.pending, a.content,
	a.changed_at, a.disputes, a.disputed_at FROM alerts a`

func scanAlert(r db.Row, a *ops.Alert) error {
	return r.Scan(&a.ID, &a.Environment, &a.Source, &a.Fingerprint, &a.Status, &a.Level, &a.Name, &a.Service, &a.Summary,
		db.ToJSON(&a.Labels), &a.URL, db.ToTime(&a.StartsAt), db.ToOptTime(&a.EndsAt), &a.Count, db.ToTime(&a.FirstAt), db.ToTime(&a.LastAt),
		&a.Seq, &a.Pending, &a.Content, db.ToTime(&a.ChangedAt), &a.Disputes, db.ToOptTime(&a.DisputedAt))
}

// AddAlerts records alerts from other systems: all of them or none. An alert that is known already is updated.
func (s *Watch) AddAlerts(ctx context.Context, alerts []ops.Alert) error {
	if len(alerts) == 0 {
		return nil
	}
	err := s.db.Write(ctx, "alerts", func(tx db.Querier) error {
		return s.upsertAll(ctx, tx, alerts)
	})
	return ops.Wrapped(err, "record alerts")
}

// AddSignedAlerts records the alerts of signed requests: all of them or none. A request that was received before is not recorded
// again; the result says which those are. Another host may have received it.
func (s *Watch) AddSignedAlerts(ctx context.Context, requests []ops.SignedAlerts) (replayed []bool, err error) {
	err = s.db.Write(ctx, "signed alerts", func(tx db.Querier) error {
		replayed = make([]bool, len(requests))
		if _, err := tx.ExecContext(ctx, `DELETE FROM webhook_receipts WHERE expires_at < ?`, db.Time(s.clock())); err != nil {
			return err
		}
		for i, r := range requests {
			result, err := tx.ExecContext(ctx, `INSERT INTO webhook_receipts (signature, expires_at) VALUES (?, ?) ON CONFLICT DO NOTHING`,
				r.Signature, db.Time(r.Expires))
			if err != nil {
				return err
			}
			n, err := result.RowsAffected()
			if err != nil {
				return err
			}
			if replayed[i] = n == 0; replayed[i] {
				continue
			}
			if err := s.upsertAll(ctx, tx, r.Alerts); err != nil {
				return err
			}
		}
		return nil
	})
	return ops.Returning(replayed, err, "record signed alerts")
}

// upsertAll records alerts, also when one of them comes twice.
func (s *Watch) upsertAll(ctx context.Context, tx db.Querier, alerts []ops.Alert) error {
	type key struct{ environment, fingerprint string }
	for _, part := range db.Distinct(alerts, func(a ops.Alert) key { return key{a.Environment, a.Fingerprint} }) {
		if err := s.upsertAlerts(ctx, tx, part); err != nil {
			return err
		}
	}
	return nil
}

// upsertAlerts records alerts that are all different. One without a name is the end of an alert that is stored: it keeps the rest of it.
// The end of one that is not stored says nothing.
func (s *Watch) upsertAlerts(ctx context.Context, tx db.Querier, alerts []ops.Alert) error {
	rows := make([][]any, len(alerts))
	nameless := false
	for i, a := range alerts {
		at := s.orNow(a.LastAt)
		nameless = nameless || a.Name == ""
		if a.Labels == nil {
			a.Labels = map[string]string{}
		}
		if a.StartsAt.IsZero() {
			a.StartsAt = at
		}
		rows[i] = []any{
			a.Environment, a.Source, a.Fingerprint, a.Status, a.Level, a.Name, a.Service, a.Summary, db.JSON(a.Labels),
			a.URL, db.Time(a.StartsAt), db.OptTime(a.EndsAt), db.Time(at), db.Time(at), a.Content, db.Time(at),
		}
	}
	var told strings.Builder
	for _, column := range []string{"level", "name", "service", "summary", "labels", "url", "starts_at"} {
		fmt.Fprintf(&told, "%[1]s = CASE WHEN excluded.name = '' THEN alerts.%[1]s ELSE excluded.%[1]s END, ", column)
	}
	err := db.WriteRows(ctx, tx, `INSERT INTO alerts (environment, source, fingerprint, status, level, name, service, summary, labels,
		url, starts_at, ends_at, first_at, last_at, content, changed_at) VALUES `,
		` ON CONFLICT (environment, fingerprint) DO UPDATE SET `+told.String()+`status = excluded.status,
			ends_at = excluded.ends_at, last_at = excluded.last_at,
			content = excluded.content, changed_at = CASE WHEN alerts.status <> excluded.status
				OR alerts.content <> excluded.content THEN excluded.last_at ELSE alerts.changed_at END,
			disputes = CASE WHEN excluded.status = 'firing' THEN alerts.disputes ELSE 0 END,
			disputed_at = CASE WHEN excluded.status = 'firing' THEN alerts.disputed_at END,
			told = alerts.told + 1, seq = alerts.seq + 1, pending = TRUE`, rows)
	if err != nil || !nameless {
		return err
	}
	_, err = tx.ExecContext(ctx, `DELETE FROM alerts WHERE pending AND name = '' AND status = ?`, ops.AlertResolved)
	return err
}

// PendingAlerts returns the alerts that were not handled since they were last received, oldest first.
func (s *Watch) PendingAlerts(ctx context.Context, limit int) ([]ops.Alert, error) {
	out, err := db.List(ctx, s.db.Reader(), scanAlert, selectAlerts+` WHERE a.pending ORDER BY a.id LIMIT ?`, db.PageSize(limit))
	return ops.Returning(out, err, "list pending alerts")
}

// CountPendingAlerts counts them, up to most.
func (s *Watch) CountPendingAlerts(ctx context.Context, most int) (int, error) {
	var n int
	err := s.db.Reader().QueryRowContext(ctx, `SELECT COUNT(*) FROM (SELECT 1 FROM alerts WHERE pending LIMIT ?) p`, most).Scan(&n)
	return ops.Returning(n, err, "count pending alerts")
}

// settleAlerts marks alerts as handled, except those that were received again since.
func settleAlerts(ctx context.Context, tx db.Querier, alerts []ops.Alert) error {
	rows := ops.Map(alerts, func(a ops.Alert) []any { return []any{a.ID, a.Seq} })
	return db.ForEachRow(ctx, tx, `UPDATE alerts SET pending = FALSE WHERE `, `id = ? AND seq = ?`, rows)
}

// AlertFilter chooses alerts; the zero value means all.
type AlertFilter struct {
	Environment string
	Service     string
	Status      ops.AlertStatus
	Before      int64 // only older ones: the last id of the page before
	Limit       int
}

// Alerts returns a page of alerts, newest first.
func (s *Watch) Alerts(ctx context.Context, f AlertFilter) ([]ops.Alert, error) {
	var w db.Filter
	w.Given(`a.environment = ?`, f.Environment)
	w.Given(`a.service = ?`, f.Service)
	w.Given(`a.status = ?`, f.Status)
	w.Given(`a.id < ?`, f.Before)
	out, err := db.List(ctx, s.db.Reader(), scanAlert, selectAlerts+w.Where()+` ORDER BY a.id DESC LIMIT ?`,
		append(w.Args, db.PageSize(f.Limit))...)
	return ops.Returning(out, err, "list alerts")
}

// FiringAlerts returns every firing alert of an environment.
func (s *Watch) FiringAlerts(ctx context.Context, environment string) ([]ops.Alert, error) {
	out, err := db.List(ctx, s.db.Reader(), scanAlert, selectAlerts+` WHERE a.environment = ? AND a.status = ? ORDER BY a.id`,
		environment, ops.AlertFiring)
	return ops.Returning(out, err, "list firing alerts")
}

// ExpireAlerts ends the firing alerts that were last received before a time, and returns how many there were.
func (s *Watch) ExpireAlerts(ctx context.Context, before, at time.Time) (int64, error) {
	var n int64
	err := s.db.Write(ctx, "alerts", func(tx db.Querier) error {
		result, err := tx.ExecContext(ctx, `UPDATE alerts SET status = ?, ends_at = ?, seq = seq + 1, pending = TRUE,
			disputes = 0, disputed_at = NULL WHERE status = ? AND last_at < ?`,
			ops.AlertResolved, db.Time(at), ops.AlertFiring, db.Time(before))
		if err != nil {
			return err
		}
		n, err = result.RowsAffected()
		return err
	})
	return ops.Returning(n, err, "expire alerts")
}

const selectSilences = `SELECT q.id, q.environment, q.service, q.group_name, q.probe, q.labels, q.reason, q.created_by, q.created_at,
	q.starts_at, q.ends_at FROM silences q`

func scanSilence(r db.Row, q *ops.Silence) error {
	err := r.Scan(&q.ID, &q.Environment, &q.Service, &q.Group, &q.Probe, db.ToJSON(&q.Labels), &q.Reason, &q.Author,
		db.ToTime(&q.CreatedAt), db.ToTime(&q.From), db.ToTime(&q.Until))
	if len(q.Labels) == 0 {
		q.Labels = nil
	}
	return err
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
