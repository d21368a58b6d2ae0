package store

import (
	"cmp"
	"context"
	"errors"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/store/db"
)

const selectNotices = `SELECT n.id, n.cycle_id, n.kind, n.level, n.title, n.body, n.status, n.attempts, n.next_at, n.error,
	n.created_at, n.sent_at, n.target, n.environment, n.service, n.dedup_key, COALESCE(n.incident_id, 0), n.deliveries FROM notifications n`

func scanNotice(r db.Row, n *ops.Notice) error {
	return r.Scan(&n.ID, &n.CycleID, &n.Kind, &n.Level, &n.Title, &n.Body, &n.Status, &n.Attempts, db.ToTime(&n.NextAt),
		&n.Error, db.ToTime(&n.CreatedAt), db.ToOptTime(&n.SentAt), &n.Target, &n.Environment, &n.Service, &n.Key, &n.Incident,
		db.ToJSON(&n.Deliveries))
}

// noticeRepeatAfter is how long a notice with the same key is not sent again.
const noticeRepeatAfter = 6 * time.Hour

// DueNotices returns the notices to try now, longest due first.
func (s *People) DueNotices(ctx context.Context, now time.Time, limit int) ([]ops.Notice, error) {
	// The status is in the text and not an argument, so that the partial index is used.
	out, err := db.List(ctx, s.db.Reader(), scanNotice, selectNotices+` WHERE n.status = 'pending' AND n.next_at <= ?
		ORDER BY n.next_at, n.id LIMIT ?`, db.Time(now), db.PageSize(limit))
	return ops.Returning(out, err, "list due notices")
}

// PendingNotices counts the notices that are neither delivered nor given up.
func (s *People) PendingNotices(ctx context.Context) (int, error) {
	var n int
	err := s.db.Reader().QueryRowContext(ctx, `SELECT COUNT(*) FROM notifications WHERE status = 'pending'`).Scan(&n)
	return ops.Returning(n, err, "count pending notices")
}

// AddNotice adds a notice outside a transition to the outbox.
func (s *People) AddNotice(ctx context.Context, n ops.Notice) (int64, error) {
	var id int64
	err := s.db.Write(ctx, "notice", func(tx db.Querier) error {
		var err error
		id, err = insertNotice(ctx, tx, n, s.clock())
		return err
	})
	return ops.Returning(id, err, "add notice")
}

// AddNoticeOnce adds a notice and its event, unless one with the same key was added since a time. It reports whether it did.
func (s *People) AddNoticeOnce(ctx context.Context, n ops.Notice, e ops.Event, since time.Time) (added bool, err error) {
	err = s.db.Write(ctx, "notice", func(tx db.Querier) error {
		_, err := db.One(ctx, tx, db.ScanInt, `SELECT id FROM notifications WHERE dedup_key = ? AND created_at >= ? LIMIT 1`,
			n.Key, db.Time(since))
		if !errors.Is(err, ops.ErrNotFound) {
			return err
		}
		added = true
		if _, err := insertNotice(ctx, tx, n, s.clock()); err != nil {
			return err
		}
		return s.insertEvent(ctx, tx, e, s.clock())
	})
	return ops.Returning(added, err, "add notice")
}

// SettleNotice records the result of one attempt to deliver a notice, together with its event. A notice that is no longer pending
// is ops.ErrConflict.
func (s *People) SettleNotice(ctx context.Context, n ops.Notice, event *ops.Event) error {
	deliveries := any("")
	if len(n.Deliveries) > 0 {
		deliveries = db.JSON(n.Deliveries)
	}
	err := s.db.Write(ctx, "notice", func(tx db.Querier) error {
		ok, err := db.Changed(tx.ExecContext(ctx, `UPDATE notifications SET status = ?, attempts = ?, next_at = ?, error = ?, sent_at = ?,
			deliveries = ? WHERE id = ? AND status = 'pending'`,
			n.Status, n.Attempts, db.Time(s.orNow(n.NextAt)), n.Error, db.OptTime(n.SentAt), deliveries, n.ID))
		if err != nil {
			return err
		}
		if !ok {
			return noticeConflict(ctx, tx, n.ID)
		}
		if event == nil {
			return nil
		}
		return s.insertEvent(ctx, tx, *event, s.clock())
	})
	return ops.Wrapped(err, "settle notice %d", n.ID)
}

