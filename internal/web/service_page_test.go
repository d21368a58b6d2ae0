package web_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	signed "claudeops/internal/notice/answer"
	"claudeops/internal/ops"
	"claudeops/internal/store"
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
	state := ops.CheckState{Service: "web", Probe: "GET http://web/", Level: ops.Down, Since: s.Now}
	must(t, s.Store.Watch.RecordResults(t.Context(), "default", nil, nil, []ops.CheckState{state}, nil, nil))
	incident := s.breaks("web", "The port is closed.")
	restarted(t, s, "web")
	_, err := s.Store.People.AddMemory(t.Context(), ops.Memory{
		Environment: "default", Service: "web", Category: "timing", Observation: "It starts slowly.", Confidence: 0.7, Source: "operator",
	})
	must(t, err)
	s.Now = end
	body := s.page("/services/default/web?range=24h")
	mustContain(t, body, "Down", "since <time", "connection refused", "web is down: handed to a person",
		"Health of web in the last 24 hours", "Response time of web in the last 24 hours", "p95",
		fmt.Sprintf(`href="/incidents/%d">The port is closed.`, incident.ID), "restart</span> 0 of 2 left", "/services/cooldown?action=restart",
		"Run restart of web?", "It starts slowly.", "Depends on", "Needed by", `href="/services/default/db"`, `href="/services/default/shop"`,
		`id="fold-history" open>`, "Group front", "nightly", "sun 02:00 for 1 h, Europe/Berlin", "Silence web?", fmt.Sprintf("C-%d", incident.FirstCycle))
	mustNotContain(t, body, "elsewhere", "style=")
	mustContain(t, s.page("/services/default/web"), `id="fold-history">`) // one screen, unless its past is asked for
	if n := strings.Count(body, `class="health-bar `); n != 25 {
		t.Errorf("%d bars are drawn", n)
	}
	mustNotContain(t, s.page("/services/default/web?range=30d"), "Response time of web") // two points are no chart
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
	s.Now = end.Add(-12 * time.Hour)
	s.Check("web", ops.Down, "connection refused")
	s.Now = end.Add(-time.Hour)
	s.Check("web", ops.Degraded, "slow <b>")
	s.Now = end
	s.Check("web", ops.Healthy, "")
	body := s.page("/services?range=24h")
	mustContain(t, body, "Down, 1 check, connection refused</title>", "Degraded, 1 check, slow &lt;b&gt;</title>", `fill="url(#hatch-warn)"`,
		`<pattern id="hatch-warn"`, `tabindex="0" role="group"`, "not checked</title>")
	for _, part := range strings.Split(body, `class="health-bar `)[1:] {
		if !strings.Contains(body, `y="0"`) || strings.Contains(part[:60], `height="2"`) {
			t.Errorf("a bar differs: %s", part[:60])
		}
	}
	if got, want := strings.Count(body, `height="28" class="health-bar `), strings.Count(body, `class="health-bar `); got != want {
		t.Errorf("%d of %d bars have the full height", got, want)
	}
	if n := strings.Count(content(body), `tabindex="0"`); n != 1 { // the row of bars
		t.Errorf("%d stops of the Tab key", n)
	}
}

func TestServicesPageSaysWhereServicesComeFrom(t *testing.T) {
	s := newSite(t)
	mustContain(t, s.page("/services"), "No services yet", `href="/config?q=services"`)
}

