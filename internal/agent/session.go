package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"syscall"
	"time"

	"claudeops/internal/failpoint"
	"claudeops/internal/guard/redact"
	"claudeops/internal/ops"
)

const (
	defaultGrace = 10 * time.Second
	leaseGrace   = 2 * time.Second // others take over soon after
	// eofTime is how long the end of the output is awaited once the program exited: something it
	// started may never close it.
	eofTime = 2 * time.Second
	// lastTime is the same once everything of the session was killed.
	lastTime = time.Second
	// reapTime bounds the wait for a program that was killed.
	reapTime = 2 * time.Second
)

// session is one run of a program.
type session struct {
	name     string
	grace    time.Duration
	proc     *running
	decoder  Decoder // belongs to the reader of the output until it ended
	redactor *redact.Redactor
	clock    ops.Clock
	log      *slog.Logger
	begun    time.Time

	stop    *stopping
	watch   *watchdog
	watcher *watcher // nil without a function to call
	lines   *recording
	allowed func(toolUseID string) bool // nil: not checked
	keeper  Keeper                      // nil: there is none

	lastError string // belongs to the reader of the error output until it ended
	words     words  // as well
	spoke     bool   // it printed something; belongs to the reader of the output until it ended
	tooLong   bool   // a line of output was; belongs to the reader of the output until it ended
	proof     func(line string) (mine bool, err error)
	tried     bool      // the walls have reported; belongs to the reader of the output until it ended, as does broken
	broken    error     // why the walls do not hold
	breach    *ops.Halt // of a tool that ran without its gate; belongs to the reader of the output until it ended
	cutOff    string    // the tool call that was open when the session was stopped
	leftovers int
	warnings  []string
}

func newSession(o Options, spec ops.SessionSpec, p *Prepared, proc *running, log *slog.Logger) *session {
	grace := spec.Limits.Grace
	if grace <= 0 {
		grace = defaultGrace
	}
	s := &session{
		name: p.Name, grace: grace, proc: proc, decoder: p.Decoder, redactor: o.Redactor, clock: o.Clock, log: log, begun: time.Now(),
		stop: newStopping(), watch: newWatchdog(spec.Limits), watcher: newWatcher(spec.Watch, o.Clock), warnings: p.Warnings,
		keeper: o.Keeper,
	}
	if !spec.Deadline.IsZero() {
		s.watch.setDeadline(spec.Deadline.Sub(o.Clock()))
	}
	if spec.Gate != nil {
		s.allowed = spec.Gate.Allowed
	}
	s.proof = proc.proof
	return s
}

// supervise waits for the end of the program: its output is read to the end, and no process of it is left. It returns why
// output could not be stored.
func (s *session) supervise(ctx context.Context, rec ops.Recorder) error {
	defer s.proc.close()
	// What was printed is stored and what runs is killed also after the session was cancelled.
	keep := context.WithoutCancel(ctx)
	s.recordStart(keep, rec)
	s.lines = startRecording(keep, rec, s.clock, func(err error) {
		s.stop.stop(notStored(err))
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
	if err := rec.Started(ctx, s.proc.PID, s.proc.Started); err != nil {
		s.stop.stop(ops.Halt{Cause: ops.StopJournal, Why: fmt.Sprintf("the start of the session could not be stored: %v", err)})
	}
}

// await returns when the program ended, by itself or because it was stopped: first it is asked to end, then it is killed
// with everything it started.
func (s *session) await(ctx context.Context) {
	select {
	case <-s.proc.done:
		failpoint.Hit("reap.after")
		s.askKeeper(ctx)
		s.stop.seal()
		return
	case <-ctx.Done():
		cause, why := causeOf(ctx)
		s.stop.stop(ops.Halt{Cause: cause, Why: why})
	case <-s.stop.asked:
	}
	// Noted now: asked to end, the CLI answers the call itself, as if it had never run.
	if call, open := s.watch.call(); open {
		s.cutOff = call.String()
	}
	halt := s.stop.reason()
	s.log.InfoContext(ctx, "stopping session", "cause", string(halt.Cause), "why", halt.Why)
	s.proc.interrupt()
	grace := s.grace
	if halt.Cause == ops.StopLease {
		grace = min(grace, leaseGrace)
	}
	if waitFor(s.proc.done, grace) {
		return
	}
	s.log.WarnContext(ctx, "session did not end when asked to; killing it", "grace", grace)
	s.sweep(context.WithoutCancel(ctx))
	if !waitFor(s.proc.done, reapTime) {
		s.warnings = append(s.warnings, fmt.Sprintf("process %d of the session does not end although it was killed", s.proc.PID))
	}
}

// askKeeper finds out whether the keeper killed the session while this process was paused. When both go on, the end of the session may
// be seen first.
func (s *session) askKeeper(ctx context.Context) {
	if s.keeper == nil || s.proc.exitCode() != 128+int(syscall.SIGKILL) {
		return
	}
	_ = s.keeper.Check(ctx) // what it says ends ctx
	if ctx.Err() != nil {
		cause, why := causeOf(ctx)
		s.stop.stop(ops.Halt{Cause: cause, Why: why})
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
		s.warnings = append(s.warnings, err.Error())
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
		if s.proof != nil && !s.tried {
			s.tried = true
			if mine := s.prove(text); mine {
				continue
			}
		}
		shown := clean(text)
		s.spoke = true
		s.watch.heard()
		// Decoded as it came: what the supervisor relies on must not depend on what is redacted.
		s.decode(shown)
		s.tooLong = s.tooLong || dropped > 0
		if safe := redacted.Line(text); safe != text {
			shown = clean(safe)
		}
		s.tellWatcher(shown)
		s.lines.add(cut(shown, maxRecorded, dropped))
	}
}

// prove reads what the walls report. A session whose walls do not hold, or did not report, must not go on.
func (s *session) prove(line string) (mine bool) {
	mine, s.broken = s.proof(line)
	if s.broken != nil {
		s.stop.stop(ops.Halt{Cause: ops.StopInvariant, Why: s.broken.Error()})
	}
	return mine
}

// decode reads one line. It stops a session in which a tool ran that its gate had not allowed: then the hook no longer runs,
// or something bypasses it.
func (s *session) decode(line string) {
	p := s.decoder.Line(line)
	if p.Changed {
		s.watch.update(p.Open, p.Ending)
	}
	if s.allowed == nil {
		return
	}
	for _, id := range p.Ran {
		if !s.allowed(id) && s.breach == nil {
			s.breach = &ops.Halt{Cause: ops.StopInvariant, Why: fmt.Sprintf("the tool call %s ran although no gate had allowed it", id)}
			s.stop.stop(*s.breach)
		}
	}
}

// tellWatcher tells the watcher what a line says, redacted as it is stored, so that the stored transcript tells it the same.
func (s *session) tellWatcher(line string) {
	if s.watcher == nil {
		return
	}
	if halt := s.watcher.saw(s.decoder.Activities(line), s.watch.busy()); halt != nil {
		s.stop.stop(*halt)
	}
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
		s.words.add(text)
		s.lines.add(errorLine(text))
	}
}

func (s *session) readEnded(what string, err error) {
	if !errors.Is(err, io.EOF) {
		s.log.Warn("reading a session ended early", "what", what, "error", err)
	}
}

// errorLine is how a line of the error output is recorded among the events.
func errorLine(text string) string {
	return ops.JSON(struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}{"stderr", text}, "")
}
