package cycle

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"claudeops/internal/decide"
	"claudeops/internal/decide/report"
	"claudeops/internal/failpoint"
	"claudeops/internal/notice"
	"claudeops/internal/ops"
	"claudeops/internal/transcript"
)

// session runs one queued session: running is journaled before the process starts, its end only by the caller,
// together with what follows from it.
func (a *Advancer) session(ctx context.Context, env ops.Environment, now ops.Claimed, id ops.SessionID) (ops.Result, error) {
	queued := now.Journal.Session(id)
	if queued == nil {
		return ops.Result{}, fmt.Errorf("run session %d: %w", id, ops.ErrNotFound)
	}
	if err := a.Host.Hold(ctx, queued.May()); err != nil {
		if ctx.Err() != nil {
			return ops.Result{}, nil //nolint:nilerr // still queued: nothing ran
		}
		return ops.Result{}, fmt.Errorf("session %d is not started: %w", id, err)
	}
	s := *queued
	s.PlannedID = uuid.NewString()
	started := a.Clock()
	s.StartedAt, s.Status = &started, ops.SessionRunning
	budget := decide.BriefFor(notice.Steps{}, now, s, started).Budget()
	granted, err := a.Journal.StartSession(ctx, a.Host.Owner(), id, s.PlannedID, started, budget)
	switch {
	case err == nil:
		s.BudgetUSD = granted
	case ctx.Err() != nil:
		return ops.Result{}, nil // still queued: nothing ran
	case errors.Is(err, ops.ErrBudget):
		s.Status, s.EndedAt, s.StartedAt = ops.SessionFailed, &started, nil
		s.Failure, s.Error = ops.FailureUnpaid, err.Error()
		return ops.Result{Session: &s}, nil
	default:
		return ops.Result{}, fmt.Errorf("start session %d: %w", id, err)
	}
	a.Host.Changed(ops.ReachPages)

	result := ops.Result{Session: &s}
	failpoint.Hit("session.prepare.before")
	run, warnings := a.start(ctx, env, now, &result)
	failpoint.Hit("session.conclude.before")
	a.conclude(&s, run)
	if s.Status == ops.SessionCompleted && s.Works() {
		a.collect(ctx, env, now, &result, run.Denials)
		result.Problem = a.problem(s)
	} else {
		report.Read(&s)
	}
	a.effects(ctx, &result)
	for _, w := range append(warnings, run.Warnings...) {
		result.Events = append(result.Events, a.warn(s, ops.VerbSessionWarned, w, nil))
	}
	a.denied(ctx, &result, run.Denials)
	return result, nil
}

// denied tells of the calls that the agent's own program refused. It lists among them what the gates refused, which is on record.
func (a *Advancer) denied(ctx context.Context, r *ops.Result, denials []ops.Denial) {
	if len(denials) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	known, err := a.Record.Refusals(ctx, r.Session.ID)
	if err != nil {
		why := fmt.Sprintf("what its gates refused could not be read: %v", err)
		r.Events = append(r.Events, a.warn(*r.Session, ops.VerbSessionWarned, why, nil))
	}
	for _, d := range denials {
		if _, gated := known.Of(d.UseID, "", ""); !gated {
			detail := ops.WallDetail{What: d.Tool, Input: ops.Cut(string(d.Input), 500), Call: d.UseID}
			r.Events = append(r.Events, a.warn(*r.Session, ops.VerbPermissionWarned, "", detail))
		}
	}
}

