package cycle

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"claudeops/internal/decide"
	"claudeops/internal/decide/report"
	"claudeops/internal/failpoint"
	"claudeops/internal/notice"
	"claudeops/internal/ops"
)

// Journal is the part of the store that advancing needs.
type Journal interface {
	Claim(ctx context.Context, owner ops.Owner, id ops.CycleID, policy ops.Policy, at time.Time) (ops.Claimed, error)
	Commit(ctx context.Context, owner ops.Owner, t ops.Transition) (ops.Claimed, error)
	Look(ctx context.Context, known ops.Cycle) (ops.Claimed, error)
	Release(ctx context.Context, owner ops.Owner, id ops.CycleID) error
	Sessions
}

// Sessions is how a running session is journaled.
type Sessions interface {
	StartSession(ctx context.Context, owner ops.Owner, id ops.SessionID, plannedID string, at time.Time,
		ask ops.BudgetAsk) (granted *float64, err error)
	NoteProcess(ctx context.Context, owner ops.Owner, id ops.SessionID, pid int, processStarted string) error
	AppendTranscript(ctx context.Context, owner ops.Owner, id ops.SessionID, lines []ops.Line) error
}

// Runner runs one agent.
type Runner interface {
	Able(ctx context.Context, env []string) ops.Ability
	Run(ctx context.Context, spec ops.SessionSpec, rec ops.Recorder) ops.RunResult
	// Activities reads from one stored line of output what the session did.
	Activities(line string) []ops.Activity
	// Gated reports whether the commands of a session are judged although its program asks nobody.
	Gated(spec ops.SessionSpec) bool
}

// Prober checks services without an agent.
type Prober interface {
	Run(ctx context.Context, environment string, specs []ops.ProbeSpec, purpose ops.ProbePurpose) []ops.Check
}

// HandoffFile is where a session leaves its handoff.
type HandoffFile interface {
	Read(dir string) (raw []byte, present bool, err error)
	Delete(dir string) error
}

// Gates hold a session to what its tier may do. They tell the alarm of an attack on the supervisor when it is on record.
type Gates interface {
	// Judge reports whether tool calls are judged at all. Otherwise nothing is opened, and the CLI's own lists hold alone.
	Judge() bool
	Open(ctx context.Context, env ops.Environment, s ops.Session, dryRun bool, alarm func(ops.GuardRecord)) (Held, error)
}

// Held is a session behind its gates.
type Held interface {
	Spec() ops.GateSpec
	// Close ends the gates and names the services that the session took down and did not bring up again.
	Close(ctx context.Context) ([]string, error)
}

// Ungated are the gates where the guard is off.
type Ungated struct{}

// Judge reports that no call is judged.
func (Ungated) Judge() bool { return false }

// Open is never called.
func (Ungated) Open(context.Context, ops.Environment, ops.Session, bool, func(ops.GuardRecord)) (Held, error) {
	return nil, errors.New("the guard is off")
}

// Actions do what a human approved, and reflexes.
type Actions interface {
	// Step runs one step of an approved plan, once. One that may not run is a run that was refused.
	Step(ctx context.Context, env ops.Environment, a ops.Approval, step int) (ops.ActionRun, error)
	// Reflex runs one action of a reflex for a cycle, once. One that may not run is a run that was refused.
	Reflex(ctx context.Context, env ops.Environment, cycle ops.CycleID, r ops.Reflex, step int) (ops.ActionRun, error)
	// Interrupted ends a run whose supervisor has ended, and returns it.
	Interrupted(ctx context.Context, id int64) (ops.ActionRun, error)
}

// Host is the machine that an Advancer works on, and what it may do now.
type Host interface {
	Owner() ops.Owner
	// Hold says why no session of a tier may be started here now, whatever the journal says.
	Hold(ctx context.Context, tier ops.Tier) error
	// Draining says that this host gives its cycles away where a session ends.
	Draining() bool
	// Newer says whether another configuration has taken the place of this one, and how the environment is there.
	Newer(env ops.Environment) (ops.Environment, bool)
	// Changed is called after every journal write: it only nudges readers, who look at the rows.
	Changed(reach ops.Reach)
}

