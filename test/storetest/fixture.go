package storetest

import (
	"encoding/json"
	"testing"
	"time"

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
	owner, err := s.RegisterHost(tb.Context(), Host)
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
	id, err := f.Store.SubmitCycle(tb.Context(), ops.NewCycle{Environment: environment, Trigger: ops.TriggerManual, At: f.At})
	must(tb, err)
	return id
}

// Claim submits a cycle and claims it.
func (f *Fixture) Claim(tb testing.TB, environment string) ops.Claimed {
	tb.Helper()
	claimed, err := f.Store.Claim(tb.Context(), f.Owner, f.Submit(tb, environment), Policy(), f.At)
	must(tb, err)
	return claimed
}

// Commit commits a transition.
func (f *Fixture) Commit(tb testing.TB, t ops.Transition) ops.Claimed {
	tb.Helper()
	claimed, err := f.Store.Commit(tb.Context(), f.Owner, t)
	must(tb, err)
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
	_, err := f.Store.StartSession(tb.Context(), f.Owner, id, plannedID, at, ops.BudgetAsk{})
	return err
}

// RunningSession claims a new cycle and starts its first session.
func (f *Fixture) RunningSession(tb testing.TB, environment string) ops.Session {
	tb.Helper()
	cycle := f.Claim(tb, environment).Cycle.ID
	id := f.Queue(tb, cycle, nil, 1).Journal.Last().ID
	must(tb, f.Start(tb, id, "planned-1", f.At.Add(time.Second)))
	session, err := f.Store.Session(tb.Context(), id)
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
			Events:  []ops.Event{{Level: ops.LevelInfo, Kind: "session_ended", SessionID: &ended.ID, Message: "it ended"}},
		},
		Step: ops.Step{
			Kind: ops.StepQueue, Row: "escalate",
			Session: &ops.NewSession{ParentID: &ended.ID, Attempt: attempt, Handler: next, ContextMode: ops.ContextHandoff},
			Decision: &ops.Decision{
				SessionID: ended.ID, SourceHandler: s.Handler, TargetHandler: next.ID, Reason: "the handoff is valid",
				Proposed: "web is down", Depth: 1, MaxDepth: 2, TargetValidated: true, ProcessMode: ops.ProcessTyped,
				Path: []string{s.Handler, next.ID}, Verdict: ops.VerdictEscalate, Check: "route", Inputs: json.RawMessage(`{"n":1}`),
			},
			Events:  []ops.Event{{Level: ops.LevelWarning, Kind: "escalated", SessionID: &ended.ID, Service: "web", Message: "goes up"}},
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
