package store

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"

	"claudeops/internal/ops"
	"claudeops/internal/store/db"
)

// AppendTranscript stores lines of a session's output in one transaction. A line number that exists already is ops.ErrConflict.
func (s *Journal) AppendTranscript(ctx context.Context, owner ops.Owner, id ops.SessionID, lines []ops.Line) error {
	if len(lines) == 0 {
		return nil
	}
	err := s.db.WriteUnordered(ctx, "transcript", func(tx db.Querier) error {
		// The session's row comes first. It stays locked until the end of this transaction, and taking the cycle over needs that lock
		// too: either these lines are stored before the takeover, or the fence, which is read after the lock, refuses them.
		bySeq := func(a, b ops.Line) int { return cmp.Compare(a.Seq, b.Seq) }
		last := slices.MaxFunc(lines, bySeq).Seq
		dropped := droppedIn(lines)
		var sizes []outputSize
		counted := countOutput(&sizes, id, int64(len(lines))+dropped, dropped, sizeOf(lines), last)
		if _, err := fenceSession(ctx, tx, owner, id, counted); err != nil {
			return err
		}
		if err := insertLines(ctx, tx, id, lines); err != nil {
			return err
		}
		db.TellAfter(tx, ops.ReachPages)
		return s.limitOutput(ctx, tx, id, sizes[0], last)
	})
	if db.IsUnique(err) {
		err = ops.NewConflict(ops.ConflictTaken, "some of the lines from %d to %d are stored already", lines[0].Seq, lines[len(lines)-1].Seq)
	}
	return ops.Wrapped(err, "append transcript of session %d", id)
}

// awaitOutput waits until the output that is being stored for a cycle's running sessions is stored, and blocks more of it until
// this transaction ends. Every change of a running cycle's owner needs it, unless it changes the rows of those sessions anyway.
func awaitOutput(ctx context.Context, tx db.Querier, cycle ops.CycleID) error {
	_, err := tx.ExecContext(ctx, `UPDATE sessions SET transcript_seq = transcript_seq WHERE cycle_id = ? AND status = 'running'`, cycle)
	return err
}

const insertsLines = `INSERT INTO transcript (session_id, seq, at, line) VALUES `

func insertLines(ctx context.Context, tx db.Querier, id ops.SessionID, lines []ops.Line) error {
	rows := ops.Map(lines, func(l ops.Line) []any { return []any{int64(id), l.Seq, db.Time(l.At), l.Text} })
	return db.WriteRows(ctx, tx, insertsLines, ``, rows)
}

// Transcript returns the lines of a session that follow the given number.
func (s *Journal) Transcript(ctx context.Context, id ops.SessionID, after int64, limit int) ([]ops.Line, error) {
	out, err := db.List(ctx, s.db.Reader(), scanLine, selectLines+` AND seq > ? ORDER BY seq LIMIT ?`, id, after, db.PageSize(limit))
	return ops.Returning(out, err, "read transcript of session %d", id)
}

const selectLines = `SELECT seq, at, line FROM transcript WHERE session_id = ?`

func scanLine(r db.Row) (l ops.Line, err error) {
	return l, r.Scan(&l.Seq, db.ToTime(&l.At), &l.Text)
}

// TranscriptCount returns how many lines a session has printed, dropped ones included. It is the number of its last line.
func (s *Journal) TranscriptCount(ctx context.Context, id ops.SessionID) (int64, error) {
	n, err := db.One(ctx, s.db.Reader(), db.ScanInt, `SELECT transcript_lines FROM sessions WHERE id = ?`, id)
	return ops.Returning(n, err, "count transcript of session %d", id)
}

// FindLines returns the lines of a session that contain a text, in upper or lower case.
func (s *Journal) FindLines(ctx context.Context, id ops.SessionID, text string, limit int) ([]ops.Line, error) {
	out, err := db.List(ctx, s.db.Reader(), scanLine, selectLines+` AND LOWER(line) LIKE ? ESCAPE '\' ORDER BY seq LIMIT ?`,
		id, db.Contains(text), db.PageSize(limit))
	return ops.Returning(out, err, "search transcript of session %d", id)
}

// AppendSpooled stores output that its host could not store when it was read. Lines that are stored already stay unchanged. Only
// the host that ran the session has such lines, so they are accepted even if the session has continued elsewhere.
func (s *Journal) AppendSpooled(ctx context.Context, host string, id ops.SessionID, lines []ops.Line) error {
	err := s.db.Write(ctx, "spooled", func(tx db.Querier) error {
		var ran string
		// The row first, in the same order as AppendTranscript, to avoid a deadlock.
		if err := tx.QueryRowContext(ctx, `UPDATE sessions SET transcript_seq = transcript_seq WHERE id = ? RETURNING owner`, id).
			Scan(db.ToText(&ran)); errors.Is(err, sql.ErrNoRows) {
			return ops.ErrNotFound
		} else if err != nil {
			return err
		}
		if ran != host {
			return fmt.Errorf("host %q ran it, not %q: %w", ran, host, ops.ErrFenced)
		}
		var last, added, dropped, bytes int64
		for _, l := range lines {
			fresh, err := addLine(ctx, tx, id, l)
			if err != nil {
				return err
			}
			if fresh {
				added += 1 + l.Dropped
				dropped += l.Dropped
				bytes += int64(len(l.Text))
			}
			last = max(last, l.Seq)
		}
		var sizes []outputSize
		if err := db.Together(ctx, tx, countOutput(&sizes, id, added, dropped, bytes, last)); err != nil {
			return err
		}
		return s.limitOutput(ctx, tx, id, sizes[0], last)
	})
	return ops.Wrapped(err, "store kept output of session %d", id)
}

// addLine stores a line that is not stored yet, and reports whether it did.
func addLine(ctx context.Context, tx db.Querier, id ops.SessionID, l ops.Line) (bool, error) {
	return db.Changed(tx.ExecContext(ctx, insertsLines+`(?, ?, ?, ?) ON CONFLICT DO NOTHING`,
		int64(id), l.Seq, db.Time(l.At), l.Text))
}
