package store

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"claudeops/internal/ops"
)

// chunkRows is how many lines one insert takes: fewer pay for more statements, more make the database keep a larger undo log
// for each of them.
const chunkRows = 100

// AppendTranscript stores lines of a session's output in one transaction. A number that is taken is ops.ErrConflict.
func (s *Store) AppendTranscript(ctx context.Context, owner ops.Owner, id ops.SessionID, lines []ops.Line) error {
	if len(lines) == 0 {
		return nil
	}
	err := s.write(ctx, "transcript", func(tx querier) error {
		if _, err := fenceSession(ctx, tx, owner, id); err != nil {
			return err
		}
		if err := insertLines(ctx, tx, id, lines); err != nil {
			return err
		}
		last := slices.MaxFunc(lines, func(a, b ops.Line) int { return int(a.Seq - b.Seq) }).Seq
		_, err := tx.ExecContext(ctx, `UPDATE sessions SET transcript_lines = transcript_lines + ?,
			transcript_seq = CASE WHEN transcript_seq < ? THEN ? ELSE transcript_seq END WHERE id = ?`,
			len(lines), last, last, id)
		return err
	})
	if err != nil {
		return fmt.Errorf("append transcript of session %d: %w", id, err)
	}
	return nil
}

func insertLines(ctx context.Context, tx querier, id ops.SessionID, lines []ops.Line) error {
	args := make([]any, 0, 4*min(len(lines), chunkRows))
	for chunk := range slices.Chunk(lines, chunkRows) {
		args = args[:0]
		for _, l := range chunk {
			args = append(args, int64(id), l.Seq, formatTime(l.At), l.Text)
		}
		_, err := tx.ExecContext(ctx, insertTranscript(len(chunk)), args...)
		if isUnique(err) {
			return fmt.Errorf("lines %d to %d are partly stored already: %w", chunk[0].Seq, chunk[len(chunk)-1].Seq, ops.ErrConflict)
		}
		if err != nil {
			return err
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
