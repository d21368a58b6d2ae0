package store

import (
	"bytes"
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

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
		first, last := slices.MinFunc(lines, bySeq).Seq, slices.MaxFunc(lines, bySeq).Seq
		dropped := droppedIn(lines)
		var sizes []outputSize
		counted := countOutput(&sizes, id, int64(len(lines))+dropped, dropped, sizeOf(lines), last)
		if _, err := fenceSession(ctx, tx, owner, id, counted); err != nil {
			return err
		}
		size := sizes[0]
		if first <= max(size.lastRow, size.lastBlock) {
			if err := refuseStored(ctx, tx, id, first, last); err != nil {
				return err
			}
		}
		if err := s.insertOutput(ctx, tx, id, lines); err != nil {
			return err
		}
		db.TellAfter(tx, ops.ReachPages)
		return s.limitOutput(ctx, tx, id, size, last)
	})
	if db.IsUnique(err) {
		err = ops.NewConflict(ops.ConflictTaken, "some of the lines from %d to %d are stored already", lines[0].Seq, lines[len(lines)-1].Seq)
	}
	return wrapped(err, "append transcript of session %d", id)
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
	for _, rows := range []int{100, 10, max(1, len(lines)%10)} {
		statement := insertTranscript(rows)
		for ; len(lines) >= rows; lines = lines[rows:] {
			args := make([]any, 0, 4*rows)
			for _, l := range lines[:rows] {
				args = append(args, int64(id), l.Seq, db.Time(l.At), l.Text)
			}
			if err := db.Exec(ctx, tx, statement, args...); err != nil {
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
func (s *Journal) Transcript(ctx context.Context, id ops.SessionID, after int64, limit int) ([]ops.Line, error) {
	var out []ops.Line
	for want := db.PageSize(limit); want > 0; {
		lines, more, err := s.readOutput(ctx, id, after, want)
		if err != nil {
			return nil, fmt.Errorf("read transcript of session %d: %w", id, err)
		}
		out = append(out, lines...)
		if !more || len(lines) == 0 {
			break
		}
		after = lines[len(lines)-1].Seq
		want -= len(lines)
	}
	return out, nil
}

// stored is a line or a block, as it is read.
type stored struct {
	ops.Line
	block
}

// readOutput reads at most limit lines after a number, from rows and from a few blocks, in one statement: lines may be packed at the
// same time. It reports whether there may be more.
func (s *Journal) readOutput(ctx context.Context, id ops.SessionID, after int64, limit int) (out []ops.Line, more bool, err error) {
	const linesOfBlock, maxBlocks = 256, 8 // a guess; and blocks in memory at once
	blocks := min(1+limit/linesOfBlock, maxBlocks)
	found, err := db.List(ctx, s.db.Reader(), func(r db.Row) (stored, error) {
		var v stored
		var at string
		err := r.Scan(&v.Seq, &at, &v.Text, &v.last, &v.data)
		if err == nil && v.last == 0 {
			err = db.ToTime(&v.At).Scan(at)
		}
		return v, err
	}, `SELECT b.first_seq, '', '', b.last_seq, b.data FROM (SELECT first_seq, last_seq, data FROM transcript_blocks
			WHERE session_id = ? AND last_seq > ? ORDER BY last_seq LIMIT ?) AS b
		UNION ALL SELECT r.seq, r.at, r.line, 0, NULL FROM (SELECT seq, at, line FROM transcript
			WHERE session_id = ? AND seq > ? ORDER BY seq LIMIT ?) AS r
		ORDER BY 1`, id, after, blocks, id, after, limit)
	if err != nil {
		return nil, false, err
	}
	for _, v := range found {
		if len(out) >= limit {
			break
		}
		if v.last == 0 {
			out = append(out, v.Line)
			continue
		}
		v.first = v.Seq
		lines, err := s.blocks.linesAfter(v.block, after, limit-len(out))
		if err != nil {
			return nil, false, fmt.Errorf("lines %d to %d: %w", v.first, v.last, err)
		}
		out = append(out, lines...)
		if blocks--; blocks == 0 {
			return out, true, nil // another block may follow before the next row
		}
	}
	return out, false, nil
}

func scanLine(r db.Row) (ops.Line, error) {
	var l ops.Line
	err := r.Scan(&l.Seq, db.ToTime(&l.At), &l.Text)
	return l, err
}

// TranscriptCount returns how many lines a session has printed, dropped ones included. It is the number of its last line.
func (s *Journal) TranscriptCount(ctx context.Context, id ops.SessionID) (int64, error) {
	n, err := db.One(ctx, s.db.Reader(), db.ScanInt, `SELECT transcript_lines FROM sessions WHERE id = ?`, id)
	return returning(n, err, "count transcript of session %d", id)
}

// FindLines returns the lines of a session that contain a text, in upper or lower case.
func (s *Journal) FindLines(ctx context.Context, id ops.SessionID, text string, limit int) ([]ops.Line, error) {
	var out []ops.Line
	err := s.db.Read(ctx, func(tx db.Querier) error {
		found, err := s.findInBlocks(ctx, tx, id, bytes.ToLower([]byte(text)), db.PageSize(limit))
		if err != nil {
			return err
		}
		out, err = db.List(ctx, tx, scanLine, `SELECT seq, at, line FROM transcript WHERE session_id = ?
			AND LOWER(line) LIKE ? ESCAPE '\'
			ORDER BY seq LIMIT ?`, id, db.Contains(text), db.PageSize(limit))
		out = append(out, found...)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("search transcript of session %d: %w", id, err)
	}
	slices.SortFunc(out, func(a, b ops.Line) int { return cmp.Compare(a.Seq, b.Seq) })
	return out[:min(len(out), db.PageSize(limit))], nil
}

// findInBlocks searches the blocks of a session, one at a time.
func (s *Journal) findInBlocks(ctx context.Context, tx db.Querier, id ops.SessionID, text []byte, limit int) (out []ops.Line, err error) {
	var lower []byte
	for after := int64(0); len(out) < limit; {
		b, err := db.One(ctx, tx, scanBlock, selectBlocks+` WHERE session_id = ? AND last_seq > ? ORDER BY last_seq LIMIT 1`, id, after)
		if errors.Is(err, ops.ErrNotFound) {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		raw, err := s.blocks.unpack(b)
		if err != nil {
			return nil, err
		}
		after = b.last
		lower = lowered(lower[:0], raw, text)
		if !bytes.Contains(lower, text) {
			continue
		}
		err = b.eachLine(raw, func(seq int64, at time.Time, line []byte) bool {
			if lower = lowered(lower[:0], line, text); bytes.Contains(lower, text) {
				out = append(out, ops.Line{Seq: seq, At: at, Text: string(line)})
			}
			return len(out) < limit
		})
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// lowered appends data in lower case to a buffer. For a text of ASCII letters that is enough, and much faster than for all letters.
func lowered(to, data, text []byte) []byte {
	for _, c := range text {
		if c >= utf8.RuneSelf {
			return append(to, bytes.ToLower(data)...)
		}
	}
	for _, c := range data {
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		to = append(to, c)
	}
	return to
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
	return wrapped(err, "store kept output of session %d", id)
}

// addLine stores a line that is not stored yet, and reports whether it did.
func addLine(ctx context.Context, tx db.Querier, id ops.SessionID, l ops.Line) (bool, error) {
	return db.Changed(tx.ExecContext(ctx, `INSERT INTO transcript (session_id, seq, at, line)
		SELECT CAST(? AS BIGINT), CAST(? AS BIGINT), CAST(? AS TEXT), CAST(? AS TEXT) WHERE NOT EXISTS (SELECT 1 FROM transcript_blocks
			WHERE session_id = ? AND last_seq >= ? AND first_seq <= ?)
		ON CONFLICT DO NOTHING`, int64(id), l.Seq, db.Time(l.At), l.Text, int64(id), l.Seq, l.Seq))
}
