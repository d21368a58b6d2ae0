package act

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"claudeops/internal/failpoint"
	"claudeops/internal/notice"
	"claudeops/internal/ops"
	"claudeops/internal/store"
)

// Ledger is where runs are recorded.
type Ledger interface {
	BeginAction(ctx context.Context, owner ops.Owner, in store.ActionIntent) (run ops.ActionRun, refusal string, err error)
	EndAction(ctx context.Context, owner ops.Owner, in store.ActionResult) (ops.ActionRun, error)
	ActionRun(ctx context.Context, id int64) (ops.ActionRun, error)
	LastVersion(ctx context.Context, environment, service, current string) (string, error)
}

// Refusals are where a refused request of a session is recorded.
type Refusals interface {
	RecordGuard(ctx context.Context, owner ops.Owner, record ops.GuardRecord, want []ops.Reservation,
		limits []ops.CooldownLimit) (ops.GuardRecord, error)
}

// Prober checks services.
type Prober interface {
	Run(ctx context.Context, environment string, specs []ops.ProbeSpec, purpose ops.ProbePurpose) []ops.Check
}

// Options are what a Runner needs.
type Options struct {
	Ledger   Ledger
	Refusals Refusals
	Prober   Prober
	Owner    func() ops.Owner
	May      func() error // its error says why this host may change nothing now
	Limits   []ops.CooldownLimit
	Docker   string // the socket of the engine
	Commits  *Commits
	Turns    *Turns // runners of one process share it
	// Settle is how long services may take to work after a change.
	Settle    func(ctx context.Context, environment string, services []string) time.Duration
	Round     time.Duration // between two rounds of probes; 0: two seconds
	Stop      time.Duration // how long a program may take to end after it was told to; 0: five seconds
	Redact    func(string) string
	Environ   []string // of the supervisor: HOME, PATH and the like
	Systemctl string
	Clock     ops.Clock
	Logger    *slog.Logger
}

// Runner runs actions.
type Runner struct{ o Options }

// Turns let one action at a time run in each environment. The zero value is ready.
type Turns struct {
	mu    sync.Mutex
	locks map[string]chan struct{} // by environment
}

// New makes a runner.
func New(o Options) *Runner {
	o.Round, o.Systemctl = cmp.Or(o.Round, 2*time.Second), cmp.Or(o.Systemctl, "systemctl")
	return &Runner{o: o}
}

// Request asks for one action, or for the undo of a run. Exactly one of Session, Person, Plan and Reflex says who asks.
type Request struct {
	Environment ops.Environment
	Run         int64 // to undo
	Service     string
	Action      string
	Branch      string // push
	Why         string

	Session *ops.Session
	DryRun  bool
	Scope   func(ctx context.Context) (Scope, error) // of the session

	Person string
	ID     int64  // of the row that holds the request of a person
	Digest string // of the action as the person saw it

	Plan *ops.Approval
	Step int // from 1, of the plan or the reflex

	Reflex *ops.Reflex
	Cycle  ops.CycleID // of the reflex
}

// Scope is what a session may ask for.
type Scope struct {
	Services []string          // of the incident
	Held     map[string]string // services that nobody may change now, and why
}

// Refusal is why an action is not run, and what could be done instead.
type Refusal struct {
	Rule    string
	Reason  string
	Instead string
}

func (r *Refusal) Error() string { return strings.TrimSpace(r.Reason + " " + r.Instead) }

// Outcome is a run, and the run that undid it.
type Outcome struct {
	Run   ops.ActionRun
	Undo  *ops.ActionRun
	Worse []string // services that were worse after the run
}

// Run runs an action and undoes it if it made things worse. A *Refusal means that nothing was run.
func (r *Runner) Run(ctx context.Context, q Request) (Outcome, error) {
	free, err := r.o.Turns.take(ctx, q.Environment.Name)
	if err != nil {
		return Outcome{}, err
	}
	defer free()
	spec, err := r.check(ctx, &q)
	if err == nil {
		var out Outcome
		if out, err = r.perform(ctx, q, spec); err == nil {
			return out, nil
		}
	}
	var no *Refusal
	if errors.As(err, &no) {
		r.note(ctx, q, no)
	}
	return Outcome{}, err
}

// take waits for the other actions of an environment: probes before and after mean nothing while another one runs.
func (t *Turns) take(ctx context.Context, environment string) (func(), error) {
	t.mu.Lock()
	l := t.locks[environment]
	if l == nil {
		if t.locks == nil {
			t.locks = map[string]chan struct{}{}
		}
		l = make(chan struct{}, 1)
		t.locks[environment] = l
	}
	t.mu.Unlock()
	select {
	case l <- struct{}{}:
		return func() { <-l }, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for another action: %w", context.Cause(ctx))
	}
}

