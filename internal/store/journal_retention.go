package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/store/db"
)

// A batch is small, so that no writer waits long for it: a few milliseconds. These are the sizes on a fast disk; on a slow one they are
// smaller.
const (
	removedRows     = 250 // rows of a batch
	removedLines    = 150 // lines of transcripts, which are longer
	removedSessions = 25  // transcripts that are looked at for it
)

// protectedCycles are the cycles of which nothing is removed: they have not ended, or an incident of theirs is open.
const protectedCycles = `(SELECT id FROM cycles WHERE ended_at IS NULL
	UNION SELECT first_cycle_id FROM incidents WHERE resolved_at IS NULL AND first_cycle_id IS NOT NULL
	UNION SELECT last_cycle_id FROM incidents WHERE resolved_at IS NULL AND last_cycle_id IS NOT NULL)`

// openIncidentEvents are the events about incidents in environments with an open one.
const openIncidentEvents = `(kind = '` + kindIncident +
	`' AND environment IN (SELECT environment FROM incidents WHERE resolved_at IS NULL))`

// RemoveOld removes one batch of records of a kind that are older than they should be kept, or beyond the size limit. It returns
// how many rows were removed, and whether there may be more.
func (s *Journal) RemoveOld(ctx context.Context, what ops.Record, keep ops.Retention, now time.Time) (removed int64, more bool, err error) {
	var began time.Time
	err = s.db.WriteUnordered(ctx, "remove_old", func(tx db.Querier) error {
		began = time.Now() // waiting for other writers does not count
		r := removal{tx: tx, keep: keep, now: now, pace: &s.pace}
		if what == ops.RecordTranscripts {
			removed, more, err = r.transcripts(ctx)
			return err
		}
		removed, err = r.batch(ctx, what)
		more = removed > 0
		return err
	})
	if err != nil {
		return 0, false, fmt.Errorf("remove old %s: %w", what, err)
	}
	s.pace.Took(time.Since(began))
	return removed, more, nil
}

// batch removes some records of a kind that is stored as one row each.
func (r removal) batch(ctx context.Context, what ops.Record) (int64, error) {
	switch what {
	case ops.RecordTranscripts: // has its own way
	case ops.RecordChecks:
		return r.rows(ctx, `checks`, r.keep.Checks, `cycle_id IS NULL`)
	case ops.RecordEvents:
		n, err := r.rows(ctx, `events`, r.keep.Events, `(cycle_id IS NULL OR cycle_id NOT IN `+protectedCycles+`) AND NOT `+openIncidentEvents)
		if n > 0 || err != nil {
			return n, err
		}
		n, err = r.rows(ctx, `checks`, r.keep.Events, `cycle_id IS NOT NULL AND cycle_id NOT IN `+protectedCycles)
		if n > 0 || err != nil {
			return n, err
		}
		n, err = r.rows(ctx, `steps`, r.keep.Events, `cycle_id NOT IN `+protectedCycles)
		if n > 0 || err != nil {
			return n, err
		}
		return r.rows(ctx, `changes`, r.keep.Events, `1 = 1`)
	case ops.RecordGuard:
		return r.guard(ctx)
	case ops.RecordNotices:
		return r.settled(ctx, `notifications`, `status <> 'pending' AND created_at < ?
			AND (cycle_id IS NULL OR cycle_id NOT IN `+protectedCycles+`)`, r.keep.Notices)
	case ops.RecordAlerts:
		n, err := r.settled(ctx, `alerts`, `status = 'resolved' AND last_at < ? AND NOT pending`, r.keep.Alerts)
		if n > 0 || err != nil {
			return n, err
		}
		return r.settled(ctx, `causes`, `resolved_at IS NOT NULL AND at < ? AND cycle_id NOT IN `+protectedCycles, r.keep.Alerts)
	case ops.RecordHours:
		return r.hours(ctx)
	}
	return 0, fmt.Errorf("unknown kind %q", what)
}

// removal is one batch of RemoveOld.
type removal struct {
	tx   db.Querier
	keep ops.Retention
	now  time.Time
	pace *db.Pace
}

// before is the time before which rows are removed; false means that they are kept without limit.
func (r removal) before(age time.Duration) (string, bool) {
	return db.Time(r.now.Add(-age)), age > 0
}