// Record is what is stored of the calls of a session, beside the journal of its cycle.
type Record interface {
	// Effects reads what the gates let a session do.
	Effects(ctx context.Context, id ops.SessionID) (ops.Effects, error)
	// Refusals reads which calls of a session did not run.
	Refusals(ctx context.Context, id ops.SessionID) (ops.Refusals, error)
	// HandoffCalls reads what the gates said of the calls of a session that name a handoff file.
	HandoffCalls(ctx context.Context, id ops.SessionID) ([]ops.GuardRecord, error)
}

// Knowledge is what is known of services, repositories and earlier sessions.
type Knowledge interface {
	// Transcript reads the stored output of a session.
	Transcript(ctx context.Context, id ops.SessionID) ([]ops.Line, error)
	// Recall reads what is remembered about services, the most useful first.
	Recall(ctx context.Context, environment string, services []string) ([]ops.Memory, error)
	// Changes says what changed since services were last healthy, one line each.
	Changes(ctx context.Context, env ops.Environment, services []string) []string
	// Notes are what the repositories of an environment tell agents about themselves.
	Notes(ctx context.Context, env ops.Environment) []ops.Notes
}

// Workplace is what sessions find on this host, and what they leave there.
type Workplace interface {
	// Lend gives a session what it needs of the operator's repositories, and says where they are for it.
	Lend(ctx context.Context, env ops.Environment, s ops.Session, dryRun bool) (repos string, err error)
	// TakeBack ends that and says what was found. It says the same again until that is recorded.
	TakeBack(ctx context.Context, key string) []ops.Event
	// Recorded is told that the events of a session are in its journal.
	Recorded(key string)
	// Sweep ends every process that carries the session key and says how many there were.
	Sweep(ctx context.Context, key string) (int, error)
	// Forget is told that a cycle has ended here: what was kept for its sessions is not needed any more.
	Forget(ctx context.Context, env ops.Environment, id ops.CycleID)
}

// Parts are what an Advancer works with.
type Parts struct {
	Journal      Journal
	Environments map[string]ops.Environment
	Runners      map[string]Runner // by the handler's agent
	Gates        Gates             // Ungated where the guard is off
	Prober       Prober
	Health       Health
	Handoffs     HandoffFile
	Host         Host
	Record       Record
	Knowledge    Knowledge
	Workplace    Workplace
	Actions      Actions
	Prices       ops.Prices
	Redact       func(string) string
	Clock        ops.Clock
	Logger       *slog.Logger
}

// Advancer takes cycles through their steps.
type Advancer struct{ Parts }

// New returns an Advancer made of the parts.
func New(p Parts) *Advancer { return &Advancer{p} }

