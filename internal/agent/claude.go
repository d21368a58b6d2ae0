package agent

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"claudeops/internal/guard/redact"
	"claudeops/internal/ops"
)

// ClaudeOptions say which program runs and what it gets to see.
type ClaudeOptions struct {
	Bin        string   // the program; "claude" when empty
	Argv0Extra []string // arguments before the usual ones: the built-in scripted agent is a subcommand
	Env        []string // NAME=value, the supervisor's environment, for --version
	ExtraEnv   []string // names that pass through beside the usual ones
	Redactor   *redact.Redactor
	Logger     *slog.Logger
	Clock      ops.Clock
	HomeDir    func(stateDir string) string   // HOME of the agent; agent/home in the state folder when nil
	Ability    *ops.Ability                   // of a program that need not be asked for its version
	Walls      func(environment string) Walls // nil, or nil for an environment: none
}

// Walls are the layers of the operating system around an agent's processes.
type Walls interface {
	// Check says whether every layer that is switched on can be set up for the tier.
	Check(tier ops.Tier) error
	// Prepare comes after the agent's files were written and before Wrap.
	Prepare(tier ops.Tier) error
	Wrap(tier ops.Tier, c Walled) (Walled, error)
	// Collect brings back what the agent left behind the walls.
	Collect(tier ops.Tier) error
}

// Walled is a program as it is started behind walls.
type Walled struct {
	Path       string
	Argv, Env  []string
	Dir        string
	Credential *syscall.Credential
}

// Claude runs sessions of Claude Code, or of a program that speaks its protocol.
type Claude struct {
	o ClaudeOptions

	mu      sync.Mutex
	version *programVersion
}

// NewClaude makes a runner of Claude Code.
func NewClaude(o ClaudeOptions) *Claude {
	if o.Bin == "" {
		o.Bin = "claude"
	}
	if o.Redactor == nil {
		o.Redactor = redact.New(nil)
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	if o.HomeDir == nil {
		o.HomeDir = func(stateDir string) string { return filepath.Join(stateDir, agentFolder, "home") }
	}
	return &Claude{o: o}
}

// Run runs one session to its end and tells what became of it. When the context ends, the session is
// stopped; the cause of the context says why. No process of the session is left when Run returns.
func (c *Claude) Run(ctx context.Context, spec ops.SessionSpec, rec ops.Recorder) ops.RunResult {
	log := c.o.Logger.With("cycle", int64(spec.Session.CycleID), "session", int64(spec.Session.ID), "key", spec.Session.Key)
	if ctx.Err() != nil {
		cause, why := causeOf(ctx)
		return ops.RunResult{Stop: cause, StopWhy: why, Failure: failureOf(cause), Err: why}
	}
	ready, err := c.prepare(ctx, spec)
	if err != nil {
		return c.notStarted(err)
	}
	defer ready.remove()
	walls, err := c.wall(ready, spec)
	if err != nil {
		return c.notStarted(err)
	}
	if err := ready.settings.intact(); err != nil {
		return c.notStarted(err)
	}
	p, err := start(ready.command)
	if err != nil {
		return c.notStarted(&startError{class: ops.FailureStart, text: fmt.Sprintf("%s could not be started: %v", c.o.Bin, err)})
	}
	log.InfoContext(ctx, "session started", "pid", p.pid, "tier", int(spec.Session.Tier), "model", spec.Session.Model,
		"settings", hex.EncodeToString(ready.settings.sum[:8]))
	s := newSession(c, spec, p, log)
	s.retries = ready.retries
	res := s.run(ctx, rec)
	res.Warnings = append(ready.warnings, res.Warnings...)
	res.Conversation = fingerprint(ready.config, res.CLISessionID)
	if walls != nil {
		if err := walls.Collect(spec.Session.May()); err != nil {
			res.Warnings = append(res.Warnings, fmt.Sprintf("what the agent left behind its walls could not be brought back: %v", err))
		}
	}
	if res.CLIVersion == "" {
		res.CLIVersion = ready.version
	}
	log.InfoContext(ctx, "session ended", "exit", *res.ExitCode, "stop", string(res.Stop), "failure", res.Failure)
	return res
}

// wall puts a session that is ready behind its walls. What cannot be set up starts nothing.
func (c *Claude) wall(r *readied, spec ops.SessionSpec) (Walls, error) {
	if c.o.Walls == nil {
		return nil, nil //nolint:nilnil // no walls is an answer
	}
	walls := c.o.Walls(spec.Environment)
	if walls == nil {
		return nil, nil //nolint:nilnil // no walls is an answer
	}
	w, err := putBehind(walls, spec.Session.May(), Walled{Path: r.command.path, Argv: r.command.argv, Env: r.command.env, Dir: r.command.dir})
	if err != nil {
		return nil, err
	}
	r.command.path, r.command.argv, r.command.env, r.command.dir, r.command.credential = w.Path, w.Argv, w.Env, w.Dir, w.Credential
	return walls, nil
}

// putBehind sets walls up and returns the program as it is started behind them.
func putBehind(walls Walls, tier ops.Tier, w Walled) (Walled, error) {
	for _, step := range []func(ops.Tier) error{walls.Check, walls.Prepare} {
		if err := step(tier); err != nil {
			return Walled{}, &startError{class: ops.FailureLayer, text: err.Error()}
		}
	}
	out, err := walls.Wrap(tier, w)
	if err != nil {
		return Walled{}, &startError{class: ops.FailureLayer, text: err.Error()}
	}
	return out, nil
}

// startError is why a session could not be started.
type startError struct {
	class ops.FailureClass
	text  string
}

func (e *startError) Error() string { return e.text }

func (c *Claude) notStarted(err error) ops.RunResult { return NotStarted(err, c.o.Redactor) }

// NotStarted is the result of a session that could not be started.
func NotStarted(err error, r *redact.Redactor) ops.RunResult {
	res := ops.RunResult{Failure: ops.FailureStart, Err: r.String(err.Error())}
	var se *startError
	if errors.As(err, &se) {
		res.Failure = se.class
	}
	return res
}

// readied is a session that is ready to be started.
type readied struct {
	command command
	config  string // the CLI's configuration folder
	version string
	// snapshots: the program keeps the system prompt and the tools of a conversation it continues, unless told otherwise.
	snapshots bool
	budgets   bool // it stops by itself when it has spent what it may
	retries   bool // it repeats a call of the model that failed
	settings  sealed
	warnings  []string
	files     []string // to remove after the session
}

func (r *readied) remove() {
	for _, name := range r.files {
		_ = os.Remove(name)
	}
}

const (
	agentFolder = "agent" // in the state folder
	maxArgument = 100_000 // longer texts travel by file
)

// prepare makes everything a session needs except the process.
func (c *Claude) prepare(ctx context.Context, spec ops.SessionSpec) (_ *readied, err error) {
	if spec.Session.Key == "" || strings.ContainsAny(spec.Session.Key, "\x00") {
		return nil, &startError{class: ops.FailureStart, text: "the session has no key, so its processes could not be found again"}
	}
	path, err := c.find(spec.Env)
	if err != nil {
		return nil, err
	}
	if err := intact(spec); err != nil {
		return nil, err
	}
	r := &readied{}
	if err := c.checkVersion(ctx, r, path, spec); err != nil {
		return nil, err
	}
	f, err := makeFolders(spec, c.o.HomeDir)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			r.remove()
		}
	}()
	args, stdin, err := c.arguments(spec, f, r)
	if err != nil {
		return nil, err
	}
	r.config = f.config
	env := c.environment(spec, f)
	r.retries = r.retries && !slices.Contains(env, maxRetries+"=0")
	r.command = command{
		path:  path,
		argv:  append(append([]string{c.o.Bin}, c.o.Argv0Extra...), args...),
		env:   env,
		dir:   f.work,
		key:   spec.Session.Key,
		stdin: stdin,
	}
	return r, nil
}

