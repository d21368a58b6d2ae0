package browsertest

import (
	"log/slog"
	"testing"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/store"
	"claudeops/test/storetest"
)

// journal is a store that is filled the way the supervisor would, with moments of the past.
type journal struct {
	t     testing.TB
	store *store.Store
	owner ops.Owner
	now   time.Time // where the story stands; servers look at the real clock
}

// run is one session as it shall have gone. Status running leaves it, and its cycle, unfinished.
type run struct {
	role     ops.Role
	handler  ops.Handler
	level    ops.RecoveryLevel
	retry    bool // of the run before, with the same parent
	takes    time.Duration
	status   ops.SessionStatus // completed unless given
	outcome  ops.OutcomeKind
	summary  string
	handoff  string
	failure  string
	err      string
	stop     ops.StopCause
	lines    []string
	guard    []ops.GuardRecord
	reserve  []ops.Reservation
	decision *ops.Decision
	recovery *ops.Recovery
	verified *ops.Verification // of the run before, by this one
	events   []ops.Event
	cost     float64
	turns    int64
	unknown  bool // it reported no figures
}

func newJournal(t testing.TB) *journal {
	t.Helper()
	s, err := store.Open(t.Context(), storetest.With(store.Options{
		Path: storetest.NewFile(t), Clock: time.Now, Logger: slog.New(slog.DiscardHandler),
	}))
	must(t, err)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	j := &journal{t: t, store: s, now: time.Now().UTC().Truncate(time.Second)}
	j.owner, err = s.Journal.RegisterHost(t.Context(), "browsertest")
	j.must(err)
	return j
}

func (j *journal) must(err error) {
	j.t.Helper()
	must(j.t, err)
}

// begin submits and claims a cycle.
func (j *journal) begin(n ops.NewCycle) ops.CycleID {
	j.t.Helper()
	if n.Environment == "" {
		n.Environment = "default"
	}
	if n.Trigger == "" {
		n.Trigger = ops.TriggerScheduled
	}
	n.At = j.now
	id, err := j.store.Journal.SubmitCycle(j.t.Context(), n)
	j.must(err)
	_, err = j.store.Journal.Claim(j.t.Context(), j.owner, id, policy(), j.now)
	j.must(err)
	return id
}

// play runs sessions one after the other and ends the cycle with the last step. It returns their ids.
func (j *journal) play(id ops.CycleID, last ops.Step, runs ...run) []ops.SessionID {
	j.t.Helper()
	var ids []ops.SessionID
	var parent, before *ops.SessionID
	result := ops.Result{}
	attempts := map[ops.Tier]int{}
	for _, r := range runs {
		attempts[r.handler.Tier]++
		if r.recovery != nil {
			r.recovery.CycleID, r.recovery.SessionID, r.recovery.EnteredAt = id, *before, j.now
		}
		intent := &ops.NewSession{
			ParentID: parent, Attempt: attempts[r.handler.Tier], Role: r.role, Handler: r.handler, ContextMode: ops.ContextFresh, Level: r.level,
		}
		if parent != nil {
			intent.ContextMode = ops.ContextHandoff
		}
		if r.retry {
			intent.RetryOf = before
		}
		j.commit(id, result, ops.Step{Kind: ops.StepQueue, Session: intent, Recovery: r.recovery})
		session := j.session(id, r)
		ids = append(ids, session.ID)
		if !session.Status.Ended() {
			return ids
		}
		result = ops.Result{Session: &session, Events: r.events}
		if r.decision != nil {
			r.decision.CycleID, r.decision.SessionID = id, session.ID
			j.commit(id, result, ops.Step{Kind: ops.StepProbe, Decision: r.decision})
			result = ops.Result{}
		}
		if r.verified != nil {
			r.verified.CycleID, r.verified.SessionID, r.verified.JudgeSessionID, r.verified.At = id, *before, session.ID, j.now
			j.commit(id, result, ops.Step{Kind: ops.StepProbe, Verified: r.verified})
			result = ops.Result{}
		}
		before = &session.ID
		if session.Outcome == ops.OutcomeEscalate {
			parent = &session.ID
		}
	}
	if last.Approval != nil {
		last.Approval.SessionID = *before
	}
	j.commit(id, result, last)
	return ids
}