// Advance takes the cycle as far as it goes now: to its end, to a wait, or to a stop of ctx. What an effect produced
// is recorded in one transaction with the step that follows from it, so a crash at any line leaves a journal
// from which Next continues.
func (a *Advancer) Advance(ctx context.Context, id ops.CycleID, environment string) error {
	env, ok := a.Environments[environment]
	if !ok {
		return fmt.Errorf("advance cycle %d: environment %q is not configured", id, environment)
	}
	now, err := a.Journal.Claim(ctx, a.Host.Owner(), id, env.Policy, a.Clock())
	if err != nil {
		return fmt.Errorf("claim cycle %d: %w", id, err)
	}
	readSessions(now.Journal, ops.Journal{})
	var done ops.Result
	var record decide.Record
	tidied := false // since the last session
	for {
		at := a.Clock()
		step := decide.Next(notice.Steps{}, ops.Claimed{Cycle: now.Cycle, Journal: now.Journal.With(done)}, at)
		if now, err = a.record(ctx, now, ops.Transition{Cycle: id, Result: done, Step: step, At: at}, &record); err != nil {
			return a.release(ctx, id, err)
		}
		if done.Session != nil {
			a.Workplace.Recorded(done.Session.Key)
		}
		if done.Session != nil || step.Kind == ops.StepRun && !tidied {
			if err = a.tidy(env); err != nil {
				return a.release(ctx, id, err)
			}
			tidied = true
		}
		if step.Kind == ops.StepFinish {
			a.Workplace.Forget(ctx, env, id)
		}
		if step.Kind.Leaves() {
			return nil
		}
		_, replaced := a.Host.Newer(env)
		if ctx.Err() != nil || replaced || (step.Kind == ops.StepRun && a.Host.Draining()) {
			return a.release(ctx, id, nil)
		}
		if done, err = a.perform(ctx, env, now, step); err != nil {
			return a.release(ctx, id, err)
		}
		if step.Kind == ops.StepQueue {
			continue // nothing took time since the journal was read with the step
		}
		next, err := a.look(ctx, env, now)
		switch {
		case err == nil:
			now = next
		case len(done.Runs) > 0: // they are recorded already
			return a.release(ctx, id, err)
		}
	}
}

// look reads the journal again after what took time: meanwhile an incident may have been closed or opened, and who is told what depends on
// it. What was done is not lost where it cannot be read: it is recorded by what was known before. Where another configuration has taken
// the place of this one, the cycle is claimed under its policy: what is next is decided by that.
func (a *Advancer) look(ctx context.Context, env ops.Environment, now ops.Claimed) (ops.Claimed, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	if env, replaced := a.Host.Newer(env); replaced {
		next, err := a.Journal.Claim(ctx, a.Host.Owner(), now.Cycle.ID, env.Policy, a.Clock())
		if err != nil {
			return now, err
		}
		readSessions(next.Journal, now.Journal)
		return next, nil
	}
	next, err := a.Journal.Look(ctx, now.Cycle)
	if err != nil {
		return now, err
	}
	follow(&next.Journal, now.Journal)
	return next, nil
}

// follow takes over what is known from before: what the sessions said, and of other cycles what was known when this one was claimed, which
// holds until it is claimed again. What another cycle has begun to work on counts until this one starts its first session.
func follow(next *ops.Journal, known ops.Journal) {
	next.Spend, next.Windows, next.Before, next.LastLook = known.Spend, known.Windows, known.Before, known.LastLook
	next.Attacked, next.Standstill = known.Attacked, cmp.Or(next.Standstill, known.Standstill)
	if len(next.Sessions) > 0 {
		next.Elsewhere = known.Elsewhere
	}
	readSessions(*next, known)
}

// perform does what the step says and returns what came of it.
func (a *Advancer) perform(ctx context.Context, env ops.Environment, now ops.Claimed, step ops.Step) (ops.Result, error) {
	switch step.Kind {
	case ops.StepProbe:
		return a.probe(ctx, env, now, step), nil
	case ops.StepRun:
		return a.session(ctx, env, now, step.Target)
	case ops.StepInterrupt:
		return a.interrupted(ctx, now, step.Target)
	case ops.StepAct:
		return a.act(ctx, env, now, step)
	case ops.StepPause:
		ops.Pause(ctx, step.Until.Sub(a.Clock()))
		return ops.Result{}, nil
	case ops.StepQueue, ops.StepRest, ops.StepDefer, ops.StepAwait, ops.StepFinish:
		return ops.Result{}, nil // recorded, and that is all of it
	}
	return ops.Result{}, fmt.Errorf("perform step: unknown kind %q", step.Kind)
}