// effects reads what the gates let a session do that failed or claims a repair: what comes next depends on it.
func (a *Advancer) effects(ctx context.Context, r *ops.Result) {
	s := r.Session
	well := s.Status == ops.SessionCompleted && s.Outcome != ops.OutcomeInconclusive && s.Outcome != ops.OutcomeResolved
	if well || r.Effects != nil || !r.Gated {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	found, err := a.Record.Effects(ctx, s.ID)
	if err != nil {
		// Without them it counts as one that may have changed something.
		r.Events = append(r.Events, a.warn(*s, ops.VerbGuardBypassed, notice.AllowedUnread(err), nil))
		return
	}
	r.Effects = &found
}

// start prepares the session and runs the agent of its handler to its end.
func (a *Advancer) start(ctx context.Context, env ops.Environment, now ops.Claimed, r *ops.Result) (ops.RunResult, []string) {
	s := r.Session
	runner, ok := a.Runners[s.Agent]
	if !ok {
		return ops.RunResult{
			Failure: ops.FailureAgentUnknown,
			Err:     fmt.Sprintf("handler %s uses agent %q, which this build does not have", s.Handler, s.Agent),
		}, nil
	}
	able := runner.Able(ctx, env.AgentEnv)
	// Only a session that may report by structured output is asked for it, and only where the program is known to give it.
	s.Structured = able.Structured && (!s.Works() || able.NoFiles || reportsStructured(now, *s))
	defer a.takeBack(ctx, r)
	told := env
	var err error
	if told.ReposDir, err = a.Workplace.Lend(ctx, env, *s, now.Cycle.Policy.DryRun); err != nil {
		return ops.RunResult{Failure: ops.FailurePrepare, Err: err.Error()}, nil
	}
	spec, warnings, err := a.prepare(ctx, told, now, *s)
	switch {
	case errors.Is(err, errElsewhere):
		return ops.RunResult{Failure: ops.FailureResumeRefused, Err: err.Error()}, warnings
	case err != nil:
		return ops.RunResult{Failure: ops.FailurePrepare, Err: err.Error()}, warnings
	}
	if s.BudgetUSD != nil {
		spec.BudgetUSD = *s.BudgetUSD
	}
	watcher := a.watch(ctx, now, *s, runner, spec)
	spec.Watch = watcher.saw
	run, problem := a.guarded(ctx, attempt{env, runner, able, spec}, r)
	if problem != "" {
		return ops.RunResult{Failure: ops.FailureGate, Err: problem}, warnings
	}
	s.LoopCount, s.LoopCall = watcher.count, run.StopCall
	r.Gated = r.Gated && !watcher.changed
	if able.Tells && !watcher.called && run.Stop != ops.StopAttack {
		r.Effects = &ops.Effects{} // it used no tool, so it changed nothing
	}
	return run, warnings
}

// takeBack ends what the session had of the clones, before anything follows from its end.
func (a *Advancer) takeBack(ctx context.Context, r *ops.Result) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Minute)
	defer cancel()
	for _, e := range a.Workplace.TakeBack(ctx, r.Session.Key) {
		e.At = a.Clock()
		r.Events = append(r.Events, e)
	}
}

// attempt is a session that is ready to be run.
type attempt struct {
	env    ops.Environment
	runner Runner
	able   ops.Ability
	spec   ops.SessionSpec
}

// guarded runs the agent behind its gates, or says why it was not started.
func (a *Advancer) guarded(ctx context.Context, of attempt, r *ops.Result) (ops.RunResult, string) {
	env, able, runner, spec := of.env, of.able, of.runner, of.spec
	s := r.Session
	rec := &recorder{a: a, session: *s}
	if !a.Gates.Judge() {
		return runner.Run(ctx, spec, rec), ""
	}
	failpoint.Hit("gate.open.before")
	running, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	attacked := func(g ops.GuardRecord) { stop(ops.Stop(ops.StopAttack, notice.Attacked(s, g, nil))) }
	held, err := a.Gates.Open(ctx, env, *s, spec.DryRun, attacked)
	if err != nil {
		return ops.RunResult{}, fmt.Sprintf("the session was not started, because its gates could not be opened: %v", err)
	}
	failpoint.Hit("gate.open.after")
	gate := held.Spec()
	if !able.Known {
		gate.Allowed = nil // only a known version is known to ask before every tool
	}
	judged := !able.Ungated || runner.Gated(spec)
	rec.walled, rec.unseen = gate.Walled, gate.Unseen
	if !judged {
		gate = ops.GateSpec{Env: gate.Env, Tools: gate.Tools} // it asks no gate, but it gets the brokered sockets
	}
	spec.Gate, r.Gated = &gate, judged
	run := runner.Run(running, spec, rec)
	if halt := new(ops.StopError); errors.As(context.Cause(running), &halt) && halt.Cause == ops.StopAttack { // whatever it says
		run.Stop, run.Failure, run.Err, run.Structured, run.Text = halt.Cause, ops.FailureStopped, halt.Why, nil, ""
	}
	s.Unseen = rec.met
	for _, path := range rec.met {
		event := a.warn(*s, ops.VerbPathUnseen, "", ops.WallDetail{What: path})
		event.Level = ops.LevelInfo
		r.Events = append(r.Events, event)
	}
	for _, what := range rec.refused {
		r.Events = append(r.Events, a.warn(*s, ops.VerbWallRefused, "", ops.WallDetail{What: what}))
	}
	a.leave(ctx, held, r)
	return run, ""
}

