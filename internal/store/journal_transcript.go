package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"

	"claudeops/internal/ops"
	"claudeops/internal/store/db"
)

// AppendTranscript stores lines of a session's output in one transaction. A line number that exists already is ops.ErrConflict.
func (s *Store) AppendTranscript(ctx context.Context, owner ops.Owner, id ops.SessionID, lines []ops.Line) error {
	if len(lines) == 0 {
		return nil
	}
	err := s.db.WriteUnordered(ctx, "transcript", func(tx db.Querier) error {
		// The session's row comes first. It stays locked until the end of this transaction, and taking the cycle over needs that lock
		// too: either these lines are stored before the takeover, or the fence, which is read after the lock, refuses them.
		last := slices.MaxFunc(lines, func(a, b ops.Line) int { return int(a.Seq - b.Seq) }).Seq
		dropped := droppedIn(lines)
		size, err := countOutput(ctx, tx, id, int64(len(lines))+dropped, dropped, sizeOf(lines), last)
		if err != nil {
			return err
		}
		if _, err := fenceSession(ctx, tx, owner, id); err != nil {
			return err
		}
		if err := insertLines(ctx, tx, id, lines); err != nil {
			return err
		}
		return s.limitOutput(ctx, tx, id, size, last)
	})
	if err != nil {
		return fmt.Errorf("append transcript of session %d: %w", id, err)
	}
	s.db.Notify(ctx)
	return nil
}

// awaitOutput waits until the output that is being stored for a cycle's running sessions is stored, and blocks more of it until
// this transaction ends. Every change of a running cycle's owner needs it, unless it changes the rows of those sessions anyway.
func awaitOutput(ctx context.Context, tx db.Querier, cycle ops.CycleID) error {
	_, err := tx.ExecContext(ctx, `UPDATE sessions SET transcript_seq = transcript_seq WHERE cycle_id = ? AND status = 'running'`, cycle)
	return err
}

// insertLines uses statements of only a few sizes, so that each of them stays prepared. Statements of more than 100 rows would
// cost the database more than they save.
func insertLines(ctx context.Context, tx db.Querier, id ops.SessionID, lines []ops.Line) error {
	for _, rows := range []int{100, 10, 1} {
		statement := insertTranscript(rows)
		args := make([]any, 0, 4*rows)
		for ; len(lines) >= rows; lines = lines[rows:] {
			args = args[:0]
			for _, l := range lines[:rows] {
				args = append(args, int64(id), l.Seq, db.Time(l.At), l.Text)
			}
			_, err := tx.ExecContext(ctx, statement, args...)
			if db.IsUnique(err) {
				return fmt.Errorf("some of the lines from %d to %d are stored already: %w", lines[0].Seq, lines[rows-1].Seq, ops.ErrConflict)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

func insertTranscript(rows int) string {
	return `INSERT INTO transcript (session_id, seq, at, line) VALUES (?, ?, ?, ?)` +
		strings.Repeat(`, (?, ?, ?, ?)`, rows-1)
}

// Transcript returns the lines of a session that follow the given number.
func (s *Store) Transcript(ctx context.Context, id ops.SessionID, after int64, limit int) ([]ops.Line, error) {
	out, err := db.List(ctx, s.db.Reader(), scanLine, `SELECT seq, at, line FROM transcript WHERE session_id = ? AND seq > ?
		ORDER BY seq LIMIT ?`, id, after, db.PageSize(limit))
	if err != nil {
		return nil, fmt.Errorf("read transcript of session %d: %w", id, err)
	}
	return out, nil
}

func scanLine(r db.Row) (ops.Line, error) {
	var l ops.Line
	err := r.Scan(&l.Seq, db.ToTime(&l.At), &l.Text)
	return l, err
}

// TranscriptCount returns how many lines a session has printed, dropped ones included. It is the number of its last line.
func (s *Store) TranscriptCount(ctx context.Context, id ops.SessionID) (int64, error) {
	n, err := db.One(ctx, s.db.Reader(), db.ScanInt, `SELECT transcript_lines FROM sessions WHERE id = ?`, id)
	if err != nil {
		return 0, fmt.Errorf("count transcript of session %d: %w", id, err)
	}
	return n, nil
}

// FindLines returns the lines of a session that contain a text, in upper or lower case.
func (s *Store) FindLines(ctx context.Context, id ops.SessionID, text string, limit int) ([]ops.Line, error) {
	out, err := db.List(ctx, s.db.Reader(), scanLine, `SELECT seq, at, line FROM transcript WHERE session_id = ?
		AND LOWER(line) LIKE ? ESCAPE '\'
		ORDER BY seq LIMIT ?`, id, db.Contains(text), db.PageSize(limit))
	if err != nil {
		return nil, fmt.Errorf("search transcript of session %d: %w", id, err)
	}
	return out, nil
}

// AppendSpooled stores output that its host could not store when it was read. Lines that are stored already stay unchanged. Only
// the host that ran the session has such lines, so they are accepted even if the session has continued elsewhere.
func (s *Store) AppendSpooled(ctx context.Context, host string, id ops.SessionID, lines []ops.Line) error {
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
			fresh, err := db.Changed(tx.ExecContext(ctx, insertTranscript(1)+` ON CONFLICT DO NOTHING`, int64(id), l.Seq, db.Time(l.At), l.Text))
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
		size, err := countOutput(ctx, tx, id, added, dropped, bytes, last)
		if err != nil {
			return err
		}
		return s.limitOutput(ctx, tx, id, size, last)
	})
	if err != nil {
		return fmt.Errorf("store kept output of session %d: %w", id, err)
	}
	return nil
}
