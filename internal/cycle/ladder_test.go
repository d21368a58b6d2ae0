package cycle_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"claudeops/internal/cycle"
	"claudeops/internal/decide/recovery"
	"claudeops/internal/decide/report"
	"claudeops/internal/ops"
)

// climbing is a policy in resume mode with the ladder on.
func climbing(p *ops.Policy) {
	p.Mode, p.ContextThreshold, p.Recovery.Enabled = ops.ContextResume, 0.8, true
}

func said(kind ops.OutcomeKind, tier ops.Tier) ops.RunResult {
	r := success()
	r.CLISessionID, r.Structured = "conversation", json.RawMessage(report.OutcomeExample(tier, kind))
	return r
}

// acts are the runs of an agent, one after the other; the last one stays.
func acts(runs ...func(ops.SessionSpec) ops.RunResult) (func(*stage) play, *[]ops.SessionSpec) {
	var specs []ops.SessionSpec
	return func(*stage) play {
		return func(_ context.Context, spec ops.SessionSpec) ops.RunResult {
			specs = append(specs, spec)
			return runs[min(len(specs), len(runs))-1](spec)
		}
	}, &specs
}

func fails(failure ops.FailureClass, status int) func(ops.SessionSpec) ops.RunResult {
	return func(ops.SessionSpec) ops.RunResult {
		return ops.RunResult{ExitCode: ops.Ptr(1), ResultRead: true, IsError: true, Failure: failure, Err: "it failed", APIStatus: &status, CLISessionID: "conversation"}
	}
}

func ends(kind ops.OutcomeKind) func(ops.SessionSpec) ops.RunResult {
	return func(spec ops.SessionSpec) ops.RunResult { return said(kind, spec.Session.Tier) }
}

func invalid(ops.SessionSpec) ops.RunResult {
	r := success()
	r.CLISessionID, r.Structured = "conversation", json.RawMessage(`{"schema_version":1}`)
	return r
}

func known(p *cycle.Parts) {
	p.Runners["claude"] = structured{p.Runners["claude"].(play)}
}

func TestASpentSessionIsStoppedAtTheNextBoundary(t *testing.T) {
	var halt *ops.Halt
	agent, _ := acts(func(spec ops.SessionSpec) ops.RunResult {
		halt = spec.Watch(ops.Activity{Kind: ops.ActivityUsage, Message: "m", InputTokens: 1000})
		return ops.RunResult{ExitCode: ops.Ptr(130), Stop: ops.StopBudget, StopWhy: "spent", Failure: "budget"}
	})
	day := func(p *ops.Policy) { p.BudgetDayUSD = 1.5 }
	s := newStage(t, policy(climbing, day), agent, known, func(p *cycle.Parts) {
		p.Prices = ops.Prices{"haiku": {Input: 2000}} // 2 USD for what it reads
		p.Journal = granting{p.Journal, 1.5}
	})
	s.advance(t)
	if halt == nil || !halt.Boundary || halt.Cause != ops.StopBudget {
		t.Fatalf("got %+v", halt)
	}
	if s.journal.cycle.Status != ops.CyclePartial || !strings.Contains(string(s.journal.cycle.Result), "T00:00:00Z") {
		t.Errorf("ended %s: %s", s.journal.cycle.Status, s.journal.cycle.Result)
	}
}

// granting is a journal that grants a session some money.
type granting struct {
	cycle.Journal
	usd float64
}

func (g granting) StartSession(ctx context.Context, owner ops.Owner, id ops.SessionID, planned string, at time.Time, ask ops.BudgetAsk) (*float64, error) {
	if g.usd == 0 {
		return nil, ops.ErrBudget
	}
	_, err := g.Journal.StartSession(ctx, owner, id, planned, at, ask)
	return &g.usd, err
}

func TestWithoutMoneyNothingStarts(t *testing.T) {
	agent, specs := acts(ends(ops.OutcomeHealthy))
	s := newStage(t, policy(climbing), agent, known, func(p *cycle.Parts) { p.Journal = granting{p.Journal, 0} })
	s.advance(t)
	if s.journal.cycle.Status != ops.CycleBlocked || len(*specs) != 0 || len(s.journal.notices) != 1 {
		t.Errorf("ended %s after %d sessions: %s", s.journal.cycle.Status, len(*specs), s.journal.cycle.Reason)
	}
}