// firstKept is the id of the first row that is kept, 0 where all are. Ids grow with time.
func (r removal) firstKept(ctx context.Context, table string, age time.Duration) (int64, error) {
	var first int64
	if before, ok := r.before(age); ok {
		var err error
		if first, err = firstSince(ctx, r.tx, table, before); err != nil {
			return 0, err
		}
	}
	if r.keep.Rows <= 0 {
		return first, nil
	}
	newest, err := db.One(ctx, r.tx, db.ScanInt, `SELECT COALESCE(MAX(id), 0) FROM `+table)
	return max(first, newest-r.keep.Rows+1), err
}

// rows removes rows of a table that are too old or too many.
func (r removal) rows(ctx context.Context, table string, age time.Duration, cond string) (int64, error) {
	first, err := r.firstKept(ctx, table, age)
	if err != nil || first <= 0 {
		return 0, err
	}
	return db.Affected(ctx, r.tx, `DELETE FROM `+table+` WHERE id IN (SELECT id FROM `+table+` WHERE id < ? AND `+cond+` ORDER BY id LIMIT ?)`,
		first, r.pace.Of(removedRows))
}

// firstSince finds the first row that is not older than a time, by binary search: reading all older ones for every batch would
// take longer than removing them.
func firstSince(ctx context.Context, q db.Querier, table, at string) (int64, error) {
	low, err := db.One(ctx, q, db.ScanInt, `SELECT COALESCE(MIN(id), 0) FROM `+table)
	if err != nil {
		return 0, err
	}
	high, err := db.One(ctx, q, db.ScanInt, `SELECT COALESCE(MAX(id), -1) + 1 FROM `+table)
	if err != nil {
		return 0, err
	}
	for low < high {
		middle := low + (high-low)/2
		var id int64
		var when string
		err := q.QueryRowContext(ctx, `SELECT id, at FROM `+table+` WHERE id >= ? ORDER BY id LIMIT 1`, middle).Scan(&id, &when)
		if err != nil {
			return 0, err
		}
		if when < at {
			low = id + 1
		} else {
			high = middle
		}
	}
	return low, nil
}

// settled removes rows that no longer change.
func (r removal) settled(ctx context.Context, table, cond string, age time.Duration) (int64, error) {
	before, ok := r.before(age)
	if !ok {
		return 0, nil
	}
	return db.Affected(ctx, r.tx, `DELETE FROM `+table+` WHERE id IN (SELECT id FROM `+table+` WHERE `+cond+` ORDER BY id LIMIT ?)`,
		before, r.pace.Of(removedRows))
}

// guard removes judgements and marks their sessions.
func (r removal) guard(ctx context.Context) (int64, error) {
	first, err := r.firstKept(ctx, `guard_decisions`, r.keep.Guard)
	if err != nil || first <= 0 {
		return 0, err
	}
	whose, err := db.List(ctx, r.tx, db.ScanInt, `DELETE FROM guard_decisions WHERE id IN (SELECT id FROM guard_decisions
		WHERE id < ? AND cycle_id NOT IN `+protectedCycles+` ORDER BY id LIMIT ?) RETURNING session_id`, first, r.pace.Of(removedRows))
	if err != nil {
		return 0, err
	}
	marked := map[int64]bool{}
	for _, id := range whose {
		if marked[id] {
			continue
		}
		marked[id] = true
		_, err := r.tx.ExecContext(ctx, `UPDATE sessions SET guard_removed_at = ? WHERE id = ? AND guard_removed_at IS NULL`,
			db.Time(r.now), id)
		if err != nil {
			return 0, err
		}
	}
	return int64(len(whose)), nil
}

