package agent

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"claudeops/internal/failpoint"
	"claudeops/internal/guard/redact"
	"claudeops/internal/ops"
)

const (
	defaultGrace = 10 * time.Second
	leaseGrace   = 2 * time.Second // others take over soon after
	// eofTime is how long the end of the output is awaited once the program exited: something it
	// started may hold it open for ever.
	eofTime = 2 * time.Second
	// lastTime is the same once everything of the session was killed.
	lastTime = time.Second
	// reapTime bounds the wait for a program that was killed.
	reapTime = 2 * time.Second
)

// session is one run of a program.
type session struct {
	name     string
	planned  string
	resumed  bool
	before   ops.Fingerprint // the record of the conversation that is continued
	spent    *float64        // what that conversation had cost
	grace    time.Duration
	proc     *process
	redactor *redact.Redactor
	clock    ops.Clock
	log      *slog.Logger

	stop    *stopping
	watch   *watchdog
	watcher *watcher // nil when nobody is
	lines   *recording

	other     Decoder // reads the output of a program that does not speak the protocol of Claude Code; nil for one that does
	stream    stream  // belongs to the reader of the output until it ended
	lastError string  // belongs to the reader of the error output until it ended
	allowed   func(toolUseID string) bool
	cutOff    string    // the tool call that was open when the session was stopped
	retries   bool      // the CLI is known to repeat a call of the model that failed
	polite    *ops.Halt // the stop that waited for a boundary; belongs to the reader of the output until it ended
	leftovers int
	oddities  []string
}

func newSession(c *Claude, spec ops.SessionSpec, p *process, log *slog.Logger) *session {
	grace := spec.Limits.Grace
	if grace <= 0 {
		grace = defaultGrace
	}
	s := &session{
		name: filepath.Base(c.o.Bin), planned: spec.Session.PlannedID, resumed: spec.Resume != "", before: spec.Conversation, spent: spec.SpentUSD, grace: grace,
		proc: p, redactor: c.o.Redactor, clock: c.o.Clock, log: log,
		stop: newStopping(), watch: newWatchdog(spec.Limits),
	}
	s.watcher = newWatcher(spec.Watch, Activities, c.o.Clock)
	if spec.Gate != nil && spec.Gate.Allowed != nil {
		s.allowed, s.stream.held = spec.Gate.Allowed, true
	}
	return s
}

// run runs the session and says what became of it.
func (s *session) run(ctx context.Context, rec ops.Recorder) ops.RunResult {
	return s.outcome(s.supervise(ctx, rec))
}

// supervise sees the program to its end: it is read until nothing more comes, and nothing of it is left. It returns why
// output could not be stored.
func (s *session) supervise(ctx context.Context, rec ops.Recorder) error {
	defer s.proc.close()
	// What was printed is stored and what runs is killed also after the session was cancelled.
	keep := context.WithoutCancel(ctx)
	s.recordStart(keep, rec)
	s.lines = startRecording(keep, rec, s.clock, func(err error) {
		s.stop.stop(ops.StopJournal, fmt.Sprintf("output could not be stored: %v", err))
	})
	var readers, watcher sync.WaitGroup
	readers.Go(s.readOutput)
	readers.Go(s.readErrors)
	read := make(chan struct{})
	go func() {
		readers.Wait()
		close(read)
	}()
	watching, endWatch := context.WithCancel(keep)
	watcher.Go(func() { s.watch.run(watching, s.stop.stop) })

	s.await(ctx)
	endWatch()
	watcher.Wait()
	return s.finish(keep, read)
}

func (s *session) recordStart(ctx context.Context, rec ops.Recorder) {
	ctx, cancel := context.WithTimeout(ctx, storeTime)
	defer cancel()
	if err := rec.Started(ctx, s.proc.pid, s.proc.started); err != nil {
		s.stop.stop(ops.StopJournal, fmt.Sprintf("the start of the session could not be stored: %v", err))
	}
}

