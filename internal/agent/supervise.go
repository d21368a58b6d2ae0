package agent

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"claudeops/internal/guard/redact"
	"claudeops/internal/ops"
)

// This file is what the adapters of other agents share with the one of Claude Code: how a program is found, put behind
// walls, started, watched, recorded and ended without a rest.

// The classes of failure an adapter may report.
const (
	FailNotFound = ops.FailureNotFound
	FailStart    = ops.FailureStart
	FailTooOld   = ops.FailureTooOld
	FailExit     = ops.FailureExit
	FailNoResult = ops.FailureNoResult
	FailAgent    = ops.FailureAgent
	FailLayer    = ops.FailureLayer
)

// Refuse is the error of a session that is not started.
func Refuse(class ops.FailureClass, format string, args ...any) error {
	return &startError{class: class, text: fmt.Sprintf(format, args...)}
}

// Program is a program to start and supervise.
type Program struct {
	Path       string
	Argv       []string // with the name of the program
	Env        []string
	Dir        string
	Key        string   // of the session
	Stdin      *os.File // nil means /dev/null; closed once the program was started
	Credential *syscall.Credential
}

func (p Program) command() command {
	return command{path: p.Path, argv: p.Argv, env: p.Env, dir: p.Dir, key: p.Key, stdin: p.Stdin, credential: p.Credential}
}

// Behind returns the program as it is started behind walls. They are set up first.
func (p Program) Behind(walls Walls, tier ops.Tier) (Program, error) {
	w, err := putBehind(walls, tier, Walled{Path: p.Path, Argv: p.Argv, Env: p.Env, Dir: p.Dir})
	if err != nil {
		return Program{}, err
	}
	p.Path, p.Argv, p.Env, p.Dir, p.Credential = w.Path, w.Argv, w.Env, w.Dir, w.Credential
	return p, nil
}

// Find looks for a program by its path, or in the first PATH among the environments. The hint tells the operator what to
// do when it is not there.
func Find(bin, hint string, envs ...[]string) (string, error) {
	path, err := lookFor(bin, searchPath(envs...))
	if err != nil {
		return "", Refuse(ops.FailureNotFound, "the agent program %s cannot be run (%v): %s", bin, cause(err), hint)
	}
	return path, nil
}

// Folders are where the agents of an environment live.
type Folders struct {
	State string
	Agent string // what the supervisor keeps for them; not writable behind walls
	Home  string
	Work  string
}

// MakeFolders makes the folders of a session.
func MakeFolders(spec ops.SessionSpec) (Folders, error) {
	f, err := makeFolders(spec, func(state string) string { return filepath.Join(state, agentFolder, "home") })
	return Folders{State: f.state, Agent: f.agent, Home: f.home, Work: f.work}, err
}

// Environment builds the environment of an agent from nothing: what every program needs, what the adapter lets pass, what
// it sets itself, and who the session is.
func Environment(spec ops.SessionSpec, f Folders, passes func(name string) bool, set map[string]string) []string {
	vars := passing(spec.Env, func(name string) bool { return isPlain(name) || isProxy(name) || passes(name) })
	vars.standard("PATH", standardPath)
	vars.session(spec, folders{state: f.State, home: f.Home})
	for name, value := range set {
		vars[name] = value
	}
	return vars.list()
}

// Variable returns the value of a variable, or nothing.
func Variable(env []string, name string) string {
	return passing(env, func(n string) bool { return n == name })[name]
}

// TextFile returns a file without a name that holds a text, to be a program's standard input.
func TextFile(dir, text string) (*os.File, error) { return promptFile(dir, text) }

// Keyed refuses a session whose processes could not be found again.
func Keyed(spec ops.SessionSpec) error {
	if spec.Session.Key == "" || strings.ContainsRune(spec.Session.Key, 0) {
		return Refuse(ops.FailureStart, "the session has no key, so its processes could not be found again")
	}
	return nil
}

// Intact refuses a conversation whose record is not what its session left.
func Intact(spec ops.SessionSpec) error { return intact(spec) }

// FingerprintOf says what a record of a conversation holds; nothing when it cannot be read.
func FingerprintOf(path string) ops.Fingerprint {
	f, err := read(path)
	if err != nil {
		return ops.Fingerprint{}
	}
	return f
}

// ConversationID reports whether an id may go back to a CLI as an argument.
func ConversationID(id string) bool { return idShape.MatchString(id) }

// OlderVersion reports whether version a comes before b.
func OlderVersion(a, b string) bool { return olderVersion(a, b) }

// Call is a call of a tool that was not answered yet.
type Call struct {
	ID    string
	Name  string
	Input string // JSON; its command, file_path, url or pattern is shown
}

func calls(open []Call) []toolCall {
	out := make([]toolCall, 0, len(open))
	for _, c := range open {
		out = append(out, toolCall{id: c.ID, name: c.Name, input: c.Input})
	}
	return out
}

// Decoder reads what a program prints, line by line, from one goroutine. A line is not redacted.
type Decoder interface {
	// Line reads one line; the open tool calls are looked at when they changed.
	Line(text string) (open []Call, changed bool)
}

// Supervision is how a program is run.
type Supervision struct {
	Name     string // what the program is called in messages
	Limits   ops.Limits
	Redactor *redact.Redactor
	Clock    ops.Clock
	Logger   *slog.Logger
	// Watch is told what the session does, as Activities reads it from a line; nil: nobody is.
	Watch      func(ops.Activity) *ops.Halt
	Activities func(line string) []ops.Activity
}

