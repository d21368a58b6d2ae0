package store

import (
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/klauspost/compress/zstd"

	"claudeops/internal/ops"
	"claudeops/internal/store/db"
)

const (
	// blockBytes is how much output one block holds before compression, except for a longer line.
	blockBytes = 128 << 10
	// directBytes is how much output must come at once to be stored as blocks. Less would be compressed badly.
	directBytes = 16 << 10
	// firstRows is how many lines of a session are rows in any case, and packAfter is how long they stay rows after it has ended: what
	// reads the table transcript with SQL finds the whole output of an ordinary session there.
	firstRows = 2000
	packAfter = 24 * time.Hour
	// leastLimit is the smallest limit of a session's output for which blocks are used at once: only whole blocks are dropped.
	leastLimit = 8 << 20
)

// blockCodec compresses blocks. Both halves are made when first needed, and small: most of the time nothing is printed or read.
type blockCodec struct {
	encoder func() (*zstd.Encoder, error)
	decoder func() (*zstd.Decoder, error)
	// raw holds buffers for content that is compressed; a block has the same size each time.
	raw *sync.Pool
}

func newBlockCodec() blockCodec {
	return blockCodec{
		raw: &sync.Pool{New: func() any { return new([]byte) }},
		encoder: sync.OnceValues(func() (*zstd.Encoder, error) {
			return zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest),
				zstd.WithWindowSize(blockBytes), zstd.WithLowerEncoderMem(true))
		}),
		decoder: sync.OnceValues(func() (*zstd.Decoder, error) {
			const most = 1 << 30 // larger than any line
			return zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxMemory(most))
		}),
	}
}

// block is a row of transcript_blocks.
type block struct {
	first, last, bytes int64
	data               []byte
}

const selectBlocks = `SELECT first_seq, last_seq, bytes, data FROM transcript_blocks`

func scanBlock(r db.Row) (block, error) {
	var b block
	err := r.Scan(&b.first, &b.last, &b.bytes, &b.data)
	return b, err
}

// pack compresses lines that follow each other without a gap.
func (c blockCodec) pack(lines []ops.Line) (block, error) {
	encoder, err := c.encoder()
	if err != nil {
		return block{}, fmt.Errorf("prepare compression: %w", err)
	}
	b := block{first: lines[0].Seq, last: lines[len(lines)-1].Seq, bytes: sizeOf(lines)}
	buffer, _ := c.raw.Get().(*[]byte)
	raw := slices.Grow((*buffer)[:0], int(b.bytes)+8*len(lines)+binary.MaxVarintLen64)
	before := int64(0)
	for _, l := range lines {
		at := l.At.UnixMicro()
		raw = binary.AppendVarint(raw, at-before)
		raw = binary.AppendUvarint(raw, uint64(len(l.Text)))
		raw = append(raw, l.Text...)
		before = at
	}
	b.data = encoder.EncodeAll(raw, nil)
	if cap(raw) <= 2*blockBytes { // a block of one very long line would keep its memory
		*buffer = raw
		c.raw.Put(buffer)
	}
	return b, nil
}

var errBlock = errors.New("a block of output is damaged")

// unpack is the raw content of a block.
func (c blockCodec) unpack(b block) ([]byte, error) {
	decoder, err := c.decoder()
	if err != nil {
		return nil, fmt.Errorf("prepare decompression: %w", err)
	}
	raw, err := decoder.DecodeAll(b.data, nil)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errBlock, err)
	}
	return raw, nil
}

// eachLine calls take with every line of a block's raw content, until it returns false.
func (b block) eachLine(raw []byte, take func(seq int64, at time.Time, text []byte) bool) error {
	at := int64(0)
	for seq := b.first; seq <= b.last; seq++ {
		since, n := binary.Varint(raw)
		if n <= 0 {
			return errBlock
		}
		raw = raw[n:]
		size, n := binary.Uvarint(raw)
		if n <= 0 || size > uint64(len(raw)-n) {
			return errBlock
		}
		at += since
		if !take(seq, time.UnixMicro(at).UTC(), raw[n:n+int(size)]) { //nolint:gosec // at most len(raw)
			return nil
		}
		raw = raw[n+int(size):] //nolint:gosec // at most len(raw)
	}
	if len(raw) > 0 {
		return errBlock
	}
	return nil
}

// linesAfter are the lines of a block after a number.
func (c blockCodec) linesAfter(b block, after int64, limit int) ([]ops.Line, error) {
	raw, err := c.unpack(b)
	if err != nil {
		return nil, err
	}
	out := make([]ops.Line, 0, min(int64(limit), b.last-max(after, b.first-1)))
	err = b.eachLine(raw, func(seq int64, at time.Time, text []byte) bool {
		if seq > after {
			out = append(out, ops.Line{Seq: seq, At: at, Text: string(text)})
		}
		return len(out) < limit
	})
	return out, err
}

