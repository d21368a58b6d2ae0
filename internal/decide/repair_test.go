package decide_test

import (
	"slices"
	"testing"
	"time"

	"claudeops/internal/decide/report"
	"claudeops/internal/ops"
)

// Only what the supervisor did itself, and nothing beside it, counts as a repair that can become a reflex.
func TestRepairsByActionsAlone(t *testing.T) {
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	contained := func(p *ops.Policy) {
		p.Inventory.Services[0].Container = "web-1"
		p.Inventory.Services[0].Actions = []ops.ActionSpec{{Name: "restart", Service: "web", Kind: ops.ActionRestart, Tier: ops.Tier2, Container: "web-1"}}
	}
	seen := func(service string, status ops.Health, purpose ops.ProbePurpose, after ops.SessionID) ops.Check {
		c := ops.Check{At: now.Add(-time.Minute), Service: service, Probe: "GET /", Type: ops.CheckHTTP, Purpose: purpose, Status: status}
		if status != ops.Healthy {
			c.Error = "HTTP 502"
		}
		if after != 0 {
			c.AfterSession = &after
		}
		return c
	}
	down := seen("web", ops.Down, ops.ProbeObserve, 0)
	run := func(status ops.ActionStatus, change ...func(*ops.ActionRun)) ops.ActionRun {
		r := ops.ActionRun{ID: 4, Service: "web", Action: "restart", Status: status, StartedAt: ops.Ptr(now.Add(-30 * time.Second)), EndedAt: &now}
		for _, c := range change {
			c(&r)
		}
		return r
	}
	did := func(gate ops.Gate, tool, input string) ops.GuardRecord {
		return ops.GuardRecord{At: now.Add(-20 * time.Second), Gate: gate, Tool: tool, Input: input, Allowed: true, Mutating: true}
	}
	asked := did(ops.GateAction, "action_run", "restart web")
	hooked := did(ops.GateHook, "mcp__claudeops__action_run", `{"service":"web","action":"restart"}`)
	shell := did(ops.GateHook, "Bash", `{"command":"docker restart web-1"}`)
	broker := did(ops.GateDocker, "docker", "POST /containers/web-1/restart?t=10")
	type runs = []ops.ActionRun
	type calls = []ops.GuardRecord
	for _, tt := range []struct {
		name   string
		runs   runs
		calls  calls
		denied calls
		checks []ops.Check
		policy func(*ops.Policy)
		want   []string // the actions; none: no repair
	}{
		{name: "an action that a session asked for", runs: runs{run(ops.ActionDone)}, calls: calls{asked, hooked}, want: []string{"restart"}},
		{name: "one that was refused before is nothing", runs: runs{run(ops.ActionRefused), run(ops.ActionDone)}, want: []string{"restart"}},
		{name: "a restart of its container by the broker", calls: calls{shell, broker}, want: []string{"restart"}},
		{name: "both, in the order of time", runs: runs{run(ops.ActionDone, func(r *ops.ActionRun) { r.Action = "clear" })}, calls: calls{asked, shell, broker}, want: []string{"clear", "restart"}},
		{name: "a dependent that failed with it", runs: runs{run(ops.ActionDone)}, checks: []ops.Check{seen("shop", ops.Down, ops.ProbeObserve, 0)}, want: []string{"restart"}, policy: func(p *ops.Policy) {
			p.Inventory.Services = append(p.Inventory.Services, ops.Service{Name: "shop", DependsOn: []string{"web"}})
		}},
		{name: "an action that was refused by its gate", runs: runs{run(ops.ActionDone)}, calls: calls{asked}, denied: calls{asked}, want: []string{"restart"}},
		{name: "a forbidden command before it", runs: runs{run(ops.ActionDone)}, calls: calls{asked}, denied: calls{did(ops.GateHook, "Bash", `{"command":"docker system prune -af"}`)}},
		{name: "a restart that no broker did", calls: calls{shell}},
		{name: "no action at all"},
		{name: "a command beside it", runs: runs{run(ops.ActionDone)}, calls: calls{asked, did(ops.GateHook, "Bash", `{"command":"rm -rf /tmp/cache"}`)}},
		{name: "a command after it in the same line", calls: calls{did(ops.GateHook, "Bash", `{"command":"docker restart web-1 && rm x"}`), broker}},
		{name: "a file that was written", runs: runs{run(ops.ActionDone)}, calls: calls{did(ops.GateHook, "Write", `{"file_path":"/srv/a"}`)}},
		{name: "a tool that is only called like it", runs: runs{run(ops.ActionDone)}, calls: calls{did(ops.GateHook, "mcp__other__action_run", `{}`)}},
		{name: "a restart of another container", calls: calls{did(ops.GateDocker, "docker", "POST /containers/db/restart")}},
		{name: "another request to the broker", calls: calls{did(ops.GateDocker, "docker", "POST /containers/web-1/stop")}},
		{name: "more calls than are listed", runs: runs{run(ops.ActionDone)}, calls: slices.Repeat(calls{asked}, 11)},
		{name: "an action that was undone", runs: runs{run(ops.ActionUndone), run(ops.ActionDone, func(r *ops.ActionRun) { r.UndoOf = 4 })}},
		{name: "one that failed", runs: runs{run(ops.ActionFailed), run(ops.ActionDone)}},
		{name: "a push", runs: runs{run(ops.ActionDone, func(r *ops.ActionRun) { r.Kind = ops.ActionPush })}},
		{name: "actions of two services", runs: runs{run(ops.ActionDone), run(ops.ActionDone, func(r *ops.ActionRun) { r.Service = "db" })}},
		{name: "another service that failed too", runs: runs{run(ops.ActionDone)}, checks: []ops.Check{seen("db", ops.Down, ops.ProbeObserve, 0)}},
		{name: "what did not help at once", runs: runs{run(ops.ActionDone)}, checks: []ops.Check{func() ops.Check { c := seen("web", ops.Down, ops.ProbePlan, 1); c.At = now; return c }()}},
		{name: "what the configuration has a reflex for", runs: runs{run(ops.ActionDone)}, policy: reflexive()},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := policy(probed, contained)
			if tt.policy != nil {
				tt.policy(&p)
			}
			s := session(2, 2, ops.SessionCompleted, child(1), func(s *ops.Session) { s.Outcome = ops.OutcomeResolved })
			checks := append([]ops.Check{down, seen("web", ops.Healthy, ops.ProbeVerify, 2)}, tt.checks...)
			for _, c := range tt.checks {
				checks = append(checks, seen(c.Service, ops.Healthy, ops.ProbeVerify, 2))
			}
			j := ops.Journal{
				Sessions: []ops.Session{session(1, 1, ops.SessionCompleted, handed(2)), s}, Checks: checks, Runs: tt.runs,
				Effects: map[ops.SessionID]ops.Effects{2: {Mutating: true, Done: tt.calls, Denied: tt.denied}},
			}
			c := ops.Cycle{ID: 1, Status: ops.CycleRunning, Trigger: ops.TriggerProbe, Policy: p}
			for i := range j.Sessions {
				report.Read(&j.Sessions[i])
			}
			charged(&c, &j, p)
			got := next(c, j, p, now)
			if got.Row != "resolved" || got.ConfirmedBy != ops.ProofProbe {
				t.Fatalf("row %q by %q: %s", got.Row, got.ConfirmedBy, got.Reason)
			}
			if tt.want == nil {
				if got.Repair != nil {
					t.Errorf("it counts: %+v", got.Repair)
				}
				return
			}
			if r := got.Repair; r == nil || r.Service != "web" || r.Probe != "GET /" || r.Class != "5xx" || r.Status != ops.Down || !slices.Equal(r.Actions, tt.want) {
				t.Errorf("repair %+v", r)
			}
		})
	}
}
