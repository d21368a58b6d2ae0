package agent

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"claudeops/internal/ops"
)

const (
	readBuffer  = 64 << 10
	maxLine     = 8 << 20   // more of a line than this is not kept in memory
	maxRecorded = 256 << 10 // more of a line than this is not stored
	keepBuffer  = 1 << 20   // a buffer that grew beyond this is not kept for the next line
)

// lineReader splits an output into lines of any length.
type lineReader struct {
	in   *bufio.Reader
	max  int
	long []byte // a line that did not fit into the buffer of in
}

func newLineReader(in io.Reader) *lineReader {
	return &lineReader{in: bufio.NewReaderSize(in, readBuffer), max: maxLine}
}

// next returns the next line without its end, and how many of its bytes were dropped because it is
// longer than any line may be. A last line without an end counts. The text is valid until the next
// call; the error is io.EOF after the last line.
func (r *lineReader) next() (line []byte, dropped int64, err error) {
	if cap(r.long) > keepBuffer {
		r.long = nil
	}
	r.long = r.long[:0]
	got := false
	for {
		part, err := r.in.ReadSlice('\n')
		got = got || len(part) > 0
		if err == nil && len(r.long) == 0 && dropped == 0 && len(part) <= r.max {
			return trimEnd(part), 0, nil
		}
		room := max(r.max-len(r.long), 0)
		if err == nil {
			part = part[:len(part)-1]
		}
		r.long = append(r.long, part[:min(room, len(part))]...)
		dropped += int64(len(part) - min(room, len(part)))
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err == nil, got:
			return trimEnd(r.long), dropped, nil
		default:
			return nil, 0, err
		}
	}
}

func trimEnd(line []byte) []byte {
	line = bytes.TrimSuffix(line, []byte("\n"))
	return bytes.TrimSuffix(line, []byte("\r"))
}

// clean replaces what a database or a page cannot hold.
func clean(s string) string {
	if !utf8.ValidString(s) {
		s = strings.ToValidUTF8(s, string(utf8.RuneError))
	}
	if strings.IndexByte(s, 0) >= 0 {
		s = strings.ReplaceAll(s, "\x00", string(utf8.RuneError))
	}
	return s
}

// cut shortens a text to the length that is stored and says how much is missing; dropped bytes are
// missing already.
func cut(s string, limit int, dropped int64) string {
	whole := len(s)
	s = ops.Start(s, limit)
	dropped += int64(whole - len(s))
	if dropped == 0 {
		return s
	}
	return fmt.Sprintf("%s … [cut: %d bytes]", s, dropped)
}
