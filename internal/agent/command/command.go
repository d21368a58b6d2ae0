// Package command runs any program as an agent: it gets the prompt on its standard input, prints what it does, and ends with
// an outcome in JSON. docs/command-agent.md is its contract.
package command

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"claudeops/internal/agent"
	"claudeops/internal/guard/redact"
	"claudeops/internal/ops"
)

// Options say what the programs get to see and what holds them.
type Options struct {
	Env      []string                       // NAME=value, the supervisor's environment, to find a program in
	ExtraEnv []string                       // names that pass through beside the usual ones
	Walls    func(environment string) Walls // nil, or nil for an environment: none
	// Trusted: the operator vouches for the programs, so they run without walls, too. Nobody judges what they do.
	Trusted  bool
	Redactor *redact.Redactor
	Logger   *slog.Logger
	Clock    ops.Clock
}

// Walls are the layers around the agents of an environment.
type Walls interface {
	agent.Walls
	// Layers names the layers that are on for a tier.
	Layers(tier ops.Tier) []string
}

// LayerBubblewrap is the layer without which a program that is not trusted does not run.
const LayerBubblewrap = "bubblewrap"

// Command runs programs as agents. Which one says the session.
type Command struct {
	o Options
}

// New makes a runner of programs.
func New(o Options) *Command {
	if o.Redactor == nil {
		o.Redactor = redact.New(nil)
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	return &Command{o: o}
}

// Able tells what the programs can do: by contract they end with an outcome.
func (c *Command) Able(context.Context, []string) ops.Ability {
	return ops.Ability{Version: "command", Known: true, Structured: true, NoFiles: true, Ungated: true}
}

// Run runs one session to its end and tells what became of it. When the context ends, the session is stopped; the cause of
// the context says why. No process of the session is left when Run returns.
func (c *Command) Run(ctx context.Context, spec ops.SessionSpec, rec ops.Recorder) ops.RunResult {
	if ctx.Err() != nil {
		return agent.Stopped(ctx)
	}
	r, err := c.ready(spec)
	if err != nil {
		return agent.NotStarted(err, c.o.Redactor)
	}
	defer r.remove()
	out := &output{}
	end, err := agent.Supervise(ctx, agent.Supervision{
		Name: r.name, Limits: spec.Limits, Redactor: c.o.Redactor, Clock: c.o.Clock,
		Watch: spec.Watch, Activities: c.Activities,
		Logger: c.o.Logger.With("cycle", int64(spec.Session.CycleID), "session", int64(spec.Session.ID), "key", spec.Session.Key),
	}, r.program, out, rec)
	if err != nil {
		return agent.NotStarted(err, c.o.Redactor)
	}
	res := c.result(spec, r.name, out, end)
	if r.walls != nil {
		if err := r.walls.Collect(spec.Session.May()); err != nil {
			res.Warnings = append(res.Warnings, fmt.Sprintf("what the agent left behind its walls could not be brought back: %v", err))
		}
	}
	return res
}

// Activities are what one line of a program's output tells of the session's doings: nothing, whatever it says.
func (c *Command) Activities(string) []ops.Activity { return nil }

// readied is a session that is ready to be started.
type readied struct {
	program agent.Program
	name    string
	walls   Walls
	files   []string
}

func (r *readied) remove() {
	for _, name := range r.files {
		_ = os.Remove(name)
	}
}

const hint = "name the program in the command of the handler"

// ready makes everything a session needs except the process.
func (c *Command) ready(spec ops.SessionSpec) (_ *readied, err error) {
	if err := agent.Keyed(spec); err != nil {
		return nil, err
	}
	if len(spec.Command) == 0 || spec.Command[0] == "" {
		return nil, agent.Refuse(agent.FailNotFound, "handler %s names no program: %s", spec.Session.Handler, hint)
	}
	if spec.Resume != "" {
		return nil, agent.Refuse(ops.FailureResumeRefused, "a command cannot continue a conversation")
	}
	path, err := agent.Find(spec.Command[0], hint, spec.Env, c.o.Env)
	if err != nil {
		return nil, err
	}
	walls, err := c.hold(spec)
	if err != nil {
		return nil, err
	}
	f, err := agent.MakeFolders(spec)
	if err != nil {
		return nil, err
	}
	r := &readied{name: filepath.Base(spec.Command[0]), walls: walls}
	defer func() {
		if err != nil {
			r.remove()
		}
	}()
	set := map[string]string{"CLAUDEOPS_MODEL": spec.Session.Model}
	if spec.OutcomeJSON != "" {
		schema := filepath.Join(f.Agent, fmt.Sprintf("command-schema-%d.json", spec.Session.ID))
		r.files = append(r.files, schema)
		_ = os.Remove(schema) // one of another mode could have been left there
		if err := os.WriteFile(schema, []byte(spec.OutcomeJSON), 0o600); err != nil {
			return nil, agent.Refuse(agent.FailStart, "a file of the agent cannot be written: %v", err)
		}
		set["CLAUDEOPS_OUTCOME_SCHEMA"] = schema
	}
	passes := func(name string) bool { return slices.Contains(c.o.ExtraEnv, name) }
	p := agent.Program{
		Path: path, Argv: spec.Command, Env: agent.Environment(spec, f, passes, set), Dir: f.Work, Key: spec.Session.Key,
	}
	if walls != nil {
		if p, err = p.Behind(walls, spec.Session.May()); err != nil {
			return nil, err
		}
	}
	if p.Stdin, err = agent.TextFile(f.Agent, prompt(spec)); err != nil {
		return nil, err
	}
	r.program = p
	return r, nil
}

// hold decides what holds a session to its tier, and refuses one that nothing would.
func (c *Command) hold(spec ops.SessionSpec) (Walls, error) {
	var walls Walls
	if c.o.Walls != nil {
		walls = c.o.Walls(spec.Environment)
	}
	if c.o.Trusted || walls != nil && slices.Contains(walls.Layers(spec.Session.May()), LayerBubblewrap) {
		return walls, nil
	}
	return nil, agent.Refuse(agent.FailLayer,
		"nobody judges what a command does, so it runs only behind the sandbox layer %q, which is off: switch it on (sandbox.bubblewrap: true), "+
			"or vouch for your programs (agent.command_trusted: true)", LayerBubblewrap)
}

func prompt(spec ops.SessionSpec) string {
	if spec.SystemPrompt == "" {
		return spec.Prompt + "\n"
	}
	return spec.SystemPrompt + "\n\n" + spec.Prompt + "\n"
}

// result says what became of a session: the exit code decides.
func (c *Command) result(spec ops.SessionSpec, name string, out *output, end agent.Ended) ops.RunResult {
	res := end.Result()
	res.Model = spec.Session.Model
	res.Failure, res.Err = end.Judge(name)
	res.Err = agent.Sentence(c.o.Redactor, res.Err)
	res.ResultRead = end.Stop == ops.StopNone && end.ExitCode == 0
	raw, summary := out.outcome()
	if raw != nil && res.ResultRead {
		res.Structured = json.RawMessage(c.o.Redactor.String(string(raw)))
	}
	if summary == "" {
		summary = out.last
	}
	res.Text = agent.Shown(c.o.Redactor, strings.TrimSpace(summary))
	out.figures.fill(&res)
	return res
}
