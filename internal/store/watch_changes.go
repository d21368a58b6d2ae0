package store

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/store/db"
)

const (
	// resourcesFresh is how long a host may be silent until what it could not see is no longer told: it may be gone.
	resourcesFresh = 3 * time.Hour
	// healthyWithin bounds how far back changes are looked for, also for a service that was never healthy.
	healthyWithin = 24 * time.Hour
)

func scanResource(r db.Row, t *ops.Resource) error {
	var parts string
	if err := r.Scan(&t.Kind, &t.Subject, &t.Service, &parts, &t.Unseen, db.ToTime(&t.At)); err != nil {
		return err
	}
	return json.Unmarshal([]byte(parts), &t.Parts)
}

// Resources returns how resources of an environment were when a host last saw them.
func (s *Watch) Resources(ctx context.Context, environment, host string) ([]ops.Resource, error) {
	out, err := db.List(ctx, s.db.Reader(), scanResource, `SELECT kind, subject, service, parts, unseen, at FROM resources
		WHERE environment = ? AND host = ?`, environment, host)
	return ops.Returning(out, err, "read what was seen in %s", environment)
}

// RecordLook stores what a look of a host found different: the new states and the changes together, so that none is told twice.
func (s *Watch) RecordLook(ctx context.Context, environment, host string, l ops.Look, at time.Time) error {
	now := db.Time(s.orNow(at))
	resources := make([][]any, len(l.Resources))
	for i, t := range l.Resources {
		parts, err := json.Marshal(slices.Concat([]ops.Part{}, t.Parts))
		if err != nil {
			return fmt.Errorf("print what was seen of %s: %w", t.Subject, err)
		}
		resources[i] = []any{environment, host, t.Kind, storable(t.Subject), t.Service, storable(string(parts)), storable(t.Unseen), now}
	}
	changes := make([][]any, len(l.Changes))
	for i, c := range l.Changes {
		changes[i] = []any{
			now, db.Time(c.At), db.Time(c.NotBefore), environment, host, c.Kind, storable(c.Subject), c.Service, storable(c.Text),
		}
	}
	err := s.db.WriteIn(ctx, "look", db.InEnvironment(environment), func(tx db.Querier) error {
		for _, t := range l.Gone {
			_, err := tx.ExecContext(ctx, `DELETE FROM resources WHERE environment = ? AND host = ? AND kind = ? AND subject = ?`,
				environment, host, t.Kind, t.Subject)
			if err != nil {
				return err
			}
		}
		err := db.WriteRows(ctx, tx, `INSERT INTO resources (environment, host, kind, subject, service, parts, unseen, at) VALUES `,
			` ON CONFLICT (environment, host, kind, subject) DO UPDATE SET service = excluded.service, parts = excluded.parts,
				unseen = excluded.unseen, at = excluded.at`, resources)
		if err != nil {
			return err
		}
		return db.WriteRows(ctx, tx, `INSERT INTO changes (at, happened_at, not_before, environment, host, kind, subject, service, message)
			VALUES `, ``, changes)
	})
	return ops.Wrapped(err, "record what changed in %s", environment)
}

const selectChanges = `SELECT id, at, happened_at, not_before, environment, host, kind, subject, service, message FROM changes`

func scanChange(r db.Row, c *ops.Change) error {
	return r.Scan(&c.ID, db.ToTime(&c.SeenAt), db.ToTime(&c.At), db.ToTime(&c.NotBefore), &c.Environment, &c.Host, &c.Kind, &c.Subject,
		&c.Service, &c.Text)
}

// ChangeFilter chooses changes; the zero value means all.
type ChangeFilter struct {
	Environment string
	Services    []string // and what concerns every service
	Since       time.Time
	Until       time.Time // what cannot have happened before is left out
	Before      int64     // the last id of the page before
	Limit       int
}

// Changes returns a page of changes, the newest first.
func (s *Watch) Changes(ctx context.Context, f ChangeFilter) (out []ops.Change, err error) {
	err = db.AtOnce(ctx, s.db.Reader(), changes(&out, f))
	return ops.Returning(out, err, "list changes")
}