func noticeConflict(ctx context.Context, q db.Querier, id int64) error {
	status, err := db.One(ctx, q, db.ScanString, `SELECT status FROM notifications WHERE id = ?`, id)
	if err != nil {
		return err
	}
	return ops.NewConflict(ops.ConflictState, "it is already %s", status)
}

const insertsNotice = `INSERT INTO notifications (cycle_id, kind, level, title, body, status, attempts, next_at,
	error, created_at, sent_at, target, environment, service, dedup_key, incident_id)
	VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`

// insertNotice adds a notice, unless one with the same key was added lately.
func insertNotice(ctx context.Context, tx db.Querier, n ops.Notice, at time.Time) (int64, error) {
	n = withTimes(n, at)
	if n.Key != "" {
		told, err := db.One(ctx, tx, db.ScanInt, `SELECT id FROM notifications WHERE dedup_key = ? AND created_at > ? ORDER BY id DESC LIMIT 1`,
			n.Key, db.Time(n.CreatedAt.Add(-noticeRepeatAfter)))
		if !errors.Is(err, ops.ErrNotFound) {
			return told, err
		}
	}
	var id int64
	err := tx.QueryRowContext(ctx, insertsNotice+` RETURNING id`, noticeValues(n)...).Scan(&id)
	return id, err
}

// queueNotice is insertNotice where nobody needs the id.
func queueNotice(ctx context.Context, tx db.Querier, n ops.Notice, at time.Time) error {
	if n.Key != "" {
		_, err := insertNotice(ctx, tx, n, at)
		return err
	}
	return db.Exec(ctx, tx, insertsNotice, noticeValues(withTimes(n, at))...)
}

func withTimes(n ops.Notice, at time.Time) ops.Notice {
	n.Status = cmp.Or(n.Status, ops.NoticePending)
	if n.CreatedAt.IsZero() {
		n.CreatedAt = at
	}
	if n.NextAt.IsZero() {
		n.NextAt = n.CreatedAt
	}
	return n
}

func noticeValues(n ops.Notice) []any {
	return []any{
		db.OptID(n.CycleID), n.Kind, n.Level, n.Title, n.Body, n.Status, n.Attempts, db.Time(n.NextAt),
		n.Error, db.Time(n.CreatedAt), db.OptTime(n.SentAt), n.Target, n.Environment, n.Service, n.Key, db.OrNull(n.Incident),
	}
}

// RetryNotice puts a notice that was given up, or had no target, back into the outbox. Any other is ops.ErrConflict.
func (s *People) RetryNotice(ctx context.Context, id int64, by string, at time.Time) error {
	at = s.orNow(at)
	err := s.db.Write(ctx, "notice", func(tx db.Querier) error {
		ok, err := db.Changed(tx.ExecContext(ctx, `UPDATE notifications SET status = ?, attempts = 0, next_at = ?, error = ''
			WHERE id = ? AND status IN (?, ?)`, ops.NoticePending, db.Time(at), id, ops.NoticeDead, ops.NoticeSkipped))
		if err == nil && !ok {
			err = noticeConflict(ctx, tx, id)
		}
		if err != nil {
			return err
		}
		return s.insertEvent(ctx, tx, ops.Event{
			Level: ops.LevelInfo, Verb: ops.VerbNoticeRetried, Actor: ops.Person(by), Subject: ops.About(ops.SubjectNotice, id),
		}, at)
	})
	return ops.Wrapped(err, "retry notice %d", id)
}

// NoticeFilter chooses notices; the zero value means all.
type NoticeFilter struct {
	Status ops.NoticeStatus
	Cycle  ops.CycleID
	Before int64
	Limit  int
}

// NoticeList returns notices, the newest first.
func (s *People) NoticeList(ctx context.Context, f NoticeFilter) ([]ops.Notice, error) {
	var w db.Filter
	w.Given(`n.status = ?`, f.Status)
	w.Given(`n.cycle_id = ?`, f.Cycle)
	w.Given(`n.id < ?`, f.Before)
	out, err := db.List(ctx, s.db.Reader(), scanNotice, selectNotices+w.Where()+` ORDER BY n.id DESC LIMIT ?`,
		append(w.Args, db.PageSize(f.Limit))...)
	return ops.Returning(out, err, "list notices")
}
