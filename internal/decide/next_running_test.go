package decide_test

import (
	"testing"

	"claudeops/internal/ops"
)

// runningCases are the states in which probes are green and what the service runs in is looked at too.
func runningCases() []nextCase {
	after := ops.Ptr(ops.SessionID(2))
	green := ops.Check{Service: "web", Probe: "GET", Type: ops.CheckHTTP, Purpose: ops.ProbeVerify, Status: ops.Healthy, AfterSession: after}
	seen := func(probe string, status ops.Health, problem string) ops.Check {
		return ops.Check{
			Service: "web", Probe: probe, Type: ops.CheckContainer, Purpose: ops.ProbeRunning, Status: status, Error: problem, AfterSession: after,
		}
	}
	exited := seen("container web", ops.Down, "container web has exited with 137")
	repaired := []ops.Session{session(1, 1, ops.SessionCompleted, handed(2)), session(2, 2, ops.SessionCompleted)}
	unproven := func(t *testing.T, s ops.Step) {
		if s.Confirmed == nil || *s.Confirmed || s.ConfirmedBy != ops.ProofNone || len(s.Recovered) != 0 {
			t.Errorf("confirmed %v by %q, recovered %+v", s.Confirmed, s.ConfirmedBy, s.Recovered)
		}
	}
	accepted := ops.Journal{Approvals: []ops.Approval{{SessionID: 2, Kind: ops.ApprovalReview, Status: ops.ApprovalApproved, AnsweredBy: "ada"}}}
	return []nextCase{
		{name: "a container that runs does not matter", row: "resolved", policy: policy(probed), checks: []ops.Check{green, seen("container web", ops.Healthy, "")}, sessions: repaired, kind: ops.StepFinish, status: ops.CycleResolved, level: ops.LevelInfo, says: "1 check confirmed by our own probes"},
		{name: "green probes do not prove the repair of what does not run", row: "resolved", policy: policy(probed), checks: []ops.Check{green, exited}, sessions: repaired, kind: ops.StepFinish, status: ops.CycleResolved, level: ops.LevelInfo, says: "but its container web has exited with 137; unverified", check: unproven},
		{name: "it goes to no ladder either", row: "resolved", policy: policy(probed, recovering), checks: []ops.Check{green, exited}, sessions: repaired, kind: ops.StepFinish, status: ops.CycleResolved, level: ops.LevelInfo, check: unproven},
		{name: "all that does not run is named", row: "resolved", policy: policy(probed), checks: []ops.Check{green, exited, seen("systemd job", ops.Down, "unit job is inactive (dead)")}, sessions: repaired, kind: ops.StepFinish, status: ops.CycleResolved, level: ops.LevelInfo, says: "web's container web has exited with 137 and web's unit job is inactive (dead)", check: unproven},
		{name: "the last look counts", row: "resolved", policy: policy(probed), checks: []ops.Check{green, exited, seen("container web", ops.Healthy, "")}, sessions: repaired, kind: ops.StepFinish, status: ops.CycleResolved, level: ops.LevelInfo, says: "confirmed"},
		{name: "a person who accepts it has the last word", row: "review passed", policy: policy(probed), checks: []ops.Check{green, exited}, sessions: repaired, journal: accepted, kind: ops.StepFinish, status: ops.CycleResolved, level: ops.LevelInfo, says: "ada accepted the repair", check: proves(ops.ProofHuman)},
	}
}
