package decide_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"claudeops/internal/decide"
	"claudeops/internal/decide/report"
	"claudeops/internal/notice"
	"claudeops/internal/ops"
)

// sure is a session that says how sure it is of its outcome.
func sure(tier ops.Tier, kind ops.OutcomeKind, confidence string) func(*ops.Session) {
	return func(s *ops.Session) {
		s.OutcomeJSON = json.RawMessage(strings.Replace(report.OutcomeExample(tier, kind), `"summary":`, `"confidence":`+confidence+`,"summary":`, 1))
		o, _ := report.Outcome(s.OutcomeJSON, s.Tier)
		s.Outcome, s.ExitCode = o.Kind, ops.Ptr(0)
	}
}

func doubtCases() []nextCase {
	tier1 := session(1, 1, ops.SessionCompleted, handed(2))
	claims := func(confidence string) []ops.Session {
		return []ops.Session{tier1, session(2, 2, ops.SessionCompleted, child(1), sure(2, ops.OutcomeResolved, confidence))}
	}
	after := func(service string, found ops.Health) ops.Check {
		return ops.Check{Service: service, Probe: "http", Type: ops.CheckHTTP, Purpose: ops.ProbeVerify, Status: found, AfterSession: ops.Ptr(ops.SessionID(2))}
	}
	two := func(s *ops.Session) {
		s.HandoffJSON = []byte(strings.Replace(string(handoffJSON(2)), `"services_affected":["web"]`, `"services_affected":["web","db"]`, 1))
	}
	atMost2 := func(p *ops.Policy) { p.MaxTier = ops.Tier2 }
	judging := func(p *ops.Policy) { withPeople(p); atMost2(p); p.Judge = "judge" }
	asks := func(t *testing.T, s ops.Step) {
		if s.Approval == nil || s.Approval.Kind != ops.ApprovalReview || s.Approval.SessionID != 2 || s.Incident == nil || !s.Incident.Waits ||
			!strings.Contains(s.Notices[0].Body, "- Confidence: 40 %") || !strings.Contains(s.Notices[0].Body, "the agent itself is only 40 %") {
			t.Errorf("asked %+v, told %+v", s.Approval, s.Notices)
		}
	}
	healthy := func(s *ops.Session) {
		s.Tier, s.Outcome = ops.Tier2, ops.OutcomeResolved
		s.OutcomeJSON = json.RawMessage(report.OutcomeExample(1, ops.OutcomeHealthy))
	}
	return []nextCase{
		{name: "a repair that the agent doubts goes one tier up", row: "claim unsure", policy: policy(), sessions: claims("0.4"), kind: ops.StepQueue, level: ops.LevelInfo, check: func(t *testing.T, s ops.Step) {
			target("tier3", ops.ContextHandoff)(t, s)
			if s.Decision == nil || !strings.Contains(s.Decision.Proposed, "only 40 % sure") || len(s.Decision.Services) != 1 {
				t.Errorf("decided %+v", s.Decision)
			}
		}},
		{name: "under the same approvals", row: "claim unsure", policy: policy(func(p *ops.Policy) { p.ApprovalTier = ops.Tier3 }), sessions: claims("0.4"), kind: ops.StepAwait, level: ops.LevelWarning, notices: 1, check: func(t *testing.T, s ops.Step) {
			if s.Approval == nil || s.Approval.Tier != ops.Tier3 || !strings.Contains(s.Notices[0].Body, "40 %") {
				t.Errorf("asked %+v, told %+v", s.Approval, s.Notices)
			}
		}},
		{name: "where no tier may take it over it is reviewed", row: "claim doubtful", policy: policy(atMost2), sessions: claims("0.4"), kind: ops.StepAwait, level: ops.LevelWarning, notices: 1, says: "the agent itself is only 40 % sure", check: asks},
		{name: "half sure is sure enough", row: "resolved", policy: policy(), sessions: claims("0.5"), kind: ops.StepFinish, status: ops.CycleResolved, level: ops.LevelInfo},
		{name: "probes know better than the agent", row: "resolved", policy: policy(probed), sessions: claims("0.1"), checks: []ops.Check{{Service: "web", Probe: "http", Type: ops.CheckHTTP, Purpose: ops.ProbeObserve, Status: ops.Down}, after("web", ops.Healthy)}, kind: ops.StepFinish, status: ops.CycleResolved, level: ops.LevelInfo},
		{name: "but only of what they look at", row: "claim doubtful", policy: policy(probed, atMost2), sessions: []ops.Session{session(1, 1, ops.SessionCompleted, two), claims("0.4")[1]}, checks: []ops.Check{after("web", ops.Healthy)}, kind: ops.StepAwait, level: ops.LevelWarning, notices: 1, check: asks},
		{name: "a judge is asked first", row: "claim unjudged", policy: policy(judging), sessions: claims("0.1"), kind: ops.StepQueue, level: ops.LevelInfo},
		{name: "and his yes counts", row: "resolved", policy: policy(judging), sessions: append(claims("0.1"), session(3, 1, ops.SessionCompleted, role(ops.RoleJudge, 2, `{"verdict":"PASS","confidence":1,"totalScore":1,"dimensions":{"goalAlignment":22,"actionCompleteness":22,"evidenceOfCompletion":22,"finalStateCoherence":22},"reasoning":"yes"}`))), kind: ops.StepFinish, status: ops.CycleResolved, level: ops.LevelInfo},
		{name: "a human's yes counts", row: "review passed", policy: policy(), sessions: claims("0.1"), journal: approval(ops.ApprovalApproved, review), kind: ops.StepFinish, status: ops.CycleResolved, level: ops.LevelInfo, says: "ada accepted"},
		{name: "a judge is asked about what a higher tier calls healthy", row: "claim unjudged", policy: policy(judging), sessions: []ops.Session{tier1, session(2, 2, ops.SessionCompleted, child(1), sure(1, ops.OutcomeHealthy, "0.9"))}, kind: ops.StepQueue, level: ops.LevelInfo},
		{name: "a refused repair is none, also if it is called healthy", row: "repair refused", policy: policy(recovering), sessions: []ops.Session{tier1, session(2, 2, ops.SessionCompleted, child(1), healthy, func(s *ops.Session) { s.ExitCode, s.CLISessionID = ops.Ptr(0), "abc" })}, journal: ops.Journal{Effects: map[ops.SessionID]ops.Effects{2: {Denied: []ops.GuardRecord{{Tool: "Bash", Input: "docker compose down", Reason: "Tier 3 may do this"}}}}}, kind: ops.StepQueue, level: ops.LevelWarning, check: ordered(ops.RecoveryNudge, "nudge")},
	}
}

