package store

import (
	"context"
	"fmt"
	"time"

	"claudeops/internal/notice"
	"claudeops/internal/ops"
	"claudeops/internal/store/db"
)

const selectEvents = `SELECT v.id, v.at, v.cycle_id, v.session_id, v.environment, v.level, v.verb, v.actor_kind, v.actor,
	v.subject_kind, v.subject_id, v.reason, v.detail, v.service, v.message FROM events v`

func scanEvent(r db.Row) (ops.Event, error) {
	var e ops.Event
	var detail []byte
	err := r.Scan(&e.ID, db.ToTime(&e.At), &e.CycleID, &e.SessionID, &e.Environment, &e.Level, &e.Verb, &e.Actor.Kind,
		&e.Actor.Name, &e.Subject.Kind, &e.Subject.ID, &e.Reason, db.ToBytes(&detail), &e.Service, db.ToSaid(&e.Message))
	if err == nil {
		e.Detail, err = e.Verb.Read(detail)
	}
	return e, err
}

// EventFilter chooses events; the zero value means all.
type EventFilter struct {
	After       int64 // only newer ones, oldest first: what a reader has not seen yet
	Before      int64 // only older ones: the last id of the page before
	Level       ops.Level
	Kind        string
	Service     string
	Environment string
	CycleID     *ops.CycleID
	SessionID   *ops.SessionID
	Since       time.Time // at this moment or later
	Limit       int
}

// Events returns a page of events, newest first; with After the oldest come first.
func (s *Journal) Events(ctx context.Context, f EventFilter) ([]ops.Event, error) {
	var w db.Filter
	order := `DESC`
	if f.After > 0 {
		order = `ASC`
		w.Add(`v.id > ?`, f.After)
	}
	if f.Before > 0 {
		w.Add(`v.id < ?`, f.Before)
	}
	if f.Level != "" {
		w.Add(`v.level = ?`, f.Level)
	}
	if f.Kind != "" {
		w.Add(`v.kind = ?`, f.Kind)
	}
	if f.Service != "" {
		w.Add(`v.service = ?`, f.Service)
	}
	if f.Environment != "" {
		w.Add(`v.environment = ?`, f.Environment)
	}
	if f.CycleID != nil {
		w.Add(`v.cycle_id = ?`, *f.CycleID)
	}
	if f.SessionID != nil {
		w.Add(`v.session_id = ?`, *f.SessionID)
	}
	if !f.Since.IsZero() {
		w.Add(`v.at >= ?`, db.Time(f.Since))
	}
	out, err := db.List(ctx, s.db.Reader(), scanEvent, selectEvents+w.Where()+` ORDER BY v.id `+order+` LIMIT ?`,
		append(w.Args, db.PageSize(f.Limit))...)
	if err != nil {
		return nil, fmt.Errorf("list events: %w", err)
	}
	return out, nil
}

// AddEvent records an event outside a transition.
func (s *Journal) AddEvent(ctx context.Context, e ops.Event) (int64, error) {
	var id int64
	err := s.db.WriteIn(ctx, "event", db.InEnvironment(e.Environment), func(tx db.Querier) error {
		if err := reduceAlarmed(ctx, tx, e, s.clock()); err != nil {
			return err
		}
		if err := db.OrderFeed(ctx, tx, db.FeedEvents); err != nil {
			return err
		}
		values, err := eventValues(e, s.clock())
		if err != nil {
			return err
		}
		return tx.QueryRowContext(ctx, insertsEvent+` RETURNING id`, values...).Scan(&id)
	})
	if err != nil {
		return 0, fmt.Errorf("record event %s: %w", e.Verb, err)
	}
	return id, nil
}

const insertsEvent = `INSERT INTO events (at, cycle_id, session_id, environment, level, kind, verb, actor_kind, actor, subject_kind,
	subject_id, reason, detail, service, message) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`

// insertEvent records an event as the last thing of the transaction: what is written while others wait should be little.
func insertEvent(ctx context.Context, tx db.Querier, e ops.Event, at time.Time) error {
	values, err := eventValues(e, at)
	if err != nil {
		return err
	}
	return db.AddToFeed(ctx, tx, db.FeedEvents, insertsEvent, values...)
}

// eventValues is the row of an event: here, and nowhere else, its facts become a sentence.
func eventValues(e ops.Event, at time.Time) ([]any, error) {
	if e.At.IsZero() {
		e.At = at
	}
	detail, err := e.Written()
	by, about := e.By(), e.About()
	return []any{
		db.Time(e.At), db.OptID(e.CycleID), db.OptID(e.SessionID), e.Environment, e.Level, e.Kind(), e.Verb, by.Kind, by.Name,
		about.Kind, about.ID, e.Reason, detail, e.Service, db.Said(notice.Words(e)),
	}, err
}

// idOrNil is a pointer to an id, nil for 0.
func idOrNil[T ~int64](id T) *T {
	if id == 0 {
		return nil
	}
	return &id
}