// leave closes the gates behind a session and tells of what it left half done.
func (a *Advancer) leave(ctx context.Context, held Held, r *ops.Result) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	failpoint.Hit("gate.close.before")
	down, err := held.Close(ctx)
	failpoint.Hit("gate.close.after")
	if err != nil {
		r.Events = append(r.Events, a.warn(*r.Session, ops.VerbGuardBypassed, notice.GatesUnclosed(err), nil))
	}
	if len(down) == 0 {
		return
	}
	event := a.warn(*r.Session, ops.VerbGuardBypassed, "", ops.SessionDetail{Down: down})
	event.Level = ops.LevelCritical
	r.Events = append(r.Events, event)
	text := notice.LeftDown(*r.Session, down)
	r.Notices = append(r.Notices, ops.Notice{
		CycleID: &r.Session.CycleID, Kind: ops.NoticeLeftDown, Level: ops.LevelCritical, Title: text.Title, Body: text.Body,
		Status: ops.NoticePending, NextAt: a.Clock(), CreatedAt: a.Clock(),
	})
}

// reportsStructured: in resume mode a session reports by structured output, also when its context had to be handed over.
func reportsStructured(now ops.Claimed, s ops.Session) bool {
	from := ""
	if parent := now.Journal.Parent(s); parent != nil {
		from = parent.Handler
	}
	return now.Cycle.Policy.ModeOf(from, s.Handler) == ops.ContextResume
}

// conclude writes what the run tells into the session.
func (a *Advancer) conclude(s *ops.Session, run ops.RunResult) {
	at := a.Clock()
	s.EndedAt = &at
	s.ExitCode, s.CLISessionID, s.CLIVersion = run.ExitCode, run.CLISessionID, run.CLIVersion
	s.StopCause, s.Failure, s.Error = run.Stop, run.Failure, run.Err
	s.Figures, s.OpenTool, s.Conversation, s.ReportedUSD = run.Figures, run.OpenTool, run.Conversation, run.ReportedUSD
	s.APIStatus, s.RetryAfter = run.APIStatus, run.RetryAfter
	if s.DurationMS == nil && run.ExitCode != nil {
		s.DurationMS = ops.Ptr(at.Sub(*s.StartedAt).Milliseconds())
	}
	switch {
	case len(run.Structured) > 0:
		s.OutcomeJSON = run.Structured
	case !s.Works() && run.Text != "":
		s.OutcomeJSON = spoken(run.Text)
	}
	switch run.Stop {
	case ops.StopNone:
		s.Status = ops.SessionFailed
		if run.Success() {
			s.Status = ops.SessionCompleted
		}
	case ops.StopUser:
		s.Status = ops.SessionCancelled
	case ops.StopShutdown, ops.StopCrash, ops.StopLease:
		s.Status = ops.SessionInterrupted
	case ops.StopWall, ops.StopIdle, ops.StopTool, ops.StopDeadline:
		s.Status = ops.SessionTimedOut
	case ops.StopJournal, ops.StopInvariant, ops.StopLoop, ops.StopBudget, ops.StopAttack:
		s.Status = ops.SessionFailed
	}
	if s.Status != ops.SessionCompleted && s.Error == "" {
		s.Error = run.StopWhy
	}
}

// spoken is the answer of a program that cannot be held to a form: its last words, if they are an object.
func spoken(text string) json.RawMessage {
	text = strings.TrimSpace(text)
	text = strings.TrimSuffix(strings.TrimPrefix(strings.TrimPrefix(text, "```json"), "```"), "```")
	var object map[string]any
	if json.Unmarshal([]byte(text), &object) == nil {
		return json.RawMessage(strings.TrimSpace(text))
	}
	raw, err := json.Marshal(map[string]string{"plan": text})
	if err != nil { // a string always encodes
		return nil
	}
	return raw
}

