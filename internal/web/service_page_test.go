package web_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/watch/health"
	"claudeops/internal/web"
	"claudeops/test/apitest"
)

// chainOfServices is a site on which web needs db, and shop needs web.
func chainOfServices(t *testing.T) *site {
	return newSite(t, func(o *web.Options) {
		o.Environments[0].Policy.Cooldowns = apitest.Limits()
		o.Environments[0].Policy.Inventory.Services = []ops.Service{
			{Name: "db", Aliases: []string{"postgres"}},
			{Name: "shop", DependsOn: []string{"web"}},
			{
				Name: "web", Group: "front", DependsOn: []string{"postgres"},
				Actions: []ops.ActionSpec{{Name: "restart", Kind: ops.ActionCommand, Run: []string{"true"}, Tier: ops.Tier2}},
			},
		}
		o.Environments[0].Watch.Maintenance = []ops.Maintenance{
			{Name: "nightly", Group: "front", Schedule: "sun 02:00", Length: time.Hour, Zone: "Europe/Berlin"},
			{Name: "elsewhere", Service: "db", Schedule: "sun 02:00", Length: time.Hour},
		}
	})
}

func TestAServiceHasAPageWithEverythingAboutIt(t *testing.T) {
	s := chainOfServices(t)
	end := s.Now
	for hour := 30; hour >= 1; hour-- {
		s.Now = end.Add(-time.Duration(hour) * time.Hour)
		s.Check("web", ops.Healthy, "")
	}
	s.Now = end.Add(-10 * time.Minute)
	s.Check("web", ops.Down, "connection refused")
	s.Check("db", ops.Degraded, "slow")
	state := health.State{Service: "web", Probe: "http", Level: ops.Down, Since: s.Now}
	must(t, s.Store.RecordResults(t.Context(), "default", nil, nil, []health.State{state}, nil, nil))
	incident := s.breaks("web", "The port is closed.")
	restarted(t, s, "web")
	_, err := s.Store.AddMemory(t.Context(), ops.Memory{
		Environment: "default", Service: "web", Category: "timing", Observation: "It starts slowly.", Confidence: 0.7, Source: "operator",
	})
	must(t, err)
	held := ops.Withheld{Service: "web", Why: ops.HoldDependency, Reason: "db is bad"}
	must(t, s.Store.SaveWithheld(t.Context(), "default", []ops.Withheld{held}))
	s.Now = end
	body := s.page("/services/default/web")
	mustContain(t, body, "Down", "since <time", "connection refused", "No cycle starts for it now: db is bad",
		"Health of web in the last 24 hours", "Response time of web in the last 24 hours", "p95", "View as table",
		fmt.Sprintf(`href="/incidents/%d">The port is closed.`, incident.ID), "restart</span> 0 of 2 left", "/services/cooldown?action=restart",
		"Run restart of web?", "It starts slowly.", "Depends on", "Needed by", `href="/services/default/db"`, `href="/services/default/shop"`,
		"Degraded", "Group front", "nightly", "sun 02:00 for 1 h, Europe/Berlin", "Silence web?", fmt.Sprintf("C-%d", incident.FirstCycle))
	mustNotContain(t, body, "elsewhere", "style=")
	if n := strings.Count(body, `class="health-bar `); n != 25 {
		t.Errorf("%d bars are drawn", n)
	}
	for _, name := range []string{"7d", "30d"} {
		mustContain(t, s.page("/services/default/web?range="+name), "Response time of web")
	}
	for _, path := range []string{"/services/default/web?range=90d", "/services/default/nothing", "/services/nowhere/web", "/services/page"} {
		if got := s.get(path).StatusCode; got != http.StatusNotFound {
			t.Errorf("%s gives %d", path, got)
		}
	}
}

func TestThePageOfAServiceWithoutAProbeSaysWhoLooksAtIt(t *testing.T) {
	s := newSite(t, func(o *web.Options) {
		for _, every := range []time.Duration{24 * time.Hour, 0} {
			o.Environments = append(o.Environments, ops.Environment{Name: fmt.Sprintf("every-%d", int(every.Hours())), Policy: ops.Policy{
				Observe: ops.ObserveProbes, ObserveEvery: every,
				Inventory: ops.Inventory{Services: []ops.Service{{Name: "db"}, {Name: "web", Probed: true}}},
			}})
		}
	})
	mustContain(t, s.page("/services/every-24/db"), "It has no probe: one look a day by Tier 1, cost unknown until the first look.")
	mustContain(t, s.page("/services/every-0/db"), "Nobody looks at it: it has no probe, and observe_every is 0. Add a probe, or set observe_every.")
	mustNotContain(t, s.page("/services/every-0/web"), "no probe")
}

