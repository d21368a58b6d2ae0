package desk_test

import (
	"strings"
	"testing"

	"claudeops/internal/desk"
	"claudeops/internal/ops"
)

func TestTheAddressOfAHeartbeatIsMadeForPeople(t *testing.T) {
	c := newCounter(t)
	ctx := t.Context()
	refused := func(by desk.Person, service, probe, says string) {
		t.Helper()
		_, token, err := c.Heartbeat(ctx, by, "", service, probe)
		if text, wrong := desk.Problem(err); !wrong || !strings.Contains(text, says) || token != "" {
			t.Errorf("%s %s: %v", service, probe, err)
		}
	}
	refused(ann(), "web", "", "add `- {type: heartbeat, every: 24h}`")
	c.Environments[0].Probes = []ops.ProbeSpec{
		{Service: "web", Type: ops.ProbeHeartbeat, Name: "daily"}, {Service: "web", Type: ops.ProbeHeartbeat, Name: "weekly"},
	}
	refused(ann(), "web", "", "name one of daily, weekly")
	refused(ann(), "web", "hourly", `no heartbeat called "hourly"`)
	refused(ann(), "nothing", "", "nothing")
	refused(desk.Person{Name: "token", Via: "mcp", Door: desk.API}, "web", "daily", "for people and their jobs")
	h, token, err := c.Heartbeat(ctx, ann(), "", "web", "daily")
	if err != nil || h.Probe != "daily" || c.told != 1 {
		t.Fatalf("%+v, %v", h, err)
	}
	if found, err := c.Journal.Store.Watch.Heartbeat(ctx, token); err != nil || found != h {
		t.Errorf("%+v, %v", found, err)
	}
	if got := c.records(ops.EventAudit); len(got) != 1 || got[0] != "ann made a new address for the daily of web" {
		t.Errorf("recorded %q", got)
	}
}
