package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"claudeops/internal/agent/process"
	"claudeops/internal/guard/redact"
	"claudeops/internal/ops"
)

// Options are the same for every adapter.
type Options struct {
	Redactor *redact.Redactor
	Logger   *slog.Logger
	Clock    ops.Clock
	Walls    func(environment string) Walls // nil, or nil for an environment: none
	// Discards removes what sessions leave, files and processes outside of their control group; nil removes it before Run returns.
	Discards *Discards
	// HideKeys reports whether the sessions of an environment and a tier get tokens of a proxy instead of the keys of the API;
	// nil means never.
	HideKeys func(environment string, tier ops.Tier) bool
	// Keeper ends the sessions if this process dies; nil means that nothing does.
	Keeper Keeper
}

// Keeper is a process that ends the processes of sessions when the supervisor dies or is paused.
type Keeper interface {
	// Register tells the keeper about a session before it starts, with the folder of its control group, if it has one. Started is to
	// be called with its first process. An error means that the session must not start.
	Register(ctx context.Context, key, group string) (started func(process.Ident), err error)
	// Release tells the keeper that nothing of the session is left.
	Release(key string)
	// Bound returns a context that also ends when the session must end because of the keeper.
	Bound(ctx context.Context) (context.Context, context.CancelFunc)
	// Check waits for a sign of life.
	Check(ctx context.Context) error
}

// Walls are the layers of the operating system around an agent's processes.
type Walls interface {
	// Layers names the layers that are on for a tier.
	Layers(tier ops.Tier) []string
	// Prepare sets the layers up. It comes after the agent's files were written and before Wrap, and fails when a layer that
	// is on cannot be set up.
	Prepare(tier ops.Tier) error
	// Wrap returns the program as it is started behind the walls.
	Wrap(tier ops.Tier, p Program) (Program, error)
	// Collect brings back what the agent left behind the walls.
	Collect(tier ops.Tier) error
}

// ShellGater are walls that can put the gate of a session in the place of the shells that its program starts.
type ShellGater interface {
	GatesShells(tier ops.Tier) bool
}

// Runner runs the sessions of one adapter.
type Runner struct {
	Adapter

	o Options
}

