package api_test

import (
	"fmt"
	"testing"

	"claudeops/internal/ops"
	"claudeops/test/apitest"
)

func TestDecisionsOfTheGuardArePaged(t *testing.T) {
	c := newClient(t)
	_, ids := c.Chain(ops.NewCycle{Environment: "home"}, "", "", apitest.Run{Tier: 2, Status: ops.SessionRunning})
	path := fmt.Sprintf("/api/v1/sessions/%d/guard", ids[0])
	if got := items(c.get(path)); len(got) != 0 {
		t.Errorf("nothing was judged, and %v is listed", got)
	}
	restart := ops.Reservation{Service: "web", Action: "restart"}
	c.Judge(ids[0], ops.GuardRecord{
		Gate: ops.GateHook, ToolUseID: "toolu_1", Tool: "Bash", Input: `{"command":"docker restart web"}`, Digest: "d", Tier: 2,
		Allowed: true, Mutating: true, Rule: "tool.Bash", Reason: "ok",
	}, restart)
	c.Judge(ids[0], ops.GuardRecord{Gate: ops.GateHook, ToolUseID: "toolu_2", Tool: "Bash", Input: "rm", Tier: 2, Rule: "never.rm-root", Reason: "Never."})
	first := c.get(path + "?limit=1")
	got := items(first)
	if len(got) != 1 || got[0]["verdict"] != "allow" || got[0]["gate"] != "hook" || got[0]["tool_use_id"] != "toolu_1" || got[0]["mutating"] != true {
		t.Fatalf("first page: %v", first)
	}
	second := c.get(fmt.Sprintf("%s?limit=1&cursor=%v", path, first["next_cursor"]))
	got = items(second)
	if len(got) != 1 || got[0]["verdict"] != "deny" || got[0]["rule"] != "never.rm-root" || got[0]["reason"] != "Never." || second["next_cursor"] != nil {
		t.Errorf("second page: %v", second)
	}
	if status, _, _ := c.ask("GET", "/api/v1/sessions/999/guard", ""); status != 404 {
		t.Errorf("a session that is not there answers %d", status)
	}

	cooldowns := items(c.get("/api/v1/cooldowns"))
	if len(cooldowns) != 1 || cooldowns[0]["service"] != "web" || cooldowns[0]["action"] != "restart" || cooldowns[0]["left"] != 1.0 || cooldowns[0]["environment"] != "home" {
		t.Errorf("cooldowns: %v", cooldowns)
	}
	if got := items(c.get("/api/v1/cooldowns?environment=lab")); len(got) != 0 {
		t.Errorf("cooldowns elsewhere: %v", got)
	}
	if status, _, _ := c.ask("GET", "/api/v1/cooldowns?environment=nowhere", ""); status != 422 {
		t.Errorf("an unknown environment answers %d", status)
	}
}
