package store

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
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

func scanLine(r db.Row, l *ops.Line) error {
	return r.Scan(&l.Seq, db.ToTime(&l.At), &l.Text)
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

// outputSize is how much of a session's output is stored, and which part of it was dropped.
type outputSize struct {
	bytes        int64
	cut, cutEnd  int64 // the first and the last dropped line; 0 while nothing was dropped
	droppedBytes int64
}

// countOutput adds lines to the figures of a session, if there is one.
func countOutput(to *[]outputSize, id ops.SessionID, lines, dropped, bytes, last int64) db.Part {
	return db.Into(to, func(r db.Row, size *outputSize) error {
		return r.Scan(&size.bytes, &size.cut, &size.cutEnd, &size.droppedBytes)
	}, `UPDATE sessions
		SET transcript_bytes = CASE WHEN transcript_bytes < 0 THEN transcript_bytes ELSE transcript_bytes + ? END,
		transcript_lines = transcript_lines + ?, transcript_dropped = transcript_dropped + ?,
		transcript_seq = CASE WHEN transcript_seq < ? THEN ? ELSE transcript_seq END WHERE id = ?
		RETURNING transcript_bytes, transcript_cut, transcript_cut_end, transcript_cut_bytes`,
		bytes, lines, dropped, last, last, id)
}

func sizeOf(lines []ops.Line) (n int64) {
	for _, l := range lines {
		n += int64(len(l.Text))
	}
	return n
}

func droppedIn(lines []ops.Line) (n int64) {
	for _, l := range lines {
		n += l.Dropped
	}
	return n
}

// limitOutput drops lines in the middle of a session's output when there is more than the limit: the first half of the limit and the
// newest lines stay. It drops an eighth at a time, so that not every batch has to.
func (s *Journal) limitOutput(ctx context.Context, tx db.Querier, id ops.SessionID, size outputSize, last int64) error {
	if s.maxOutput <= 0 || size.bytes <= s.maxOutput {
		return nil
	}
	if size.cut == 0 {
		end, _, err := linesUpTo(ctx, tx, id, 0, last, s.maxOutput/2)
		if err != nil {
			return fmt.Errorf("find the beginning of the output: %w", err)
		}
		size.cut, size.cutEnd = end+1, end
	}
	end, bytes, err := linesUpTo(ctx, tx, id, size.cutEnd, last, size.bytes-s.maxOutput*7/8)
	if err != nil {
		return fmt.Errorf("find the middle of the output: %w", err)
	}
	if end <= size.cutEnd {
		return nil
	}
	size.cutEnd, size.bytes, size.droppedBytes = end, size.bytes-bytes, size.droppedBytes+bytes
	dropped, err := db.Affected(ctx, tx, `DELETE FROM transcript WHERE session_id = ? AND seq >= ? AND seq <= ?`, id, size.cut, size.cutEnd)
	if err != nil {
		return fmt.Errorf("drop output: %w", err)
	}
	mark, err := dropMark(size.cutEnd-size.cut+1, size.droppedBytes,
		fmt.Sprintf("because the session printed more than %s", megabytes(s.maxOutput)))
	if err != nil {
		return err
	}
	if err := insertLines(ctx, tx, id, []ops.Line{{Seq: size.cut, At: s.clock(), Text: mark}}); err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, `UPDATE sessions SET transcript_bytes = ?, transcript_cut = ?, transcript_cut_end = ?,
		transcript_cut_bytes = ?, transcript_dropped = transcript_dropped + ? WHERE id = ?`,
		size.bytes, size.cut, size.cutEnd, size.droppedBytes, dropped-1, id)
	return err
}

// linesUpTo returns the last of the lines after a number that together have at least that many bytes, and their bytes. The session's
// last line is never among them.
func linesUpTo(ctx context.Context, tx db.Querier, id ops.SessionID, after, last, bytes int64) (end, sum int64, err error) {
	type line struct{ seq, bytes int64 }
	scan := func(r db.Row, l *line) error {
		return r.Scan(&l.seq, &l.bytes)
	}
	const batch = 1000
	for end = after; ; {
		lines, err := db.List(ctx, tx, scan, `SELECT seq, OCTET_LENGTH(line) FROM transcript WHERE session_id = ? AND seq > ? AND seq < ?
			ORDER BY seq LIMIT ?`, id, end, last, batch)
		if err != nil {
			return 0, 0, err
		}
		for _, l := range lines {
			if sum >= bytes {
				return end, sum, nil
			}
			end, sum = l.seq, sum+l.bytes
		}
		if len(lines) < batch {
			return end, sum, nil
		}
	}
}

// droppedOutput is the type of the event in place of output that was dropped; package transcript reads it.
const droppedOutput = "dropped"

// dropMark is the line that says what was dropped, in the form of an agent's events.
func dropMark(lines, bytes int64, why string) (string, error) {
	raw, err := json.Marshal(struct {
		Type  string `json:"type"`
		Text  string `json:"text"`
		Lines int64  `json:"lines"`
		Bytes int64  `json:"bytes"`
	}{droppedOutput, fmt.Sprintf("%d lines (%s) of output were dropped here, %s.", lines, megabytes(bytes), why), lines, bytes})
	return string(raw), err
}

// DropMark is a line in place of output that was not stored.
func DropMark(first ops.Line, lines, bytes int64, why string) (ops.Line, error) {
	mark, err := dropMark(lines, bytes, why)
	return ops.Line{Seq: first.Seq, At: first.At, Text: mark, Dropped: lines - 1}, err
}

func megabytes(n int64) string { return fmt.Sprintf("%.1f MB", float64(n)/(1<<20)) }

// Gap is the part of a session's output that was dropped: the line at From says so, and the next line is after To.
type Gap struct{ From, To, Bytes int64 }

// Gap returns what was dropped of a session's output; the zero value means nothing.
func (s *Journal) Gap(ctx context.Context, id ops.SessionID) (Gap, error) {
	out, err := db.One(ctx, s.db.Reader(), func(r db.Row, g *Gap) error {
		return r.Scan(&g.From, &g.To, &g.Bytes)
	}, `SELECT transcript_cut, transcript_cut_end, transcript_cut_bytes FROM sessions WHERE id = ?`, id)
	return ops.Returning(out, err, "read what was dropped of session %d", id)
}