func (a *Advancer) warn(s ops.Session, verb ops.Verb, reason string, detail ops.Detail) ops.Event {
	return ops.Event{
		At: a.Clock(), CycleID: &s.CycleID, SessionID: &s.ID, Level: ops.LevelWarning, Verb: verb, Reason: reason, Detail: detail,
	}
}

// recorder journals the output of one session.
type recorder struct {
	a       *Advancer
	session ops.Session
	walled  func(path string) bool // nil: it has no walls
	refused []string               // what walls refused it, each once
	unseen  func(path string) bool // nil: everything is visible
	met     []string               // what it looked for and could not see, each once
}

func (r *recorder) Started(ctx context.Context, pid int, processStarted string) error {
	return r.a.Journal.NoteProcess(context.WithoutCancel(ctx), r.a.Host.Owner(), r.session.ID, pid, processStarted)
}

// Lines stores output that was read, also while the session is being stopped: its end is what explains the stop.
func (r *recorder) Lines(ctx context.Context, lines []ops.Line) error {
	ctx, cancel := context.WithTimeoutCause(
		context.WithoutCancel(ctx),
		30*time.Second,
		errors.New("the database did not take the output in time"),
	)
	defer cancel()
	if err := r.a.Journal.AppendTranscript(ctx, r.a.Host.Owner(), r.session.ID, lines); err != nil {
		return fmt.Errorf("store output of session %d: %w", r.session.ID, err)
	}
	r.a.Host.Changed(ops.ReachPages)
	r.noteRefused(lines)
	return nil
}

// mostRefused bounds how many refusals of walls are told of one session: a search of the whole disk meets hundreds.
const mostRefused = 20

// noteRefused remembers what walls refused to the session, and what it looked for that is there and not visible to it. The kernel tells
// nobody but the program, so it is read from what that says, and from what calls name.
func (r *recorder) noteRefused(lines []ops.Line) {
	note := func(list *[]string, paths []string, is func(path string) bool) {
		for _, path := range paths {
			if is != nil && len(*list) < mostRefused && !slices.Contains(*list, path) && is(path) {
				*list = append(*list, path)
			}
		}
	}
	for _, line := range lines {
		refused := transcript.Refused(line.Text)
		note(&r.refused, refused, r.walled)
		note(&r.met, refused, r.unseen)
		for _, part := range transcript.Read(line.Text) {
			if part.Kind == transcript.Call {
				note(&r.met, append(ops.Paths(part.Text), part.Paths...), r.unseen)
			}
		}
	}
}

// interrupted clears up after a worker that died: nothing of its session may go on working unseen.
func (a *Advancer) interrupted(ctx context.Context, now ops.Claimed, id ops.SessionID) (ops.Result, error) {
	session := now.Journal.Session(id)
	if session == nil {
		return ops.Result{}, fmt.Errorf("interrupt session %d: %w", id, ops.ErrNotFound)
	}
	failpoint.Hit("sweep.before")
	killed, err := a.Workplace.Sweep(ctx, session.Key)
	failpoint.Hit("sweep.after")
	if err != nil {
		return ops.Result{}, fmt.Errorf("end processes of session %d: %w", id, err)
	}
	s := *session
	at := a.Clock()
	s.Status, s.StopCause, s.EndedAt = ops.SessionInterrupted, ops.StopCrash, &at
	s.Failure, s.Error = ops.FailureInterrupted, "the supervisor ended while this session was running"
	if g := now.Journal.Effects[id].Attack; g != nil { // it was to be stopped for it
		s.Status, s.StopCause, s.Failure, s.Error = ops.SessionFailed, ops.StopAttack, ops.FailureStopped, notice.Attacked(&s, *g, nil)
	}
	r := ops.Result{Session: &s, Events: []ops.Event{
		a.warn(s, ops.VerbSessionInterrupted, "", ops.SessionDetail{Tier: s.Tier, Killed: killed}),
	}}
	a.takeBack(ctx, &r)
	return r, nil
}
