package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/store/db"
)

const (
	// thingsFresh is how long a host may be silent until what it could not see is no longer told: it may be gone.
	thingsFresh = 3 * time.Hour
	// healthyWithin bounds how far back changes are looked for, also for a service that was never healthy.
	healthyWithin = 24 * time.Hour
)

func scanThing(r db.Row) (ops.Thing, error) {
	var t ops.Thing
	var parts string
	if err := r.Scan(&t.Kind, &t.Subject, &t.Service, &parts, &t.Unseen, db.ToTime(&t.At)); err != nil {
		return t, err
	}
	return t, json.Unmarshal([]byte(parts), &t.Parts)
}

// Things returns how things of an environment were when a host last saw them.
func (s *Watch) Things(ctx context.Context, environment, host string) ([]ops.Thing, error) {
	out, err := db.List(ctx, s.db.Reader(), scanThing, `SELECT kind, subject, service, parts, unseen, at FROM things
		WHERE environment = ? AND host = ?`, environment, host)
	if err != nil {
		return nil, fmt.Errorf("read what was seen in %s: %w", environment, err)
	}
	return out, nil
}

// RecordLook stores what a look of a host found different: the new states and the changes together, so that none is told twice.
func (s *Watch) RecordLook(ctx context.Context, environment, host string, l ops.Look, at time.Time) error {
	now := db.Time(s.orNow(at))
	things := make([][]any, len(l.Things))
	for i, t := range l.Things {
		parts, err := json.Marshal(slices.Concat([]ops.Part{}, t.Parts))
		if err != nil {
			return fmt.Errorf("print what was seen of %s: %w", t.Subject, err)
		}
		things[i] = []any{environment, host, t.Kind, storable(t.Subject), t.Service, storable(string(parts)), storable(t.Unseen), now}
	}
	changes := make([][]any, len(l.Changes))
	for i, c := range l.Changes {
		changes[i] = []any{
			now, db.Time(c.At), db.Time(c.NotBefore), environment, host, c.Kind, storable(c.Subject), c.Service, storable(c.Text),
		}
	}
	err := s.db.WriteIn(ctx, "look", db.InEnvironment(environment), func(tx db.Querier) error {
		for _, t := range l.Gone {
			_, err := tx.ExecContext(ctx, `DELETE FROM things WHERE environment = ? AND host = ? AND kind = ? AND subject = ?`,
				environment, host, t.Kind, t.Subject)
			if err != nil {
				return err
			}
		}
		err := db.WriteRows(ctx, tx, `INSERT INTO things (environment, host, kind, subject, service, parts, unseen, at) VALUES `,
			` ON CONFLICT (environment, host, kind, subject) DO UPDATE SET service = excluded.service, parts = excluded.parts,
				unseen = excluded.unseen, at = excluded.at`, things)
		if err != nil {
			return err
		}
		return db.WriteRows(ctx, tx, `INSERT INTO changes (at, happened_at, not_before, environment, host, kind, subject, service, message)
			VALUES `, ``, changes)
	})
	if err != nil {
		return fmt.Errorf("record what changed in %s: %w", environment, err)
	}
	return nil
}

const selectChanges = `SELECT id, at, happened_at, not_before, environment, host, kind, subject, service, message FROM changes`

