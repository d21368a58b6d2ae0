package decide_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"claudeops/internal/ops"
)

func child(of ops.SessionID) func(*ops.Session) {
	return func(s *ops.Session) { s.ParentID = &of }
}

func again(of ops.SessionID) func(*ops.Session) {
	return func(s *ops.Session) { s.RetryOf = &of }
}

func role(r ops.Role, about ops.SessionID, answer string) func(*ops.Session) {
	return func(s *ops.Session) { s.Role, s.ParentID, s.OutcomeJSON = r, &about, json.RawMessage(answer) }
}

func approval(status ops.ApprovalStatus, change ...func(*ops.Approval)) ops.Journal {
	a := ops.Approval{ID: 1, SessionID: 1, Kind: ops.ApprovalTier, Tier: 2, Handler: "tier2", Status: status, AnsweredBy: "ada", Answer: "not today"}
	for _, c := range change {
		c(&a)
	}
	return ops.Journal{Approvals: []ops.Approval{a}}
}

func review(a *ops.Approval) { a.Kind, a.SessionID = ops.ApprovalReview, 2 }

func target(id string, mode ops.ContextMode) func(*testing.T, ops.Step) {
	return func(t *testing.T, s ops.Step) {
		if s.Session == nil || s.Session.Handler.ID != id || s.Session.ContextMode != mode {
			t.Errorf("queued %+v, want %s by %s", s.Session, id, mode)
		}
	}
}

