package agent

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	"claudeops/internal/ops"
)

const (
	maxSentence = 400
	maxSummary  = 200
)

// result builds the result of the session. Everything in it is redacted, except the ids. Stored is why output could not be
// stored.
func (s *session) result(stored error) ops.RunResult {
	res := ops.RunResult{ExitCode: ops.Ptr(-1), Figures: ops.Figures{DurationMS: ops.Ptr(time.Since(s.begun).Milliseconds())}}
	if s.proc.ended() {
		res.ExitCode = ops.Ptr(s.proc.exitCode())
	}
	halt := s.stop.reason()
	switch {
	case halt.Cause != ops.StopNone:
	case s.breach != nil:
		halt = *s.breach // it was read after the program had ended
	case stored != nil:
		halt = notStored(stored)
	}
	res.Stop, res.StopWhy, res.StopCall = halt.Cause, halt.Why, halt.Call
	if call, open := s.watch.call(); open && s.cutOff == "" {
		s.cutOff = call.String()
	}
	res.OpenTool = s.cutOff
	res.Warnings = s.warnings
	s.decoder.Finish(&res, s.lastError)
	if halt.Boundary && res.ResultRead && !res.IsError && *res.ExitCode == 0 {
		// It was to stop at a boundary, and had ended well before it was asked to.
		res.Stop, res.StopWhy, res.StopCall = ops.StopNone, "", ""
	}
	s.judge(&res)
	s.addWarnings(&res)
	s.redact(&res)
	return res
}

func notStored(err error) ops.Halt {
	return ops.Halt{Cause: ops.StopJournal, Why: fmt.Sprintf("output could not be stored: %v", err)}
}

// judge says whether the run failed, and why, in one sentence. A stop counts more than what the program reported, and that
// more than an exit code.
func (s *session) judge(res *ops.RunResult) {
	said := s.lastError
	if !s.spoke { // it did not get far: the last line alone need not say why
		said = s.words.String()
	}
	switch {
	case s.broken != nil: // no tool has run
		res.Failure, res.Err, res.Stop, res.StopWhy = ops.FailureLayer, s.broken.Error(), ops.StopNone, ""
	case res.Stop != ops.StopNone:
		res.Failure, res.Err = failureOf(res.Stop), res.StopWhy
	case s.proof != nil && !s.tried && *res.ExitCode < 128: // not killed
		res.Failure, res.Err = ops.FailureLayer, WithDetail("the walls around the agent could not be set up", s.lastError)
	case res.Failure != "":
	case *res.ExitCode != 0:
		res.Failure, res.Err = ops.FailureExit, WithDetail(exitText(s.name, *res.ExitCode), said)
	case !res.ResultRead:
		res.Failure, res.Err = ops.FailureNoResult, WithDetail(s.name+" exited 0 without a result event", said)
	}
}

func (s *session) addWarnings(res *ops.RunResult) {
	if s.tooLong {
		res.Warnings = append(res.Warnings, fmt.Sprintf("a line of output was longer than %d bytes and could not be read", maxLine))
	}
	if s.leftovers > 0 && res.Stop == ops.StopNone {
		res.Warnings = append(res.Warnings, fmt.Sprintf("%d processes that the agent left running were killed", s.leftovers))
	}
}

// redact makes everything fit to be stored.
func (s *session) redact(res *ops.RunResult) {
	res.Text = s.show(res.Text, maxRecorded)
	res.Structured = s.showJSON(res.Structured)
	for i := range res.Denials {
		d := &res.Denials[i]
		d.Tool, d.Input = s.show(d.Tool, maxSummary), s.showJSON(d.Input)
	}
	res.OpenTool = s.show(res.OpenTool, maxSummary)
	res.StopWhy, res.StopCall = s.show(res.StopWhy, maxSentence), s.show(res.StopCall, maxSummary)
	res.Err = s.line(res.Err)
	for i := range res.Warnings {
		res.Warnings[i] = s.line(res.Warnings[i])
	}
}

// show makes a text fit to be stored.
func (s *session) show(text string, limit int) string {
	return cut(clean(s.redactor.String(text)), limit, 0)
}

// line makes a text one line that is fit to be stored.
func (s *session) line(text string) string { return s.show(FirstLine(text), maxSentence) }

func (s *session) showJSON(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 {
		return nil
	}
	return json.RawMessage(clean(s.redactor.String(string(raw))))
}

// failureOf returns the class of a stop.
func failureOf(cause ops.StopCause) ops.FailureClass {
	switch cause {
	case ops.StopUser, ops.StopShutdown, ops.StopCrash, ops.StopLease, ops.StopAttack:
		return ops.FailureStopped
	case ops.StopNone, ops.StopLoop, ops.StopBudget, ops.StopDeadline, ops.StopWall, ops.StopIdle, ops.StopTool, ops.StopJournal,
		ops.StopInvariant:
	}
	return ops.FailureClass(cause) // they have the same names
}

func exitText(name string, code int) string {
	if code > 128 && code < 128+64 {
		return fmt.Sprintf("%s was ended by signal %d (%v)", name, code-128, syscall.Signal(code-128))
	}
	return fmt.Sprintf("%s exited with code %d", name, code)
}

// WithDetail adds a detail to a text, if there is one.
func WithDetail(text, detail string) string {
	if detail == "" {
		return text
	}
	return text + ": " + detail
}

// FirstLine returns the first line of a text.
func FirstLine(s string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	return strings.TrimSpace(line)
}

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
