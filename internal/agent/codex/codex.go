package codex

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"claudeops/internal/agent"
	"claudeops/internal/guard/redact"
	"claudeops/internal/ops"
)

// Options say which program runs and what it gets to see.
type Options struct {
	Bin      string     // the program; "codex" when empty
	Env      []string   // NAME=value, the supervisor's environment, to find the program in
	ExtraEnv []string   // names that pass through to the agent beside the usual ones
	Prices   ops.Prices // a model without one has no cost
	// Network lets the commands of Tier 1 use the network: without it the read-only sandbox leaves them only files to look
	// at, with it they reach whatever listens on this host, the Docker socket included if its permissions allow.
	Network  bool
	Walls    func(environment string) Walls // nil, or nil for an environment: none
	Redactor *redact.Redactor
	Logger   *slog.Logger
	Clock    ops.Clock
}

// Codex runs sessions of the Codex CLI.
type Codex struct {
	o Options

	mu      sync.Mutex
	version programVersion
	tried   map[string]bool // where the read-only sandbox worked once
}

// New makes a runner of the Codex CLI.
func New(o Options) *Codex {
	if o.Bin == "" {
		o.Bin = "codex"
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
	return &Codex{o: o, tried: make(map[string]bool)}
}

const (
	name = "codex" // in messages
	hint = "install it with npm install -g @openai/codex, or set agent.codex_bin to the program"
)

// Able tells what the program can do. Only a version that is known promises anything.
func (c *Codex) Able(ctx context.Context, env []string) ops.Ability {
	path, err := agent.Find(c.o.Bin, hint, env, c.o.Env)
	if err != nil {
		return ops.Ability{}
	}
	v := c.versionOf(ctx, path, env)
	return ops.Ability{Version: v.text, Known: v.text != "", Structured: v.text != "" && !agent.OlderVersion(v.text, OldestVersion), NoFiles: true, Ungated: true}
}

// Run runs one session to its end and tells what became of it. When the context ends, the session is stopped; the cause of
// the context says why. No process of the session is left when Run returns.
func (c *Codex) Run(ctx context.Context, spec ops.SessionSpec, rec ops.Recorder) ops.RunResult {
	if ctx.Err() != nil {
		return agent.Stopped(ctx)
	}
	r, err := c.ready(ctx, spec)
	if err != nil {
		return agent.NotStarted(err, c.o.Redactor)
	}
	defer r.remove()
	st := &stream{}
	end, err := agent.Supervise(ctx, agent.Supervision{
		Name: name, Limits: spec.Limits, Watch: spec.Watch, Activities: (&tail{home: r.home, model: spec.Session.Model, st: st}).activities, Redactor: c.o.Redactor, Clock: c.o.Clock,
		Logger: c.o.Logger.With("cycle", int64(spec.Session.CycleID), "session", int64(spec.Session.ID), "key", spec.Session.Key),
	}, r.program, st, rec)
	if err != nil {
		return agent.NotStarted(err, c.o.Redactor)
	}
	res := c.result(spec, r, st, end)
	if r.walls != nil {
		if err := r.walls.Collect(spec.Session.May()); err != nil {
			res.Warnings = append(res.Warnings, fmt.Sprintf("what the agent left behind its walls could not be brought back: %v", err))
		}
	}
	return res
}

// readied is a session that is ready to be started.
type readied struct {
	program agent.Program
	home    string // CODEX_HOME
	version string
	walls   Walls
	before  *usage // what the continued conversation had used; nil when that is not known
	files   []string
}

func (r *readied) remove() {
	for _, name := range r.files {
		_ = os.Remove(name)
	}
}

// ready makes everything a session needs except the process.
func (c *Codex) ready(ctx context.Context, spec ops.SessionSpec) (_ *readied, err error) {
	if err := agent.Keyed(spec); err != nil {
		return nil, err
	}
	path, err := agent.Find(c.o.Bin, hint, spec.Env, c.o.Env)
	if err != nil {
		return nil, err
	}
	r := &readied{}
	if r.version, err = c.checkVersion(ctx, path, spec); err != nil {
		return nil, err
	}
	held, err := c.hold(spec)
	if err != nil {
		return nil, err
	}
	if err := agent.Intact(spec); err != nil {
		return nil, err
	}
	if spec.Resume != "" && !agent.ConversationID(spec.Resume) {
		return nil, agent.Refuse(ops.FailureResumeRefused, "%q is no conversation of Codex", spec.Resume)
	}
	f, err := agent.MakeFolders(spec)
	if err != nil {
		return nil, err
	}
	if r.home, err = makeHome(f); err != nil {
		return nil, err
	}
	r.before = c.before(spec, r.home)
	defer func() {
		if err != nil {
			r.remove()
		}
	}()
	return r, c.readyProgram(ctx, spec, f, held, path, r)
}

// readyProgram fills in how the program is started.
func (c *Codex) readyProgram(ctx context.Context, spec ops.SessionSpec, f agent.Folders, held holding, path string, r *readied) error {
	p := agent.Program{Path: path, Env: c.environment(spec, f, r.home), Dir: f.Work, Key: spec.Session.Key}
	if err := c.try(ctx, spec, held, p); err != nil {
		return err
	}
	schema, err := c.writeSchema(spec, f, r)
	if err != nil {
		return err
	}
	args, prompt := c.arguments(spec, held, schema)
	p.Argv = append([]string{c.o.Bin}, args...)
	if held.walls != nil {
		if p, err = p.Behind(held.walls, spec.Session.May()); err != nil {
			return err
		}
		r.walls = held.walls
	}
	if p.Stdin, err = agent.TextFile(f.Agent, prompt); err != nil {
		return err
	}
	r.program = p
	return nil
}

// writeSchema writes the schema of the outcome for Codex and returns the name of the file; nothing when none is demanded.
func (c *Codex) writeSchema(spec ops.SessionSpec, f agent.Folders, r *readied) (string, error) {
	if spec.OutcomeJSON == "" {
		return "", nil
	}
	text, err := strictSchema(spec.OutcomeJSON)
	if err != nil {
		return "", agent.Refuse(agent.FailStart, "the schema of the outcome cannot be used: %v", err)
	}
	path := filepath.Join(f.Agent, fmt.Sprintf("codex-schema-%d.json", spec.Session.ID))
	r.files = append(r.files, path)
	_ = os.Remove(path) // one of another mode could have been left there
	if err := os.WriteFile(path, text, 0o600); err != nil {
		return "", agent.Refuse(agent.FailStart, "a file of the agent cannot be written: %v", err)
	}
	return path, nil
}

// result says what became of a session.
func (c *Codex) result(spec ops.SessionSpec, r *readied, st *stream, end agent.Ended) ops.RunResult {
	res := end.Result()
	res.Warnings = append(st.warnings, res.Warnings...)
	res.CLIVersion, res.Model = r.version, spec.Session.Model
	if agent.ConversationID(st.thread) {
		res.CLISessionID = st.thread
		path := findRecord(r.home, st.thread)
		res.Conversation = agent.FingerprintOf(path)
		c.figures(&res, spec, r, st, readRecord(path))
	}
	res.ResultRead, res.IsError = st.completed || st.failed, st.failed
	res.Text = agent.Shown(c.o.Redactor, st.said)
	if spec.OutcomeJSON != "" && st.completed {
		if out := normalized(spec.OutcomeJSON, st.said); out != nil {
			res.Structured = json.RawMessage(c.o.Redactor.String(string(out)))
		}
	}
	c.judge(&res, spec, st, end)
	for i := range res.Warnings {
		res.Warnings[i] = agent.Sentence(c.o.Redactor, res.Warnings[i])
	}
	return res
}
