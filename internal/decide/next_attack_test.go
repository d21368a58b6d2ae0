package decide_test

import (
	"strings"
	"testing"
	"time"

	"claudeops/internal/ops"
)

// attackCases are cycles in which an agent attacks the supervisor, or did so before.
func attackCases(now time.Time) []nextCase {
	call := ops.GuardRecord{Tool: "Bash", Input: `{"command":"kill 4711"}`, Rule: ops.RuleAttack, Reason: "kill is refused at every tier"}
	of := func(id ops.SessionID) ops.Journal {
		return ops.Journal{Effects: map[ops.SessionID]ops.Effects{id: {Denied: []ops.GuardRecord{call}, Attack: &call}}}
	}
	down := []ops.Check{{Service: "web", Probe: "http", Type: ops.CheckHTTP, Purpose: ops.ProbeObserve, Status: ops.Down, Error: "HTTP 502", At: now}}
	attacked := func(s *ops.Session) {
		s.StopCause, s.Error = ops.StopAttack, "session 2 (Tier 2) attacked the supervisor"
	}
	tier2 := func(status ops.SessionStatus, change ...func(*ops.Session)) []ops.Session {
		return []ops.Session{session(1, 1, ops.SessionCompleted, handed(2)), session(2, 2, status, change...)}
	}
	claims := func(s *ops.Session) {
		s.Outcome = ops.OutcomeResolved
		s.OutcomeJSON = []byte(`{"schema_version":1,"outcome":"resolved","summary":"The cause was repaired and the service works again","check_results":[{"service":"web","check_type":"http","status":"healthy","error":""}],"actions":[],"events":[],"memories":[]}`)
	}
	calls := func(t *testing.T, s ops.Step) {
		t.Helper()
		n := s.Notices[0]
		if s.Session != nil || s.Recovery != nil || len(s.Reduced)+len(s.ReflexOff)+len(s.Lessons) > 0 || n.Level != ops.LevelCritical {
			t.Errorf("it goes on: %+v", s)
		}
		if !strings.HasSuffix(n.Title, "An agent attacked the supervisor") || !strings.HasPrefix(n.Body, "Session ") || strings.Contains(n.Body, "repaired and") {
			t.Errorf("%s: %s", n.Title, n.Body)
		}
		if i := s.Incident; i.Class != ops.ClassAttack || len(i.Services) > 0 || !strings.Contains(i.Seen, "attacked the supervisor") || i.Handled {
			t.Errorf("incident %+v", i)
		}
		if s.Left == nil || s.Left.Class != "down" || len(s.Left.Services) != 1 || strings.Contains(s.Left.Title, "attack") {
			t.Errorf("beside it %+v", s.Left)
		}
	}
	held := func() ops.Journal {
		return ops.Journal{Attacked: []ops.Hold{{Service: "web", From: ops.Tier2, By: ops.HoldByAttack, Why: "agents at work on it attacked the supervisor twice", Until: ops.Ptr(now.Add(time.Hour))}}}
	}
	notFound := func(t *testing.T, s ops.Step) {
		if strings.Contains(s.Incident.Seen+s.Notices[0].Body, "works again") {
			t.Errorf("found: %s\n%s", s.Incident.Seen, s.Notices[0].Body)
		}
	}
	acked := held()
	acked.Incidents = []ops.Incident{{ID: 9, Service: "web", Class: "down", Status: ops.IncidentAcknowledged, AcknowledgedBy: "ada", CalledAt: &now}}
	return []nextCase{
		{name: "an attack ends the cycle", row: "attacked", policy: policy(probed, recovering), checks: down, sessions: tier2(ops.SessionFailed, attacked), journal: of(2), kind: ops.StepFinish, status: ops.CycleNeedsHuman, level: ops.LevelCritical, notices: 1, says: "session 2 (Tier 2) for web attacked the supervisor: the guard refused Bash kill 4711", check: calls},
		{name: "whatever the session says", row: "attacked", policy: policy(probed), checks: down, sessions: tier2(ops.SessionCompleted, claims), journal: of(2), kind: ops.StepFinish, status: ops.CycleNeedsHuman, level: ops.LevelCritical, notices: 1, says: "kill 4711", check: calls},
		{name: "whatever it was stopped for", row: "attacked", policy: policy(probed, recovering), checks: down, sessions: tier2(ops.SessionInterrupted, func(s *ops.Session) { s.StopCause = ops.StopLease }), journal: of(2), kind: ops.StepFinish, status: ops.CycleNeedsHuman, level: ops.LevelCritical, notices: 1, says: "kill 4711", check: calls},
		{name: "and whoever cancelled", row: "attacked", cycle: ops.Cycle{CancelRequestedAt: &now}, policy: policy(probed), checks: down, sessions: tier2(ops.SessionCancelled), journal: of(2), kind: ops.StepFinish, status: ops.CycleNeedsHuman, level: ops.LevelCritical, notices: 1, says: "kill 4711", check: calls},
		{name: "its word alone is enough", row: "attacked", policy: policy(probed), checks: down, sessions: tier2(ops.SessionFailed, attacked), kind: ops.StepFinish, status: ops.CycleNeedsHuman, level: ops.LevelCritical, notices: 1, says: "attacked the supervisor", check: calls},
		{name: "what runs is ended first", row: "in flight", policy: policy(probed), checks: down, sessions: tier2(ops.SessionRunning), journal: of(2), kind: ops.StepInterrupt},
		{name: "a judge that attacks ends it too", row: "attacked", policy: policy(probed), checks: down, sessions: append(tier2(ops.SessionCompleted, claims), session(3, 1, ops.SessionFailed, role(ops.RoleJudge, 2, ""))), journal: of(3), kind: ops.StepFinish, status: ops.CycleNeedsHuman, level: ops.LevelCritical, notices: 1, says: "session 3", check: calls},
		{name: "after a second attack Tier 1 looks", row: "nothing ran", cycle: ops.Cycle{Trigger: ops.TriggerProbe}, policy: policy(probed), checks: down, journal: held(), kind: ops.StepQueue},
		{name: "and nothing above it starts", row: "escalation proposed", policy: policy(probed), checks: down, sessions: []ops.Session{session(1, 1, ops.SessionCompleted, handed(2))}, journal: held(), kind: ops.StepFinish, status: ops.CycleNeedsHuman, level: ops.LevelWarning, notices: 1, says: "attacked the supervisor twice"},
		{name: "for which nobody is called who knows", row: "escalation proposed", policy: policy(probed), checks: down, sessions: []ops.Session{session(1, 1, ops.SessionCompleted, handed(2))}, journal: acked, kind: ops.StepFinish, status: ops.CycleSuppressed, level: ops.LevelInfo, says: "ada"},
		{name: "while reflexes go on", row: "reflex due", cycle: ops.Cycle{Trigger: ops.TriggerProbe}, policy: policy(probed, acting, reflexive()), checks: down, journal: held(), kind: ops.StepAct, level: ops.LevelInfo},
		{name: "a refuted claim is not found", row: "claim refuted", policy: policy(probed), checks: []ops.Check{{Service: "web", Purpose: ops.ProbeVerify, Status: ops.Down, Error: "HTTP 502", AfterSession: ops.Ptr(ops.SessionID(2))}}, sessions: tier2(ops.SessionCompleted, claims), kind: ops.StepFinish, status: ops.CycleNeedsHuman, level: ops.LevelCritical, notices: 1, says: "HTTP 502", check: notFound},
		{name: "nor is a repair that the guard refused", row: "repair refused", policy: policy(), sessions: tier2(ops.SessionCompleted, claims), journal: ops.Journal{Effects: map[ops.SessionID]ops.Effects{2: {Denied: []ops.GuardRecord{{Tool: "Bash", Rule: "R7", Reason: "no"}}}}}, kind: ops.StepFinish, status: ops.CycleNeedsHuman, level: ops.LevelCritical, notices: 1, check: notFound},
	}
}
