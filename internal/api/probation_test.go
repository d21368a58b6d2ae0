package api_test

import (
	"fmt"
	"testing"
	"time"

	"claudeops/internal/api"
	"claudeops/internal/ops"
)

func TestACycleOnProbationAndOneThatDidNotHoldSaySo(t *testing.T) {
	c := newClient(t)
	id := c.Repair("jellyfin")
	until := "2026-11-14T13:51:00Z"
	for what, row := range map[string]map[string]any{
		"cycle": c.get(fmt.Sprintf("/api/v1/cycles/%d", id)), "list": items(c.get("/api/v1/cycles"))[0], "incident": c.get("/api/v1/incidents/1"),
	} {
		if row["probation_until"] != until || row["refuted_at"] != nil || row["reopened_at"] != nil {
			t.Errorf("%s on probation: %v, %v, %v", what, row["probation_until"], row["refuted_at"], row["reopened_at"])
		}
	}
	c.Now = c.Now.Add(4 * time.Minute)
	c.Relapse("jellyfin")
	at := "2026-11-14T13:45:00Z"
	cycle, incident := c.get(fmt.Sprintf("/api/v1/cycles/%d", id)), c.get("/api/v1/incidents/1")
	if cycle["status"] != "resolved" || cycle["refuted_at"] != at || cycle["probation_until"] != nil {
		t.Errorf("the cycle is %v", cycle)
	}
	if incident["status"] != "open" || incident["reopened_at"] != at || incident["called_at"] != at || incident["probation_until"] != nil ||
		incident["occurrences"] != 2.0 || incident["resolved_at"] != nil {
		t.Errorf("the incident is %v", incident)
	}
}

func TestAStatusSaysThatARepairDidNotHold(t *testing.T) {
	at, no := time.Now(), false
	for want, c := range map[string]api.Cycle{
		"resolved":               {Status: ops.CycleResolved},
		"resolved, unverified":   {Status: ops.CycleResolved, Verified: &no},
		"resolved, did not hold": {Status: ops.CycleResolved, Verified: &no, RefutedAt: &at},
	} {
		if got := c.StatusText(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
