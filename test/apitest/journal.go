// Package apitest fills a journal, the way the supervisor would, for tests of the API and the pages.
package apitest

import (
	"context"
	"log/slog"
	"net/http"
	"sync"
	"testing"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/store"
	"claudeops/test/storetest"
	"claudeops/test/testtoken"
)

// Token is the token of test servers.
const Token = testtoken.Token

// Authorize adds the token of test servers to a request.
func Authorize(r *http.Request) { testtoken.Authorize(r) }

// Journal is a temporary store with a clock that only the test moves.
type Journal struct {
	Store *store.Store
	Path  string // of its file
	Now   time.Time
	mu    sync.Mutex // keeps Now, which play moves while handlers read the clock

	t     testing.TB
	owner ops.Owner
}

// Run is one session as it shall have gone. Status running leaves it, and its cycle, unfinished.
type Run struct {
	Tier     ops.Tier
	Role     ops.Role // work unless given
	Attempt  int      // 1 unless given
	Retry    bool     // of the run before, with the same parent
	Model    string
	For      time.Duration
	Status   ops.SessionStatus // completed unless given
	Outcome  ops.OutcomeKind
	Handoff  string
	Report   string // the structured outcome, as JSON
	Error    string
	Failure  string
	Stop     ops.StopCause
	Exit     *int
	Lines    []string
	Decision *ops.Decision
	Events   []ops.Event
	ops.Figures
}

// Open makes an empty journal whose clock stands at now.
func Open(t testing.TB, now time.Time) *Journal {
	t.Helper()
	j := &Journal{t: t, Now: now, Path: storetest.NewFile(t)}
	var err error
	j.Store, err = store.Open(t.Context(), storetest.With(store.Options{
		Path: j.Path, Clock: j.Clock, Logger: slog.New(slog.DiscardHandler),
	}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := j.Store.Close(); err != nil {
			t.Error(err)
		}
	})
	if j.owner, err = j.Store.Journal.RegisterHost(t.Context(), "test"); err != nil {
		t.Fatal(err)
	}
	return j
}

// Clock tells the journal's time.
func (j *Journal) Clock() time.Time {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.Now
}

// Chain plays a cycle through its runs to its end and returns the ids it got.
func (j *Journal) Chain(n ops.NewCycle, end ops.CycleStatus, reason string, runs ...Run) (ops.CycleID, []ops.SessionID) {
	j.t.Helper()
	if n.Environment == "" {
		n.Environment = "default"
	}
	if n.Trigger == "" {
		n.Trigger = ops.TriggerScheduled
	}
	n.At = j.Now
	id, err := j.Store.Journal.SubmitCycle(j.t.Context(), n)
	j.must(err)
	if end == ops.CycleQueued {
		return id, nil
	}
	_, err = j.Store.Journal.Claim(j.t.Context(), j.owner, id, ops.Policy{MaxTier: ops.LastTier, MaxDepth: 2}, j.Now)
	j.must(err)
	var ids []ops.SessionID
	var parent *ops.SessionID
	var before *ops.Session
	step := func() ops.Step { return ops.Step{Kind: ops.StepFinish, Status: end, Reason: reason} }
	result := ops.Result{}
	for _, run := range runs {
		next := ops.Step{Kind: ops.StepQueue, Session: j.intent(run, parent, before)}
		j.commit(id, result, next)
		session := j.play(id, run)
		ids = append(ids, session.ID)
		if run.Status == ops.SessionRunning || run.Status == ops.SessionQueued {
			return id, ids
		}
		if run.Decision != nil {
			run.Decision.CycleID, run.Decision.SessionID = id, session.ID
			j.commit(id, ops.Result{Session: &session, Events: run.Events}, ops.Step{Kind: ops.StepProbe, Decision: run.Decision})
			result = ops.Result{}
		} else {
			result = ops.Result{Session: &session, Events: run.Events}
		}
		before = &session
		if session.Outcome == ops.OutcomeEscalate {
			parent = &session.ID
		}
	}
	j.commit(id, result, step())
	return id, ids
}