func (r removal) hours(ctx context.Context) (int64, error) {
	if r.keep.Hours <= 0 {
		return 0, nil
	}
	// The key begins with the hour, so this reads the oldest rows first.
	last, err := db.One(ctx, r.tx, db.ScanString, `SELECT at FROM check_hours WHERE at < ? ORDER BY at LIMIT 1`,
		r.now.Add(-r.keep.Hours).UTC().Format(hourLayout))
	if errors.Is(err, ops.ErrNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return db.Affected(ctx, r.tx, `DELETE FROM check_hours WHERE at = ?`, last)
}

// transcripts removes the output of sessions that ended long ago, and the oldest output beyond the size limit. It counts lines. A
// batch may also consist only of sessions without output.
func (r removal) transcripts(ctx context.Context) (removed int64, more bool, err error) {
	for _, batch := range []func(context.Context) (int64, bool, error){r.continueTranscript, r.endedBefore, r.overSize} {
		if removed, more, err = batch(ctx); more || err != nil {
			return removed, more, err
		}
	}
	return 0, false, nil
}

// overSize removes the oldest output beyond the size limit.
func (r removal) overSize(ctx context.Context) (int64, bool, error) {
	if r.keep.TranscriptBytes <= 0 {
		return 0, false, nil
	}
	total, err := db.One(ctx, r.tx, db.ScanInt, `SELECT CAST(COALESCE(SUM(transcript_bytes), 0) AS BIGINT) FROM sessions
		WHERE ended_at IS NOT NULL AND transcript_removed_at IS NULL`)
	if err != nil || total <= r.keep.TranscriptBytes {
		return 0, false, err
	}
	return r.oldest(ctx, total-r.keep.TranscriptBytes)
}

// oldTranscript is a session whose output is removed.
type oldTranscript struct{ id, bytes int64 }

func scanOldTranscript(r db.Row, v *oldTranscript) error {
	return r.Scan(&v.id, &v.bytes)
}

const selectOldTranscripts = `SELECT id, transcript_bytes FROM sessions
	WHERE ended_at IS NOT NULL AND transcript_removed_at IS NULL AND cycle_id NOT IN ` + protectedCycles

// partlyRemoved is stored as the size of a transcript that is being removed in several batches.
const partlyRemoved = -1

// continueTranscript continues with a transcript that was too large for one batch.
func (r removal) continueTranscript(ctx context.Context) (int64, bool, error) {
	old, err := db.List(ctx, r.tx, scanOldTranscript, selectOldTranscripts+` AND transcript_bytes = ? ORDER BY ended_at, id LIMIT 1`,
		partlyRemoved)
	if err != nil {
		return 0, false, err
	}
	return r.lines(ctx, old)
}

func (r removal) endedBefore(ctx context.Context) (int64, bool, error) {
	before, ok := r.before(r.keep.Transcripts)
	if !ok {
		return 0, false, nil
	}
	old, err := db.List(ctx, r.tx, scanOldTranscript, selectOldTranscripts+` AND ended_at < ? ORDER BY ended_at, id LIMIT ?`,
		before, r.pace.Of(removedSessions))
	if err != nil {
		return 0, false, err
	}
	return r.lines(ctx, old)
}

// oldest removes whole transcripts, oldest first, until the given number of bytes is gone.
func (r removal) oldest(ctx context.Context, bytes int64) (int64, bool, error) {
	old, err := db.List(ctx, r.tx, scanOldTranscript, selectOldTranscripts+` AND transcript_bytes > 0 ORDER BY ended_at, id LIMIT ?`,
		r.pace.Of(removedSessions))
	if err != nil {
		return 0, false, err
	}
	for i, v := range old {
		if bytes -= v.bytes; bytes <= 0 {
			old = old[:i+1]
			break
		}
	}
	return r.lines(ctx, old)
}

// lines removes one batch of lines. A session is marked when its last line is removed.
func (r removal) lines(ctx context.Context, old []oldTranscript) (removed int64, more bool, err error) {
	most := r.pace.Of(removedLines)
	for _, v := range old {
		n, err := db.Affected(ctx, r.tx, `DELETE FROM transcript WHERE session_id = ? AND seq IN
			(SELECT seq FROM transcript WHERE session_id = ? ORDER BY seq LIMIT ?)`, v.id, v.id, most-removed)
		if err != nil {
			return 0, false, err
		}
		if removed += n; removed >= most {
			_, err := r.tx.ExecContext(ctx, `UPDATE sessions SET transcript_bytes = ? WHERE id = ?`, partlyRemoved, v.id)
			return removed, true, err
		}
		_, err = r.tx.ExecContext(ctx, `UPDATE sessions SET transcript_removed_at = ?, transcript_bytes = 0 WHERE id = ?`, db.Time(r.now), v.id)
		if err != nil {
			return 0, false, err
		}
	}
	return removed, len(old) > 0, nil
}

// Removed is when records of a session were removed because of their age or size; nil means that they are still there.
type Removed struct {
	Transcript *time.Time
	Guard      *time.Time
}

// GiveBack returns some of the file's free space to the system and reports how many bytes; 0 means that there is nothing more to
// return.
func (s *Journal) GiveBack(ctx context.Context) (int64, error) { return s.db.GiveBack(ctx) }

// Removed returns when the output and the judgements of a session were removed.
func (s *Journal) Removed(ctx context.Context, id ops.SessionID) (Removed, error) {
	out, err := db.One(ctx, s.db.Reader(), func(r db.Row, out *Removed) error {
		return r.Scan(db.ToOptTime(&out.Transcript), db.ToOptTime(&out.Guard))
	}, `SELECT transcript_removed_at, guard_removed_at FROM sessions WHERE id = ?`, id)
	return ops.Returning(out, err, "read what was removed of session %d", id)
}
