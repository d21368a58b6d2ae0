package agent

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"claudeops/internal/agent/keyproxy"
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
	// Network opens the network of a session, which leads to its key proxies too, and returns its proxy variables; nil: the machine's.
	Network func(ctx context.Context, spec ops.SessionSpec, keys []string) (env []string, end func(), err error)
	// Trial refuses a program that is not known to be held; nil tries none.
	Trial func(ctx context.Context, environment string) error
	// Play answers in the place of the API, for a trial; nil: the API itself.
	Play *keyproxy.Play
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
	// Hides returns what reports whether a path that is there is not visible to a program; nil where everything is.
	Hides(tier ops.Tier, p Program) func(path string) bool
	// GatesShells reports whether they can put the gate of a session in the place of the shells that its program starts.
	GatesShells(tier ops.Tier) bool
}

// Runner runs the sessions of one adapter.
type Runner struct {
	Adapter

	o           Options
	unavailable unavailable
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

// stopped is the result of a session that was told to stop before its program ran.
func stopped(ctx context.Context) ops.RunResult {
	cause, why := causeOf(ctx)
	return ops.RunResult{Stop: cause, StopWhy: why, Failure: failureOf(cause), Err: why}
}

// Run runs one session to its end. When the context ends, the session is stopped; the cause of the context says why. No
// process of the session is left when Run returns: what is in front of it has ended all that it started, and its control group is
// empty, or every process of the machine was looked at.
func (r *Runner) Run(ctx context.Context, spec ops.SessionSpec, rec ops.Recorder) ops.RunResult {
	told := ctx
	if told.Err() != nil {
		return stopped(told)
	}
	if spec.Session.Key == "" || strings.ContainsRune(spec.Session.Key, 0) {
		return r.notStarted(Refuse(ops.FailureStart, "the session has no key, so its processes could not be found again"))
	}
	run := &run{Runner: r, spec: spec, log: r.o.Logger.With(
		"cycle", int64(spec.Session.CycleID), "session", int64(spec.Session.ID), "key", spec.Session.Key)}
	if r.o.Walls != nil {
		run.walls = r.o.Walls(spec.Environment)
	}
	var ends []func()
	var err error
	for _, begin := range hooks() {
		var end func()
		if ctx, end, err = begin(ctx, run); err != nil {
			break
		}
		ends = append(ends, end)
	}
	if err == nil {
		err = run.start(ctx, rec)
	}
	if err != nil {
		if run.res = r.notStarted(err); told.Err() != nil { // whatever else it says: it was to stop
			run.res = stopped(told)
		}
	}
	for _, end := range slices.Backward(ends) {
		end()
	}
	return run.res
}

// start starts the session and waits for its end.
func (r *run) start(ctx context.Context, rec ops.Recorder) error {
	proc, err := start(r.program)
	if err != nil {
		return Refuse(ops.FailureStart, "%s could not be started: %v", r.prepared.Name, err)
	}
	proc.proof, r.proc = r.program.Proof, proc
	r.log.LogAttrs(ctx, slog.LevelInfo, "session started", append([]slog.Attr{
		slog.Int("pid", proc.PID), slog.Int("tier", int(r.spec.Session.Tier)), slog.String("model", r.spec.Session.Model),
	}, r.prepared.Attrs...)...)
	s := newSession(r.o, r.spec, r.prepared, proc, r.log)
	r.res = s.result(s.supervise(ctx, rec))
	r.noteUnavailable(s.spoke, s.words.String())
	r.log.InfoContext(ctx, "session ended", "exit", *r.res.ExitCode, "stop", string(r.res.Stop), "failure", string(r.res.Failure))
	return nil
}

// Able tells what the program can do.
func (r *Runner) Able(ctx context.Context, env []string) ops.Ability {
	able := r.Adapter.Able(ctx, env)
	able.Why = r.o.Redactor.String(able.Why)
	return able
}

// Gated reports whether the commands of a session are judged although its program asks nobody.
func (r *Runner) Gated(spec ops.SessionSpec) bool {
	return r.o.Walls != nil && r.Adapter.Gated(spec, r.o.Walls(spec.Environment))
}

// RemoveFiles removes the files of the session.
func (p *Prepared) RemoveFiles() {
	for _, name := range p.Files {
		_ = os.Remove(name)
	}
}

// discard removes what was prepared for a session that does not start.
func (p *Prepared) discard() {
	p.RemoveFiles()
	if p.Program.Stdin != nil {
		_ = p.Program.Stdin.Close()
	}
}

// notStarted is the result of a session that could not be started.
func (r *Runner) notStarted(err error) ops.RunResult {
	res := ops.RunResult{Failure: ops.FailureStart, Err: r.o.Redactor.String(err.Error())}
	res.CostUSD = ops.Ptr(0.0) // what never ran has cost nothing, which is not the same as unknown
	var refused *startError
	if errors.As(err, &refused) {
		res.Failure = refused.class
	}
	return res
}
