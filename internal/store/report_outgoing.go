package store

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/store/db"
)

// OutgoingEvent is an event for receivers outside. Its id in the table gives the order.
type OutgoingEvent struct {
	ID          int64
	EventID     string // the same however often it is sent
	Kind        string // cycle, incident, approval or action
	Environment string
	At          time.Time
	Data        []byte // as it is sent
}

// News are the rows that have not ended, or ended since a time.
type News struct {
	Cycles    []CycleSummary
	Incidents []ops.Incident
	Approvals []ops.Approval
	Actions   []ops.ActionRun
}

// NewsSince reads the rows about which something may have to be sent. Every time in them is that of a change.
func (s *Reports) NewsSince(ctx context.Context, since time.Time) (News, error) {
	var out News
	at := db.Time(since)
	err := s.db.Read(ctx, func(tx db.Querier) error {
		cycles, err := db.List(ctx, tx, scanCycle, selectCycles+` WHERE c.ended_at IS NULL
			UNION ALL `+selectCycles+` WHERE c.ended_at >= ?`, db.Time(since.Add(-2*ops.Probation))) // it may be refuted so much later
		if err != nil {
			return err
		}
		if len(cycles) > 0 {
			if out.Cycles, err = withSessions(ctx, tx, cycles); err != nil {
				return err
			}
		}
		out.Incidents, err = db.List(ctx, tx, scanIncident, selectIncidents+` WHERE i.resolved_at IS NULL
			UNION ALL `+selectIncidents+` WHERE i.resolved_at >= ?`, at)
		if err != nil {
			return err
		}
		out.Approvals, err = db.List(ctx, tx, scanApproval, selectApprovals+` WHERE a.status = 'pending'
			UNION ALL `+selectApprovals+` WHERE a.answered_at >= ?`, at)
		if err != nil {
			return err
		}
		out.Actions, err = db.List(ctx, tx, scanAction, selectActions+` WHERE r.status IN ('requested', 'started')
			UNION ALL `+selectActions+` WHERE r.ended_at >= ?`, at)
		return err
	})
	if err != nil {
		return News{}, fmt.Errorf("read news: %w", err)
	}
	return out, nil
}

// The names of the times in store_state: from when on events are sent, and until when all were found.
const (
	eventsFloor = "events_floor"
	eventsMark  = "events_mark"
)

// BeginEvents records from when on events are sent, and the targets, which get what comes after now. It returns since when changes must
// be looked for. What is older than oldest is not sent any more.
func (s *Reports) BeginEvents(ctx context.Context, targets []string, oldest time.Time) (floor, mark time.Time, err error) {
	err = s.db.Write(ctx, "events_begin", func(tx db.Querier) error {
		now := db.Time(s.clock())
		for _, name := range []string{eventsFloor, eventsMark} {
			_, err := tx.ExecContext(ctx, `INSERT INTO store_state (name, value) VALUES (?, ?) ON CONFLICT (name) DO NOTHING`, name, now)
			if err != nil {
				return err
			}
		}
		for _, name := range targets {
			_, err := tx.ExecContext(ctx, `INSERT INTO event_targets (name, taken)
				SELECT ?, COALESCE(MAX(id), 0) FROM outgoing_events WHERE TRUE ON CONFLICT (name) DO NOTHING`, name)
			if err != nil {
				return err
			}
		}
		if floor, err = timeOf(ctx, tx, eventsFloor); err != nil {
			return err
		}
		mark, err = timeOf(ctx, tx, eventsMark)
		return err
	})
	if err != nil {
		return floor, mark, fmt.Errorf("begin events: %w", err)
	}
	if floor.Before(oldest) {
		floor = oldest
	}
	return floor, mark, nil
}

func timeOf(ctx context.Context, tx db.Querier, name string) (time.Time, error) {
	var at time.Time
	_, err := db.One(ctx, tx, func(r db.Row) (struct{}, error) { return struct{}{}, r.Scan(db.ToTime(&at)) },
		`SELECT value FROM store_state WHERE name = ?`, name)
	return at, err
}

