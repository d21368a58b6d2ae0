package storetest

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"sync"
	"testing"
	"time"

	"claudeops/internal/decide/health"
	"claudeops/internal/notice"
	"claudeops/internal/ops"
	"claudeops/internal/store"
)

// Start is the time at which every fixture begins: noon, far from the end of a day.
var Start = time.Date(2026, 3, 14, 12, 0, 0, 0, time.UTC)

// Host is the host that a fixture registers.
const Host = "host-a"

// Fixture is an open store with a registered host, and the steps that tests of the journal have in common.
type Fixture struct {
	Store *store.Store
	Owner ops.Owner
	At    time.Time // the time of everything the fixture writes

	database Database
}

// NewFixture registers Host in s.
func NewFixture(tb testing.TB, s *store.Store) *Fixture {
	tb.Helper()
	owner, err := s.Journal.RegisterHost(tb.Context(), Host)
	must(tb, err)
	return &Fixture{Store: s, Owner: owner, At: Start}
}

// Policy is a policy with the three built-in handlers.
func Policy() ops.Policy {
	return ops.Policy{
		MaxTier: ops.Tier3, MaxDepth: 2, Mode: ops.ContextHandoff, Entry: "tier1",
		Handlers: []ops.Handler{Handler(ops.Tier1), Handler(ops.Tier2), Handler(ops.Tier3)},
	}
}

// Handler is the built-in handler of a tier.
func Handler(tier ops.Tier) ops.Handler {
	h := map[ops.Tier]ops.Handler{
		ops.Tier1: {ID: "tier1", Model: "haiku", HandsTo: []string{"tier2"}},
		ops.Tier2: {ID: "tier2", Model: "sonnet", HandsTo: []string{"tier3"}},
		ops.Tier3: {ID: "tier3", Model: "opus"},
	}[tier]
	h.Tier, h.Family, h.Agent = tier, "claude", "claude"
	return h
}

// Submit queues a cycle.
func (f *Fixture) Submit(tb testing.TB, environment string) ops.CycleID {
	tb.Helper()
	id, err := f.Store.Journal.SubmitCycle(tb.Context(), ops.NewCycle{Environment: environment, Trigger: ops.TriggerManual, At: f.At})
	must(tb, err)
	return id
}

// Claim submits a cycle and claims it.
func (f *Fixture) Claim(tb testing.TB, environment string) ops.Claimed {
	tb.Helper()
	claimed, err := f.Store.Journal.Claim(tb.Context(), f.Owner, f.Submit(tb, environment), Policy(), f.At)
	must(tb, err)
	return claimed
}

// Commit commits a transition and returns what is there afterwards, also of a cycle that its step leaves.
func (f *Fixture) Commit(tb testing.TB, t ops.Transition) ops.Claimed {
	tb.Helper()
	claimed, err := f.Store.Journal.Commit(tb.Context(), f.Owner, t)
	must(tb, err)
	if t.Step.Kind.Leaves() {
		known, failed := f.Store.Journal.Cycle(tb.Context(), t.Cycle)
		must(tb, failed)
		claimed, err = f.Store.Journal.Look(tb.Context(), known)
		must(tb, err)
	}
	return claimed
}

// Queue queues a session of the tier above the parent's, or of Tier 1 without one.
func (f *Fixture) Queue(tb testing.TB, cycle ops.CycleID, parent *ops.Session, attempt int) ops.Claimed {
	tb.Helper()
	n := ops.NewSession{Attempt: attempt, Handler: Handler(ops.Tier1), ContextMode: ops.ContextFresh}
	if parent != nil {
		n.ParentID, n.Handler, n.ContextMode = &parent.ID, Handler(parent.Tier+1), ops.ContextHandoff
	}
	return f.Commit(tb, ops.Transition{Cycle: cycle, At: f.At, Step: ops.Step{Kind: ops.StepQueue, Session: &n}})
}

// Start starts a queued session without a budget.
func (f *Fixture) Start(tb testing.TB, id ops.SessionID, plannedID string, at time.Time) error {
	tb.Helper()
	_, err := f.Store.Journal.StartSession(tb.Context(), f.Owner, id, plannedID, at, ops.BudgetAsk{})
	return err
}

// RunningSession claims a new cycle and starts its first session.
func (f *Fixture) RunningSession(tb testing.TB, environment string) ops.Session {
	tb.Helper()
	cycle := f.Claim(tb, environment).Cycle.ID
	id := f.Queue(tb, cycle, nil, 1).Journal.Last().ID
	must(tb, f.Start(tb, id, "planned-1", f.At.Add(time.Second)))
	session, err := f.Store.Journal.Session(tb.Context(), id)
	must(tb, err)
	return session
}

// Ended is the session as a completed run leaves it.
func (f *Fixture) Ended(s ops.Session, cost float64) ops.Session {
	s.Status, s.Outcome = ops.SessionCompleted, ops.OutcomeEscalate
	s.OutcomeJSON = json.RawMessage(`{"schema_version":1}`)
	s.CLISessionID, s.ExitCode, s.EndedAt = "cli-1", new(0), ops.Ptr(f.At.Add(time.Minute))
	s.Figures = ops.Figures{CostUSD: &cost, NumTurns: ops.Ptr[int64](7), DurationMS: ops.Ptr[int64](45_000)}
	return s
}

