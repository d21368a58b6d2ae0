package api_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/watch/health"
	"claudeops/test/apitest"
)

// downNow records that a probe finds a service down.
func (c *client) downNow(service string) {
	c.t.Helper()
	check := ops.Check{At: c.Now, Environment: "home", Service: service, Probe: "GET", Type: ops.CheckHTTP, Status: ops.Down, Purpose: ops.ProbeWatch}
	state, _ := health.Observe(health.State{}, check, health.Thresholds{FailAfter: 1}, c.Now)
	must(c.t, c.Store.RecordResults(c.t.Context(), "home", []ops.Check{check}, nil, []health.State{state}, nil, nil))
}

// needed leaves an incident of a service that needs a person.
func (c *client) needed(service string) {
	c.t.Helper()
	c.Await(ops.NewCycle{Environment: "home"}, ops.Policy{MaxTier: ops.LastTier, MaxDepth: 2}, ops.Step{
		Kind: ops.StepFinish, Status: ops.CycleNeedsHuman, Reason: "no",
		Incident: &ops.IncidentReport{Title: "no answer", Level: ops.LevelCritical, Class: "down", Services: []string{service}},
	}, apitest.Run{Tier: 1, For: time.Second, Outcome: ops.OutcomeNeedsHuman})
}

func TestARequestForACycleIsAnsweredWithWhatIsHeldBack(t *testing.T) {
	c := newClient(t)
	if found := items(c.get("/api/v1/held")); len(found) != 0 {
		t.Errorf("nothing is held back, and told is %v", found)
	}
	c.ask("POST", "/api/v1/silences", `{"service":"jellyfin","reason":"disk is replaced","for":"2h"}`)
	status, _, body := c.ask("POST", "/api/v1/cycles", `{"prompt":"look"}`)
	held := fmt.Sprint(body["held"])
	if status != http.StatusAccepted || body["id"] != 1.0 || !strings.Contains(held, "disk is replaced") || !strings.Contains(held, "why:silenced") {
		t.Errorf("%d %v", status, body)
	}
	if found := items(c.get("/api/v1/held?environment=home")); len(found) != 1 || found[0]["service"] != "jellyfin" || found[0]["until"] == nil {
		t.Errorf("told is %v", found)
	}
	if status, _, _ := c.ask("GET", "/api/v1/held?environment=mars", ""); status != http.StatusUnprocessableEntity {
		t.Errorf("an unknown environment: %d", status)
	}
}

func TestALastingNoIsHeldBack(t *testing.T) {
	c := newClient(t)
	facts := []ops.Fact{{Service: "web", Probe: "GET", Type: ops.CheckHTTP, Class: "5xx"}, {Service: "web", Probe: "PING", Type: ops.CheckHTTP, Class: "5xx"}}
	c.Await(ops.NewCycle{Environment: "home"}, ops.Policy{MaxTier: ops.LastTier, MaxDepth: 2}, ops.Step{
		Kind: ops.StepAwait, Approval: &ops.Approval{Tier: ops.Tier2, Handler: "tier2", Facts: facts},
		Incident: &ops.IncidentReport{Title: "may it start?", Services: []string{"web"}, Waits: true},
	}, apitest.Run{Tier: 1, For: time.Second, Outcome: ops.OutcomeEscalate})
	if status, _, body := c.ask("POST", "/api/v1/approvals/1/deny", `{"reason":"not now"}`); status != http.StatusOK {
		t.Fatalf("deny: %d %v", status, body)
	}
	found := items(c.get("/api/v1/held")) // the cycle has not read the answer yet, so it is named as well
	if last := found[len(found)-1]; len(found) != 2 || last["service"] != "web" || !strings.Contains(fmt.Sprint(last["reason"]), "said no to tier2") {
		t.Errorf("held back is %v", found)
	}
}

func TestAResolveSaysWhatItLeavesBehind(t *testing.T) {
	c := newClient(t)
	c.needed("jellyfin")
	c.needed("web")
	c.downNow("jellyfin")
	for id, want := range map[int]string{1: "jellyfin is still down by its own probes", 2: ""} {
		status, _, body := c.ask("POST", fmt.Sprintf("/api/v1/incidents/%d/resolve", id), `{"reason":"done"}`)
		note, _ := body["note"].(string)
		if status != http.StatusOK || body["status"] != "resolved" || (want == "") != (note == "") || !strings.Contains(note, want) {
			t.Errorf("incident %d: %d, note %q", id, status, note)
		}
		if got := c.get(fmt.Sprintf("/api/v1/incidents/%d", id)); got["note"] != nil {
			t.Errorf("later it says %v", got["note"])
		}
	}
}

func TestWhatNeedsYouIsListedAsItIsCounted(t *testing.T) {
	c := newClient(t)
	c.needed("jellyfin")
	c.needed("web")
	c.ask("POST", "/api/v1/incidents/1/ack", `{}`)
	found, stats := items(c.get("/api/v1/incidents?needs_you=true")), c.get("/api/v1/stats")
	if len(found) != 1 || found[0]["service"] != "web" || stats["incidents_open"] != 1.0 || stats["needs_you"] != 1.0 || stats["incidents_unverified"] != 0.0 {
		t.Errorf("listed %v, counted %v", found, stats)
	}
}
