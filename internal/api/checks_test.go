package api_test

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"claudeops/internal/api"
	"claudeops/internal/ops"
)

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