func TestHealthBarsShowTheWorstOfEachBucket(t *testing.T) {
	s := newSite(t)
	end := s.Now
	for hour, status := range []ops.Health{ops.Healthy, ops.Degraded, ops.Down, ops.Healthy} {
		s.Now = end.Add(time.Duration(4*hour-12) * time.Hour)
		s.Check("jellyfin", ops.Healthy, "")
		s.Check("jellyfin", status, "HTTP 502")
	}
	s.Now = end
	body := s.page("/services")
	mustContain(t, body, "Health of jellyfin in the last 24 hours", "87.5 %", `class="health-bar tone-bad"`,
		`class="health-bar tone-warn"`, `class="health-bar tone-ok"`, "Degraded, 2 checks", "not checked", "Checked <time")
	if got := strings.Count(body, `class="health-bar `); got != 13 { // the axis begins where the results do
		t.Errorf("%d bars are drawn", got)
	}
	mustContain(t, s.page("/services?range=90d"), "Its last results") // too few for a picture
	s.Now = end.Add(25 * time.Hour)
	s.Check("jellyfin", ops.Healthy, "")
	mustContain(t, s.page("/services"), "Health of jellyfin in the last 7 days")
	s.Now = end.Add(12 * 24 * time.Hour)
	s.Check("jellyfin", ops.Healthy, "")
	mustContain(t, s.page("/services?range=30d"), "Health of jellyfin in the last 30 days")
	s.Now = end
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
	mustContain(t, s.page("/services"), "2 Stale", "Last checked <time")
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

func TestThePageOfAServiceShowsAndChangesItsTrust(t *testing.T) {
	s := newSite(t, func(o *web.Options) {
		o.Environments[0].Policy.Trust = ops.TrustRepair
		o.Environments[0].Policy.Inventory.Services = []ops.Service{{Name: "web"}}
	})
	change := func(level string) int {
		return s.post("/services/trust", url.Values{"environment": {"default"}, "service": {"web"}, "level": {level}, "reason": {"it is new"}}).StatusCode
	}
	if got := change("full"); got != http.StatusUnprocessableEntity {
		t.Errorf("raised above the configuration: %d", got)
	}
	if got := change("ask"); got != http.StatusSeeOther {
		t.Errorf("lowered: %d", got)
	}
	text := s.get("/services/default/web").body
	for _, want := range []string{"<strong>ask</strong>", "of repair", "Every repair starts after approval.", "it is new", "Raise to repair", "Lower to suggest", "0 proposed, 0 approved"} {
		if !strings.Contains(text, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
}

func TestThePageOfAServiceUpdatesIt(t *testing.T) {
	s := newSite(t, func(o *web.Options) {
		o.Environments[0].Policy.Inventory.Services = []ops.Service{
			{Name: "web", Probed: true, Actions: []ops.ActionSpec{{Service: "web", Name: "redeploy", Kind: ops.ActionRedeploy}}}, {Name: "plain"},
		}
	})
	ctx := t.Context()
	err := s.Store.Acts.SeeVersion(ctx, ops.Version{
		Environment: "default", Service: "web", Image: ops.Image{Ref: "web:1", Digest: "sha256:aaaa", ID: "a"}, Newest: "sha256:bbbb", At: s.Now,
	})
	must(t, err)
	mustContain(t, s.get("/services/default/web").body, "web:1 (sha256:aaaa)", "There is a newer one.", "Update web?")
	if body := s.get("/services/default/plain").body; strings.Contains(body, "its-image") {
		t.Error("a service without a compose file has an image")
	}
	form := url.Values{"environment": {"default"}, "service": {"web"}, "to": {""}}
	if got := s.post("/services/update", form); got.StatusCode != http.StatusSeeOther {
		t.Fatalf("%d %s", got.StatusCode, got.body)
	}
	body := s.get("/services/default/web").body
	mustContain(t, body, "<strong>asked</strong>")
	if strings.Contains(body, "Update web?") {
		t.Error("it can be asked for twice")
	}
	if got := s.post("/services/update", form); got.StatusCode != http.StatusConflict {
		t.Errorf("twice: %d", got.StatusCode)
	}
}

// An update that could not be taken back opens an incident without a cycle.
func TestTheIncidentOfAnUpdateNamesNoCycle(t *testing.T) {
	s := newSite(t)
	ctx := t.Context()
	u, err := s.Store.Acts.AskUpdate(ctx, ops.Update{Environment: "default", Service: "web", Person: "ada"}, s.Now)
	must(t, err)
	owner, err := s.Store.Journal.RegisterHost(ctx, "attic")
	must(t, err)
	u.Phase, u.PhaseAt, u.Kept, u.Result = ops.UpdateStuck, s.Now, "claudeops/kept/web:1", "worse than before: web"
	must(t, s.Store.Acts.AdvanceUpdate(ctx, owner, u, ops.UpdateAsked, 0))
	body := s.get("/incidents/1").body
	mustContain(t, body, "web is broken after its update", "worse than before: web", "claudeops/kept/web:1")
	for _, path := range []string{"/incidents/1", "/incidents", "/"} {
		if got := s.get(path); got.StatusCode != http.StatusOK || strings.Contains(got.body, "C-0") {
			t.Errorf("%s: %d names a cycle", path, got.StatusCode)
		}
	}
}

func TestThePageOfAServiceAsksForItsReflex(t *testing.T) {
	s := newSite(t, func(o *web.Options) {
		o.Environments[0].Policy.Inventory.Services = []ops.Service{{Name: "web", Actions: []ops.ActionSpec{{Service: "web", Name: "restart", Kind: ops.ActionRestart, Container: "web"}}}}
	})
	s.Earn("default", "web")
	shows := func(wanted ...string) {
		t.Helper()
		text := s.get("/services/default/web").body
		for _, want := range wanted {
			if !strings.Contains(text, want) {
				t.Errorf("the page does not say %q", want)
			}
		}
	}
	shows("Make this a reflex?", "web is down for its probe GET / (5xx).", `href="/cycles/3"`, "docker restart web", "Make it a reflex", ">No<")
	if got := s.post("/reflexes/1/enable", url.Values{"reason": {"it helps"}}).StatusCode; got != http.StatusSeeOther {
		t.Fatalf("yes: %d", got)
	}
	shows("<strong>on</strong>", "it helps", "Done 0 times, helped 0 times.", "Switch off")
	if got := s.post("/reflexes/1/enable", nil).StatusCode; got != http.StatusConflict {
		t.Errorf("twice: %d", got)
	}
	if got := s.post("/reflexes/1/disable", nil).StatusCode; got != http.StatusSeeOther {
		t.Errorf("off: %d", got)
	}
	shows("<strong>off</strong>")
	if got := s.post("/reflexes/9/enable", nil).StatusCode; got != http.StatusNotFound {
		t.Errorf("unknown: %d", got)
	}
}

// The link of a no works with its button; that of a yes leads to the page of the service, where the role decides.
func TestALinkAnswersWhetherARepairBecomesAReflex(t *testing.T) {
	s := newSite(t, withToken("secret"), func(o *web.Options) {
		o.Environments[0].Policy.Inventory.Services = []ops.Service{{Name: "web", Actions: []ops.ActionSpec{{Service: "web", Name: "restart", Kind: ops.ActionRestart, Container: "web"}}}}
	})
	s.Earn("default", "web")
	yes := s.link(signed.Token{Subject: signed.Subject{Kind: signed.KindReflex, ID: 1}, Decision: signed.Approve})
	mustContain(t, s.get(yes).body, "Make this a reflex? restart of web", "docker restart web", "/login?next=%2fservices%2fdefault%2fweb")
	if got := s.confirm(yes).StatusCode; got != http.StatusForbidden {
		t.Errorf("yes by the link alone: %d", got)
	}
	no := s.link(signed.Token{Subject: signed.Subject{Kind: signed.KindReflex, ID: 1}, Decision: signed.Deny})
	if got := s.confirm(no); got.StatusCode != http.StatusOK {
		t.Errorf("no: %d %s", got.StatusCode, head(got.body))
	}
	if got := s.get(yes).StatusCode; got != http.StatusConflict {
		t.Errorf("answered: %d", got)
	}
	if got := s.get(s.link(signed.Token{Subject: signed.Subject{Kind: signed.KindReflex, ID: 9}, Decision: signed.Deny})).StatusCode; got != http.StatusNotFound {
		t.Errorf("unknown: %d", got)
	}
	if r, err := s.Store.People.Reflex(t.Context(), 1); err != nil || r.State != ops.ReflexIsOff || r.Person != "link to route mail" {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestJobsCallTheirHeartbeat(t *testing.T) {
	s := newSite(t, func(o *web.Options) {
		o.Redact = func(text string) string { return strings.ReplaceAll(text, "hunter2", "[redacted]") }
	})
	beat := ops.Heartbeat{Environment: "default", Service: "backup", Probe: "heartbeat"}
	token, err := s.Store.Watch.AddressHeartbeat(t.Context(), beat, "ann", s.Now)
	must(t, err)
	s.token = "" // jobs have none
	call := func(method, path, body string) answer {
		return s.do(httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body)))
	}
	known := func() ops.Heartbeat {
		t.Helper()
		found, err := s.Store.Watch.HeartbeatsOf(t.Context(), "default", "backup")
		if err != nil || len(found) != 1 {
			t.Fatal(found, err)
		}
		return found[0]
	}
	address := "/ping/" + token
	if got := call("HEAD", address+"/start", ""); got.StatusCode != http.StatusOK || known().StartedAt == nil {
		t.Errorf("start: %d, %+v", got.StatusCode, known())
	}
	if got := call("GET", address, ""); got.StatusCode != http.StatusOK || got.body != "OK\n" || known().EndedAt == nil || known().Failed {
		t.Errorf("success: %d %q, %+v", got.StatusCode, got.body, known())
	}
	call("POST", address+"/3", "login with hunter2\ndisk full\n")
	if got := known(); !got.Failed || got.Exit != 3 || got.Output != "login with [redacted]\ndisk full" {
		t.Errorf("exit code: %+v", got)
	}
	mustContain(t, call("GET", "/services/default/backup", "").Header.Get("Location"), "/login")
	s.token = "secret"
	call("POST", address+"/fail", strings.Repeat("x", 2<<20)+"\nthe end") // longer than is read
	if got := known(); !got.Failed || got.Exit != 0 || len(got.Output) > 9<<10 || !strings.HasPrefix(got.Output, "…xxx") {
		t.Errorf("fail: %+v", len(got.Output))
	}
	call("POST", address+"/1", strings.Repeat("x", 500<<10)+"\nthe end")
	if got := known(); len(got.Output) > 9<<10 || !strings.HasSuffix(got.Output, "xxx\nthe end") {
		t.Errorf("of a long output %d bytes are kept", len(got.Output))
	}
	call("POST", address+"/0", "")
	if got := known(); got.Failed || got.Output != "" {
		t.Errorf("exit code 0: %+v", got)
	}
	for _, end := range []string{"/256", "/-1", "/starts", "/fail/1"} {
		if got := call("POST", address+end, ""); got.StatusCode != http.StatusBadRequest || known().Failed {
			t.Errorf("%s: %d", end, got.StatusCode)
		}
	}
	if got := call("DELETE", address, ""); got.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("DELETE: %d", got.StatusCode)
	}
}

func TestWrongTokensOfHeartbeatsLearnNothing(t *testing.T) {
	s := newSite(t)
	beat := ops.Heartbeat{Environment: "default", Service: "backup", Probe: "heartbeat"}
	old, err := s.Store.Watch.AddressHeartbeat(t.Context(), beat, "ann", s.Now)
	must(t, err)
	token, err := s.Store.Watch.AddressHeartbeat(t.Context(), beat, "ann", s.Now)
	must(t, err)
	s.token = ""
	call := func(path string) answer {
		return s.do(httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, nil))
	}
	first := call("/ping/" + old)
	if first.StatusCode != http.StatusNotFound || strings.Contains(first.body, "claudeops_") {
		t.Fatalf("%d %s", first.StatusCode, first.body)
	}
	for _, path := range []string{"/ping/", "/ping/x", "/ping/" + old + "/start", "/ping/" + old + "/999", "/ping//fail", "/ping/" + strings.ToLower(token)} {
		if got := call(path); got.StatusCode != first.StatusCode || got.body != first.body {
			t.Errorf("%s: %d %s", path, got.StatusCode, got.body)
		}
	}
	limited := first
	for range 20 {
		limited = call("/ping/" + old)
	}
	if limited.StatusCode != http.StatusTooManyRequests || limited.Header.Get("Retry-After") == "" {
		t.Errorf("after many wrong tokens: %d", limited.StatusCode)
	}
	if got := call("/ping/" + token); got.StatusCode != http.StatusOK {
		t.Errorf("wrong tokens lock out the right one: %d", got.StatusCode)
	}
	events, err := s.Store.Journal.Events(t.Context(), store.EventFilter{Limit: 100})
	if err != nil || len(events) == 0 {
		t.Fatal(err)
	}
	for _, e := range events {
		mustNotContain(t, e.Message.Words(), old, token)
	}
}

func TestTheServicePageShowsTheCallsOfItsJob(t *testing.T) {
	s := newSite(t, func(o *web.Options) {
		o.Environments[0].Policy.Inventory.Services = []ops.Service{{Name: "backup"}}
	})
	beat := ops.Heartbeat{Environment: "default", Service: "backup", Probe: "heartbeat"}
	page := func() string { return s.get("/services/default/backup").body }
	must(t, s.Store.Watch.AddHeartbeats(t.Context(), "default", []ops.Heartbeat{beat}))
	mustContain(t, page(), "claudeops services heartbeat")
	if _, err := s.Store.Watch.AddressHeartbeat(t.Context(), beat, "ann", s.Now); err != nil {
		t.Fatal(err)
	}
	mustContain(t, page(), "no call yet")
	must(t, s.Store.Watch.Ping(t.Context(), beat, ops.Ping{Failed: true, Exit: 3, Output: "copying <b>\ndisk full", At: s.Now}))
	mustContain(t, page(), "failed with exit code 3", "<pre>copying &lt;b&gt;\ndisk full</pre>")
}

func TestPagesSayWhatChanged(t *testing.T) {
	s := newSite(t, func(o *web.Options) {
		o.Environments[0].Policy.Inventory.Services = []ops.Service{{Name: "web"}}
	})
	change := ops.Change{Kind: ops.ChangeContainer, Subject: "web", Service: "web", Text: "image <b> → c", At: s.Now, NotBefore: s.Now}
	must(t, s.Store.Watch.RecordLook(t.Context(), "default", "attic", ops.Look{Changes: []ops.Change{change}}, s.Now))
	s.Repair("web")
	for _, path := range []string{"/services/default/web", "/incidents/1"} {
		text := s.get(path).body
		if !strings.Contains(text, "What changed") || !strings.Contains(text, "image &lt;b&gt; → c") || !strings.Contains(text, "attic") {
			t.Errorf("%s does not say it", path)
		}
	}
}
