package store

import (
	"context"
	"fmt"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/store/db"
)

const selectEvents = `SELECT v.id, v.at, v.cycle_id, v.session_id, v.environment, v.level, v.verb, v.actor_kind, v.actor,
	v.subject_kind, v.subject_id, v.reason, v.detail, v.service, v.message FROM events v`

func scanEvent(r db.Row, e *ops.Event) error {
	var detail []byte
	err := r.Scan(&e.ID, db.ToTime(&e.At), &e.CycleID, &e.SessionID, &e.Environment, &e.Level, &e.Verb, &e.Actor.Kind,
		&e.Actor.Name, &e.Subject.Kind, &e.Subject.ID, &e.Reason, db.ToBytes(&detail), &e.Service, db.ToSaid(&e.Message))
	if err == nil {
		e.Detail, err = e.Verb.Read(detail)
	}
	return err
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
	w.Given(`v.id < ?`, f.Before)
	w.Given(`v.level = ?`, f.Level)
	w.Given(`v.kind = ?`, f.Kind)
	w.Given(`v.service = ?`, f.Service)
	w.Given(`v.environment = ?`, f.Environment)
	w.Given(`v.cycle_id = ?`, f.CycleID)
	w.Given(`v.session_id = ?`, f.SessionID)
	w.Given(`v.at >= ?`, f.Since)
	out, err := db.List(ctx, s.db.Reader(), scanEvent, selectEvents+w.Where()+` ORDER BY v.id `+order+` LIMIT ?`,
		append(w.Args, db.PageSize(f.Limit))...)
	return ops.Returning(out, err, "list events")
}

// AddEvent records an event outside a transition.
func (s *Journal) AddEvent(ctx context.Context, e ops.Event) (int64, error) {
	at := s.clock()
	values, err := s.eventValues(e, at)
	if err != nil {
		return 0, fmt.Errorf("record event %s: %w", e.Verb, err)
	}
	var ids []int64
	insert := db.Into(&ids, db.ScanInt, insertsEvent+`(`+db.Placeholders(len(values))+`) RETURNING id`, values...)
	if alarms(e) {
		err = s.db.WriteIn(ctx, "event", db.InEnvironment(e.Environment), func(tx db.Querier) error {
			if err := s.reduceAlarmed(ctx, tx, e, at); err != nil {
				return err
			}
			if err := db.OrderFeed(ctx, tx, db.FeedEvents); err != nil {
				return err
			}
			return db.Together(ctx, tx, insert)
		})
	} else {
		err = s.db.WriteOneIn(ctx, "event", db.InFeed(db.FeedEvents), ops.ReachPages, insert)
	}
	if err != nil {
		return 0, fmt.Errorf("record event %s: %w", e.Verb, err)
	}
	return ids[0], nil
}

const insertsEvent = `INSERT INTO events (at, cycle_id, session_id, environment, level, kind, verb, actor_kind, actor, subject_kind,
	subject_id, reason, detail, service, message) VALUES `

// insertEvent records an event as the last thing of the transaction: what is written while others wait should be little.
func (s *kernel) insertEvent(ctx context.Context, tx db.Querier, e ops.Event, at time.Time) error {
	values, err := s.eventValues(e, at)
	if err != nil {
		return err
	}
	return db.AddToFeed(ctx, tx, db.FeedEvents, insertsEvent, values...)
}

// eventValues is the row of an event: here, and nowhere else, its facts become a sentence.
func (s *kernel) eventValues(e ops.Event, at time.Time) ([]any, error) {
	if e.At.IsZero() {
		e.At = at
	}
	detail, err := e.Written()
	by, about := e.By(), e.About()
	return []any{
		db.Time(e.At), db.OptID(e.CycleID), db.OptID(e.SessionID), e.Environment, e.Level, e.Kind(), e.Verb, by.Kind, by.Name,
		about.Kind, about.ID, e.Reason, detail, e.Service, db.Said(s.words.Event(e)),
	}, err
}

// idOrNil is a pointer to an id, nil for 0.
func idOrNil[T ~int64](id T) *T {
	if id == 0 {
		return nil
	}
	return &id
}
