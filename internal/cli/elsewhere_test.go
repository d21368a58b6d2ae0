package cli

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"claudeops/internal/ops"
	"claudeops/test/apitest"
)

// shows runs a command at the server and looks for words in what it prints.
func (e *elsewhere) shows(args string, wanted ...string) string {
	e.t.Helper()
	out := e.must(strings.Fields(args)...)
	for _, want := range wanted {
		if !strings.Contains(out, want) {
			e.t.Errorf("%s: no %q in\n%s", args, want, out)
		}
	}
	return out
}

func TestCostsComeFromTheServer(t *testing.T) {
	e := newElsewhere(t)
	e.chain()
	e.shows("costs --days 3650", "Tier 1", "Tier 2", "$0.75 in 2 sessions", "Most expensive cycles", "cycle 1")
	e.shows("costs --days 3650 --by model", "haiku", "sonnet")
	if out := e.shows("costs --days 3650 --cycles 0"); strings.Contains(out, "Most expensive") {
		t.Errorf("cycles that nobody asked for:\n%s", out)
	}
	var sum struct {
		Total float64          `json:"total_cost_usd"`
		Items []map[string]any `json:"items"`
	}
	if err := json.Unmarshal([]byte(e.shows("costs --days 3650 -o json")), &sum); err != nil || sum.Total != 0.75 || len(sum.Items) != 2 {
		t.Errorf("%+v, %v", sum, err)
	}
	if code, _, errs := e.run("costs", "--environment", "nowhere"); code != exitUsage || !strings.Contains(errs, "nowhere") {
		t.Errorf("an environment that is not there: exit %d, %s", code, errs)
	}
}

func TestServicesComeFromTheServer(t *testing.T) {
	e := newElsewhere(t)
	e.Check("jellyfin", ops.Down, "HTTP 502")
	e.Check("grafana/home page", ops.Healthy, "")
	_, ids := e.Chain(ops.NewCycle{Environment: "default"}, "", "", apitest.Run{Tier: 2, For: time.Second, Status: ops.SessionRunning})
	e.Judge(ids[0], ops.GuardRecord{Gate: ops.GateHook, Tool: "Bash", Input: "x", Tier: 2, Allowed: true, Mutating: true, Rule: "r"},
		ops.Reservation{Service: "jellyfin", Action: "restart"})
	out := e.shows("services list", "jellyfin", "down", "HTTP 502", "healthy")
	if strings.Index(out, "jellyfin") > strings.Index(out, "grafana") {
		t.Errorf("the worst is not first:\n%s", out)
	}
	if out := e.shows("services list --state healthy", "grafana"); strings.Contains(out, "jellyfin") {
		t.Errorf("the filter does nothing:\n%s", out)
	}
	e.shows("services show jellyfin", "jellyfin: down", "30 days", "._  now", "Cooldown: restart")
	if out := e.must("services", "show", "grafana/home page"); !strings.Contains(out, "healthy") {
		t.Errorf("a name with a slash:\n%s", out)
	}
	if code, _, _ := e.run("services", "show", "nothing"); code != exitNotFound {
		t.Errorf("a service that is not there: exit %d", code)
	}
	for _, want := range []int{exitOK, exitNotFound} {
		if code, _, errs := e.run("services", "forget", "grafana/home page"); code != want {
			t.Errorf("forget: exit %d, %s", code, errs)
		}
	}
}

func TestNoticesAreThoseOfTheServer(t *testing.T) {
	e := newElsewhere(t)
	if _, err := e.Store.AddNotice(t.Context(), ops.Notice{
		Kind: "opened", Level: ops.LevelCritical, Title: "jellyfin is down", Body: "x", Status: ops.NoticeDead, Attempts: 8, Error: "no route", CreatedAt: e.Now,
	}); err != nil {
		t.Fatal(err)
	}
	e.shows("notify list --status dead", "jellyfin is down", "no route")
	if code, _, errs := e.run("--server", e.url, "notify", "test"); code != exitUsage || !strings.Contains(errs, "local state folder only") {
		t.Errorf("trying a notification at a server: exit %d, %s", code, errs)
	}
}
