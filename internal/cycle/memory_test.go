package cycle_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"claudeops/internal/cycle"
	"claudeops/internal/ops"
)

// memory is a journal in memory: enough to drive Advance through thousands of random chains.
type memory struct {
	effects []ops.Effects // what is known of ended sessions
	mu      sync.Mutex
	cycle   ops.Cycle
	journal ops.Journal
	events  []ops.Event
	notices []ops.Notice
	lines   []ops.Line
	lessons []ops.Lesson
	steps   []ops.Step
	fail    func(op string) error // makes a write fail
}

func newMemory(p ops.Policy) *memory {
	return &memory{cycle: ops.Cycle{ID: 1, Environment: "default", Status: ops.CycleQueued, Charge: ops.Charge{Open: true}, Policy: p}, fail: func(string) error { return nil }}
}

func (m *memory) claimed() ops.Claimed {
	j := m.journal
	j.Sessions = append([]ops.Session{}, m.journal.Sessions...)
	return ops.Claimed{Cycle: m.cycle, Journal: j}
}

func (m *memory) Claim(_ context.Context, owner ops.Owner, _ ops.CycleID, policy ops.Policy, _ time.Time) (ops.Claimed, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.cycle.Status.Ended() {
		return ops.Claimed{}, ops.ErrConflict
	}
	m.cycle.Status, m.cycle.Owner, m.cycle.WakeAt = ops.CycleRunning, owner, nil
	m.cycle.Policy = m.cycle.Policy.Stricter(policy)
	return m.claimed(), nil
}

func (m *memory) Commit(_ context.Context, _ ops.Owner, t ops.Transition) (ops.Claimed, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.fail("commit"); err != nil {
		return ops.Claimed{}, err
	}
	if s := t.Result.Session; s != nil {
		for i := range m.journal.Sessions {
			if m.journal.Sessions[i].ID == s.ID {
				if m.journal.Sessions[i].Status.Ended() {
					return ops.Claimed{}, fmt.Errorf("session %d ended twice: %w", s.ID, ops.ErrConflict)
				}
				m.journal.Sessions[i] = *s
			}
		}
	}
	if m.cycle.Problem == "" {
		m.cycle.Problem = t.Result.Problem
	}
	if t.Result.Effects != nil {
		m.effects = append(m.effects, *t.Result.Effects)
	}
	m.lessons = append(m.lessons, t.Result.Lessons...)
	m.journal.Checks = append(m.journal.Checks, t.Result.Checks...)
	m.events = append(append(m.events, t.Result.Events...), t.Step.Events...)
	m.notices = append(append(m.notices, t.Result.Notices...), t.Step.Notices...)
	m.steps = append(m.steps, t.Step)
	if t.Step.Decision != nil {
		m.journal.Decisions = append(m.journal.Decisions, *t.Step.Decision)
	}
	if n := t.Step.Session; n != nil {
		id := ops.SessionID(len(m.journal.Sessions) + 1)
		m.journal.Sessions = append(m.journal.Sessions, ops.Session{
			ID: id, CycleID: 1, ParentID: n.ParentID, RetryOf: n.RetryOf, Attempt: n.Attempt, Role: cmp.Or(n.Role, ops.RoleWork), Tier: n.Handler.Tier, Permissions: n.Handler.May(), RecoveryLevel: n.Level,
			Handler: n.Handler.ID, Agent: n.Handler.Agent, Model: n.Handler.Model, Key: fmt.Sprint("key-", id),
			Status: ops.SessionQueued, ContextMode: n.ContextMode,
		})
	}
	m.people(t.Step)
	switch t.Step.Kind {
	case ops.StepFinish:
		m.cycle.Status, m.cycle.Reason, m.cycle.Result = t.Step.Status, t.Step.Reason, t.Step.Result
	case ops.StepAwait:
		m.cycle.Status, m.cycle.Reason = ops.CycleWaitingHuman, t.Step.Reason
	case ops.StepDefer:
		m.cycle.Status, m.cycle.Reason, m.cycle.WakeAt = ops.CycleQueued, t.Step.Reason, &t.Step.Until
	default: // the others leave the cycle as it is
	}
	return m.claimed(), nil
}