func (j *Journal) intent(run Run, parent *ops.SessionID, before *ops.Session) *ops.NewSession {
	intent := &ops.NewSession{
		ParentID: parent, Attempt: max(1, run.Attempt), Role: run.Role, ContextMode: ops.ContextFresh,
		Handler: ops.Handler{
			ID: map[ops.Tier]string{1: "tier1", 2: "tier2", 3: "tier3"}[run.Tier], Tier: run.Tier,
			Family: "claude", Agent: "claude", Model: run.Model,
		},
	}
	if parent != nil {
		intent.ContextMode = ops.ContextHandoff
	}
	if run.Retry && before != nil {
		intent.RetryOf = &before.ID
	}
	return intent
}

// play starts the queued session, writes its lines, and returns it as it ended.
func (j *Journal) play(id ops.CycleID, run Run) ops.Session {
	j.t.Helper()
	ctx := j.t.Context()
	loaded, err := j.Store.Journal.Load(ctx, id)
	j.must(err)
	session := *loaded.Journal.Newest()
	if run.Status == ops.SessionQueued {
		return session
	}
	_, err = j.Store.Journal.StartSession(ctx, j.owner, session.ID, "planned-"+session.Key, j.Now, ops.BudgetAsk{})
	j.must(err)
	begin := j.Now
	lines := make([]ops.Line, 0, len(run.Lines))
	for i, text := range run.Lines {
		at := begin.Add(run.For * time.Duration(i) / time.Duration(len(run.Lines)))
		lines = append(lines, ops.Line{Seq: int64(i + 1), At: at, Text: text})
	}
	if len(lines) > 0 {
		j.must(j.Store.Journal.AppendTranscript(ctx, j.owner, session.ID, lines))
	}
	j.mu.Lock()
	j.Now = begin.Add(run.For)
	j.mu.Unlock()
	session, err = j.Store.Journal.Session(ctx, session.ID)
	j.must(err)
	if run.Status == ops.SessionRunning {
		return session
	}
	session.Status = run.Status
	if session.Status == "" {
		session.Status = ops.SessionCompleted
	}
	session.Outcome, session.Error, session.Failure, session.StopCause = run.Outcome, run.Error, ops.FailureClass(run.Failure), run.Stop
	session.ExitCode, session.Figures = run.Exit, run.Figures
	session.EndedAt = ops.Ptr(j.Now)
	session.CLISessionID = "75da0b1e-0000-4000-8000-" + session.Key[:12]
	if run.Handoff != "" {
		session.HandoffJSON = []byte(run.Handoff)
	}
	if run.Report != "" {
		session.OutcomeJSON = []byte(run.Report)
	}
	return session
}

func (j *Journal) commit(id ops.CycleID, result ops.Result, step ops.Step) {
	j.t.Helper()
	_, err := j.Store.Journal.Commit(j.t.Context(), j.owner, ops.Transition{Cycle: id, Result: result, Step: step, At: j.Now})
	j.must(err)
}

func (j *Journal) must(err error) {
	j.t.Helper()
	if err != nil {
		j.t.Fatal(err)
	}
}

// Control stands in for the supervisor: it writes to the journal and remembers what it was asked.
type Control struct {
	Journal   *Journal
	Submitted []ops.NewCycle
	Cancelled []ops.CycleID
	Err       error // returned instead of doing anything
}

// Submit queues a cycle.
func (c *Control) Submit(ctx context.Context, n ops.NewCycle) (ops.CycleID, error) {
	if c.Err != nil {
		return 0, c.Err
	}
	c.Submitted = append(c.Submitted, n)
	return c.Journal.Store.Journal.SubmitCycle(ctx, n)
}

// Cancel asks for the end of a cycle.
func (c *Control) Cancel(ctx context.Context, id ops.CycleID, why string) error {
	if c.Err != nil {
		return c.Err
	}
	c.Cancelled = append(c.Cancelled, id)
	_, err := c.Journal.Store.Journal.RequestCancel(ctx, id, why, c.Journal.Now)
	return err
}

// Wake remembers nothing: the rows are what counts.
func (c *Control) Wake(ops.CycleID) {}
