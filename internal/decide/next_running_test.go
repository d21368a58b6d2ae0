package decide_test

import "claudeops/internal/ops"

// runningCases are the states in which probes are green and what the service runs in is looked at too.
func runningCases() []nextCase {
	after := ops.Ptr(ops.SessionID(2))
	green := ops.Check{Service: "web", Probe: "GET", Type: ops.CheckHTTP, Purpose: ops.ProbeVerify, Status: ops.Healthy, AfterSession: after}
	red := ops.Check{Service: "web", Probe: "GET", Type: ops.CheckHTTP, Purpose: ops.ProbeObserve, Status: ops.Down}
	seen := func(probe string, status ops.Health, problem string) ops.Check {
		return ops.Check{
			Service: "web", Probe: probe, Type: ops.CheckContainer, Purpose: ops.ProbeRunning, Status: status, Error: problem, AfterSession: after,
		}
	}
	exited := seen("container web", ops.Down, "container web has exited with 137")
	repaired := []ops.Session{session(1, 1, ops.SessionCompleted, handed(2)), session(2, 2, ops.SessionCompleted)}
	accepted := ops.Journal{Approvals: []ops.Approval{{SessionID: 2, Kind: ops.ApprovalReview, Status: ops.ApprovalApproved, AnsweredBy: "ada"}}}
	return []nextCase{
		{name: "a container that runs does not matter", row: "resolved", policy: policy(probed), checks: []ops.Check{red, green, seen("container web", ops.Healthy, "")}, sessions: repaired, kind: ops.StepFinish, status: ops.CycleResolved, level: ops.LevelInfo, says: "1 check confirmed by our own probes"},
		{name: "a container that does not run refutes what probes like", row: "claim refuted", policy: policy(probed), checks: []ops.Check{red, green, exited}, sessions: repaired, kind: ops.StepFinish, status: ops.CycleNeedsHuman, level: ops.LevelCritical, notices: 1, says: "container web has exited with 137"},
		{name: "and the tier gets another try", row: "claim refuted", policy: policy(probed, recovering), checks: []ops.Check{red, green, exited}, sessions: repaired, kind: ops.StepQueue, level: ops.LevelWarning},
		{name: "all that does not run is named", row: "claim refuted", policy: policy(probed), checks: []ops.Check{red, green, exited, seen("systemd job", ops.Down, "unit job is inactive (dead)")}, sessions: repaired, kind: ops.StepFinish, status: ops.CycleNeedsHuman, level: ops.LevelCritical, notices: 1, says: "web down (container web has exited with 137) and web down (unit job is inactive (dead))"},
		{name: "what goes up and down is not repaired because it is up", row: "resolved", policy: policy(probed), checks: []ops.Check{red, green}, sessions: repaired, journal: ops.Journal{Withheld: []ops.Withheld{{Service: "web", Why: ops.HoldFlapping, Reason: "web is flapping; it must be stable for 10m first."}}}, kind: ops.StepFinish, status: ops.CycleResolved, level: ops.LevelInfo, says: "unverified: web is flapping; it must be stable for 10m first", check: proves(ops.ProofNone)},
		{name: "a session that changed nothing repaired nothing", row: "resolved", policy: policy(probed), checks: []ops.Check{red, green}, sessions: repaired, journal: ops.Journal{Effects: map[ops.SessionID]ops.Effects{2: {}}}, kind: ops.StepFinish, status: ops.CycleResolved, level: ops.LevelInfo, says: "recovered by itself: Tier 2 changed nothing", check: proves(ops.ProofProbe)},
		{name: "the last look counts", row: "resolved", policy: policy(probed), checks: []ops.Check{red, green, exited, seen("container web", ops.Healthy, "")}, sessions: repaired, kind: ops.StepFinish, status: ops.CycleResolved, level: ops.LevelInfo, says: "confirmed"},
		{name: "a person who accepts it has the last word", row: "review passed", policy: policy(probed), checks: []ops.Check{red, green, exited}, sessions: repaired, journal: accepted, kind: ops.StepFinish, status: ops.CycleResolved, level: ops.LevelInfo, says: "ada accepted the repair", check: proves(ops.ProofHuman)},
	}
}
