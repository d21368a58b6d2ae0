package store

import (
	"context"
	"fmt"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/store/db"
)

// transcripts removes the output of sessions that ended long ago, and the oldest output beyond the size limit. It counts lines. A
// batch may also consist only of sessions without output.
func (r removal) transcripts(ctx context.Context) (removed int64, more bool, err error) {
	for _, batch := range []func(context.Context) (int64, bool, error){r.continueTranscript, r.endedBefore, r.measure, r.overSize} {
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
type oldTranscript struct{ id, lines, bytes int64 }

func scanOldTranscript(r db.Row) (oldTranscript, error) {
	var v oldTranscript
	err := r.Scan(&v.id, &v.lines, &v.bytes)
	return v, err
}

const selectOldTranscripts = `SELECT id, transcript_lines, COALESCE(transcript_bytes, 0) FROM sessions
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
	var rows int64
	var blocks int
	mostRows, mostBlocks := r.pace.Of(removedLines), int(r.pace.Of(removedBlocks))
	for _, v := range old {
		n, err := db.Affected(ctx, r.tx, `DELETE FROM transcript WHERE session_id = ? AND seq IN
			(SELECT seq FROM transcript WHERE session_id = ? ORDER BY seq LIMIT ?)`, v.id, v.id, mostRows-rows)
		if err != nil {
			return 0, false, err
		}
		some, lines, err := dropBlocks(ctx, r.tx, `session_id = ? AND last_seq IN
			(SELECT last_seq FROM transcript_blocks WHERE session_id = ? ORDER BY last_seq LIMIT ?)`, v.id, v.id, mostBlocks-blocks)
		if err != nil {
			return 0, false, err
		}
		rows, blocks, removed = rows+n, blocks+some, removed+n+lines
		if rows >= mostRows || blocks >= mostBlocks {
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

// measure stores the size of complete transcripts that were not measured yet.
func (r removal) measure(ctx context.Context) (int64, bool, error) {
	if r.keep.TranscriptBytes <= 0 {
		return 0, false, nil
	}
	ids, err := db.List(ctx, r.tx, scanOldTranscript, `SELECT id, transcript_lines, 0 FROM sessions WHERE ended_at IS NOT NULL
		AND transcript_removed_at IS NULL AND transcript_bytes IS NULL ORDER BY ended_at, id LIMIT ?`, r.pace.Of(removedSessions))
	if err != nil {
		return 0, false, err
	}
	maxLines := r.pace.Of(5_000) // read in one batch
	var read int64
	for i, v := range ids {
		if i > 0 && read+v.lines > maxLines {
			return 0, true, nil
		}
		read += v.lines
		_, err := r.tx.ExecContext(ctx, `UPDATE sessions SET transcript_bytes =
			(SELECT COALESCE(SUM(OCTET_LENGTH(line)), 0) FROM transcript WHERE session_id = ?)
			+ (SELECT COALESCE(SUM(bytes), 0) FROM transcript_blocks WHERE session_id = ?) WHERE id = ?`, v.id, v.id, v.id)
		if err != nil {
			return 0, false, err
		}
	}
	return 0, len(ids) > 0, nil
}

// Removed is when records of a session were removed because of their age or size; nil means that they are still there.
type Removed struct {
	Transcript *time.Time
	Guard      *time.Time
}

// Removed returns when the output and the judgements of a session were removed.
func (s *Journal) Removed(ctx context.Context, id ops.SessionID) (Removed, error) {
	out, err := db.One(ctx, s.db.Reader(), func(r db.Row) (Removed, error) {
		var out Removed
		err := r.Scan(db.ToOptTime(&out.Transcript), db.ToOptTime(&out.Guard))
		return out, err
	}, `SELECT transcript_removed_at, guard_removed_at FROM sessions WHERE id = ?`, id)
	if err != nil {
		return Removed{}, fmt.Errorf("read what was removed of session %d: %w", id, err)
	}
	return out, nil
}