// act runs one step of an approved plan or of a reflex, or ends what a dead worker left of it.
func (a *Advancer) act(ctx context.Context, env ops.Environment, now ops.Claimed, step ops.Step) (ops.Result, error) {
	if step.Act == nil {
		return ops.Result{}, fmt.Errorf("act in cycle %d: no actions can be run", now.Cycle.ID)
	}
	if err := a.Host.Hold(ctx, ops.LastTier); err != nil {
		if ctx.Err() != nil {
			return ops.Result{}, nil //nolint:nilerr // nothing ran
		}
		return ops.Result{}, fmt.Errorf("cycle %d does not act: %w", now.Cycle.ID, err)
	}
	var run ops.ActionRun
	var err error
	switch {
	case step.Act.Interrupt != 0:
		run, err = a.Actions.Interrupted(ctx, step.Act.Interrupt)
	case step.Act.Reflex != nil:
		run, err = a.Actions.Reflex(ctx, env, now.Cycle.ID, *step.Act.Reflex, step.Act.Step)
	default:
		run, err = a.Actions.Step(ctx, env, step.Act.Approval, step.Act.Step)
	}
	if err != nil {
		return ops.Result{}, fmt.Errorf("act in cycle %d: %w", now.Cycle.ID, err)
	}
	a.Host.Changed(ops.ReachAll)
	return ops.Result{Runs: []ops.ActionRun{run}}, nil
}

// record writes the result of the last effect and the next step as one transaction.
// It must succeed even while ctx is being stopped: what ran has run.
func (a *Advancer) record(ctx context.Context, now ops.Claimed, t ops.Transition, record *decide.Record) (ops.Claimed, error) {
	id, done, step := t.Cycle, t.Result, t.Step
	a.log(ctx, id, done, step)
	if t.Empty() {
		return now, nil
	}
	t.Facts = a.facts(ctx, record, decide.Taken{Cycle: now.Cycle, Journal: now.Journal.With(done), At: t.At, Step: step})
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	failpoint.Hit("record.", string(step.Kind), ".before")
	next, err := a.Journal.Commit(ctx, a.Host.Owner(), t)
	if err != nil {
		return now, fmt.Errorf("record step %q of cycle %d: %w", step.Row, id, err)
	}
	follow(&next.Journal, now.Journal.With(done))
	failpoint.Hit("record.", string(step.Kind), ".after")
	a.Host.Changed(t.Reach())
	return next, nil
}

// facts is a decision with what it was made from, as it is stored. One that cannot be written does not keep the step from being taken.
func (a *Advancer) facts(ctx context.Context, record *decide.Record, t decide.Taken) []byte {
	raw, err := record.Frame(t.Lean())
	if err != nil {
		a.Logger.WarnContext(ctx, "what a step was decided from is not stored", "cycle", t.Cycle.ID, "row", t.Step.Row, "error", err)
	}
	return raw
}

// readSessions fills what the sessions said, taking over what was read before: a text is parsed once.
func readSessions(j, known ops.Journal) {
	for i := range j.Sessions {
		s := &j.Sessions[i]
		if k := known.Session(s.ID); k != nil && k.Status.Ended() {
			s.Proposal, s.Report = k.Proposal, k.Report
			continue
		}
		report.Read(s)
	}
}

// tidy removes the handoff file once its content is safe in the journal, before anything else is started.
func (a *Advancer) tidy(env ops.Environment) error {
	failpoint.Hit("handoff.delete.before")
	if err := a.Handoffs.Delete(env.StateDir); err != nil {
		return fmt.Errorf("delete handoff file: %w", err)
	}
	failpoint.Hit("handoff.delete.after")
	return nil
}

// release gives the slot back so that another worker, or the next start, continues from the journal.
func (a *Advancer) release(ctx context.Context, id ops.CycleID, cause error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	err := a.Journal.Release(ctx, a.Host.Owner(), id)
	switch {
	case err == nil:
		return cause
	case cause == nil:
		return fmt.Errorf("release cycle %d: %w", id, err)
	}
	return fmt.Errorf("release cycle %d: %w (after: %w)", id, err, cause)
}