// people takes what a step says to and of humans and of the ladder.
func (m *memory) people(step ops.Step) {
	if r := step.Recovery; r != nil {
		m.journal.Recoveries = append(m.journal.Recoveries, *r)
	}
	if a := step.Approval; a != nil {
		a.ID = int64(len(m.journal.Approvals) + 1)
		m.journal.Approvals = append(m.journal.Approvals, *a)
	}
	if r := step.Incident; r != nil {
		for _, service := range r.Services {
			i := ops.Incident{ID: int64(len(m.journal.Incidents) + 1), Service: service, Class: r.Class, Status: ops.IncidentOpen, LastCycle: 1}
			if r.Waits {
				i.Waiting = ops.Ptr(ops.CycleID(1))
			}
			m.journal.Incidents = append(m.journal.Incidents, i)
		}
	}
	m.lessons = append(m.lessons, step.Lessons...)
}

// answer is what a human does: it wakes the cycle.
func (m *memory) answer(status ops.ApprovalStatus, by string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range m.journal.Approvals {
		if a := &m.journal.Approvals[i]; a.Status == ops.ApprovalPending {
			a.Status, a.AnsweredBy = status, by
		}
	}
	now := time.Now()
	for i := range m.journal.Incidents {
		if x := &m.journal.Incidents[i]; x.Waiting != nil {
			x.Status, x.ResolvedAt, x.ResolvedBy = ops.IncidentResolved, &now, by
		}
	}
	m.cycle.Status = ops.CycleQueued
}

func (m *memory) Look(context.Context, ops.Cycle) (ops.Claimed, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.claimed(), nil
}

func (m *memory) Release(context.Context, ops.Owner, ops.CycleID) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.cycle.Status = ops.CycleQueued
	return nil
}

func (m *memory) StartSession(_ context.Context, _ ops.Owner, id ops.SessionID, planned string, at time.Time, _ ops.BudgetAsk) (*float64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.fail("start"); err != nil {
		return nil, err
	}
	for i := range m.journal.Sessions {
		s := &m.journal.Sessions[i]
		if s.Status == ops.SessionRunning {
			return nil, fmt.Errorf("session %d is still running: %w", s.ID, ops.ErrConflict)
		}
		if s.ID == id {
			if s.Status != ops.SessionQueued {
				return nil, fmt.Errorf("session %d is %s: %w", id, s.Status, ops.ErrConflict)
			}
			s.Status, s.PlannedID, s.StartedAt = ops.SessionRunning, planned, &at
		}
	}
	return nil, nil
}

func (m *memory) NoteProcess(context.Context, ops.Owner, ops.SessionID, int, string) error {
	return nil
}

func (m *memory) AppendTranscript(_ context.Context, _ ops.Owner, _ ops.SessionID, lines []ops.Line) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lines = append(m.lines, lines...)
	return nil
}

// files is a handoff file in memory.
type files struct {
	raw     []byte
	err     error
	deleted int
}

func (f *files) Read(string) ([]byte, bool, error) { return f.raw, f.raw != nil || f.err != nil, f.err }

func (f *files) Delete(string) error {
	f.raw, f.err = nil, nil
	f.deleted++
	return nil
}

// play is an agent whose runs are functions.
type play func(ctx context.Context, spec ops.SessionSpec) ops.RunResult

func (p play) Run(ctx context.Context, spec ops.SessionSpec, rec ops.Recorder) ops.RunResult {
	if err := rec.Started(ctx, 4711, "1"); err != nil {
		return ops.RunResult{Err: err.Error()}
	}
	return p(ctx, spec)
}

func (p play) Able(context.Context, []string) ops.Ability { return ops.Ability{} }
func (p play) Activities(string) []ops.Activity           { return nil }
func (p play) Gated(ops.SessionSpec) bool                 { return false }

// structured is an agent whose version is known to answer with structured output.
type structured struct{ play }

func (structured) Able(context.Context, []string) ops.Ability {
	return ops.Ability{Version: "2.1.325", Known: true, Structured: true}
}

// probes is a prober whose answers are a function.
type probes func(specs []ops.ProbeSpec, purpose ops.ProbePurpose) []ops.Check

func (p probes) Run(_ context.Context, env string, specs []ops.ProbeSpec, purpose ops.ProbePurpose) []ops.Check {
	out := p(specs, purpose)
	for i := range out {
		out[i].Environment, out[i].Purpose = env, purpose
	}
	return out
}

func success() ops.RunResult {
	return ops.RunResult{ExitCode: ops.Ptr(0), ResultRead: true, Figures: ops.Figures{CostUSD: ops.Ptr(0.1)}}
}

// stage is an Advancer with everything around it in memory.
type stage struct {
	*cycle.Advancer
	journal *memory
	file    *files
	swept   []string
}