// Ended is what is known of a program after it ended, whatever it printed.
type Ended struct {
	ExitCode  int
	Took      time.Duration
	Stop      ops.StopCause
	StopWhy   string
	LastError string // the last line of its error output, redacted
	OpenTool  string // the call that was open when it was stopped, redacted
	Warnings  []string
}

// Supervise starts a program and sees it to its end. When the context ends, the program is stopped; the cause of the
// context says why. No process of the session is left when it returns. The error is of a program that did not start.
func Supervise(ctx context.Context, v Supervision, p Program, d Decoder, rec ops.Recorder) (Ended, error) {
	begun := time.Now()
	proc, err := start(p.command())
	if err != nil {
		return Ended{}, Refuse(ops.FailureStart, "%s could not be started: %v", v.Name, err)
	}
	v.Logger.InfoContext(ctx, "session started", "pid", proc.pid)
	grace := v.Limits.Grace
	if grace <= 0 {
		grace = defaultGrace
	}
	s := &session{
		name: v.Name, grace: grace, proc: proc, redactor: v.Redactor, clock: v.Clock, log: v.Logger,
		stop: newStopping(), watch: newWatchdog(v.Limits), other: d,
		watcher: newWatcher(v.Watch, v.Activities, v.Clock),
	}
	stored := s.supervise(ctx, rec)
	end := s.ending(stored)
	end.Took = time.Since(begun)
	v.Logger.InfoContext(ctx, "session ended", "exit", end.ExitCode, "stop", string(end.Stop))
	return end, nil
}

func (s *session) ending(stored error) Ended {
	end := Ended{ExitCode: -1, LastError: s.lastError}
	if s.proc.ended() {
		end.ExitCode = s.proc.exitCode()
	}
	end.Stop, end.StopWhy = s.stop.reason()
	if stored != nil && end.Stop == ops.StopNone {
		end.Stop, end.StopWhy = ops.StopJournal, fmt.Sprintf("output could not be stored: %v", stored)
	}
	end.StopWhy = s.show(end.StopWhy, maxSentence)
	if call, open := s.watch.call(); open && s.cutOff == "" {
		s.cutOff = call.String()
	}
	end.OpenTool = s.show(s.cutOff, maxSummary)
	end.Warnings = s.warnings(ops.RunResult{Stop: end.Stop})
	return end
}

// Result is the result of a session as far as the program's end tells it. The adapter adds what the program said.
func (e Ended) Result() ops.RunResult {
	return ops.RunResult{
		ExitCode: ops.Ptr(e.ExitCode), Stop: e.Stop, StopWhy: e.StopWhy, OpenTool: e.OpenTool, Warnings: e.Warnings,
		Figures: ops.Figures{DurationMS: ops.Ptr(e.Took.Milliseconds())},
	}
}

// Judge says why the run failed as far as the program's end tells, and whether it did. What the program reported itself
// is the adapter's to judge, between a stop and an exit code.
func (e Ended) Judge(name string) (class ops.FailureClass, text string) {
	switch {
	case e.Stop != ops.StopNone:
		return failureOf(e.Stop), e.StopWhy
	case e.ExitCode != 0:
		return ops.FailureExit, joinText(exitText(name, e.ExitCode), e.LastError)
	}
	return "", ""
}

// Stopped is the result of a session whose context ended before it began.
func Stopped(ctx context.Context) ops.RunResult {
	cause, why := causeOf(ctx)
	return ops.RunResult{Stop: cause, StopWhy: why, Failure: failureOf(cause), Err: why}
}

// Shown makes a text fit to be stored: redacted, valid, and no longer than a line of the record.
func Shown(r *redact.Redactor, text string) string { return cut(clean(r.String(text)), maxRecorded, 0) }

// Sentence makes a text fit to be an error: redacted and one line.
func Sentence(r *redact.Redactor, text string) string {
	return cut(clean(r.String(firstLine(text))), maxSentence, 0)
}

// Answer is what a program said to a question such as --version.
type Answer struct {
	ExitCode int    // -1 when it did not end in time or could not be started
	Line     string // the first of its output
	Error    string // the last of its error output
}

// Ask runs a program that answers at once, as carefully as a session.
func Ask(ctx context.Context, p Program, log *slog.Logger) Answer { return ask(ctx, p.command(), log) }

const answerText = 4 << 10

func ask(ctx context.Context, c command, log *slog.Logger) Answer {
	a := Answer{ExitCode: -1}
	p, err := start(c)
	if err != nil {
		a.Error = err.Error()
		return a
	}
	defer p.close()
	first, last := make(chan string, 1), make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(io.LimitReader(p.stdout, answerText)).ReadString('\n')
		_, _ = io.Copy(io.Discard, p.stdout)
		first <- line
	}()
	go func() { last <- lastLine(p.stderr) }()
	select {
	case <-p.done:
	case <-ctx.Done():
	}
	if p.ended() {
		a.ExitCode = p.exitCode()
	}
	if _, err := p.sweep(context.WithoutCancel(ctx)); err != nil {
		log.WarnContext(ctx, "the program that was asked a question does not end", "error", err)
	}
	p.stdout.expire()
	p.stderr.expire()
	a.Line, a.Error = <-first, <-last
	return a
}

// lastLine reads to the end and returns the last line that is not empty.
func lastLine(in io.Reader) string {
	r := newLineReader(in)
	last := ""
	for {
		line, _, err := r.next()
		if err != nil {
			return last
		}
		if text := strings.TrimSpace(clean(string(line))); text != "" {
			last = cut(text, maxSummary, 0)
		}
	}
}