// Escalation is the transition that ends a session, decides upon its handoff and queues the next tier; at Tier 3 the same
// tier again, so that it can be repeated.
func (f *Fixture) Escalation(s ops.Session, attempt int) ops.Transition {
	next := Handler(min(s.Tier+1, ops.LastTier))
	ended := f.Ended(s, 0.25)
	return ops.Transition{
		Cycle: s.CycleID, At: f.At.Add(time.Minute),
		Result: ops.Result{
			Session: &ended,
			Events:  []ops.Event{{Level: ops.LevelInfo, Verb: ops.VerbSessionFailed, SessionID: &ended.ID, Reason: "it ended"}},
		},
		Step: ops.Step{
			Kind: ops.StepQueue, Row: "escalate",
			Session: &ops.NewSession{ParentID: &ended.ID, Attempt: attempt, Handler: next, ContextMode: ops.ContextHandoff},
			Decision: &ops.Decision{
				SessionID: ended.ID, SourceHandler: s.Handler, TargetHandler: next.ID, Reason: "the handoff is valid",
				Proposed: "web is down", Depth: 1, MaxDepth: 2, TargetValidated: true, ProcessMode: ops.ProcessTyped,
				Path: []string{s.Handler, next.ID}, Verdict: ops.VerdictEscalate, Check: "route", Inputs: json.RawMessage(`{"n":1}`),
			},
			Events:  []ops.Event{{Level: ops.LevelWarning, Verb: ops.VerbEscalationDecided, SessionID: &ended.ID, Service: "web", Reason: "goes up"}},
			Notices: []ops.Notice{{Kind: "escalation", Level: ops.LevelWarning, Title: "Web is down", Body: "Tier 2 starts."}},
		},
	}
}

// EndCycle finishes a running cycle as healthy.
func (f *Fixture) EndCycle(tb testing.TB, cycle ops.CycleID) ops.Claimed {
	tb.Helper()
	return f.Commit(tb, ops.Transition{Cycle: cycle, At: f.At.Add(time.Hour), Step: ops.Step{
		Kind: ops.StepFinish, Status: ops.CycleHealthy, Reason: "all is well",
	}})
}

// With adds the words and the rules that the program gives its store.
func With(o store.Options) store.Options {
	o.Words, o.Rules = notice.Rows{}, health.Rules{}
	return o
}

// migrated is an empty database, made once: copying it is much faster than making another.
var migrated = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "claudeops-store-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	path := filepath.Join(dir, "claudeops.db")
	s, err := store.Open(context.Background(), With(store.Options{Path: path}))
	if err != nil {
		return nil, err
	}
	if err := s.Close(); err != nil {
		return nil, err
	}
	return os.ReadFile(path)
})

// NewFile returns the path of an empty SQLite database with today's tables. It goes with the test.
func NewFile(tb testing.TB) string {
	tb.Helper()
	raw, err := migrated()
	if err != nil {
		tb.Fatal(err)
	}
	path := filepath.Join(tb.TempDir(), "claudeops.db")
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		tb.Fatal(err)
	}
	return path
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

func wantErr(t *testing.T, err, target error) {
	t.Helper()
	if !errors.Is(err, target) {
		t.Errorf("error is %v, want %v", err, target)
	}
}

func equal[T any](t *testing.T, what string, got, want T) {
	t.Helper()
	if reflect.DeepEqual(got, want) {
		return
	}
	g, _ := json.Marshal(got)
	w, _ := json.Marshal(want)
	t.Errorf("%s:\n got  %s\n want %s", what, g, w)
}

// snapshot is all that a refused write must leave as it was.
type snapshot struct {
	Claimed    ops.Claimed
	Events     []ops.Event
	Notices    []ops.Notice
	Transcript []ops.Line
	Judged     []ops.GuardRecord
	Cooldowns  []ops.Cooldown
}

func (f *Fixture) snapshot(t *testing.T, cycle ops.CycleID) snapshot {
	t.Helper()
	var s snapshot
	var err error
	s.Claimed, err = f.Store.Journal.Load(t.Context(), cycle)
	must(t, err)
	s.Events, err = f.Store.Journal.Events(t.Context(), store.EventFilter{})
	must(t, err)
	s.Notices, err = f.Store.People.NoticeList(t.Context(), store.NoticeFilter{})
	must(t, err)
	for _, session := range s.Claimed.Journal.Sessions {
		lines, err := f.Store.Journal.Transcript(t.Context(), session.ID, 0, 0)
		must(t, err)
		s.Transcript = append(s.Transcript, lines...)
		judged, err := f.Store.Acts.GuardDecisions(t.Context(), session.ID)
		must(t, err)
		s.Judged = append(s.Judged, judged...)
	}
	s.Cooldowns, err = f.Store.Acts.Cooldowns(t.Context(), s.Claimed.Cycle.Environment, limits(), f.At)
	must(t, err)
	return s
}

// load reads a cycle with its own journal, without what only a claim loads.
func (f *Fixture) load(t *testing.T, cycle ops.CycleID) ops.Claimed {
	t.Helper()
	got, err := f.Store.Journal.Load(t.Context(), cycle)
	must(t, err)
	got.Journal.Spend, got.Journal.Windows, got.Journal.LastLook = ops.Spend{}, nil, nil
	return got
}

func ids[T any, ID comparable](rows []T, id func(T) ID) []ID {
	out := []ID{}
	for _, r := range rows {
		out = append(out, id(r))
	}
	return out
}

func cycleIDs(rows []ops.Cycle) []ops.CycleID {
	return ids(rows, func(c ops.Cycle) ops.CycleID { return c.ID })
}

func sessionIDs(rows []ops.Session) []ops.SessionID {
	return ids(rows, func(s ops.Session) ops.SessionID { return s.ID })
}

func eventIDs(rows []ops.Event) []int64 { return ids(rows, func(e ops.Event) int64 { return e.ID }) }

func noticeIDs(rows []ops.Notice) []int64 { return ids(rows, func(n ops.Notice) int64 { return n.ID }) }
