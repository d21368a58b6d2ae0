package decide_test

import (
	"strings"
	"testing"
	"time"

	"claudeops/internal/decide"
	"claudeops/internal/decide/report"
	"claudeops/internal/ops"
)

// nextCase is one state of a cycle and what has to come of it.
type nextCase struct {
	name     string
	row      string
	cycle    ops.Cycle
	policy   ops.Policy
	sessions []ops.Session
	checks   []ops.Check
	journal  ops.Journal // what else it holds
	kind     ops.StepKind
	status   ops.CycleStatus
	level    ops.Level // of the first event; empty means none
	notices  int
	says     string
	check    func(*testing.T, ops.Step)
}

func session(id ops.SessionID, tier ops.Tier, status ops.SessionStatus, change ...func(*ops.Session)) ops.Session {
	s := ops.Session{ID: id, Tier: tier, Handler: []string{"", "tier1", "tier2", "tier3"}[tier], Attempt: 1, Status: status}
	for _, c := range change {
		c(&s)
	}
	return s
}

func handed(to ops.Tier) func(*ops.Session) {
	return func(s *ops.Session) { s.HandoffJSON = handoffJSON(to) }
}

func TestNext(t *testing.T) {
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	tests := []nextCase{
		{name: "an ended cycle rests", row: "ended", cycle: ops.Cycle{Status: ops.CycleFailed}, policy: policy(), kind: ops.StepRest},
		{name: "a cycle that waits for a human rests", row: "waiting", cycle: ops.Cycle{Status: ops.CycleWaitingHuman}, policy: policy(), kind: ops.StepRest},
		{name: "a cycle that waits for a time rests", row: "waiting", cycle: ops.Cycle{WakeAt: ops.Ptr(now.Add(time.Second))}, policy: policy(), kind: ops.StepRest},
		{name: "a time that has come is no wait", row: "nothing ran", cycle: ops.Cycle{WakeAt: ops.Ptr(now)}, policy: policy(), kind: ops.StepQueue},
		{name: "a cancel ends a wait", row: "cancel requested", cycle: ops.Cycle{Status: ops.CycleWaitingHuman, CancelRequestedAt: &now}, policy: policy(), kind: ops.StepFinish, status: ops.CycleCancelled, level: ops.LevelInfo},
		{name: "an orphaned session is interrupted first", row: "in flight", cycle: ops.Cycle{CancelRequestedAt: &now}, policy: policy(), sessions: []ops.Session{session(1, 1, ops.SessionRunning)}, kind: ops.StepInterrupt},
		{name: "cancelled before anything ran", row: "cancel requested", cycle: ops.Cycle{CancelRequestedAt: &now, CancelReason: "by ada"}, policy: policy(), kind: ops.StepFinish, status: ops.CycleCancelled, level: ops.LevelInfo, says: "by ada"},
		{name: "cancelled before an intended session ran", row: "cancel requested", cycle: ops.Cycle{CancelRequestedAt: &now}, policy: policy(), sessions: []ops.Session{session(1, 1, ops.SessionQueued)}, kind: ops.StepFinish, status: ops.CycleCancelled, level: ops.LevelInfo},
		{name: "probes come first", row: "not probed", policy: policy(probed), kind: ops.StepProbe},
		{name: "probes run once", row: "nothing ran", policy: policy(probed), checks: []ops.Check{{Service: "web", Purpose: ops.ProbeObserve, Status: ops.Healthy}}, kind: ops.StepQueue},
		{name: "on schedule healthy probes start no agent", row: "probes find nothing", cycle: ops.Cycle{Trigger: ops.TriggerScheduled}, policy: policy(probed, probesFirst), checks: []ops.Check{{Service: "web", Purpose: ops.ProbeObserve, Status: ops.Healthy}}, kind: ops.StepFinish, status: ops.CycleHealthy, says: "no agent"},
		{name: "nor does what is unknown", row: "probes find nothing", cycle: ops.Cycle{Trigger: ops.TriggerScheduled}, policy: policy(probed, probesFirst), checks: []ops.Check{{Service: "web", Purpose: ops.ProbeObserve, Status: ops.Unknown}}, journal: ops.Journal{Incidents: []ops.Incident{{ID: 7, Service: "web", ProbeFailedAt: &now}}}, kind: ops.StepFinish, status: ops.CycleSuppressed, says: "the container engine does not answer, so nothing is known of web", check: func(t *testing.T, s ops.Step) {
			if len(s.Recovered) > 0 {
				t.Errorf("an incident is over that nobody looked at: %+v", s.Recovered)
			}
		}},
		{name: "a bad one does", row: "nothing ran", cycle: ops.Cycle{Trigger: ops.TriggerScheduled}, policy: policy(probed, probesFirst), checks: []ops.Check{{Service: "web", Purpose: ops.ProbeObserve, Status: ops.Degraded}}, kind: ops.StepQueue},
		{name: "and so does whoever asks", row: "nothing ran", cycle: ops.Cycle{Trigger: ops.TriggerManual}, policy: policy(probed, probesFirst), checks: []ops.Check{{Service: "web", Purpose: ops.ProbeObserve, Status: ops.Healthy}}, kind: ops.StepQueue},
		{name: "now and then an agent looks all the same", row: "nothing ran", cycle: ops.Cycle{Trigger: ops.TriggerScheduled}, policy: policy(probed, probesFirst, func(p *ops.Policy) { p.ObserveEvery = time.Hour }), journal: ops.Journal{LastLook: ops.Ptr(now.Add(-time.Hour))}, checks: []ops.Check{{Service: "web", Purpose: ops.ProbeObserve, Status: ops.Healthy}}, kind: ops.StepQueue},
		{name: "but not before its time", row: "probes find nothing", cycle: ops.Cycle{Trigger: ops.TriggerScheduled}, policy: policy(probed, probesFirst, func(p *ops.Policy) { p.ObserveEvery = time.Hour }), journal: ops.Journal{LastLook: ops.Ptr(now.Add(-time.Minute))}, checks: []ops.Check{{Service: "web", Purpose: ops.ProbeObserve, Status: ops.Healthy}}, kind: ops.StepFinish, status: ops.CycleHealthy},
		{name: "without probes Tier 1 starts", row: "nothing ran", policy: policy(), kind: ops.StepQueue, says: "tier1"},
		{name: "a lost entry handler fails", row: "nothing ran", policy: policy(func(p *ops.Policy) { p.Entry = "gone" }), kind: ops.StepFinish, status: ops.CycleFailed, level: ops.LevelCritical},
		{name: "an intent is run", row: "intent", policy: policy(), sessions: []ops.Session{session(1, 1, ops.SessionQueued)}, kind: ops.StepRun},
		{name: "a person stopped it", row: "stopped by a person", policy: policy(), sessions: []ops.Session{session(1, 1, ops.SessionCancelled)}, kind: ops.StepFinish, status: ops.CycleCancelled, level: ops.LevelInfo},
		{name: "Tier 1 is run again", row: "interrupted", policy: policy(), sessions: []ops.Session{session(1, 1, ops.SessionInterrupted)}, kind: ops.StepQueue, level: ops.LevelWarning},
		{name: "but only once", row: "interrupted", policy: policy(), sessions: []ops.Session{session(1, 1, ops.SessionInterrupted), session(2, 1, ops.SessionInterrupted, func(s *ops.Session) { s.RetryOf = ops.Ptr(ops.SessionID(1)) })}, kind: ops.StepFinish, status: ops.CycleFailed, level: ops.LevelCritical, notices: 1, says: "second time"},
		{name: "a repair is never blindly repeated", row: "interrupted", policy: policy(), sessions: []ops.Session{session(1, 1, ops.SessionCompleted, handed(2)), session(2, 2, ops.SessionInterrupted)}, kind: ops.StepFinish, status: ops.CycleFailed, level: ops.LevelCritical, notices: 1, says: "may have taken effect"},
		{name: "Tier 1 failed", row: "session failed", policy: policy(), sessions: []ops.Session{session(1, 1, ops.SessionFailed, func(s *ops.Session) { s.Error = "exit 1" })}, kind: ops.StepFinish, status: ops.CycleFailed, level: ops.LevelWarning, notices: 1, says: "exit 1"},
		{name: "a failed repair is told", row: "session failed", policy: policy(), sessions: []ops.Session{session(1, 1, ops.SessionCompleted, handed(2)), session(2, 2, ops.SessionTimedOut)}, kind: ops.StepFinish, status: ops.CycleFailed, level: ops.LevelCritical, notices: 1, says: "timed out"},
		{name: "a failed session's handoff is not read", row: "session failed", policy: policy(), sessions: []ops.Session{session(1, 1, ops.SessionFailed, handed(2))}, kind: ops.StepFinish, status: ops.CycleFailed, level: ops.LevelWarning, notices: 1},
		{name: "a refused resume falls back to the handoff", row: "resume refused", policy: policy(), sessions: []ops.Session{session(1, 1, ops.SessionCompleted, handed(2)), session(2, 2, ops.SessionFailed, func(s *ops.Session) {
			s.ContextMode, s.Failure, s.Error = ops.ContextResume, ops.FailureResumeRefused, "No conversation found"
		})}, kind: ops.StepQueue, level: ops.LevelWarning, says: "No conversation found"},
		{name: "a refusal of a session that was not resumed is a failure", row: "session failed", policy: policy(), sessions: []ops.Session{session(1, 1, ops.SessionFailed, func(s *ops.Session) {
			s.Failure = ops.FailureResumeRefused
		})}, kind: ops.StepFinish, status: ops.CycleFailed, level: ops.LevelWarning, notices: 1},
		{name: "no usable outcome fails", row: "inconclusive", policy: policy(), sessions: []ops.Session{session(1, 1, ops.SessionCompleted, func(s *ops.Session) {
			s.Outcome, s.Error = ops.OutcomeInconclusive, "it said nothing"
		})}, kind: ops.StepFinish, status: ops.CycleFailed, level: ops.LevelWarning, notices: 1, says: "it said nothing"},
		{name: "no usable outcome of a repair is told", row: "inconclusive", policy: policy(), sessions: []ops.Session{session(2, 2, ops.SessionCompleted, func(s *ops.Session) {
			s.Outcome = ops.OutcomeInconclusive
		})}, kind: ops.StepFinish, status: ops.CycleFailed, level: ops.LevelCritical, notices: 1},
		{name: "an agent can ask for a human", row: "human asked for", policy: policy(), sessions: []ops.Session{session(1, 1, ops.SessionCompleted, func(s *ops.Session) {
			s.Outcome, s.OutcomeJSON = ops.OutcomeNeedsHuman, []byte(report.OutcomeExample(1, ops.OutcomeNeedsHuman))
		})}, kind: ops.StepFinish, status: ops.CycleNeedsHuman, level: ops.LevelWarning, notices: 1},
		{name: "a valid proposal escalates", row: "escalation proposed", policy: policy(), sessions: []ops.Session{session(1, 1, ops.SessionCompleted, handed(2))}, kind: ops.StepQueue, level: ops.LevelInfo},
		{name: "who asks for it hears that it escalates", row: "escalation proposed", policy: policy(func(p *ops.Policy) { p.TellEscalated = true }), sessions: []ops.Session{session(1, 1, ops.SessionCompleted, handed(2))}, kind: ops.StepQueue, level: ops.LevelInfo, notices: 1, check: func(t *testing.T, step ops.Step) {
			n := step.Notices[0]
			if n.Kind != "escalated" || n.Service != "web" || n.Level != ops.LevelWarning || n.Title != "Claude Ops: tier2 takes over" ||
				!strings.Contains(n.Body, step.Decision.Reason) || !strings.Contains(n.Body, "wrong upstream") {
				t.Errorf("the notice is %+v", n)
			}
		}},
		{name: "but not of what does not", row: "escalation proposed", policy: policy(func(p *ops.Policy) { p.TellEscalated, p.DryRun = true, true }), sessions: []ops.Session{session(1, 1, ops.SessionCompleted, handed(2))}, kind: ops.StepFinish, status: ops.CycleSuppressed, level: ops.LevelWarning, notices: 1},
		{name: "an invalid proposal needs a human", row: "escalation proposed", policy: policy(), sessions: []ops.Session{session(1, 1, ops.SessionCompleted, func(s *ops.Session) { s.HandoffJSON = []byte(`{}`) })}, kind: ops.StepFinish, status: ops.CycleNeedsHuman, level: ops.LevelCritical, notices: 1, says: "schema_version"},
		{name: "an unsafe file needs a human", row: "escalation proposed", policy: policy(), sessions: []ops.Session{session(1, 1, ops.SessionCompleted, func(s *ops.Session) { s.HandoffError = "handoff.json is a symlink" })}, kind: ops.StepFinish, status: ops.CycleNeedsHuman, level: ops.LevelCritical, notices: 1, says: "symlink"},
		{name: "dry run suppresses", row: "escalation proposed", policy: policy(func(p *ops.Policy) { p.DryRun = true }), sessions: []ops.Session{session(1, 1, ops.SessionCompleted, handed(2))}, kind: ops.StepFinish, status: ops.CycleSuppressed, level: ops.LevelWarning, notices: 1, says: "dry run"},
		{name: "the budget blocks", row: "escalation proposed", policy: policy(func(p *ops.Policy) { p.BudgetChainUSD = 1 }), sessions: []ops.Session{session(1, 1, ops.SessionCompleted, handed(2), func(s *ops.Session) { s.CostUSD = ops.Ptr(1.0) })}, kind: ops.StepFinish, status: ops.CycleBlocked, level: ops.LevelWarning, notices: 1, check: func(t *testing.T, step ops.Step) {
			titled("The budget of a chain is spent", "run a cycle")(t, step)
		}},
		{name: "a strict inventory refuses strangers", row: "escalation proposed", policy: policy(func(p *ops.Policy) {
			p.Inventory = ops.Inventory{Strict: true, Services: []ops.Service{{Name: "db"}}}
		}), sessions: []ops.Session{session(1, 1, ops.SessionCompleted, handed(2))}, kind: ops.StepFinish, status: ops.CycleNeedsHuman, level: ops.LevelCritical, notices: 1, says: "web"},
		{name: "Tier 3 ends the chain", row: "escalation proposed", policy: policy(), sessions: []ops.Session{session(3, 3, ops.SessionCompleted, handed(3))}, kind: ops.StepFinish, status: ops.CycleNeedsHuman, level: ops.LevelWarning, notices: 1},
		{name: "own probes have confirmed what the watch has counted once", row: "nothing ran", policy: policy(probed, probesFirst), cycle: ops.Cycle{Trigger: ops.TriggerScheduled}, checks: []ops.Check{{Service: "web", Purpose: ops.ProbeObserve, Status: ops.Down}}, journal: ops.Journal{Withheld: []ops.Withheld{{Service: "web", Why: ops.HoldUnsettled, Reason: "1 of 2"}}}, kind: ops.StepQueue},
		{name: "what a cycle was started for is left to that one", row: "probes find nothing", policy: policy(probed, probesFirst), cycle: ops.Cycle{Trigger: ops.TriggerScheduled}, checks: []ops.Check{{Service: "web", Purpose: ops.ProbeObserve, Status: ops.Down}}, journal: ops.Journal{Elsewhere: []ops.Hold{{Service: "web", From: ops.Tier1, By: ops.HoldByCycle, Why: "cycle 7 was started for it"}}}, kind: ops.StepFinish, status: ops.CycleSuppressed, says: "cycle 7 was started"},
		{name: "a silence holds what only the cycle's own probe saw", row: "probes find nothing", policy: policy(probed, probesFirst), cycle: ops.Cycle{Trigger: ops.TriggerScheduled}, checks: []ops.Check{{Service: "web", Purpose: ops.ProbeObserve, Status: ops.Down}}, journal: ops.Journal{Silences: []ops.Silence{{Service: "web", Author: "ada", Reason: "new disk", From: now.Add(-time.Hour), Until: now.Add(time.Hour)}}}, kind: ops.StepFinish, status: ops.CycleSuppressed, says: "silenced by ada"},
		{name: "a window that was reported in this cycle counts at once", row: "escalation proposed", policy: policy(func(p *ops.Policy) { p.Mode, p.ContextThreshold = ops.ContextResume, 0.8 }), sessions: []ops.Session{
			session(1, 2, ops.SessionFailed, func(s *ops.Session) { s.Model, s.ContextWindow = "sonnet", ops.Ptr(int64(1000)) }),
			session(2, 1, ops.SessionCompleted, handed(2), func(s *ops.Session) {
				s.Agent, s.CLISessionID, s.ContextTokens = "claude", "abc", ops.Ptr(int64(900))
			}),
		}, kind: ops.StepQueue, level: ops.LevelInfo, check: target("tier2", ops.ContextHandoff)},
		{name: "a claimed repair is checked", row: "claim unverified", policy: policy(probed), sessions: []ops.Session{session(1, 1, ops.SessionCompleted, handed(2)), session(2, 2, ops.SessionCompleted)}, kind: ops.StepProbe, says: "web"},
		{name: "a claimed health is checked when a probe disagreed", row: "claim unverified", policy: policy(probed), checks: []ops.Check{{Service: "web", Purpose: ops.ProbeObserve, Status: ops.Down}}, sessions: []ops.Session{session(1, 1, ops.SessionCompleted)}, kind: ops.StepProbe},
		{name: "a refuted claim needs a human", row: "claim refuted", policy: policy(probed), checks: []ops.Check{{Service: "web", Purpose: ops.ProbeVerify, Status: ops.Down, Error: "HTTP 502", AfterSession: ops.Ptr(ops.SessionID(2))}}, sessions: []ops.Session{session(1, 1, ops.SessionCompleted, handed(2)), session(2, 2, ops.SessionCompleted)}, kind: ops.StepFinish, status: ops.CycleNeedsHuman, level: ops.LevelCritical, notices: 1, says: "HTTP 502"},
		{name: "a refuted claim names the state of every service", row: "claim refuted", policy: policy(probed), checks: []ops.Check{{Service: "web", Purpose: ops.ProbeVerify, Status: ops.Down, Error: "HTTP 502", AfterSession: ops.Ptr(ops.SessionID(2))}, {Service: "db", Purpose: ops.ProbeVerify, Status: ops.Degraded, Error: "slow", AfterSession: ops.Ptr(ops.SessionID(2))}}, sessions: []ops.Session{session(1, 1, ops.SessionCompleted, handed(2)), session(2, 2, ops.SessionCompleted)}, kind: ops.StepFinish, status: ops.CycleNeedsHuman, level: ops.LevelCritical, notices: 1, says: "probes still find web down (HTTP 502) and db degraded (slow)"},
		{name: "what is unknown neither refutes nor proves a repair", row: "resolved", policy: policy(probed), checks: []ops.Check{
			{Service: "web", Purpose: ops.ProbeObserve, Status: ops.Down}, {Service: "web", Purpose: ops.ProbeVerify, Status: ops.Unknown, AfterSession: ops.Ptr(ops.SessionID(2))},
		}, sessions: []ops.Session{session(1, 1, ops.SessionCompleted, handed(2)), session(2, 2, ops.SessionCompleted)}, kind: ops.StepFinish, status: ops.CycleResolved, level: ops.LevelInfo, says: "unverified", check: func(t *testing.T, s ops.Step) {
			if s.Confirmed != nil && *s.Confirmed {
				t.Errorf("it is proven by %s", s.ConfirmedBy)
			}
		}},
		{name: "an old check does not confirm a new claim", row: "claim unverified", policy: policy(probed), checks: []ops.Check{{Service: "web", Purpose: ops.ProbeVerify, Status: ops.Healthy, AfterSession: ops.Ptr(ops.SessionID(1))}}, sessions: []ops.Session{session(1, 1, ops.SessionCompleted, handed(2)), session(2, 2, ops.SessionCompleted)}, kind: ops.StepProbe},
		{name: "a confirmed repair is resolved", row: "resolved", policy: policy(probed), checks: []ops.Check{{Service: "web", Purpose: ops.ProbeVerify, Status: ops.Healthy, AfterSession: ops.Ptr(ops.SessionID(2))}}, sessions: []ops.Session{session(1, 1, ops.SessionCompleted, handed(2)), session(2, 2, ops.SessionCompleted)}, kind: ops.StepFinish, status: ops.CycleResolved, level: ops.LevelInfo, says: "confirmed"},
		{name: "nothing handed up is healthy", row: "healthy", policy: policy(), sessions: []ops.Session{session(1, 1, ops.SessionCompleted)}, kind: ops.StepFinish, status: ops.CycleHealthy},
		{name: "a repair without probes is resolved", row: "resolved", policy: policy(), sessions: []ops.Session{session(1, 1, ops.SessionCompleted, handed(2)), session(2, 2, ops.SessionCompleted)}, kind: ops.StepFinish, status: ops.CycleResolved, level: ops.LevelInfo},
	}
	tests = append(tests, peopleCases(now)...)
	tests = append(tests, ladderCases(now)...)
	tests = append(tests, planCases(now)...)
	tests = append(tests, reflexCases(now)...)
	tests = append(tests, proofCases(now)...)
	tests = append(tests, dryRunCases()...)
	tests = append(tests, doubtCases()...)
	tests = append(tests, runningCases()...)
	tests = append(tests, denialCases(now)...)
	tests = append(tests, trustCases(now)...)
	tests = append(tests, pairCases(now)...)
	tests = append(tests, attackCases(now)...)
	seen := map[string]bool{}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.cycle.ID = 1
			if tt.cycle.Status == "" {
				tt.cycle.Status = ops.CycleRunning
			}
			for i := range tt.sessions {
				report.Read(&tt.sessions[i])
			}
			tt.journal.Sessions, tt.journal.Checks = tt.sessions, tt.checks
			charged(&tt.cycle, &tt.journal, tt.policy)
			step := next(tt.cycle, tt.journal, tt.policy, now)
			if step.Row != tt.row || step.Kind != tt.kind || step.Status != tt.status {
				t.Errorf("got row %q: %s %s (%s), want row %q: %s %s", step.Row, step.Kind, step.Status, step.Reason, tt.row, tt.kind, tt.status)
			}
			if !strings.Contains(step.Reason, tt.says) || step.Reason == "" {
				t.Errorf("reason %q does not say %q", step.Reason, tt.says)
			}
			var level ops.Level
			if len(step.Events) > 0 {
				level = step.Events[0].Level
			}
			if level != tt.level || len(step.Notices) != tt.notices {
				t.Errorf("got event level %q and %d notices, want %q and %d", level, len(step.Notices), tt.level, tt.notices)
			}
			if tt.check != nil {
				tt.check(t, step)
			}
		})
		seen[tt.row] = true
	}
	for _, name := range decide.Rows() {
		if !seen[name] {
			t.Errorf("row %q of the table has no test", name)
		}
	}
}
