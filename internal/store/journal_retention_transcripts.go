package store

import (
	"context"
	"fmt"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/store/db"
)

// transcripts removes the output of sessions that ended long ago, and the oldest of what is too much. It counts lines; a batch
// that only looked at sessions without any is one all the same.
func (r removal) transcripts(ctx context.Context) (removed int64, more bool, err error) {
	for _, batch := range []func(context.Context) (int64, bool, error){r.continueTranscript, r.endedBefore, r.measure, r.overSize} {
		if removed, more, err = batch(ctx); more || err != nil {
			return removed, more, err
		}
	}
	return 0, false, nil
}

// tooMuch removes the oldest of what is beyond the size of all.
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

// victim is a session whose output goes.
type oldTranscript struct{ id, lines, bytes int64 }

func scanOldTranscript(r db.Row) (oldTranscript, error) {
	var v oldTranscript
	err := r.Scan(&v.id, &v.lines, &v.bytes)
	return v, err
}

const selectOldTranscripts = `SELECT id, transcript_lines, COALESCE(transcript_bytes, 0) FROM sessions
	WHERE ended_at IS NOT NULL AND transcript_removed_at IS NULL AND cycle_id NOT IN ` + protectedCycles

// halfRemoved stands for the size of a transcript of which some lines have gone and others have not.
const partlyRemoved = -1

// begun goes on with a transcript that was too large for one batch.
func (r removal) continueTranscript(ctx context.Context) (int64, bool, error) {
	victims, err := db.List(ctx, r.tx, scanOldTranscript, selectOldTranscripts+` AND transcript_bytes = ? ORDER BY ended_at, id LIMIT 1`, partlyRemoved)
	if err != nil {
		return 0, false, err
	}
	return r.lines(ctx, victims)
}

func (r removal) endedBefore(ctx context.Context) (int64, bool, error) {
	before, ok := r.before(r.keep.Transcripts)
	if !ok {
		return 0, false, nil
	}
	victims, err := db.List(ctx, r.tx, scanOldTranscript, selectOldTranscripts+` AND ended_at < ? ORDER BY ended_at, id LIMIT ?`, before, removedSessions)
	if err != nil {
		return 0, false, err
	}
	return r.lines(ctx, victims)
}

// oldest removes whole transcripts, the oldest first, until so many bytes are gone.
func (r removal) oldest(ctx context.Context, bytes int64) (int64, bool, error) {
	victims, err := db.List(ctx, r.tx, scanOldTranscript, selectOldTranscripts+` AND transcript_bytes > 0 ORDER BY ended_at, id LIMIT ?`, removedSessions)
	if err != nil {
		return 0, false, err
	}
	for i, v := range victims {
		if bytes -= v.bytes; bytes <= 0 {
			victims = victims[:i+1]
			break
		}
	}
	return r.lines(ctx, victims)
}

// lines removes as many lines as a batch may. A session is marked when its last line has gone.
func (r removal) lines(ctx context.Context, victims []oldTranscript) (removed int64, more bool, err error) {
	for _, v := range victims {
		n, err := db.Affected(ctx, r.tx, `DELETE FROM transcript WHERE session_id = ? AND seq IN
			(SELECT seq FROM transcript WHERE session_id = ? ORDER BY seq LIMIT ?)`, v.id, v.id, removedLines-removed)
		if err != nil {
			return 0, false, err
		}
		if removed += n; removed >= removedLines {
			_, err := r.tx.ExecContext(ctx, `UPDATE sessions SET transcript_bytes = ? WHERE id = ?`, partlyRemoved, v.id)
			return removed, true, err
		}
		_, err = r.tx.ExecContext(ctx, `UPDATE sessions SET transcript_removed_at = ?, transcript_bytes = 0 WHERE id = ?`, db.Time(r.now), v.id)
		if err != nil {
			return 0, false, err
		}
	}
	return removed, len(victims) > 0, nil
}

// measure writes the size of transcripts that are complete and were not measured yet.
func (r removal) measure(ctx context.Context) (int64, bool, error) {
	if r.keep.TranscriptBytes <= 0 {
		return 0, false, nil
	}
	ids, err := db.List(ctx, r.tx, scanOldTranscript, `SELECT id, transcript_lines, 0 FROM sessions WHERE ended_at IS NOT NULL
		AND transcript_removed_at IS NULL AND transcript_bytes IS NULL ORDER BY ended_at, id LIMIT ?`, removedSessions)
	if err != nil {
		return 0, false, err
	}
	const mostLines = 20_000 // to be read for it in one batch
	var read int64
	for i, v := range ids {
		if i > 0 && read+v.lines > mostLines {
			return 0, true, nil
		}
		read += v.lines
		_, err := r.tx.ExecContext(ctx, `UPDATE sessions SET transcript_bytes =
			(SELECT COALESCE(SUM(OCTET_LENGTH(line)), 0) FROM transcript WHERE session_id = ?) WHERE id = ?`, v.id, v.id)
		if err != nil {
			return 0, false, err
		}
	}
	return 0, len(ids) > 0, nil
}

// Removed is what was removed of a session because it was old, or too much; nil means that it is there.
type Removed struct {
	Transcript *time.Time
	Guard      *time.Time
}

// Removed tells when the output and the judgements of a session were removed.
func (s *Store) Removed(ctx context.Context, id ops.SessionID) (Removed, error) {
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