// runs splits lines into those of one block each: without a gap, and not too large.
func runs(lines []ops.Line) [][]ops.Line {
	var out [][]ops.Line
	start, bytes := 0, 0
	for i, l := range lines {
		if i > start && (l.Seq != lines[i-1].Seq+1 || bytes+len(l.Text) > blockBytes) {
			out = append(out, lines[start:i])
			start, bytes = i, 0
		}
		bytes += len(l.Text)
	}
	if start < len(lines) {
		out = append(out, lines[start:])
	}
	return out
}

func (s *Journal) insertBlock(ctx context.Context, tx db.Querier, id ops.SessionID, lines []ops.Line) error {
	b, err := s.blocks.pack(lines)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, `INSERT INTO transcript_blocks (session_id, last_seq, first_seq, lines, bytes, data)
		VALUES (?, ?, ?, ?, ?, ?)`,
		int64(id), b.last, b.first, len(lines), b.bytes, b.data)
	return err
}

// insertOutput stores lines as blocks where that is worthwhile, and else as rows.
func (s *Journal) insertOutput(ctx context.Context, tx db.Querier, id ops.SessionID, lines []ops.Line) error {
	inOrder := slices.IsSortedFunc(lines, func(a, b ops.Line) int { return cmp.Compare(a.Seq, b.Seq) })
	if !inOrder || s.maxOutput > 0 && s.maxOutput < leastLimit || sizeOf(lines) < directBytes {
		return insertLines(ctx, tx, id, lines)
	}
	if first := int(min(int64(len(lines)), max(0, firstRows+1-lines[0].Seq))); first > 0 {
		if err := insertLines(ctx, tx, id, lines[:first]); err != nil {
			return err
		}
		lines = lines[first:]
	}
	for _, run := range runs(lines) {
		if sizeOf(run) < directBytes/4 {
			if err := insertLines(ctx, tx, id, run); err != nil {
				return err
			}
			continue
		}
		if err := s.insertBlock(ctx, tx, id, run); err != nil {
			return err
		}
	}
	return nil
}

// refuseStored refuses lines of which one is stored already.
func refuseStored(ctx context.Context, tx db.Querier, id ops.SessionID, first, last int64) error {
	n, err := db.One(ctx, tx, db.ScanInt, `SELECT (SELECT COUNT(*) FROM transcript WHERE session_id = ? AND seq >= ? AND seq <= ?)
		+ (SELECT COUNT(*) FROM transcript_blocks WHERE session_id = ? AND last_seq >= ? AND first_seq <= ?)`, id, first, last, id, first, last)
	if err == nil && n > 0 {
		err = ops.NewConflict(ops.ConflictTaken, "some of the lines from %d to %d are stored already", first, last)
	}
	return err
}

// packOutput compresses some lines of an ended session that are stored as rows. It reports whether there may be more.
func (s *Journal) packOutput(ctx context.Context, tx db.Querier, now time.Time) (more bool, err error) {
	id, err := unpackedSession(ctx, tx, now.Add(-packAfter))
	if err != nil || id == 0 {
		return false, err
	}
	// The row first, in the same order as AppendSpooled.
	if _, err := tx.ExecContext(ctx, `UPDATE sessions SET transcript_seq = transcript_seq WHERE id = ?`, id); err != nil {
		return false, err
	}
	lines, err := firstRun(ctx, tx, id)
	if err != nil || len(lines) == 0 {
		return len(lines) > 0, err
	}
	if err := s.insertBlock(ctx, tx, id, lines); err != nil {
		return false, err
	}
	_, err = tx.ExecContext(ctx, `DELETE FROM transcript WHERE session_id = ? AND seq >= ? AND seq <= ?`,
		id, lines[0].Seq, lines[len(lines)-1].Seq)
	return true, err
}

// unpackedSession is the first session that ended before a time and has lines in rows, or 0. Later sessions were created later, so
// only those of the last day and those that still run are looked at in vain.
func unpackedSession(ctx context.Context, q db.Querier, before time.Time) (ops.SessionID, error) {
	type candidate struct {
		id             ops.SessionID
		created, ended *time.Time
	}
	for after := ops.SessionID(0); ; {
		next, err := db.One(ctx, q, func(r db.Row) (candidate, error) {
			var c candidate
			err := r.Scan(&c.id, db.ToOptTime(&c.created), db.ToOptTime(&c.ended))
			return c, err
		}, `SELECT id, created_at, ended_at FROM sessions WHERE id = (SELECT MIN(session_id) FROM transcript WHERE session_id > ?)`, after)
		switch {
		case errors.Is(err, ops.ErrNotFound):
			return 0, nil
		case err != nil:
			return 0, err
		case next.ended != nil && next.ended.Before(before):
			return next.id, nil
		case next.created != nil && !next.created.Before(before):
			return 0, nil
		}
		after = next.id
	}
}