// For any failures and answers the ladder ends, never goes down within a tier step, and keeps to its tier.
func TestEveryClimbEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		rapid.Check(timeless{t}, func(r *rapid.T) {
			p := policy(climbing, withPeople, func(p *ops.Policy) {
				p.Handlers[1].Fallback = []string{"judge"}
				for i := range p.Handlers {
					if !p.Handlers[i].Human() {
						p.Handlers[i].Agent = "claude"
					}
				}
				p.Judge = rapid.SampledFrom([]string{"", "judge"}).Draw(r, "judge")
				p.Planner = rapid.SampledFrom([]string{"", "boss"}).Draw(r, "planner")
				p.ApprovalTier = ops.Tier(rapid.IntRange(0, 3).Draw(r, "gate"))
				if rapid.Bool().Draw(r, "managed") {
					managed(p)
				}
				if rapid.Bool().Draw(r, "probes") {
					probed(p)
				}
			})
			s := &stage{journal: newMemory(p), file: &files{}}
			agent := structured{play(func(_ context.Context, spec ops.SessionSpec) ops.RunResult { return anything(r, spec) })}
			parts := s.parts(dir, p, agent)
			parts.Prober = probes(func([]ops.ProbeSpec, ops.ProbePurpose) []ops.Check {
				return []ops.Check{{Service: "web", Status: rapid.SampledFrom([]ops.Health{ops.Healthy, ops.Down}).Draw(r, "health")}}
			})
			s.Advancer = cycle.New(parts)
			for range 100 {
				if s.journal.cycle.Status.Ended() {
					break
				}
				if s.journal.cycle.Status == ops.CycleWaitingHuman {
					s.journal.answer(rapid.SampledFrom([]ops.ApprovalStatus{ops.ApprovalApproved, ops.ApprovalDenied, ops.ApprovalExpired}).Draw(r, "answer"), "ada")
				}
				if at := s.journal.cycle.WakeAt; at != nil {
					time.Sleep(time.Until(*at)) //nolint:forbidigo // the bubble's own time
				}
				if err := s.Advance(context.Background(), 1, "default"); err != nil {
					r.Fatal(err)
				}
			}
			if !s.journal.cycle.Status.Ended() {
				r.Fatalf("the cycle is %s: %s", s.journal.cycle.Status, s.journal.cycle.Reason)
			}
			orderly(r, s.journal)
		})
	})
}

// timeless hides the deadline, which a bubble of its own time cannot have.
type timeless struct{ rapid.TB }

// anything is some end of a session.
func anything(r *rapid.T, spec ops.SessionSpec) ops.RunResult {
	if !spec.Session.Works() {
		run := success()
		run.Structured = json.RawMessage(rapid.SampledFrom([]string{
			``, `{}`, `{"target":"other2","reason":"x"}`, `{"plan":["x"],"root_cause":"y"}`,
			`{"verdict":"PASS","confidence":1,"totalScore":1,"dimensions":{"goalAlignment":22,"actionCompleteness":22,"evidenceOfCompletion":22,"finalStateCoherence":22},"reasoning":"yes"}`,
			`{"verdict":"PASS","confidence":1,"totalScore":1,"dimensions":{"goalAlignment":5,"actionCompleteness":5,"evidenceOfCompletion":5,"finalStateCoherence":5},"reasoning":"no"}`,
		}).Draw(r, "answer of "+string(spec.Session.Role)))
		return run
	}
	switch rapid.IntRange(0, 7).Draw(r, "end") {
	case 0:
		return fails("api_error", rapid.SampledFrom([]int{400, 401, 404, 429, 500, 529}).Draw(r, "status"))(spec)
	case 1:
		return ops.RunResult{ExitCode: ops.Ptr(rapid.IntRange(1, 255).Draw(r, "exit")), Failure: "exit", Err: "failed"}
	case 2:
		return ops.RunResult{ExitCode: ops.Ptr(130), Stop: rapid.SampledFrom([]ops.StopCause{
			ops.StopWall, ops.StopIdle, ops.StopTool, ops.StopShutdown, ops.StopLoop, ops.StopBudget, ops.StopDeadline,
		}).Draw(r, "stop"), CLISessionID: "c"}
	case 3:
		return invalid(spec)
	case 4, 5:
		if spec.Session.Tier < 3 {
			return ends(ops.OutcomeEscalate)(spec)
		}
	}
	kind := ops.OutcomeResolved
	if spec.Session.Tier == 1 {
		kind = ops.OutcomeHealthy
	}
	return ends(kind)(spec)
}

func orderly(r *rapid.T, m *memory) {
	highest := map[ops.Tier]ops.RecoveryLevel{}
	for _, x := range m.journal.Recoveries {
		if x.Level < highest[x.Tier] {
			r.Fatalf("the ladder goes down at %s: %+v", x.Tier, m.journal.Recoveries)
		}
		highest[x.Tier] = x.Level
	}
	for _, s := range m.journal.Sessions {
		if s.May() > s.Tier || s.Status == ops.SessionRunning || s.Status == ops.SessionQueued && m.cycle.Status != ops.CycleCancelled {
			r.Fatalf("session %+v", s)
		}
	}
	if m.cycle.Status == ops.CyclePartial {
		if _, found := recovery.ParseForceDone(m.cycle.Result); !found.OK() {
			r.Fatalf("the result is %s: %v", m.cycle.Result, found.Errors)
		}
	}
}