// await returns when the program ended, by itself or because it was stopped: politely first, then
// with everything it started.
func (s *session) await(ctx context.Context) {
	select {
	case <-s.proc.done:
		failpoint.Hit("reap.after")
		s.stop.seal()
		return
	case <-ctx.Done():
		s.stop.stop(causeOf(ctx))
	case <-s.stop.asked:
	}
	// Noted now: asked to end, the CLI answers the call itself, as if it had never run.
	if call, open := s.watch.call(); open {
		s.cutOff = call.String()
	}
	why, text := s.stop.reason()
	s.log.InfoContext(ctx, "stopping session", "cause", string(why), "why", text)
	s.proc.interrupt()
	grace := s.grace
	if why == ops.StopLease {
		grace = min(grace, leaseGrace)
	}
	if waitFor(s.proc.done, grace) {
		return
	}
	s.log.WarnContext(ctx, "session did not end when asked to; killing it", "grace", grace)
	s.sweep(context.WithoutCancel(ctx))
	if !waitFor(s.proc.done, reapTime) {
		s.oddities = append(s.oddities, fmt.Sprintf("process %d of the session does not end although it was killed", s.proc.pid))
	}
}

// finish reads the rest of the output, kills whatever is left of the session and returns why output could not be stored.
func (s *session) finish(ctx context.Context, read <-chan struct{}) error {
	stored := make(chan error, 1)
	if waitFor(read, eofTime) {
		// Nothing more can come: the rest is stored while leftovers are looked for.
		go func() { stored <- s.lines.close() }()
		s.sweep(ctx)
		return <-stored
	}
	s.sweep(ctx)
	if !waitFor(read, lastTime) {
		// Something out of our reach holds the output open.
		s.proc.stdout.expire()
		s.proc.stderr.expire()
		<-read
	}
	return s.lines.close()
}

func (s *session) sweep(ctx context.Context) {
	killed, err := s.proc.sweep(ctx)
	s.leftovers += killed
	if err != nil {
		s.log.WarnContext(ctx, "processes of the session are left", "error", err)
		s.oddities = append(s.oddities, err.Error())
	}
}

func waitFor(c <-chan struct{}, limit time.Duration) bool {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-c:
		return true
	case <-timer.C:
		return false
	}
}

// readOutput decodes and records the standard output to its end.
func (s *session) readOutput() {
	r := newLineReader(s.proc.stdout)
	redacted := s.redactor.Stream()
	for {
		line, dropped, err := r.next()
		if err != nil {
			s.readEnded("output", err)
			return
		}
		text := string(line)
		shown := clean(text)
		s.watch.heard()
		// Decoded as it came: what the supervisor relies on must not depend on what is redacted.
		s.decode(shown)
		if dropped > 0 {
			s.stream.warn(fmt.Sprintf("a line of output was longer than %d bytes and could not be read", maxLine))
		}
		if safe := redacted.Line(text); safe != text {
			shown = clean(safe)
		}
		s.tellWatcher(shown)
		s.lines.add(cut(shown, maxRecorded, dropped))
	}
}

// decode reads one line and tells the watchdog which tool calls are open.
func (s *session) decode(line string) {
	if s.other != nil {
		if open, changed := s.other.Line(line); changed {
			s.watch.tools(calls(open))
		}
		return
	}
	if s.stream.line(line) {
		s.watch.tools(s.stream.open)
	}
	s.holdToGate()
}

// tellWatcher tells the watcher what a line says, redacted as it is stored, so that the stored transcript tells it the same.
func (s *session) tellWatcher(line string) {
	if s.watcher == nil {
		return
	}
	_, open := s.watch.call()
	if halt := s.watcher.line(line, open); halt != nil {
		if halt.Boundary {
			s.polite = halt
		}
		s.stop.stop(halt.Cause, halt.Why)
	}
}

// endedItself reports whether a session that was to stop at a boundary had ended well before it was asked to.
func (s *session) endedItself() bool {
	cause, why := s.stop.reason()
	if s.polite == nil || cause != s.polite.Cause || why != s.polite.Why {
		return false
	}
	r := s.stream.result
	return r != nil && !r.failed() && s.proc.ended() && s.proc.exitCode() == 0
}