// How sure a tier is of its findings is shown and handed on; it starts no other tier and skips none.
func TestTheConfidenceOfAHandoffDecidesNothing(t *testing.T) {
	step := func(confidence string) (ops.Step, ops.Claimed) {
		s := session(1, 1, ops.SessionCompleted, func(s *ops.Session) {
			s.HandoffJSON = []byte(strings.TrimSuffix(string(handoffJSON(2)), "}") + confidence + "}")
		})
		report.Read(&s)
		c := ops.Claimed{Cycle: ops.Cycle{ID: 1, Status: ops.CycleRunning, Policy: policy()}, Journal: ops.Journal{Sessions: []ops.Session{s}}}
		out := next(c.Cycle, c.Journal, c.Cycle.Policy, s.CreatedAt)
		out.Decision.Inputs = nil
		return out, c
	}
	without, _ := step("")
	for _, confidence := range []string{`,"confidence":0.01`, `,"confidence":1`} {
		if with, _ := step(confidence); !reflect.DeepEqual(with, without) {
			t.Errorf("%s: decides %+v, without it %+v", confidence, with, without)
		}
	}
}

// The next tier is told how sure the one before it was, in whichever of the two places it said so.
func TestTheNextTierSeesTheConfidence(t *testing.T) {
	for name, change := range map[string]func(*ops.Session){
		"in the handoff": func(s *ops.Session) {
			s.HandoffJSON = []byte(strings.TrimSuffix(string(handoffJSON(2)), "}") + `,"confidence":0.3}`)
		},
		"in the outcome": func(s *ops.Session) {
			sure(1, ops.OutcomeEscalate, "0.3")(s)
			o, _ := report.Outcome(s.OutcomeJSON, 1)
			s.HandoffJSON, _ = json.Marshal(o.Handoff)
		},
	} {
		first, second := session(1, 1, ops.SessionCompleted, change), session(2, 2, ops.SessionQueued, child(1))
		report.Read(&first)
		now := ops.Claimed{Cycle: ops.Cycle{ID: 1, Policy: policy()}, Journal: ops.Journal{Sessions: []ops.Session{first, second}}}
		h, err := decide.BriefFor(notice.Steps{}, now, second, time.Now()).Handoff()
		if err != nil || h.Confidence == nil || *h.Confidence != 0.3 {
			t.Errorf("%s: %v, %v", name, h.Confidence, err)
		}
	}
}

// A handoff without a reason is not dressed up as one that gives it.
func TestAMissingReasonIsFilledAndMarked(t *testing.T) {
	const want = "web is down HTTP 502 (no reason given)"
	s := session(1, 1, ops.SessionCompleted, func(s *ops.Session) {
		s.HandoffJSON = []byte(strings.Replace(string(handoffJSON(2)), `"reason":"web answers 502",`, "", 1))
	})
	report.Read(&s)
	p := policy(func(p *ops.Policy) { p.ApprovalTier = 2 })
	step := next(ops.Cycle{ID: 1, Status: ops.CycleRunning}, ops.Journal{Sessions: []ops.Session{s}}, p, s.CreatedAt)
	if step.Approval == nil || step.Approval.Reason != want || step.Decision.Proposed != want || step.Incident.Reason != want ||
		!strings.Contains(step.Notices[0].Body, want) {
		t.Errorf("asked %+v, decided %+v, reported %+v", step.Approval, step.Decision, step.Incident)
	}
}
