package api_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"claudeops/internal/api"
	"claudeops/internal/decide/health"
	"claudeops/internal/ops"
	"claudeops/test/apitest"
)

// downNow records that a probe finds a service down.
func (c *client) downNow(service string) {
	c.t.Helper()
	check := ops.Check{At: c.Now, Environment: "home", Service: service, Probe: "GET", Type: ops.CheckHTTP, Status: ops.Down, Purpose: ops.ProbeWatch}
	state, _ := health.Observe(ops.CheckState{}, check, health.Thresholds{FailAfter: 1}, c.Now)
	must(c.t, c.Store.Watch.RecordResults(c.t.Context(), "home", []ops.Check{check}, nil, []ops.CheckState{state}, nil, nil))
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

func TestTheGuardAndTheConfigurationAreAsked(t *testing.T) {
	c := newClient(t)
	for _, path := range []string{"/api/v1/guard/explain?tier=1&command=ls", "/api/v1/config/check"} {
		if status, _, _ := c.ask("GET", path, ""); status != http.StatusConflict {
			t.Errorf("%s without one: %d", path, status)
		}
	}
	var asked string
	h := api.New(api.Options{
		Store: c.Store, Control: c.control, Logger: slog.New(slog.DiscardHandler), Clock: c.Clock, Environments: []ops.Environment{{Name: "home"}, {Name: "lab"}},
		Guard: func(e ops.Environment, tier ops.Tier, command string, dryRun bool) (api.Verdict, error) {
			asked = e.Name + " " + tier.String() + " " + command
			return api.Verdict{Verdict: "deny", Rule: "R1", Reason: "no", Effects: []api.VerdictEffect{}}, nil
		},
		CheckConfig: func(context.Context) api.ConfigCheck {
			return api.ConfigCheck{Problems: []string{"x"}, Notes: []string{}}
		},
	})
	get := func(path string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", "/api/v1"+path, nil))
		return w
	}
	if got := get("/guard/explain?tier=2&command=docker+restart+web&environment=lab"); got.Code != 200 || asked != "lab Tier 2 docker restart web" || !strings.Contains(got.Body.String(), `"verdict":"deny"`) {
		t.Errorf("%d %s, asked %q", got.Code, got.Body, asked)
	}
	if got := get("/config/check"); got.Code != 200 || !strings.Contains(got.Body.String(), `"problems":["x"]`) {
		t.Errorf("%d %s", got.Code, got.Body)
	}
	for _, bad := range []string{"", "tier=4&command=ls", "tier=1", "tier=1&command=" + strings.Repeat("x", 8001), "tier=1&command=ls&environment=nowhere"} {
		if got := get("/guard/explain?" + bad); got.Code != http.StatusUnprocessableEntity {
			t.Errorf("%.40s: %d", bad, got.Code)
		}
	}
}

func TestStatsForecastTheBudget(t *testing.T) {
	c := newClient(t)
	c.twoTiers() // 0.75 in the last hours
	if s := c.get("/api/v1/stats"); s["spend_per_hour_usd"] != 0.25 || s["budget_gone_at"] != nil || s["budget_forecast"] != nil {
		t.Errorf("it lasts: %v", s)
	}
	for range 3 {
		c.twoTiers() // one dollar an hour, and three spent
	}
	s := c.get("/api/v1/stats")
	said, _ := s["budget_forecast"].(string)
	if s["spend_per_hour_usd"] != 1.0 || s["budget_gone_at"] == nil ||
		!strings.HasPrefix(said, "At this rate ($1.00 per hour) the day's budget of $5.00 is gone at ") {
		t.Errorf("it does not last: %v", s)
	}
}