// holdToGate stops a session in which a tool ran that its gate had not allowed: the hook no longer fires, or something goes
// round it.
func (s *session) holdToGate() {
	for _, id := range s.stream.ran {
		if !s.allowed(id) {
			s.stop.stop(ops.StopInvariant, fmt.Sprintf("the tool call %s ran although no gate had allowed it", id))
		}
	}
	s.stream.ran = s.stream.ran[:0]
}

// readErrors records the error output to its end.
func (s *session) readErrors() {
	r := newLineReader(s.proc.stderr)
	redacted := s.redactor.Stream()
	for {
		line, dropped, err := r.next()
		if err != nil {
			s.readEnded("error output", err)
			return
		}
		s.watch.heard()
		text := cut(clean(redacted.Line(string(line))), maxRecorded, dropped)
		if strings.TrimSpace(text) == "" {
			continue
		}
		s.lastError = cut(strings.TrimSpace(text), maxSummary, 0)
		s.lines.add(errorLine(text))
	}
}

func (s *session) readEnded(what string, err error) {
	if !errors.Is(err, io.EOF) {
		s.log.Warn("reading a session ended early", "what", what, "error", err)
	}
}

// errorLine is how a line of the error output stands among the events.
func errorLine(text string) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	// Encoding two strings cannot fail.
	_ = enc.Encode(struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}{"stderr", text})
	return strings.TrimSuffix(b.String(), "\n")
}

// outcome says what became of the session. Everything in it is redacted, except the ids.
func (s *session) outcome(stored error) ops.RunResult {
	st := &s.stream
	res := ops.RunResult{
		ExitCode:     ops.Ptr(-1),
		CLISessionID: st.sessionID,
		CLIVersion:   st.version,
		Model:        st.model,
		Figures:      st.figures(),
	}
	if st.result != nil {
		res.ReportedUSD = price(st.result.total())
		if s.resumed && st.own == nil {
			s.ownShare(&res)
		}
	}
	if s.proc.ended() {
		res.ExitCode = ops.Ptr(s.proc.exitCode())
	}
	if res.Model == "" {
		res.Model = st.lastModel
	}
	if !s.endedItself() {
		res.Stop, res.StopWhy = s.stop.reason()
	}
	if stored != nil && res.Stop == ops.StopNone {
		res.Stop, res.StopWhy = ops.StopJournal, fmt.Sprintf("output could not be stored: %v", stored)
	}
	if n := len(st.open); n > 0 && s.cutOff == "" {
		s.cutOff = st.open[n-1].String()
	}
	res.OpenTool = s.show(s.cutOff, maxSummary)
	if r := st.result; r != nil {
		res.ResultRead, res.IsError = true, r.failed()
		res.Text = s.show(r.words(), maxRecorded)
		res.Structured = s.showJSON(r.structured())
		for _, d := range r.Denials {
			d.Tool, d.Input = s.show(d.Tool, maxSummary), s.showJSON(d.Input)
			res.Denials = append(res.Denials, d)
		}
	}
	s.judge(&res)
	if res.Stop == ops.StopNone && res.IsError {
		res.APIStatus, res.RetryAfter = s.apiStatus(), s.retryAfter()
	}
	res.StopWhy = s.show(res.StopWhy, maxSentence)
	res.Warnings = s.warnings(res)
	return res
}

func (s *session) warnings(res ops.RunResult) []string {
	out := append(s.stream.warnings, s.oddities...)
	if s.leftovers > 0 && res.Stop == ops.StopNone {
		out = append(out, fmt.Sprintf("%d processes that the agent left running were killed", s.leftovers))
	}
	if s.planned != "" && res.CLISessionID != "" && res.CLISessionID != s.planned {
		out = append(out, fmt.Sprintf("the CLI used session id %s instead of %s", res.CLISessionID, s.planned))
	}
	for i := range out {
		out[i] = s.show(out[i], maxSentence)
	}
	return out
}

// show makes a text fit to be stored.
func (s *session) show(text string, limit int) string {
	return cut(clean(s.redactor.String(text)), limit, 0)
}

func (s *session) showJSON(raw json.RawMessage) json.RawMessage {
	if len(raw) == 0 {
		return nil
	}
	return json.RawMessage(clean(s.redactor.String(string(raw))))
}