// note records a refusal that no transaction has recorded.
func (r *Runner) note(ctx context.Context, q Request, no *Refusal) {
	if q.Session == nil || r.o.Refusals == nil || no.Rule == ruleCooldown {
		return
	}
	record := q.record()
	record.At, record.Allowed, record.Mutating, record.Rule, record.Reason = r.o.Clock(), false, false, no.Rule, r.o.Redact(no.Error())
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordLimit)
	defer cancel()
	if _, err := r.o.Refusals.RecordGuard(ctx, r.o.Owner(), record, nil, nil); err != nil {
		r.o.Logger.WarnContext(ctx, "a refused action could not be recorded", "session_id", q.Session.ID, "error", err)
	}
}

const recordLimit = 10 * time.Second

// Tool is the name under which requests of agents are recorded.
const Tool = ops.ToolActionRun

// record is the judgement of a session's request.
func (q Request) record() ops.GuardRecord {
	return ops.GuardRecord{
		CycleID: q.Session.CycleID, SessionID: q.Session.ID, Tier: q.Session.May(), Gate: ops.GateAction, ToolUseID: "action:" + rand.Text(),
		Tool: Tool, Input: strings.TrimSpace(q.Action + " " + q.Service + " " + q.Branch), Rule: "action", Mutating: true,
		Reason: "The supervisor does it.",
	}
}

// intent is the row of a run before it starts.
func (q Request) intent(spec ops.ActionSpec) ops.ActionRun {
	run := ops.ActionRun{
		ID: q.ID, Environment: q.Environment.Name, Service: spec.Service, Action: spec.Name, Kind: spec.Kind, Tier: spec.Tier,
		Person: q.Person, Why: q.Why, Branch: q.Branch, Does: spec.Does(), Digest: spec.Digest(),
	}
	switch {
	case q.Session != nil:
		run.CycleID, run.SessionID, run.Tier = &q.Session.CycleID, &q.Session.ID, q.Session.May()
	case q.Plan != nil:
		run.CycleID, run.SessionID = &q.Plan.CycleID, &q.Plan.SessionID
		run.ApprovalID, run.Step, run.Automatic = q.Plan.ID, q.Step, true
	case q.Reflex != nil:
		run.CycleID, run.Reflex, run.Step, run.Automatic = &q.Cycle, q.Reflex.Key(), q.Step, true
	}
	return run
}

// reservations are what the action counts as. Stopping opens a redeployment that starting closes.
func reservations(spec ops.ActionSpec) []ops.Reservation {
	first := ops.Reservation{Service: spec.Service, Project: spec.Compose.Project, Action: spec.Counts}
	switch spec.Kind {
	case ops.ActionStop:
		first.Phase = ops.PhaseOpen
	case ops.ActionStart:
		first.Phase = ops.PhaseClose
	case ops.ActionCommand, ops.ActionRestart, ops.ActionRedeploy, ops.ActionApply, ops.ActionPush:
	}
	out := []ops.Reservation{first}
	if spec.Limit.Action != "" && spec.Limit.Action != spec.Counts {
		out = append(out, ops.Reservation{Service: spec.Service, Action: spec.Limit.Action})
	}
	return out
}

// Limits are the cooldowns of an action: those of the guard, and its own.
func (r *Runner) limits(spec ops.ActionSpec) []ops.CooldownLimit {
	out := append([]ops.CooldownLimit{}, r.o.Limits...)
	if spec.Limit.Action != "" {
		out = append(out, spec.Limit)
	}
	return out
}

// perform writes the intent, runs the action and writes the result.
func (r *Runner) perform(ctx context.Context, q Request, spec ops.ActionSpec) (Outcome, error) {
	task, err := r.prepare(ctx, q, spec)
	if err != nil {
		return Outcome{}, err
	}
	defer task.clean()
	watched := watchedServices(q.Environment, spec)
	in := store.ActionIntent{Run: q.intent(spec), Want: reservations(spec), Limits: r.limits(spec)}
	in.Run.Version, in.Run.Commit = task.image, task.commit
	in.Run.Before = r.Look(ctx, q.Environment, watched)
	if q.Session != nil {
		in.Record = q.record()
	}
	in.At = r.o.Clock()
	failpoint.Hit("action.begin.before")
	run, refusal, err := r.o.Ledger.BeginAction(ctx, r.o.Owner(), in)
	switch {
	case err != nil:
		return Outcome{}, err
	case refusal != "":
		return Outcome{}, &Refusal{Rule: ruleCooldown, Reason: refusal, Instead: "Escalate or report it; do not try it another way."}
	}
	failpoint.Hit("action.begin.after")
	out := r.execute(ctx, q.Environment, spec, run, task)
	if len(out.Worse) > 0 && spec.Undoable() && ctx.Err() == nil {
		why := "worse than before: " + strings.Join(out.Worse, ", ")
		undo, err := r.undo(ctx, Request{Environment: q.Environment, Why: why}, spec, out.Run)
		if err != nil {
			r.o.Logger.ErrorContext(ctx, "an action could not be undone", "action", run.ID, "error", err)
		} else {
			out.Undo = &undo.Run
			if again, err := r.o.Ledger.ActionRun(ctx, run.ID); err == nil {
				out.Run = again
			}
		}
	}
	return out, nil
}