// session starts the queued session, writes what it said, and returns it as it ended.
func (j *journal) session(id ops.CycleID, r run) ops.Session {
	j.t.Helper()
	ctx := j.t.Context()
	loaded, err := j.store.Journal.Load(ctx, id)
	j.must(err)
	session := *loaded.Journal.Newest()
	_, err = j.store.Journal.StartSession(ctx, j.owner, session.ID, "planned-"+session.Key, j.now, ops.BudgetAsk{})
	j.must(err)
	lines := make([]ops.Line, 0, len(r.lines))
	for i, text := range r.lines {
		lines = append(lines, ops.Line{Seq: int64(i + 1), At: j.now.Add(r.takes * time.Duration(i) / time.Duration(len(r.lines))), Text: text})
	}
	if len(lines) > 0 {
		j.must(j.store.Journal.AppendTranscript(ctx, j.owner, session.ID, lines))
	}
	for _, g := range r.guard {
		g.SessionID, g.CycleID, g.Tier, g.At = session.ID, id, session.Tier, j.now.Add(r.takes/2)
		var want []ops.Reservation
		if g.Mutating && g.Allowed {
			want = r.reserve
		}
		_, err := j.store.Acts.RecordGuard(ctx, j.owner, g, want, limits())
		j.must(err)
	}
	j.now = j.now.Add(r.takes)
	session, err = j.store.Journal.Session(ctx, session.ID)
	j.must(err)
	if r.status == ops.SessionRunning {
		return session
	}
	return j.ended(session, r)
}

func (j *journal) ended(session ops.Session, r run) ops.Session {
	session.Status = r.status
	if session.Status == "" {
		session.Status = ops.SessionCompleted
	}
	session.Outcome, session.Failure, session.Error, session.StopCause = r.outcome, ops.FailureClass(r.failure), r.err, r.stop
	session.EndedAt = ops.Ptr(j.now)
	session.ExitCode = ops.Ptr(0)
	session.CLISessionID = "75da0b1e-0000-4000-8000-" + session.Key[:12]
	session.CLIVersion = "2.1.325"
	if r.handoff != "" {
		session.HandoffJSON = []byte(r.handoff)
	}
	if r.summary != "" {
		session.OutcomeJSON = []byte(`{"schema_version":1,"outcome":` + quoted(string(r.outcome)) + `,"summary":` + quoted(r.summary) +
			`,"check_results":[],"actions":[],"events":[],"memories":[]}`)
	}
	if !r.unknown {
		session.Figures = ops.Figures{
			CostUSD: ops.Ptr(r.cost), NumTurns: ops.Ptr(r.turns), DurationMS: ops.Ptr(r.takes.Milliseconds()),
			InputTokens: ops.Ptr(40 * r.turns), OutputTokens: ops.Ptr(400 * r.turns), CacheReadTokens: ops.Ptr(9_000 * r.turns),
			CacheWriteTokens: ops.Ptr(1_200 * r.turns), ContextTokens: ops.Ptr(20_000 + 700*r.turns), ContextWindow: ops.Ptr(int64(200_000)),
		}
	}
	return session
}

func (j *journal) commit(id ops.CycleID, result ops.Result, step ops.Step) {
	j.t.Helper()
	_, err := j.store.Journal.Commit(j.t.Context(), j.owner, ops.Transition{Cycle: id, Result: result, Step: step, At: j.now})
	j.must(err)
}

// say adds lines to the output of a running session.
func (j *journal) say(id ops.SessionID, texts ...string) {
	j.t.Helper()
	count, err := j.store.Journal.TranscriptCount(j.t.Context(), id)
	j.must(err)
	lines := make([]ops.Line, 0, len(texts))
	for i, text := range texts {
		lines = append(lines, ops.Line{Seq: count + int64(i) + 1, At: time.Now(), Text: text})
	}
	j.must(j.store.Journal.AppendTranscript(j.t.Context(), j.owner, id, lines))
}

// end ends a running session and its cycle.
func (j *journal) end(id ops.SessionID, r run, last ops.Step) {
	j.t.Helper()
	session, err := j.store.Journal.Session(j.t.Context(), id)
	j.must(err)
	j.now = time.Now()
	session = j.ended(session, r)
	j.commit(session.CycleID, ops.Result{Session: &session}, last)
}

func finish(status ops.CycleStatus, reason string) ops.Step {
	return ops.Step{Kind: ops.StepFinish, Status: status, Reason: reason}
}
