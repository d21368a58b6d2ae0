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

func scanAlert(r db.Row) (a ops.Alert, err error) {
	return a, r.Scan(&a.ID, &a.Environment, &a.Source, &a.Fingerprint, &a.Status, &a.Level, &a.Name, &a.Service, &a.Summary,
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