// execute does what the intent says, looks at the services and records both.
func (r *Runner) execute(ctx context.Context, env ops.Environment, spec ops.ActionSpec, run ops.ActionRun, task *task) Outcome {
	limited, cancel := context.WithTimeout(ctx, spec.Timeout)
	output, err := task.run(limited, run)
	timedOut := limited.Err() != nil && ctx.Err() == nil
	cancel()
	failpoint.Hit("action.run.after")
	result := store.ActionResult{ID: run.ID, Status: ops.ActionDone, Output: r.o.Redact(output)}
	switch {
	case ctx.Err() != nil:
		result.Status, result.Error = ops.ActionInterrupted, "it was stopped: "+context.Cause(ctx).Error()
	case timedOut:
		result.Status, result.Error = ops.ActionFailed, fmt.Sprintf("it took longer than %s and was stopped", spec.Timeout)
	case err != nil:
		result.Status, result.Error = ops.ActionFailed, r.o.Redact(err.Error())
	}
	watched := watchedServices(env, spec)
	result.After = r.settled(ctx, env, watched, task.goal, result.Status == ops.ActionDone && !stops(spec, run))
	worse := ops.Worse(run.Before, result.After)
	if stops(spec, run) {
		worse = slices.DeleteFunc(worse, func(name string) bool { return name == spec.Service })
	}
	result.Events, result.Notices = r.tell(spec, run, result, worse)
	result.At = r.o.Clock()
	out := Outcome{Run: run, Worse: worse}
	record, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordLimit)
	defer cancel()
	failpoint.Hit("action.end.before")
	ended, err := r.o.Ledger.EndAction(record, r.o.Owner(), result)
	failpoint.Hit("action.end.after")
	if err != nil {
		// The row stays started, and the next start finds it.
		r.o.Logger.ErrorContext(ctx, "the result of an action could not be recorded", "action", run.ID, "error", err)
		out.Run.Status, out.Run.Error, out.Run.After, out.Run.Output = result.Status, result.Error, result.After, result.Output
		return out
	}
	out.Run = ended
	return out
}

// stops reports whether the run takes its service down on purpose.
func stops(spec ops.ActionSpec, run ops.ActionRun) bool {
	return spec.Kind == ops.ActionStop && run.UndoOf == 0 || spec.Kind == ops.ActionStart && run.UndoOf != 0
}

// tell says what the operator should know of a run.
func (r *Runner) tell(spec ops.ActionSpec, run ops.ActionRun, result store.ActionResult, worse []string) ([]ops.Event, []ops.Notice) {
	detail := ops.ActionDetail{Action: run.Action, UndoOf: run.UndoOf, Status: result.Status}
	event := ops.Event{At: r.o.Clock(), Level: ops.LevelInfo, Verb: ops.VerbActionEnded, Reason: result.Error, Detail: detail}
	if run.UndoOf != 0 {
		event.Verb = ops.VerbActionUndone
	}
	if result.Status != ops.ActionDone {
		event.Level = ops.LevelWarning
	}
	events := []ops.Event{event}
	var notices []ops.Notice
	say := func(level ops.Level, text notice.Text) {
		notices = append(notices, ops.Notice{
			Kind: ops.NoticeAction, Level: level, Title: text.Title, Body: text.Body, NextAt: r.o.Clock(), CreatedAt: r.o.Clock(),
		})
	}
	switch {
	case run.UndoOf != 0 && run.Automatic && result.Status == ops.ActionDone:
		say(ops.LevelWarning, notice.ActionUndone(run))
	case run.UndoOf != 0 && result.Status != ops.ActionDone:
		say(ops.LevelCritical, notice.ActionNotUndone(run, result.Status, result.Error))
	case len(worse) > 0 && !spec.Undoable():
		detail.Worse = worse
		events = append(events, ops.Event{At: r.o.Clock(), Level: ops.LevelCritical, Verb: ops.VerbActionWorsened, Detail: detail})
		say(ops.LevelCritical, notice.ActionWorse(run, worse))
	case len(worse) > 0:
		detail.Worse, detail.Undoes = worse, true
		events = append(events, ops.Event{At: r.o.Clock(), Level: ops.LevelWarning, Verb: ops.VerbActionWorsened, Detail: detail})
	}
	return events, notices
}
