package decide_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"claudeops/internal/ops"
)

func recovering(p *ops.Policy) { p.Recovery.Enabled = true }

func ended(failure ops.FailureClass, change ...func(*ops.Session)) func(*ops.Session) {
	return func(s *ops.Session) {
		s.Failure, s.Error, s.ExitCode, s.CLISessionID = failure, "it went wrong", ops.Ptr(1), "abc"
		for _, c := range change {
			c(s)
		}
	}
}

func answered(status int) func(*ops.Session) {
	return func(s *ops.Session) { s.APIStatus = &status }
}

func unusable(s *ops.Session) {
	s.Outcome, s.Error, s.ExitCode, s.CLISessionID, s.Structured = ops.OutcomeInconclusive, "/summary: is missing", ops.Ptr(0), "abc", true
	s.OutcomeJSON = []byte(`{}`)
}

func rung(level ops.RecoveryLevel, retryOf ops.SessionID) func(*ops.Session) {
	return func(s *ops.Session) { s.RecoveryLevel, s.RetryOf = level, &retryOf }
}

func ordered(level ops.RecoveryLevel, action ops.RecoveryAction) func(*testing.T, ops.Step) {
	return func(t *testing.T, s ops.Step) {
		if s.Recovery == nil || s.Recovery.Level != level || s.Recovery.Action != action || s.Session == nil || s.Session.Level != level {
			t.Errorf("ordered %+v with %+v, want level %d", s.Recovery, s.Session, level)
		}
	}
}

func costs(usd float64) func(*ops.Session) { return func(s *ops.Session) { s.CostUSD = &usd } }

// budgets are limits of one dollar for a session, two for a chain and five for a day.
func budgets(p *ops.Policy) {
	p.BudgetChainUSD, p.BudgetDayUSD = 2, 5
	for i := range p.Handlers {
		p.Handlers[i].BudgetUSD = 1
	}
}

// spends stops a session that has spent what was reserved for it.
func spends(usd, reserved float64) func(*ops.Session) {
	return func(s *ops.Session) {
		s.StopCause, s.Failure, s.Error, s.CostUSD, s.BudgetUSD = ops.StopBudget, ops.FailureClass(ops.StopBudget), "its budget is spent", &usd, &reserved
	}
}

func titled(title, todo string) func(*testing.T, ops.Step) {
	return func(t *testing.T, s ops.Step) {
		if s.Incident.Title != title || !strings.Contains(s.Incident.Recommendation, todo) || s.Notices[0].Kind != ops.NoticeBudget ||
			!strings.Contains(s.Notices[0].Title, title) {
			t.Errorf("told as %q, %q: %s", s.Incident.Title, s.Incident.Recommendation, s.Notices[0].Title)
		}
	}
}

func advises(words string) func(*testing.T, ops.Step) {
	return func(t *testing.T, s ops.Step) {
		if !strings.Contains(s.Incident.Recommendation, words) {
			t.Errorf("advised is %q", s.Incident.Recommendation)
		}
	}
}

