package web_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/web"
	"claudeops/test/apitest"
)

func TestServicesPageSaysWhereServicesComeFrom(t *testing.T) {
	s := newSite(t)
	mustContain(t, s.page("/services"), "No services discovered", `href="/config?q=services"`)
}

func TestHealthBarsShowTheWorstOfEachBucket(t *testing.T) {
	s := newSite(t)
	end := s.Now
	for hour, status := range []ops.Health{ops.Healthy, ops.Degraded, ops.Down, ops.Healthy} {
		s.Now = end.Add(time.Duration(hour-3) * time.Hour)
		s.Check("jellyfin", ops.Healthy, "")
		s.Check("jellyfin", status, "HTTP 502")
	}
	s.Now = end
	body := s.page("/services?range=24h")
	mustContain(t, body, "Health of jellyfin in the last 24 hours", "View as table", "24 hours ago", "87.5 %", `class="health-bar tone-bad"`,
		`class="health-bar tone-warn"`, `class="health-bar tone-ok"`, "Degraded, 2 checks", "not checked", "Checked <time")
	if got := strings.Count(body, `class="health-bar `); got != 25 {
		t.Errorf("%d bars are drawn", got)
	}
	for path, text := range map[string]string{
		"/services": "last 30 days", "/services?range=7d": "last 7 days",
		"/services?range=90d": "last 90 days",
	} {
		mustContain(t, s.page(path), "Health of jellyfin in the "+text)
	}
	if got := s.get("/services?range=1y").StatusCode; got != http.StatusNotFound {
		t.Errorf("an unknown range gives %d", got)
	}
}

func TestServicesAreFiltered(t *testing.T) {
	s := newSite(t)
	s.Check("jellyfin", ops.Down, "connection refused")
	s.Check("grafana", ops.Healthy, "")
	mustContain(t, s.page("/services"), "1 Down", "1 Healthy", "jellyfin", "grafana")
	body := s.page("/services?q=JELLY")
	mustContain(t, body, ">jellyfin<", "Clear filters")
	mustNotContain(t, body, ">grafana<")
	mustNotContain(t, s.page("/services?state=ok"), ">jellyfin<")
	mustContain(t, s.page("/services?q=nothing"), "No services match")
	s.Now = s.Now.Add(4 * time.Hour)
	mustContain(t, s.page("/services"), "2 Unknown", "Last checked <time")
}

// restarted lets a session restart a service twice, which is all that the limits allow.
func restarted(t *testing.T, s *site, service string) {
	t.Helper()
	_, ids := s.Chain(ops.NewCycle{}, ops.CycleRunning, "", apitest.Run{Tier: 2, For: time.Second, Status: ops.SessionRunning})
	for range 2 {
		s.Judge(ids[0], ops.GuardRecord{Tier: 2, Gate: ops.GateHook, Tool: "Bash", Input: "docker restart", Allowed: true, Mutating: true},
			ops.Reservation{Service: service, Action: "restart"})
	}
}

func TestCooldownIsClearedWithAReason(t *testing.T) {
	s := newSite(t, func(o *web.Options) { o.Environments[0].Policy.Cooldowns = apitest.Limits() })
	s.Check("jellyfin", ops.Down, "connection refused")
	restarted(t, s, "jellyfin")
	const ask = "/services/cooldown?action=restart&environment=default&service=jellyfin"
	mustContain(t, s.page("/services"), "restart</span> 0 of 2 left", "next <time", strings.ReplaceAll(ask, "&", "&amp;"))
	mustContain(t, s.page(ask), "Clear the restart cooldown of jellyfin?", `method="post"`, "required")

	fields := url.Values{"environment": {"default"}, "service": {"jellyfin"}, "action": {"restart"}}
	refused := s.post("/services/cooldown", fields)
	if refused.StatusCode != http.StatusUnprocessableEntity {
		t.Fatalf("without a reason: status %d", refused.StatusCode)
	}
	mustContain(t, refused.body, "Reason is missing", `role="alert"`)
	fields.Set("reason", "the disk was replaced")
	done := s.post("/services/cooldown", fields)
	if done.StatusCode != http.StatusSeeOther {
		t.Fatalf("status %d\n%s", done.StatusCode, head(done.body))
	}
	mustContain(t, s.page(done.Header.Get("Location")), "2 actions no longer count")
	mustNotContain(t, s.page("/services"), "0 of 2 left")
	mustContain(t, s.page("/events?kind=cooldown_cleared"), "cleared the cooldown of jellyfin for restart: the disk was replaced")

	if got := s.post("/services/cooldown", fields).StatusCode; got != http.StatusConflict {
		t.Errorf("clearing again gives %d", got)
	}
	if got := s.get(ask).StatusCode; got != http.StatusNotFound {
		t.Errorf("asking again gives %d", got)
	}
}

func TestServicesNameTheirOpenIncidents(t *testing.T) {
	s := newSite(t)
	i := s.breaks("paperless", "The disk is full.")
	s.Check("paperless", ops.Down, "connection refused")
	mustContain(t, s.page("/services"), fmt.Sprintf(`<a href="/incidents/%d">The disk is full.</a>`, i.ID))
}