// UnknownEvents returns which of the ids are not in the table yet.
func (s *Reports) UnknownEvents(ctx context.Context, ids []string) (map[string]bool, error) {
	unknown := make(map[string]bool, len(ids))
	for _, id := range ids {
		unknown[id] = true
	}
	const chunk = 400
	for len(ids) > 0 {
		part := ids[:min(chunk, len(ids))]
		ids = ids[len(part):]
		args := make([]any, len(part))
		for i, id := range part {
			args[i] = id
		}
		known, err := db.List(ctx, s.db.Reader(), db.ScanString,
			`SELECT event_id FROM outgoing_events WHERE event_id IN (`+strings.Repeat(", ?", len(part))[2:]+`)`, args...)
		if err != nil {
			return nil, fmt.Errorf("look for events: %w", err)
		}
		for _, id := range known {
			delete(unknown, id)
		}
	}
	return unknown, nil
}

// QueueEvents adds events in this order, and records until when all changes were found.
func (s *Reports) QueueEvents(ctx context.Context, events []OutgoingEvent, mark time.Time) error {
	err := s.db.Write(ctx, "events_queue", func(tx db.Querier) error {
		for _, e := range events {
			_, err := tx.ExecContext(ctx, `INSERT INTO outgoing_events (event_id, kind, environment, at, data) VALUES (?, ?, ?, ?, ?)
				ON CONFLICT (event_id) DO NOTHING`, e.EventID, e.Kind, e.Environment, db.Time(e.At), string(e.Data))
			if err != nil {
				return err
			}
		}
		_, err := tx.ExecContext(ctx, `UPDATE store_state SET value = ? WHERE name = ?`, db.Time(mark), eventsMark)
		return err
	})
	if err != nil {
		return fmt.Errorf("queue events: %w", err)
	}
	return nil
}

// EventsFor returns the next events that a target has not taken, in order.
func (s *Reports) EventsFor(ctx context.Context, target string, limit int) ([]OutgoingEvent, error) {
	out, err := db.List(ctx, s.db.Reader(), func(r db.Row) (OutgoingEvent, error) {
		var e OutgoingEvent
		var data string
		err := r.Scan(&e.ID, &e.EventID, &e.Kind, &e.Environment, db.ToTime(&e.At), &data)
		e.Data = []byte(data)
		return e, err
	}, `SELECT e.id, e.event_id, e.kind, e.environment, e.at, e.data FROM outgoing_events e
		WHERE e.id > (SELECT t.taken FROM event_targets t WHERE t.name = ?) ORDER BY e.id LIMIT ?`, target, limit)
	if err != nil {
		return nil, fmt.Errorf("list events for %s: %w", target, err)
	}
	return out, nil
}

// EventTaken records that a target has taken an event and all before it.
func (s *Reports) EventTaken(ctx context.Context, target string, id int64) error {
	err := s.db.WriteUnordered(ctx, "events_taken", func(tx db.Querier) error {
		_, err := tx.ExecContext(ctx, `UPDATE event_targets SET taken = ? WHERE name = ? AND taken < ?`, id, target, id)
		return err
	})
	if err != nil {
		return fmt.Errorf("record event for %s: %w", target, err)
	}
	return nil
}

// RemoveEvents removes the events before a time, and the targets that are not configured any more. It returns how many of the events
// were still to be sent to one of the targets.
func (s *Reports) RemoveEvents(ctx context.Context, targets []string, before time.Time) (lost int64, err error) {
	if len(targets) == 0 {
		return 0, errors.New("remove events: there are no targets")
	}
	err = s.db.Write(ctx, "events_remove", func(tx db.Querier) error {
		names := make([]any, len(targets))
		for i, name := range targets {
			names[i] = name
		}
		_, err := tx.ExecContext(ctx, `DELETE FROM event_targets WHERE name NOT IN (`+strings.Repeat(", ?", len(names))[2:]+`)`, names...)
		if err != nil {
			return err
		}
		lost, err = db.One(ctx, tx, db.ScanInt, `SELECT COUNT(*) FROM outgoing_events WHERE at < ?
			AND id > (SELECT COALESCE(MIN(taken), 0) FROM event_targets)`, db.Time(before))
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, `DELETE FROM outgoing_events WHERE at < ?`, db.Time(before))
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("remove old events: %w", err)
	}
	return lost, nil
}