func ladderCases(now time.Time) []nextCase {
	tier1 := session(1, 1, ops.SessionCompleted, handed(2))
	climbed := func(tier ops.Tier, levels ...ops.RecoveryLevel) ops.Journal {
		var j ops.Journal
		for i, l := range levels {
			j.Recoveries = append(j.Recoveries, ops.Recovery{SessionID: ops.SessionID(i + 1), Tier: tier, Level: l, Action: l.Action(), EnteredAt: now.Add(-time.Minute)})
		}
		return j
	}
	forced := func(t *testing.T, s ops.Step) {
		if len(s.Result) == 0 || s.Recovery == nil || s.Recovery.Level != ops.RecoveryForceDone || s.Incident == nil || len(s.Lessons) == 0 {
			t.Errorf("force-done left %+v", s)
		}
	}
	return []nextCase{
		{name: "a rate limit is waited for", row: "session failed", policy: policy(recovering), sessions: []ops.Session{session(1, 1, ops.SessionFailed, ended("api_error", answered(429)))}, kind: ops.StepQueue, level: ops.LevelWarning, says: "Retrying", check: func(t *testing.T, s ops.Step) {
			ordered(ops.RecoveryRetry, "retry")(t, s)
			if s.Recovery.NotBefore == nil || !s.Recovery.NotBefore.After(now) || *s.Session.RetryOf != 1 || s.Session.Attempt != 2 {
				t.Errorf("ordered %+v", s.Recovery)
			}
		}},
		{name: "an ordered attempt waits for its time", row: "backoff", policy: policy(recovering), sessions: []ops.Session{session(1, 1, ops.SessionFailed), session(2, 1, ops.SessionQueued, rung(ops.RecoveryRetry, 1))}, journal: ops.Journal{Recoveries: []ops.Recovery{{SessionID: 1, Level: 1, NotBefore: ops.Ptr(now.Add(time.Second))}}}, kind: ops.StepPause},
		{name: "and runs when it has come", row: "intent", policy: policy(recovering), sessions: []ops.Session{session(1, 1, ops.SessionFailed), session(2, 1, ops.SessionQueued, rung(ops.RecoveryRetry, 1))}, journal: ops.Journal{Recoveries: []ops.Recovery{{SessionID: 1, Level: 1, NotBefore: &now}}}, kind: ops.StepRun},
		{name: "an unusable outcome is nudged in the same conversation", row: "inconclusive", policy: policy(recovering), sessions: []ops.Session{session(1, 1, ops.SessionCompleted, unusable)}, kind: ops.StepQueue, level: ops.LevelWarning, check: func(t *testing.T, s ops.Step) {
			ordered(ops.RecoveryNudge, "nudge")(t, s)
			if s.Session.ContextMode != ops.ContextResume || s.Recovery.Variant != 1 || s.Recovery.Deadline == nil {
				t.Errorf("nudged by %+v", s.Session)
			}
		}},
		{name: "an invalid handoff is nudged and its tier not left", row: "escalation proposed", policy: policy(recovering), sessions: []ops.Session{session(1, 1, ops.SessionCompleted, func(s *ops.Session) {
			s.HandoffJSON, s.Outcome, s.ExitCode, s.CLISessionID = []byte(`{}`), ops.OutcomeInconclusive, ops.Ptr(0), "abc"
		})}, kind: ops.StepQueue, level: ops.LevelWarning, check: func(t *testing.T, s ops.Step) {
			ordered(ops.RecoveryNudge, "nudge")(t, s)
			if s.Session.Handler.Tier != 1 || s.Decision == nil || s.Decision.Verdict != ops.VerdictRefused {
				t.Errorf("got %+v", s)
			}
		}},
		{name: "a refused handoff with no nudge left needs a human", row: "escalation proposed", policy: policy(recovering), journal: climbed(1, 2, 2, 2), sessions: []ops.Session{session(4, 1, ops.SessionCompleted, func(s *ops.Session) {
			s.HandoffJSON, s.Outcome, s.ExitCode, s.CLISessionID = []byte(`{}`), ops.OutcomeInconclusive, ops.Ptr(0), "abc"
		})}, kind: ops.StepFinish, status: ops.CycleNeedsHuman, level: ops.LevelCritical, notices: 1, says: "schema_version"},
		{name: "without a conversation a new approach is tried", row: "inconclusive", policy: policy(recovering), sessions: []ops.Session{session(1, 1, ops.SessionCompleted, unusable, func(s *ops.Session) { s.CLISessionID = "" })}, kind: ops.StepQueue, level: ops.LevelWarning, check: func(t *testing.T, s ops.Step) {
			ordered(ops.RecoveryReplan, "replan")(t, s)
			if len(s.Events) < 2 {
				t.Errorf("the level that was passed over is no event: %+v", s.Events)
			}
		}},
		{name: "a planner plans first", row: "inconclusive", policy: policy(recovering, withPeople, func(p *ops.Policy) { p.Planner = "boss" }), journal: climbed(1, 2, 2, 2), sessions: []ops.Session{session(4, 1, ops.SessionCompleted, unusable)}, kind: ops.StepQueue, level: ops.LevelWarning, check: func(t *testing.T, s ops.Step) {
			if s.Session.Role != ops.RolePlanner || s.Session.Handler.ID != "boss" || s.Recovery.Level != ops.RecoveryReplan {
				t.Errorf("queued %+v", s.Session)
			}
		}},
		{name: "and the work follows the plan", row: "plan made", policy: policy(recovering, withPeople), journal: climbed(1, 3), sessions: []ops.Session{session(1, 1, ops.SessionCompleted, unusable), session(2, 1, ops.SessionCompleted, role(ops.RolePlanner, 1, `{"plan":["look"]}`))}, kind: ops.StepQueue, level: ops.LevelInfo, check: func(t *testing.T, s ops.Step) {
			if s.Session.Level != ops.RecoveryReplan || *s.Session.RetryOf != 1 || s.Session.Role != "" || s.Recovery != nil {
				t.Errorf("queued %+v", s.Session)
			}
		}},
		{name: "a planner without a plan ends the level", row: "plan made", policy: policy(recovering, withPeople), journal: climbed(1, 3), sessions: []ops.Session{session(1, 1, ops.SessionCompleted, unusable), session(2, 1, ops.SessionFailed, role(ops.RolePlanner, 1, ""))}, kind: ops.StepFinish, status: ops.CyclePartial, level: ops.LevelWarning, notices: 1, check: forced},
		{name: "another handler stands in with the same permissions", row: "session failed", policy: policy(recovering, withPeople, func(p *ops.Policy) { p.Handlers[1].Fallback = []string{"judge"} }), sessions: []ops.Session{tier1, session(2, 2, ops.SessionFailed, child(1), ended("api_error", answered(404)), func(s *ops.Session) { s.ExitCode = nil })}, kind: ops.StepQueue, level: ops.LevelWarning, check: func(t *testing.T, s ops.Step) {
			ordered(ops.RecoveryFallback, "fallback")(t, s)
			if h := s.Session.Handler; h.ID != "judge" || h.Tier != 2 || h.May() != 2 || *s.Session.ParentID != 1 {
				t.Errorf("queued %+v", s.Session)
			}
		}},
		{name: "an unknown exit is force-done at once", row: "session failed", policy: policy(recovering), sessions: []ops.Session{session(1, 1, ops.SessionFailed, ended("exit", func(s *ops.Session) { s.ExitCode = ops.Ptr(77) }))}, kind: ops.StepFinish, status: ops.CyclePartial, level: ops.LevelWarning, notices: 1, check: forced},
		{name: "credentials are for a human", row: "session failed", policy: policy(recovering), sessions: []ops.Session{tier1, session(2, 2, ops.SessionFailed, child(1), ended("api_error", answered(401)))}, kind: ops.StepFinish, status: ops.CyclePartial, level: ops.LevelCritical, notices: 1, check: forced},
		{name: "an interrupted Tier 1 is retried", row: "interrupted", policy: policy(recovering), sessions: []ops.Session{session(1, 1, ops.SessionInterrupted, func(s *ops.Session) { s.StopCause = ops.StopCrash })}, kind: ops.StepQueue, level: ops.LevelWarning, check: ordered(ops.RecoveryRetry, "retry")},
		{name: "an interrupted repair is looked at first", row: "not seen since", policy: policy(recovering, probed), sessions: []ops.Session{tier1, session(2, 2, ops.SessionInterrupted, child(1))}, kind: ops.StepProbe},
		{name: "and is told what it had started", row: "interrupted", policy: policy(recovering), sessions: []ops.Session{tier1, session(2, 2, ops.SessionInterrupted, child(1), func(s *ops.Session) { s.StopCause, s.CLISessionID = ops.StopCrash, "abc" })}, kind: ops.StepQueue, level: ops.LevelWarning, check: ordered(ops.RecoveryNudge, "nudge")},
		{name: "an interrupted repair that helped is done", row: "recovered meanwhile", policy: policy(recovering, probed), checks: []ops.Check{{Service: "web", Type: ops.CheckHTTP, Purpose: ops.ProbeObserve, Status: ops.Down}, {Service: "web", Type: ops.CheckHTTP, Purpose: ops.ProbeRecheck, Status: ops.Healthy, AfterSession: ops.Ptr(ops.SessionID(2))}}, sessions: []ops.Session{tier1, session(2, 2, ops.SessionInterrupted, child(1))}, kind: ops.StepFinish, status: ops.CycleResolved, level: ops.LevelInfo},
		{name: "a refuted claim is planned anew", row: "claim refuted", policy: policy(recovering, probed), checks: []ops.Check{{Service: "web", Purpose: ops.ProbeVerify, Status: ops.Down, AfterSession: ops.Ptr(ops.SessionID(2))}}, sessions: []ops.Session{tier1, session(2, 2, ops.SessionCompleted, child(1), func(s *ops.Session) { s.Outcome = ops.OutcomeResolved })}, kind: ops.StepQueue, level: ops.LevelWarning, check: ordered(ops.RecoveryReplan, "replan")},
		{name: "repairs that do not hold go to the next tier", row: "claim refuted", policy: policy(recovering, probed), journal: climbed(2, 3), checks: []ops.Check{{Service: "web", Type: ops.CheckHTTP, Purpose: ops.ProbeVerify, Status: ops.Down, Error: "HTTP 502", AfterSession: ops.Ptr(ops.SessionID(2))}}, sessions: []ops.Session{tier1, session(2, 2, ops.SessionCompleted, child(1), func(s *ops.Session) { s.Outcome = ops.OutcomeResolved })}, kind: ops.StepQueue, level: ops.LevelInfo, check: func(t *testing.T, s ops.Step) {
			target("tier3", ops.ContextHandoff)(t, s)
			if s.Decision == nil || s.Decision.Proposed != "probes refute the claimed repair" || *s.Session.ParentID != 2 {
				t.Errorf("decided %+v", s.Decision)
			}
		}},
		{name: "after the last tier they are for a human", row: "claim refuted", policy: policy(recovering, probed), journal: climbed(3, 3), checks: []ops.Check{{Service: "web", Purpose: ops.ProbeVerify, Status: ops.Down, AfterSession: ops.Ptr(ops.SessionID(3))}}, sessions: []ops.Session{tier1, session(2, 2, ops.SessionCompleted, child(1), handed(3)), session(3, 3, ops.SessionCompleted, child(2), func(s *ops.Session) { s.Outcome = ops.OutcomeResolved })}, kind: ops.StepFinish, status: ops.CyclePartial, level: ops.LevelCritical, notices: 1, check: forced},
		{name: "and the human is told the state of every service", row: "claim refuted", policy: policy(recovering, probed), journal: climbed(3, 3), checks: []ops.Check{{Service: "web", Purpose: ops.ProbeVerify, Status: ops.Degraded, AfterSession: ops.Ptr(ops.SessionID(3))}, {Service: "db", Purpose: ops.ProbeVerify, Status: ops.Degraded, AfterSession: ops.Ptr(ops.SessionID(3))}, {Service: "web", Probe: "tcp", Purpose: ops.ProbeVerify, Status: ops.Down, AfterSession: ops.Ptr(ops.SessionID(3))}, {Service: "mail", Purpose: ops.ProbeVerify, Status: ops.Degraded, AfterSession: ops.Ptr(ops.SessionID(3))}}, sessions: []ops.Session{tier1, session(2, 2, ops.SessionCompleted, child(1), handed(3)), session(3, 3, ops.SessionCompleted, child(2), func(s *ops.Session) { s.Outcome = ops.OutcomeResolved })}, kind: ops.StepFinish, status: ops.CyclePartial, level: ops.LevelCritical, notices: 1, says: "probes still find web down, db degraded and mail degraded", check: forced},
		{name: "no money, no session", row: "budget spent", policy: policy(recovering), sessions: []ops.Session{session(1, 1, ops.SessionFailed, func(s *ops.Session) { s.Failure, s.Error = ops.FailureUnpaid, "the budget is spent" })}, kind: ops.StepFinish, status: ops.CycleBlocked, level: ops.LevelWarning, notices: 1, says: "2026-05-02"},
		{name: "no money in the chain, no session", row: "budget spent", policy: policy(recovering, func(p *ops.Policy) { p.BudgetChainUSD = 1 }), sessions: []ops.Session{session(1, 1, ops.SessionCompleted, handed(2), costs(1.1)), session(2, 2, ops.SessionFailed, child(1), func(s *ops.Session) { s.Failure = ops.FailureUnpaid })}, kind: ops.StepFinish, status: ops.CycleBlocked, level: ops.LevelWarning, notices: 1, says: "this chain spent $1.10 of $1.00; the next cycle has", check: titled("The budget of a chain is spent", "budget.chain_usd")},
		{name: "no money in the day, no session", row: "budget spent", policy: policy(recovering, func(p *ops.Policy) { p.BudgetDayUSD = 5 }), journal: ops.Journal{Spend: ops.Spend{DayUSD: 5.5}}, cycle: ops.Cycle{Environment: "home"}, sessions: []ops.Session{session(1, 1, ops.SessionFailed, func(s *ops.Session) { s.Failure = ops.FailureUnpaid })}, kind: ops.StepFinish, status: ops.CycleBlocked, level: ops.LevelWarning, notices: 1, says: "today $5.50 of $5.00 are spent or reserved in environment home; the next day's budget starts at 2026-05-02T00:00:00Z", check: titled("The budget of the day is spent", "budget.day_usd")},
		{name: "a session that reached its own limit", row: "session failed", policy: policy(recovering, budgets), sessions: []ops.Session{session(1, 1, ops.SessionFailed, spends(1.02, 1))}, kind: ops.StepFinish, status: ops.CyclePartial, level: ops.LevelWarning, notices: 1, check: advises("This session spent $1.02 of $1.00, its own limit; the next attempt has")},
		{name: "a session that reached the limit of its chain", row: "session failed", policy: policy(recovering, budgets), sessions: []ops.Session{session(1, 1, ops.SessionCompleted, handed(2), costs(1.5)), session(2, 2, ops.SessionFailed, child(1), spends(0.52, 0.5))}, kind: ops.StepFinish, status: ops.CyclePartial, level: ops.LevelCritical, notices: 1, check: advises("This chain spent $2.02 of $2.00; the next cycle has")},
		{name: "a session that reached the limit of the day", row: "session failed", policy: policy(recovering, budgets), journal: ops.Journal{Spend: ops.Spend{DayUSD: 4.7}}, cycle: ops.Cycle{Environment: "home"}, sessions: []ops.Session{session(1, 1, ops.SessionFailed, spends(0.31, 0.3))}, kind: ops.StepFinish, status: ops.CyclePartial, level: ops.LevelWarning, notices: 1, check: advises("Today $5.01 of $5.00 are spent or reserved in environment home; the next day's budget starts at 2026-05-02")},
		{name: "a repair that the guard refused is no repair", row: "repair refused", policy: policy(recovering), sessions: []ops.Session{tier1, session(2, 2, ops.SessionCompleted, child(1), func(s *ops.Session) {
			s.Outcome, s.ExitCode, s.CLISessionID = ops.OutcomeResolved, ops.Ptr(0), "abc"
		})}, journal: ops.Journal{Effects: map[ops.SessionID]ops.Effects{2: {Denied: []ops.GuardRecord{{Tool: "Bash", Input: "docker compose down", Reason: "Tier 3 may do this"}}}}}, kind: ops.StepQueue, level: ops.LevelWarning, check: ordered(ops.RecoveryNudge, "nudge")},
		{name: "one that was allowed and refused something counts", row: "resolved", policy: policy(recovering), sessions: []ops.Session{tier1, session(2, 2, ops.SessionCompleted, child(1), func(s *ops.Session) { s.Outcome = ops.OutcomeResolved })}, journal: ops.Journal{Effects: map[ops.SessionID]ops.Effects{2: {Mutating: true, Denied: []ops.GuardRecord{{Tool: "Bash"}}}}}, kind: ops.StepFinish, status: ops.CycleResolved, level: ops.LevelInfo, says: "unverified", check: func(t *testing.T, s ops.Step) {
			if s.Confirmed == nil || *s.Confirmed {
				t.Errorf("confirmed %v", s.Confirmed)
			}
		}},
		{name: "an agent that works again closes the incident about itself", row: "healthy", policy: policy(recovering), sessions: []ops.Session{session(1, 1, ops.SessionCompleted, func(s *ops.Session) { s.Outcome = ops.OutcomeHealthy })}, journal: ops.Journal{Incidents: []ops.Incident{{ID: 3, Class: ops.ClassAgent, Status: ops.IncidentOpen}}}, kind: ops.StepFinish, status: ops.CycleHealthy, check: func(t *testing.T, s ops.Step) {
			if !slices.ContainsFunc(s.Recovered, func(r ops.Recovered) bool { return r.Incident == 3 }) {
				t.Errorf("recovered %+v", s.Recovered)
			}
		}},
		{name: "a judge who says no hands it up when nothing else is left", row: "claim judged", policy: policy(recovering, withPeople, func(p *ops.Policy) { p.Judge = "judge" }), sessions: judgedBy(tier1, `{"verdict":"PASS","confidence":1,"totalScore":1,"dimensions":{"goalAlignment":5,"actionCompleteness":5,"evidenceOfCompletion":9,"finalStateCoherence":5},"reasoning":"no"}`), journal: ops.Journal{Recoveries: []ops.Recovery{{SessionID: 2, Tier: 2, Level: ops.RecoveryFallback, EnteredAt: now.Add(-30 * time.Minute)}}}, kind: ops.StepQueue, level: ops.LevelInfo, check: func(t *testing.T, s ops.Step) {
			if s.Session == nil || s.Session.Handler.ID != "tier3" || s.Decision == nil || !strings.Contains(s.Decision.Proposed, "24 of 100 (goal 5, completeness 5, evidence 9, final state 5)") {
				t.Errorf("got %+v with %+v", s.Session, s.Decision)
			}
		}},
		{name: "a judge is asked about a claimed repair", row: "claim unjudged", policy: policy(withPeople, func(p *ops.Policy) { p.Judge = "judge" }), sessions: []ops.Session{tier1, session(2, 2, ops.SessionCompleted, child(1), func(s *ops.Session) { s.Outcome = ops.OutcomeResolved })}, kind: ops.StepQueue, level: ops.LevelInfo, check: func(t *testing.T, s ops.Step) {
			if s.Session.Role != ops.RoleJudge || s.Session.Handler.ID != "judge" || s.Session.Handler.May() != ops.Tier1 {
				t.Errorf("queued %+v", s.Session)
			}
		}},
		{name: "a judge who says no sends it up the ladder", row: "claim judged", policy: policy(recovering, withPeople, func(p *ops.Policy) { p.Judge = "judge" }), sessions: judgedBy(tier1, `{"verdict":"PASS","confidence":1,"totalScore":1,"dimensions":{"goalAlignment":5,"actionCompleteness":5,"evidenceOfCompletion":9,"finalStateCoherence":5},"reasoning":"no"}`), kind: ops.StepQueue, level: ops.LevelWarning, check: func(t *testing.T, s ops.Step) {
			ordered(ops.RecoveryReplan, "replan")(t, s)
			if s.Verified == nil || s.Verified.Verdict != "FAIL" || s.Verified.TotalScore != 24 {
				t.Errorf("recorded %+v", s.Verified)
			}
		}},
		{name: "a judge who is not sure asks a human", row: "claim judged", policy: policy(recovering, withPeople, func(p *ops.Policy) { p.Judge = "judge" }), sessions: judgedBy(tier1, `{"verdict":"PASS","confidence":1,"totalScore":1,"dimensions":{"goalAlignment":15,"actionCompleteness":15,"evidenceOfCompletion":18,"finalStateCoherence":15},"reasoning":"hm"}`), kind: ops.StepAwait, level: ops.LevelWarning, notices: 1, check: func(t *testing.T, s ops.Step) {
			if s.Approval == nil || s.Approval.Kind != ops.ApprovalReview || s.Verified == nil {
				t.Errorf("got %+v", s)
			}
		}},
		{name: "a judge who says yes ends it", row: "resolved", policy: policy(recovering, withPeople, func(p *ops.Policy) { p.Judge = "judge" }), sessions: judgedBy(tier1, `{"verdict":"PASS","confidence":1,"totalScore":1,"dimensions":{"goalAlignment":22,"actionCompleteness":22,"evidenceOfCompletion":22,"finalStateCoherence":22},"reasoning":"yes"}`), kind: ops.StepFinish, status: ops.CycleResolved, level: ops.LevelInfo, check: func(t *testing.T, s ops.Step) {
			if s.Verified == nil || s.Verified.Verdict != "PASS" {
				t.Errorf("recorded %+v", s.Verified)
			}
		}},
	}
}

func judgedBy(first ops.Session, answer string) []ops.Session {
	return slices.Clone([]ops.Session{
		first,
		session(2, 2, ops.SessionCompleted, child(1), func(s *ops.Session) {
			s.Outcome, s.ExitCode = ops.OutcomeResolved, ops.Ptr(0)
		}),
		session(3, 1, ops.SessionCompleted, role(ops.RoleJudge, 2, answer)),
	})
}
