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
	line []byte
}

func newLineReader(in io.Reader) *lineReader {
	return &lineReader{in: bufio.NewReaderSize(in, readBuffer), max: maxLine}
}

// next returns the next line without its end, and how many of its bytes were dropped because it is
// longer than any line may be. A last line without an end counts. The text is valid until the next
// call; the error is io.EOF after the last line.
func (r *lineReader) next() (line []byte, dropped int64, err error) {
	if cap(r.line) > keepBuffer {
		r.line = nil
	}
	r.line = r.line[:0]
	got := false
	for {
		part, err := r.in.ReadSlice('\n')
		got = got || len(part) > 0
		if err == nil {
			part = part[:len(part)-1]
		}
		kept := min(max(r.max-len(r.line), 0), len(part))
		r.line = append(r.line, part[:kept]...)
		dropped += int64(len(part) - kept)
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
		case err == nil, got:
			return bytes.TrimSuffix(r.line, []byte("\r")), dropped, nil
		default:
			return nil, 0, err
		}
	}
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