func peopleCases(now time.Time) []nextCase {
	tier1 := []ops.Session{session(1, 1, ops.SessionCompleted, handed(2))}
	gate := func(p *ops.Policy) { p.ApprovalTier = 2 }
	toOncall := func(s *ops.Session) {
		s.HandoffJSON = json.RawMessage(`{"schema_version":1,"recommended_tier":4,"target":"oncall","services_affected":["web"],"check_results":[{"service":"web","check_type":"http","status":"down","error":"502"}],"investigation_findings":"disk","remediation_attempted":"restart","cooldown_state":{}}`)
	}
	atHuman := []ops.Session{session(1, 1, ops.SessionCompleted, handed(2)), session(2, 2, ops.SessionCompleted, toOncall, child(1))}
	given := func(waiting *ops.CycleID, resolved bool) ops.Journal {
		i := ops.Incident{ID: 7, Service: "web", Class: "down", Status: ops.IncidentOpen, Waiting: waiting}
		if resolved {
			i.Status, i.ResolvedAt, i.ResolvedBy, i.Resolution = ops.IncidentResolved, &now, "ada", "changed the disk"
		}
		return ops.Journal{
			Decisions: []ops.Decision{{SessionID: 2, TargetHandler: "oncall", Verdict: ops.VerdictEscalate}},
			Incidents: []ops.Incident{i},
		}
	}
	held := func(status ops.IncidentStatus) ops.Journal {
		return ops.Journal{Incidents: []ops.Incident{{ID: 9, Service: "web", Class: "down", Status: status, AcknowledgedBy: "ada", SnoozedUntil: ops.Ptr(now.Add(time.Hour)), CalledAt: &now}}}
	}
	handled := func() ops.Journal {
		j := held(ops.IncidentOpen)
		j.Incidents[0].CalledAt = nil
		return j
	}
	asked := func(answer ops.ApprovalStatus, incident ops.IncidentStatus) ops.Journal {
		j := approval(answer, func(a *ops.Approval) { a.AnsweredAt = ops.Ptr(now.Add(-time.Minute)) })
		j.Incidents = []ops.Incident{{
			ID: 9, Service: "web", Class: "down", Status: incident, Waiting: ops.Ptr(ops.CycleID(1)), AcknowledgedBy: "ada",
			AcknowledgedAt: ops.Ptr(now.Add(-2 * time.Minute)), SnoozedUntil: ops.Ptr(now.Add(time.Hour)), UpdatedAt: now,
		}}
		if incident == ops.IncidentResolved {
			j.Incidents[0].ResolvedAt, j.Incidents[0].ResolvedBy = &now, "claudeops"
		}
		return j
	}
	recheck := func(h ops.Health) []ops.Check {
		return []ops.Check{{Service: "web", Type: ops.CheckHTTP, Purpose: ops.ProbeObserve, Status: ops.Down}, {Service: "web", Type: ops.CheckHTTP, Purpose: ops.ProbeRecheck, Status: h, AfterSession: ops.Ptr(ops.SessionID(1))}}
	}
	return []nextCase{
		{name: "a gate stops before the tier and asks", row: "escalation proposed", policy: policy(gate), sessions: tier1, kind: ops.StepAwait, level: ops.LevelWarning, notices: 1, says: "approval", check: func(t *testing.T, s ops.Step) {
			if s.Approval == nil || s.Approval.Handler != "tier2" || s.Incident == nil || !s.Incident.Waits || s.Session != nil {
				t.Errorf("got %+v", s)
			}
		}},
		{name: "the question carries the agent's own reason", row: "escalation proposed", policy: policy(gate), sessions: tier1, kind: ops.StepAwait, level: ops.LevelWarning, notices: 1, check: func(t *testing.T, s ops.Step) {
			if s.Approval.Reason != "the agent says “web answers 502”" || s.Incident.Reason != s.Approval.Reason || !strings.Contains(s.Incident.Recommendation, "approve or deny that tier2 works on web") {
				t.Errorf("asked %q, reported %+v", s.Approval.Reason, s.Incident)
			}
			if first, _, _ := strings.Cut(s.Notices[0].Body, "\n"); first != "web: the agent says “web answers 502”. May Tier 2 start?" {
				t.Errorf("the notice starts %q", first)
			}
		}},
		{name: "its own question does not hold a cycle", row: "escalation proposed", policy: policy(gate), sessions: tier1, journal: asked(ops.ApprovalApproved, ops.IncidentOpen), kind: ops.StepQueue, level: ops.LevelInfo},
		{name: "a snooze after the approval holds it", row: "escalation proposed", policy: policy(gate), sessions: tier1, journal: asked(ops.ApprovalApproved, ops.IncidentSnoozed), kind: ops.StepFinish, status: ops.CycleSuppressed, level: ops.LevelInfo, notices: 1, says: "snoozed"},
		{name: "a question ends with its problem", row: "problem is over", policy: policy(gate), sessions: tier1, journal: asked(ops.ApprovalPending, ops.IncidentResolved), kind: ops.StepFinish, status: ops.CycleResolved, level: ops.LevelInfo, notices: 1, says: "needs no answer"},
		{name: "no answer is not a yes to what is over", row: "problem is over", policy: policy(gate), sessions: tier1, journal: asked(ops.ApprovalExpired, ops.IncidentResolved), kind: ops.StepFinish, status: ops.CycleResolved, level: ops.LevelInfo},
		{name: "a question that nobody answered yet waits on", row: "answer pending", policy: policy(gate), sessions: tier1, journal: approval(ops.ApprovalPending), kind: ops.StepAwait},
		{name: "yes continues exactly that step", row: "escalation proposed", policy: policy(gate), sessions: tier1, journal: approval(ops.ApprovalApproved), kind: ops.StepQueue, level: ops.LevelInfo, check: target("tier2", ops.ContextHandoff)},
		{name: "a yes to another handler does not count", row: "escalation proposed", policy: policy(gate), sessions: tier1, journal: approval(ops.ApprovalApproved, func(a *ops.Approval) { a.Handler = "tier3" }), kind: ops.StepAwait, level: ops.LevelWarning, notices: 1},
		{name: "no ends it with the reason", row: "answer is no", policy: policy(gate), sessions: tier1, journal: approval(ops.ApprovalDenied), kind: ops.StepFinish, status: ops.CycleBlocked, level: ops.LevelWarning, says: "ada said no to tier2: not today"},
		{name: "silence needs a human", row: "nobody answered", policy: policy(gate), sessions: tier1, journal: approval(ops.ApprovalExpired), kind: ops.StepFinish, status: ops.CycleNeedsHuman, level: ops.LevelWarning, notices: 1},
		{name: "after an answer probes look first", row: "not seen since", policy: policy(gate, probed), sessions: tier1, journal: approval(ops.ApprovalApproved), kind: ops.StepProbe},
		{name: "what is well again is left alone", row: "recovered meanwhile", policy: policy(gate, probed), sessions: tier1, checks: recheck(ops.Healthy), journal: approval(ops.ApprovalApproved), kind: ops.StepFinish, status: ops.CycleResolved, level: ops.LevelInfo},
		{name: "what is still down goes on", row: "escalation proposed", policy: policy(gate, probed), sessions: tier1, checks: recheck(ops.Down), journal: approval(ops.ApprovalApproved), kind: ops.StepQueue, level: ops.LevelInfo},
		{name: "work goes to a person", row: "escalation proposed", policy: policy(withPeople), sessions: atHuman, kind: ops.StepAwait, level: ops.LevelInfo, notices: 1, says: "a human", check: func(t *testing.T, s ops.Step) {
			if s.Incident == nil || s.Incident.Findings != "disk" || s.Incident.Tried != "restart" || !s.Incident.Waits {
				t.Errorf("the incident holds %+v", s.Incident)
			}
		}},
		{name: "Tier 3 hands to the person of its registry", row: "escalation proposed", policy: policy(withPeople), sessions: []ops.Session{session(3, 3, ops.SessionCompleted, handed(3))}, kind: ops.StepAwait, level: ops.LevelWarning, notices: 1},
		{name: "the person has it", row: "human has it", policy: policy(withPeople), sessions: atHuman, journal: given(ops.Ptr(ops.CycleID(1)), false), kind: ops.StepAwait},
		{name: "the person is done", row: "human is done", policy: policy(withPeople), sessions: atHuman, journal: given(ops.Ptr(ops.CycleID(1)), true), kind: ops.StepFinish, status: ops.CycleResolved, level: ops.LevelInfo, says: "ada: changed the disk"},
		{name: "an acknowledged problem starts no tier", row: "escalation proposed", policy: policy(), sessions: tier1, journal: held(ops.IncidentAcknowledged), kind: ops.StepFinish, status: ops.CycleSuppressed, level: ops.LevelInfo, says: "acknowledged by ada"},
		{name: "a snoozed problem starts no tier", row: "escalation proposed", policy: policy(), sessions: tier1, journal: held(ops.IncidentSnoozed), kind: ops.StepFinish, status: ops.CycleSuppressed, level: ops.LevelInfo, says: "snoozed until"},
		{name: "a silenced service starts no tier", row: "escalation proposed", policy: policy(), sessions: tier1, journal: ops.Journal{Silences: []ops.Silence{{Service: "w*", Author: "ada", Reason: "new disk", From: now.Add(-time.Hour), Until: now.Add(time.Hour)}}}, kind: ops.StepFinish, status: ops.CycleSuppressed, level: ops.LevelInfo, says: "silenced by ada"},
		{name: "a silence that is over holds nothing", row: "escalation proposed", policy: policy(), sessions: tier1, journal: ops.Journal{Silences: []ops.Silence{{Service: "web", From: now.Add(-2 * time.Hour), Until: now.Add(-time.Hour)}}}, kind: ops.StepQueue, level: ops.LevelInfo},
		{name: "a service that only flaps is a human's", row: "escalation proposed", policy: policy(), sessions: tier1, journal: ops.Journal{Withheld: []ops.Withheld{{Service: "web", Why: "flapping", Reason: "web is flapping"}}}, kind: ops.StepFinish, status: ops.CycleNeedsHuman, level: ops.LevelWarning, notices: 1, says: "web is flapping"},
		{name: "a flapping service that is silenced as well is known", row: "escalation proposed", policy: policy(), sessions: tier1, journal: ops.Journal{Withheld: []ops.Withheld{{Service: "web", Why: "flapping", Reason: "web is flapping"}, {Service: "web", Why: "silenced", Reason: "new disk"}}}, kind: ops.StepFinish, status: ops.CycleSuppressed, level: ops.LevelInfo, says: "web is flapping"},
		{name: "what only follows a failing dependency starts no tier", row: "escalation proposed", policy: policy(), sessions: tier1, journal: ops.Journal{Withheld: []ops.Withheld{{Service: "web", Why: "dependency", Reason: "db is down"}}}, kind: ops.StepFinish, status: ops.CycleSuppressed, level: ops.LevelInfo, says: "db is down"},
		{name: "an open problem is worked on", row: "escalation proposed", policy: policy(), sessions: tier1, journal: held(ops.IncidentOpen), kind: ops.StepQueue, level: ops.LevelInfo},
		{name: "what people know of is not told again", row: "escalation proposed", policy: policy(func(p *ops.Policy) { p.MaxTier = 1 }), sessions: tier1, journal: held(ops.IncidentOpen), kind: ops.StepFinish, status: ops.CycleNeedsHuman, level: ops.LevelWarning},
		{name: "what a cycle repaired alone is told", row: "escalation proposed", policy: policy(func(p *ops.Policy) { p.MaxTier = 1 }), sessions: tier1, journal: handled(), kind: ops.StepFinish, status: ops.CycleNeedsHuman, level: ops.LevelWarning, notices: 1},
		{name: "a healthy cycle that does not say what it checked closes nothing", row: "healthy", policy: policy(), sessions: []ops.Session{session(1, 1, ops.SessionCompleted)}, journal: held(ops.IncidentOpen), kind: ops.StepFinish, status: ops.CycleHealthy, check: ends()},
		{name: "a manager is asked first", row: "manager due", policy: policy(withPeople, managed), sessions: tier1, kind: ops.StepQueue, level: ops.LevelInfo, says: "tier2, other2", check: func(t *testing.T, s ops.Step) {
			if s.Session.Role != ops.RoleManager || s.Session.Handler.May() != ops.Tier1 || *s.Session.ParentID != 1 {
				t.Errorf("asked %+v", s.Session)
			}
		}},
		{name: "the manager's choice is taken", row: "escalation proposed", policy: policy(withPeople, managed), sessions: append(slices.Clone(tier1), session(2, 1, ops.SessionCompleted, role(ops.RoleManager, 1, `{"target":"other2","reason":"fresh eyes"}`))), kind: ops.StepQueue, level: ops.LevelInfo, says: "fresh eyes", check: func(t *testing.T, s ops.Step) {
			target("other2", ops.ContextHandoff)(t, s)
			if d := s.Decision; d.ProcessMode != ops.ProcessManager || !d.ManagerPresent || d.SessionID != 1 || *s.Session.ParentID != 1 {
				t.Errorf("decided %+v", d)
			}
		}},
		{name: "a manager who names a stranger is passed over", row: "escalation proposed", policy: policy(withPeople, managed), sessions: append(slices.Clone(tier1), session(2, 1, ops.SessionCompleted, role(ops.RoleManager, 1, `{"target":"tier3"}`))), kind: ops.StepQueue, level: ops.LevelInfo, says: "not permitted", check: func(t *testing.T, s ops.Step) {
			target("tier2", ops.ContextHandoff)(t, s)
			if d := s.Decision; d.ProcessMode != ops.ProcessTyped || !d.ManagerPresent {
				t.Errorf("decided %+v", d)
			}
		}},
		{name: "a manager who failed is passed over", row: "escalation proposed", policy: policy(withPeople, managed), sessions: append(slices.Clone(tier1), session(2, 1, ops.SessionFailed, role(ops.RoleManager, 1, ""))), kind: ops.StepQueue, level: ops.LevelInfo, says: "as proposed"},
		{name: "an interrupted question is asked again", row: "question interrupted", policy: policy(withPeople, managed), sessions: append(slices.Clone(tier1), session(2, 1, ops.SessionInterrupted, role(ops.RoleManager, 1, ""))), kind: ops.StepQueue, level: ops.LevelInfo},
		{name: "but only once", row: "escalation proposed", policy: policy(withPeople, managed), sessions: append(slices.Clone(tier1), session(2, 1, ops.SessionInterrupted, role(ops.RoleManager, 1, "")), session(3, 1, ops.SessionInterrupted, role(ops.RoleManager, 1, ""), again(2), func(s *ops.Session) { s.Attempt = 2 })), kind: ops.StepQueue, level: ops.LevelInfo},
		{name: "a review that passed resolves", row: "review passed", policy: policy(withPeople), sessions: []ops.Session{session(1, 1, ops.SessionCompleted, handed(2)), session(2, 2, ops.SessionCompleted, child(1))}, journal: approval(ops.ApprovalApproved, review), kind: ops.StepFinish, status: ops.CycleResolved, level: ops.LevelInfo},
		{name: "a review that did not pass needs a human", row: "answer is no", policy: policy(withPeople), sessions: []ops.Session{session(1, 1, ops.SessionCompleted, handed(2)), session(2, 2, ops.SessionCompleted, child(1))}, journal: approval(ops.ApprovalDenied, review), kind: ops.StepFinish, status: ops.CycleNeedsHuman, level: ops.LevelWarning},
	}
}