func newStage(t testing.TB, p ops.Policy, agent func(s *stage) play, change ...func(*cycle.Parts)) *stage {
	s := &stage{journal: newMemory(p), file: &files{}}
	dir := t.TempDir()
	parts := s.parts(dir, p, agent(s))
	for _, c := range change {
		c(&parts)
	}
	s.Advancer = cycle.New(parts)
	return s
}

// parts are those of an Advancer that is alone in the world: nothing is remembered, nothing holds it, one round of probes decides.
func (s *stage) parts(dir string, p ops.Policy, agent cycle.Runner) cycle.Parts {
	return cycle.Parts{
		Journal: s.journal, Gates: cycle.Ungated{}, Host: host{owner: func() ops.Owner { return ops.Owner{Host: "h", Term: 1} }}, Record: noRecord{}, Knowledge: noKnowledge{},
		Workplace: workplace{&s.swept}, Health: oneRound(0),
		Environments: map[string]ops.Environment{"default": {Name: "default", StateDir: dir, WorkDir: dir + "/work", Policy: p}},
		Runners:      map[string]cycle.Runner{"claude": agent},
		Prober:       probes(func([]ops.ProbeSpec, ops.ProbePurpose) []ops.Check { return nil }),
		Handoffs:     s.file, Clock: time.Now, Logger: slog.New(slog.DiscardHandler),
		Redact: func(text string) string { return text },
	}
}

// oneRound lets one round of probes decide, and gives a repair this time to show.
type oneRound time.Duration

func (oneRound) RoundPause() time.Duration             { return time.Second }
func (oneRound) MoreToFail(string, []ops.Check) int    { return 0 }
func (oneRound) MoreToRecover(string, []ops.Check) int { return 0 }
func (r oneRound) SettleTime(context.Context, string, []string) time.Duration {
	return time.Duration(r)
}
func (oneRound) HoldTime(context.Context, string, []string) time.Duration { return 0 }
func (oneRound) InGrace(string, string, map[string]time.Time, time.Time) (string, bool) {
	return "", false
}

func (s *stage) advance(t testing.TB) {
	t.Helper()
	must(t, s.Advance(t.Context(), 1, "default"))
}

func compact(t *testing.T, text string) string {
	t.Helper()
	var b bytes.Buffer
	must(t, json.Compact(&b, []byte(text)))
	return b.String()
}

// host is one that nothing holds, and that no other configuration takes over.
type host struct {
	owner func() ops.Owner
	hold  func(ops.Tier) error
	newer func(ops.Environment) (ops.Environment, bool)
}

func (h host) Owner() ops.Owner { return h.owner() }
func (host) Draining() bool     { return false }
func (host) Changed(ops.Reach)  {}

func (h host) Hold(_ context.Context, tier ops.Tier) error {
	if h.hold == nil {
		return nil
	}
	return h.hold(tier)
}

func (h host) Newer(env ops.Environment) (ops.Environment, bool) {
	if h.newer == nil {
		return env, false
	}
	return h.newer(env)
}

// noRecord: every session may have changed something, and nothing else is known of it.
type noRecord struct{}

func (noRecord) Effects(context.Context, ops.SessionID) (ops.Effects, error) {
	return ops.Effects{Mutating: true}, nil
}

func (noRecord) Refusals(context.Context, ops.SessionID) (ops.Refusals, error) { return nil, nil }

func (noRecord) HandoffCalls(context.Context, ops.SessionID) ([]ops.GuardRecord, error) {
	return nil, nil
}

type noKnowledge struct{}

func (noKnowledge) Transcript(context.Context, ops.SessionID) ([]ops.Line, error) { return nil, nil }

func (noKnowledge) Recall(context.Context, string, []string) ([]ops.Memory, error) { return nil, nil }
func (noKnowledge) Changes(context.Context, ops.Environment, []string) []string    { return nil }
func (noKnowledge) Notes(context.Context, ops.Environment) []ops.Notes             { return nil }

// workplace lets sessions change the repositories as they are.
type workplace struct{ swept *[]string }

func (workplace) Lend(_ context.Context, e ops.Environment, _ ops.Session, _ bool) (string, error) {
	return e.ReposDir, nil
}
func (workplace) TakeBack(context.Context, string) []ops.Event         { return nil }
func (workplace) Recorded(string)                                      {}
func (workplace) Forget(context.Context, ops.Environment, ops.CycleID) {}

func (w workplace) Sweep(_ context.Context, key string) (int, error) {
	*w.swept = append(*w.swept, key)
	return 1, nil
}