// find looks for the program the way a shell would, in the PATH the agent will have.
func (c *Claude) find(env []string) (string, error) {
	path, err := lookFor(c.o.Bin, searchPath(env, c.o.Env))
	switch {
	case err == nil:
		return path, nil
	case errors.Is(err, errNowhere):
		return "", &startError{class: ops.FailureNotFound, text: fmt.Sprintf(
			"the agent program %q was not found in PATH: install it with npm install -g @anthropic-ai/claude-code, or set CLAUDEOPS_CLAUDE_BIN to the program", c.o.Bin)}
	}
	return "", &startError{class: ops.FailureNotFound, text: fmt.Sprintf(
		"the agent program %s cannot be run (%v): set CLAUDEOPS_CLAUDE_BIN to the program", c.o.Bin, cause(err))}
}

// errNowhere says that no folder of a PATH holds a program.
var errNowhere = errors.New("it is in no folder of PATH")

// lookFor finds a program by its name or its path.
func lookFor(bin, searched string) (string, error) {
	if strings.ContainsRune(bin, filepath.Separator) {
		path, err := filepath.Abs(bin)
		if err == nil {
			err = executable(path)
		}
		return path, err
	}
	for dir := range strings.SplitSeq(searched, string(os.PathListSeparator)) {
		if !filepath.IsAbs(dir) {
			continue // what lies in the working folder must not stand in for the agent
		}
		if path := filepath.Join(dir, bin); executable(path) == nil {
			return path, nil
		}
	}
	return "", errNowhere
}

func executable(path string) error {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return err
	case info.IsDir():
		return errors.New("it is a folder")
	case info.Mode()&0o111 == 0:
		return errors.New("it is not executable")
	}
	return nil
}

// cause strips the path from a file error that names it already.
func cause(err error) error {
	var pe *os.PathError
	if errors.As(err, &pe) {
		return pe.Err
	}
	return err
}

// folders are where a session lives.
type folders struct {
	state, agent, home, config, work string
}

func makeFolders(spec ops.SessionSpec, homeDir func(stateDir string) string) (folders, error) {
	state, err := filepath.Abs(spec.StateDir)
	if err != nil || spec.StateDir == "" {
		return folders{}, &startError{class: ops.FailureStart, text: "the session has no state folder"}
	}
	f := folders{state: state, agent: filepath.Join(state, agentFolder), home: homeDir(state), work: spec.WorkDir}
	f.config = filepath.Join(f.agent, "config")
	if f.work == "" {
		f.work = filepath.Join(f.agent, "work")
	}
	if f.work, err = filepath.Abs(f.work); err != nil {
		return folders{}, &startError{class: ops.FailureStart, text: fmt.Sprintf("the working folder cannot be used: %v", err)}
	}
	for _, dir := range []string{f.agent, f.home, f.config, f.work} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return folders{}, &startError{class: ops.FailureStart, text: fmt.Sprintf("a folder of the agent cannot be made: %v", err)}
		}
	}
	for _, dir := range []string{f.agent, f.home, f.config} {
		if err := os.Chmod(dir, 0o700); err != nil {
			return folders{}, &startError{class: ops.FailureStart, text: fmt.Sprintf("a folder of the agent cannot be protected: %v", err)}
		}
	}
	return f, nil
}