func TestAServiceWithAnyNameHasAPage(t *testing.T) {
	s := newSite(t)
	for _, name := range []string{"a/b", "..", ".", "cooldown", "ü ?&#%<b>", "page", "a%2Fb"} {
		s.Check(name, ops.Healthy, "")
	}
	list := s.page("/services")
	for _, part := range strings.Split(list, `class="service-name"><a href="`)[1:] {
		path, _, _ := strings.Cut(part, `"`)
		path = strings.NewReplacer("&amp;", "&", "&#43;", "+").Replace(path)
		if got := s.get(path).StatusCode; got != http.StatusOK {
			t.Errorf("%s gives %d", path, got)
		}
	}
	mustContain(t, list, `href="/services/default/a%2Fb"`, `href="/services/page?environment=default&amp;service=.."`)
	mustContain(t, s.page("/services/default/a%252Fb"), "<h1 class=\"foreign\">a%2Fb</h1>")
	mustContain(t, s.page("/services/default/%C3%BC%20%3F&%23%25%3Cb%3E"), "&lt;b&gt;</h1>")
}

func TestAServiceIsSilencedOnItsPage(t *testing.T) {
	s := chainOfServices(t)
	const page = "/services/default/web"
	mustContain(t, s.page(page), `action="/silences"`, `name="back" value="`+page+`"`)
	done := s.post("/silences", url.Values{
		"environment": {"default"}, "service": {"web"}, "for": {"1h"}, "reason": {"new disk"}, "back": {page},
	})
	if got := done.Header.Get("Location"); got != page+"?done=added" {
		t.Fatalf("it leads to %q", got)
	}
	mustContain(t, s.page(page+"?done=added"), "Silenced: no cycle starts for it", "new disk", "End silence 1 now?")
	mustNotContain(t, s.page("/services/default/shop"), "new disk")
	ended := s.post("/silences/1/end", url.Values{"back": {page}})
	if got := ended.Header.Get("Location"); got != page+"?done=ended" {
		t.Fatalf("it leads to %q", got)
	}
	mustNotContain(t, s.page(page), "new disk")
	for _, back := range []string{"https://example.com/services/x", "//example.com/services/", "/login", ""} {
		away := s.post("/silences", url.Values{"service": {"web"}, "for": {"1h"}, "reason": {"x"}, "back": {back}})
		if got := away.Header.Get("Location"); got != "/silences?done=added" {
			t.Errorf("back %q leads to %q", back, got)
		}
	}
}

func TestBarsHaveOneHeightAndTellTheirError(t *testing.T) {
	s := newSite(t)
	end := s.Now
	s.Now = end.Add(-3 * time.Hour)
	s.Check("web", ops.Down, "connection refused")
	s.Now = end.Add(-time.Hour)
	s.Check("web", ops.Degraded, "slow <b>")
	s.Now = end
	s.Check("web", ops.Healthy, "")
	body := s.page("/services?range=24h")
	mustContain(t, body, "Down, 1 check, connection refused</title>", "Degraded, 1 check, slow &lt;b&gt;</title>", `fill="url(#hatch-warn)"`,
		`<pattern id="hatch-warn"`, `tabindex="0" role="group"`, "not checked</title>", `<td>connection refused</td>`)
	for _, part := range strings.Split(body, `class="health-bar `)[1:] {
		if !strings.Contains(body, `y="0"`) || strings.Contains(part[:60], `height="2"`) {
			t.Errorf("a bar differs: %s", part[:60])
		}
	}
	if got, want := strings.Count(body, `height="28" class="health-bar `), strings.Count(body, `class="health-bar `); got != want {
		t.Errorf("%d of %d bars have the full height", got, want)
	}
	if n := strings.Count(content(body), `tabindex="0"`); n != 2 { // the row of bars, and its table
		t.Errorf("%d stops of the Tab key", n)
	}
}
