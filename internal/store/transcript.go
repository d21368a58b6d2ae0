package store

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"claudeops/internal/ops"
)

// AppendTranscript stores lines of a session's output in one transaction. A number that is taken is ops.ErrConflict.
func (s *Store) AppendTranscript(ctx context.Context, owner ops.Owner, id ops.SessionID, lines []ops.Line) error {
	if len(lines) == 0 {
		return nil
	}
	err := s.writeBeside(ctx, "transcript", func(tx querier) error {
		// The session's row comes first. It stays locked until the end of this transaction, and whoever takes the cycle over needs
		// it too: either these lines stand before the takeover, or the fence, which is read after the lock, refuses them.
		last := slices.MaxFunc(lines, func(a, b ops.Line) int { return int(a.Seq - b.Seq) }).Seq
		_, err := tx.ExecContext(ctx, `UPDATE sessions SET transcript_lines = transcript_lines + ?,
			transcript_seq = CASE WHEN transcript_seq < ? THEN ? ELSE transcript_seq END WHERE id = ?`,
			len(lines), last, last, id)
		if err != nil {
			return err
		}
		if _, err := fenceSession(ctx, tx, owner, id); err != nil {
			return err
		}
		return insertLines(ctx, tx, id, lines)
	})
	if err != nil {
		return fmt.Errorf("append transcript of session %d: %w", id, err)
	}
	return nil
}

// awaitOutput waits for the output that is just being stored for a cycle's running sessions, and keeps more from coming until
// this transaction ends. Every change of a running cycle's owner needs it, unless it changes the rows of those sessions anyway.
func awaitOutput(ctx context.Context, tx querier, cycle ops.CycleID) error {
	_, err := tx.ExecContext(ctx, `UPDATE sessions SET transcript_seq = transcript_seq WHERE cycle_id = ? AND status = 'running'`, cycle)
	return err
}

// insertLines uses statements of a few sizes only, so that each of them stays prepared. A larger one than the first would
// make the database keep more to undo it than the saved statements cost.
func insertLines(ctx context.Context, tx querier, id ops.SessionID, lines []ops.Line) error {
	for _, rows := range []int{100, 10, 1} {
		statement := insertTranscript(rows)
		args := make([]any, 0, 4*rows)
		for ; len(lines) >= rows; lines = lines[rows:] {
			args = args[:0]
			for _, l := range lines[:rows] {
				args = append(args, int64(id), l.Seq, formatTime(l.At), l.Text)
			}
			_, err := tx.ExecContext(ctx, statement, args...)
			if isUnique(err) {
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
	out, err := list(ctx, s.reader, scanLine, `SELECT seq, at, line FROM transcript WHERE session_id = ? AND seq > ?
		ORDER BY seq LIMIT ?`, id, after, pageSize(limit))
	if err != nil {
		return nil, fmt.Errorf("read transcript of session %d: %w", id, err)
	}
	return out, nil
}

func scanLine(r row) (ops.Line, error) {
	var l ops.Line
	err := r.Scan(&l.Seq, toTime(&l.At), &l.Text)
	return l, err
}

// TranscriptCount returns how many lines of a session are stored.
func (s *Store) TranscriptCount(ctx context.Context, id ops.SessionID) (int64, error) {
	n, err := one(ctx, s.reader, scanInt, `SELECT transcript_lines FROM sessions WHERE id = ?`, id)
	if err != nil {
		return 0, fmt.Errorf("count transcript of session %d: %w", id, err)
	}
	return n, nil
}