func changes(to *[]ops.Change, f ChangeFilter) db.Part {
	var w db.Filter
	w.Given(`environment = ?`, f.Environment)
	if len(f.Services) > 0 {
		args := []any{""}
		for _, name := range f.Services {
			args = append(args, name)
		}
		w.Add(`service IN (`+db.Placeholders(len(args))+`)`, args...)
	}
	w.Given(`happened_at >= ?`, f.Since)
	w.Given(`not_before <= ?`, f.Until)
	if f.Before > 0 { // ids grow with the looks, and not always with the time of what they found
		w.Add(`(happened_at, id) < (SELECT happened_at, id FROM changes WHERE id = ?)`, f.Before)
	}
	return db.Into(to, scanChange, selectChanges+w.Where()+` ORDER BY happened_at DESC, id DESC LIMIT ?`,
		append(w.Args, db.PageSize(f.Limit))...)
}

// Unseen says what hosts could not see in an environment when they last looked, and why.
func (s *Watch) Unseen(ctx context.Context, environment string) (out []string, err error) {
	err = db.AtOnce(ctx, s.db.Reader(), unseen(&out, environment, s.clock()))
	return ops.Returning(out, err, "read what is not seen in %s", environment)
}

func unseen(to *[]string, environment string, now time.Time) db.Part {
	return db.Into(to, func(r db.Row, line *string) error {
		var host, kind, subject, why string
		err := r.Scan(&host, &kind, &subject, &why)
		if subject != "" {
			kind += " " + subject
		}
		*line = fmt.Sprintf("%s, %s: %s", kind, host, why)
		return err
	}, `SELECT host, kind, subject, unseen FROM resources WHERE environment = ? AND unseen <> '' AND at >= ?
		ORDER BY host, kind, subject LIMIT ?`,
		environment, db.Time(now.Add(-resourcesFresh)), ops.ChangeLines)
}

// WhatChanged returns what may have changed between the time when services were last healthy and the moment at which something was found
// wrong with them: their own changes, those of what they need, and those that concern every service. Without services it is about all.
// The check may be empty.
func (s *Watch) WhatChanged(ctx context.Context, environment string, services, needs []string, check string, at time.Time) (
	out ops.WhatChanged, err error,
) {
	oldest := at.Add(-healthyWithin)
	seen := make([][]healthyCheck, len(services))
	parts := []db.Part{
		changes(&out.Changes, ChangeFilter{
			Environment: environment, Services: slices.Concat(services, needs), Since: oldest.Add(-ops.ChangeShows), Until: at,
			Limit: ops.ChangeLines + 1,
		}),
		unseen(&out.Unseen, environment, s.clock()),
	}
	for i, service := range services {
		parts = append(parts, db.Into(&seen[i], scanHealthy, `SELECT s.probe, (SELECT c.at FROM checks c WHERE c.environment = s.environment
				AND c.service = s.service AND c.probe = s.probe AND c.status = 'healthy' AND c.at <= ? ORDER BY c.id DESC LIMIT 1)
			FROM probe_states s WHERE s.environment = ? AND s.service = ?`, db.Time(at), environment, service))
	}
	if err := s.db.ReadOnce(ctx, func(q db.Querier) error { return db.AtOnce(ctx, q, parts...) }); err != nil {
		return out, fmt.Errorf("read what changed in %s: %w", environment, err)
	}
	out.Since = at
	if len(services) == 0 {
		out.Since = oldest
	}
	for _, checks := range seen {
		if one := slices.IndexFunc(checks, func(c healthyCheck) bool { return c.probe == check }); one >= 0 {
			checks = checks[one : one+1]
		}
		if len(checks) == 0 {
			out.Since = oldest
		}
		for _, c := range checks {
			if c.at.Before(out.Since) {
				out.Since = c.at
			}
		}
	}
	if out.Since.Before(oldest) {
		out.Since = oldest
	}
	shows := out.Since.Add(-ops.ChangeShows)
	out.Changes = slices.DeleteFunc(out.Changes, func(c ops.Change) bool { return c.At.Before(shows) })
	if out.More = len(out.Changes) > ops.ChangeLines; out.More {
		out.Changes = out.Changes[:ops.ChangeLines]
	}
	return out, nil
}

// healthyCheck is when a check last found its service healthy, the zero time if it never did.
type healthyCheck struct {
	probe string
	at    time.Time
}

func scanHealthy(r db.Row, c *healthyCheck) error {
	var at *time.Time
	err := r.Scan(&c.probe, db.ToOptTime(&at))
	if at != nil {
		c.at = *at
	}
	return err
}

// storable is a text that both databases store as it is.
func storable(text string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "\uFFFD")
}