// firstRun reads the first lines in rows that make up one block. It reads a few at a time, because lines may be long.
func firstRun(ctx context.Context, q db.Querier, id ops.SessionID) ([]ops.Line, error) {
	const atOnce = 100
	var lines []ops.Line
	for after := int64(0); ; {
		more, err := db.List(ctx, q, scanLine, `SELECT seq, at, line FROM transcript WHERE session_id = ? AND seq > ? ORDER BY seq LIMIT ?`,
			id, after, atOnce)
		if err != nil {
			return nil, err
		}
		lines = append(lines, more...)
		if found := runs(lines); len(found) > 1 || len(more) < atOnce {
			if len(found) == 0 {
				return nil, nil
			}
			return found[0], nil
		}
		after = lines[len(lines)-1].Seq
	}
}

// outputSize is how much of a session's output is stored, and which part of it was dropped.
type outputSize struct {
	bytes        int64
	cut, cutEnd  int64 // the first and the last dropped line; 0 while nothing was dropped
	droppedBytes int64

	lastRow, lastBlock int64 // the last line in a row and in a block, before the new lines
}

// countOutput adds lines to the figures of a session, if there is one.
func countOutput(to *[]outputSize, id ops.SessionID, lines, dropped, bytes, last int64) db.Part {
	return db.Into(to, func(r db.Row) (size outputSize, err error) {
		return size, r.Scan(&size.bytes, &size.cut, &size.cutEnd, &size.droppedBytes, &size.lastRow, &size.lastBlock)
	}, `UPDATE sessions
		SET transcript_bytes = CASE WHEN transcript_bytes < 0 THEN transcript_bytes ELSE transcript_bytes + ? END,
		transcript_lines = transcript_lines + ?, transcript_dropped = transcript_dropped + ?,
		transcript_seq = CASE WHEN transcript_seq < ? THEN ? ELSE transcript_seq END WHERE id = ?
		RETURNING transcript_bytes, transcript_cut, transcript_cut_end, transcript_cut_bytes,
			(SELECT COALESCE(MAX(t.seq), 0) FROM transcript t WHERE t.session_id = sessions.id),
			(SELECT COALESCE(MAX(b.last_seq), 0) FROM transcript_blocks b WHERE b.session_id = sessions.id)`,
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
	_, inBlocks, err := dropBlocks(ctx, tx, `session_id = ? AND first_seq >= ? AND last_seq <= ?`, id, size.cut, size.cutEnd)
	if err != nil {
		return fmt.Errorf("drop output: %w", err)
	}
	dropped += inBlocks
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

// dropBlocks removes blocks and returns how many there were, and how many lines they had.
func dropBlocks(ctx context.Context, tx db.Querier, cond string, args ...any) (blocks int, lines int64, err error) {
	dropped, err := db.List(ctx, tx, db.ScanInt, `DELETE FROM transcript_blocks WHERE `+cond+` RETURNING lines`, args...)
	for _, n := range dropped {
		lines += n
	}
	return len(dropped), lines, err
}

// linesUpTo returns the last of the lines after a number that together have at least that many bytes, and their bytes. Of a block it takes
// all lines or none. The session's last line is never among them.
func linesUpTo(ctx context.Context, tx db.Querier, id ops.SessionID, after, last, bytes int64) (end, sum int64, err error) {
	type line struct{ seq, bytes int64 }
	scan := func(r db.Row) (line, error) {
		var l line
		err := r.Scan(&l.seq, &l.bytes)
		return l, err
	}
	const batch = 1000
	for end = after; ; {
		lines, err := db.List(ctx, tx, scan, `SELECT seq, OCTET_LENGTH(line) FROM transcript WHERE session_id = ? AND seq > ? AND seq < ?
			UNION ALL SELECT last_seq, bytes FROM transcript_blocks WHERE session_id = ? AND last_seq > ? AND last_seq < ?
			ORDER BY 1 LIMIT ?`, id, end, last, id, end, last, batch)
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
	out, err := db.One(ctx, s.db.Reader(), func(r db.Row) (Gap, error) {
		var g Gap
		err := r.Scan(&g.From, &g.To, &g.Bytes)
		return g, err
	}, `SELECT transcript_cut, transcript_cut_end, transcript_cut_bytes FROM sessions WHERE id = ?`, id)
	return returning(out, err, "read what was dropped of session %d", id)
}