func scanChange(r db.Row) (ops.Change, error) {
	var c ops.Change
	err := r.Scan(&c.ID, db.ToTime(&c.SeenAt), db.ToTime(&c.At), db.ToTime(&c.NotBefore), &c.Environment, &c.Host, &c.Kind, &c.Subject,
		&c.Service, &c.Text)
	return c, err
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
func (s *Watch) Changes(ctx context.Context, f ChangeFilter) ([]ops.Change, error) {
	var w db.Filter
	if f.Environment != "" {
		w.Add(`environment = ?`, f.Environment)
	}
	if len(f.Services) > 0 {
		args := []any{""}
		for _, name := range f.Services {
			args = append(args, name)
		}
		w.Add(`service IN (`+db.Placeholders(len(args))+`)`, args...)
	}
	if !f.Since.IsZero() {
		w.Add(`happened_at >= ?`, db.Time(f.Since))
	}
	if !f.Until.IsZero() {
		w.Add(`not_before <= ?`, db.Time(f.Until))
	}
	if f.Before > 0 { // ids grow with the looks, and not always with the time of what they found
		w.Add(`(happened_at, id) < (SELECT happened_at, id FROM changes WHERE id = ?)`, f.Before)
	}
	out, err := db.List(ctx, s.db.Reader(), scanChange, selectChanges+w.Where()+` ORDER BY happened_at DESC, id DESC LIMIT ?`,
		append(w.Args, db.PageSize(f.Limit))...)
	if err != nil {
		return nil, fmt.Errorf("list changes: %w", err)
	}
	return out, nil
}

// Unseen says what hosts could not see in an environment when they last looked, and why.
func (s *Watch) Unseen(ctx context.Context, environment string) ([]string, error) {
	out, err := db.List(ctx, s.db.Reader(), func(r db.Row) (string, error) {
		var host, kind, subject, why string
		err := r.Scan(&host, &kind, &subject, &why)
		if subject != "" {
			kind += " " + subject
		}
		return fmt.Sprintf("%s, %s: %s", kind, host, why), err
	}, `SELECT host, kind, subject, unseen FROM things WHERE environment = ? AND unseen <> '' AND at >= ?
		ORDER BY host, kind, subject LIMIT ?`,
		environment, db.Time(s.clock().Add(-thingsFresh)), ops.ChangeLines)
	if err != nil {
		return nil, fmt.Errorf("read what is not seen in %s: %w", environment, err)
	}
	return out, nil
}

// WhatChanged returns what may have changed between the time when services were last healthy and the moment at which something was found
// wrong with them: their own changes, those of what they need, and those that concern every service. Without services it is about all.
// The check may be empty.
func (s *Watch) WhatChanged(ctx context.Context, environment string, services, needs []string, check string, at time.Time) (
	out ops.WhatChanged, err error,
) {
	if out.Since, err = s.lastHealthy(ctx, environment, services, check, at); err != nil {
		return out, err
	}
	out.Changes, err = s.Changes(ctx, ChangeFilter{
		Environment: environment, Services: slices.Concat(services, needs), Since: out.Since.Add(-ops.ChangeShows), Until: at,
		Limit: ops.ChangeLines + 1,
	})
	if err != nil {
		return out, err
	}
	if out.More = len(out.Changes) > ops.ChangeLines; out.More {
		out.Changes = out.Changes[:ops.ChangeLines]
	}
	out.Unseen, err = s.Unseen(ctx, environment)
	return out, err
}

// lastHealthy is when all of the services were last healthy before a moment, at most a day before it.
func (s *Watch) lastHealthy(ctx context.Context, environment string, services []string, check string, at time.Time) (time.Time, error) {
	out := at
	if len(services) == 0 {
		out = at.Add(-healthyWithin)
	}
	for _, service := range services {
		probes, err := db.List(ctx, s.db.Reader(), db.ScanString, `SELECT probe FROM probe_states WHERE environment = ? AND service = ?`,
			environment, service)
		if err != nil {
			return out, fmt.Errorf("read the checks of %s: %w", service, err)
		}
		if slices.Contains(probes, check) {
			probes = []string{check}
		}
		if len(probes) == 0 {
			out = at.Add(-healthyWithin)
		}
		for _, probe := range probes {
			var seen time.Time
			seen, err := db.One(ctx, s.db.Reader(), func(r db.Row) (time.Time, error) { err := r.Scan(db.ToTime(&seen)); return seen, err },
				`SELECT at FROM checks WHERE environment = ? AND service = ? AND probe = ? AND status = 'healthy' AND at <= ?
				ORDER BY id DESC LIMIT 1`, environment, service, probe, db.Time(at))
			if err != nil && !errors.Is(err, ops.ErrNotFound) {
				return out, fmt.Errorf("read when %s was healthy: %w", service, err)
			}
			if seen.Before(out) {
				out = seen
			}
		}
	}
	if oldest := at.Add(-healthyWithin); out.Before(oldest) {
		out = oldest
	}
	return out, nil
}

// storable is a text that both databases store as it is.
func storable(text string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "\uFFFD")
}