// NewRunner makes a runner.
func NewRunner(a Adapter, o Options) *Runner {
	if o.Redactor == nil {
		o.Redactor = redact.New(nil)
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	return &Runner{Adapter: a, o: o}
}

// Run runs one session to its end. When the context ends, the session is stopped; the cause of the context says why. No
// process of the session is left when Run returns: its control group is empty, or every process of the machine was looked at. What
// left its control group is looked for after that, with Discards.
func (r *Runner) Run(ctx context.Context, spec ops.SessionSpec, rec ops.Recorder) ops.RunResult {
	if ctx.Err() != nil {
		cause, why := causeOf(ctx)
		return ops.RunResult{Stop: cause, StopWhy: why, Failure: failureOf(cause), Err: why}
	}
	if spec.Session.Key == "" || strings.ContainsRune(spec.Session.Key, 0) {
		return r.notStarted(Refuse(ops.FailureStart, "the session has no key, so its processes could not be found again"))
	}
	var walls Walls
	if r.o.Walls != nil {
		walls = r.o.Walls(spec.Environment)
	}
	log := r.o.Logger.With("cycle", int64(spec.Session.CycleID), "session", int64(spec.Session.ID), "key", spec.Session.Key)
	f, err := freshFolders(spec, r.o.Discards)
	if f.State != "" {
		defer r.discard(ctx, f, log)
	}
	if err != nil {
		return r.notStarted(err)
	}
	proxies, err := r.hideKeys(&spec)
	if err != nil {
		return r.notStarted(err)
	}
	defer proxies.close()
	release := func() {}
	if r.o.Keeper != nil {
		bound, free := r.o.Keeper.Bound(ctx)
		defer free()
		release = func() { r.o.Keeper.Release(spec.Session.Key) }
		ctx = bound
	}
	res, proc := r.run(ctx, spec, f, walls, rec, log)
	if proc == nil {
		release()
		return res
	}
	// The keeper keeps the session until nothing of it can be left.
	r.o.Discards.later(func() {
		search(context.WithoutCancel(ctx), proc, log)
		release()
	})
	return res
}

// Gated reports whether the commands of a session are judged although its program asks nobody.
func (r *Runner) Gated(spec ops.SessionSpec) bool {
	g, ok := r.Adapter.(interface {
		Gated(spec ops.SessionSpec, walls Walls) bool
	})
	return ok && r.o.Walls != nil && g.Gated(spec, r.o.Walls(spec.Environment))
}

// search ends what left the control group of an ended session.
func search(ctx context.Context, proc *running, log *slog.Logger) {
	killed, err := proc.search(ctx)
	if killed > 0 {
		log.WarnContext(ctx, "processes had left the control group of an ended session and were killed", "processes", killed)
	}
	if err != nil {
		log.WarnContext(ctx, "processes of an ended session are left", "error", err)
	}
}

// run runs a session whose folders are ready. Without a process it was not started.
func (r *Runner) run(
	ctx context.Context, spec ops.SessionSpec, f Folders, walls Walls, rec ops.Recorder, log *slog.Logger,
) (ops.RunResult, *running) {
	p, err := r.Prepare(ctx, spec, walls)
	if err != nil {
		return r.notStarted(err), nil
	}
	defer p.RemoveFiles()
	if p.Close != nil {
		defer p.Close()
	}
	if k := r.o.Keeper; k != nil {
		p.Program.register = func(group string) (func(process.Ident), error) { return k.Register(ctx, spec.Session.Key, group) }
	}
	proc, err := p.start(spec, walls)
	if err != nil {
		return r.notStarted(err), nil
	}
	log.LogAttrs(ctx, slog.LevelInfo, "session started", append([]slog.Attr{
		slog.Int("pid", proc.PID), slog.Int("tier", int(spec.Session.Tier)), slog.String("model", spec.Session.Model),
	}, p.Attrs...)...)
	s := newSession(r.o, spec, p, proc, log)
	res := s.result(s.supervise(ctx, rec))
	if walls != nil {
		if err := walls.Collect(spec.Session.May()); err != nil {
			text := fmt.Sprintf("what the agent left behind its walls could not be brought back: %v", err)
			res.Warnings = append(res.Warnings, s.line(text))
		}
	}
	if res.Conversation.Path != "" {
		if res.Conversation, err = f.keep(spec, res.Conversation, p.Attachments); err != nil {
			text := fmt.Sprintf("the record of the conversation could not be kept, so no session can continue it: %v", err)
			res.Warnings = append(res.Warnings, s.line(text))
		}
	}
	log.InfoContext(ctx, "session ended", "exit", *res.ExitCode, "stop", string(res.Stop), "failure", string(res.Failure))
	return res, proc
}

// discard throws away what the session left.
func (r *Runner) discard(ctx context.Context, f Folders, log *slog.Logger) {
	if err := f.discard(r.o.Discards); err != nil {
		log.WarnContext(ctx, "files of an ended session could not be removed", "error", err)
	}
}

// start sets up the walls and starts the program.
func (p *Prepared) start(spec ops.SessionSpec, walls Walls) (*running, error) {
	program, err := p.Program.Behind(walls, spec.Session.May())
	if err == nil && p.Verify != nil {
		err = p.Verify()
	}
	if err != nil {
		if p.Program.Stdin != nil {
			_ = p.Program.Stdin.Close()
		}
		return nil, err
	}
	program.Key, program.register = spec.Session.Key, p.Program.register
	proc, err := start(program)
	if err != nil {
		return nil, Refuse(ops.FailureStart, "%s could not be started: %v", p.Name, err)
	}
	proc.proof = program.Proof
	return proc, nil
}

// RemoveFiles removes the files of the session.
func (p *Prepared) RemoveFiles() {
	for _, name := range p.Files {
		_ = os.Remove(name)
	}
}

// notStarted is the result of a session that could not be started.
func (r *Runner) notStarted(err error) ops.RunResult {
	res := ops.RunResult{Failure: ops.FailureStart, Err: r.o.Redactor.String(err.Error())}
	var refused *startError
	if errors.As(err, &refused) {
		res.Failure = refused.class
	}
	return res
}
