package web_test

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/web"
	"claudeops/test/apitest"
)

func TestEmptyPagesSayWhatToDo(t *testing.T) {
	s := newSite(t)
	mustContain(t, s.page("/"), "No checks yet", "Run first check", `action="/run"`)
	mustContain(t, s.page("/sessions"), "No cycles yet")
	mustContain(t, s.page("/sessions?status=failed"), "No cycles match", "Clear filters")
}

func TestOverviewPutsFailingServicesOnTop(t *testing.T) {
	s := newSite(t, func(o *web.Options) {
		o.Environments[0].Policy.Inventory.Services = []ops.Service{{Name: "never-probed"}}
	})
	for _, c := range []ops.Check{
		{Service: "aaa-fine", Probe: "tcp a", Status: ops.Healthy},
		{Service: "zzz-down", Probe: "GET http://z/", Status: ops.Down, Error: "connection refused"},
		{Service: "mmm-slow", Probe: "GET http://m/", Status: ops.Degraded, Error: "slow"},
	} {
		c.At, c.Environment, c.Type, c.Purpose = s.Now, "default", ops.CheckHTTP, ops.ProbeObserve
		must(t, s.Store.Watch.AddChecks(t.Context(), []ops.Check{c}))
	}
	body := s.page("/")
	mustContain(t, body, "2 services need attention", "1 Down", "1 Degraded", "1 Healthy", "connection refused", "Never checked")
	last := -1
	for _, name := range []string{"zzz-down", "mmm-slow", "never-probed", "aaa-fine"} {
		at := strings.Index(body, ">"+name+"<")
		if at <= last {
			t.Errorf("%s stands at %d, behind %d was expected", name, at, last)
		}
		last = at
	}
}

func TestAServiceNotCheckedForLongIsUnknown(t *testing.T) {
	s := newSite(t)
	err := s.Store.Watch.AddChecks(t.Context(), []ops.Check{{
		At: s.Now, Environment: "default", Service: "grafana", Probe: "tcp g", Type: ops.CheckService,
		Status: ops.Healthy, Purpose: ops.ProbeObserve,
	}})
	must(t, err)
	mustContain(t, s.page("/"), "Everything is healthy")
	s.Now = s.Now.Add(4 * time.Hour)
	mustContain(t, s.page("/"), "1 service was not checked recently", "1 Stale", "4h ago")
}

func TestOverviewCallsForAPersonUntilALaterCycleEndsWell(t *testing.T) {
	s := newSite(t)
	id, _ := s.Chain(ops.NewCycle{}, ops.CycleNeedsHuman, "The disk must be replaced.")
	body := s.page("/")
	mustContain(t, body, `id="needs-you"`, fmt.Sprintf("C-%d", id), "The disk must be replaced.")
	s.Chain(ops.NewCycle{}, ops.CycleHealthy, "fine")
	mustNotContain(t, s.page("/"), `id="needs-you"`)
}

func TestOverviewShowsNextCheckAndTodaysCost(t *testing.T) {
	s := newSite(t, func(o *web.Options) {
		o.Environments[0].Policy.BudgetDayUSD = 25
		o.NextCheck = func() map[string]time.Time {
			return map[string]time.Time{"default": time.Date(2026, 11, 14, 14, 30, 0, 0, time.UTC)}
		}
	})
	s.threeTiers()
	mustContain(t, s.page("/"), `datetime="2026-11-14T14:30:00Z"`, ">14:30:00<", "$0.83", "of $25.00", "Resolved", "Tier 3 repaired jellyfin.")
}

func TestPagesFollowTheJournalWithoutReloading(t *testing.T) {
	s := newSite(t)
	_, ids := s.threeTiers()
	ended := fmt.Sprintf("/sessions/%d", ids[0])
	for _, path := range []string{"/", "/sessions"} {
		mustContain(t, s.page(path), `hx-sse:connect="/stream?seen=`, `hx-get="`+path+`" hx-trigger="changed from:#live`)
	}
	mustContain(t, s.page(ended), `hx-sse:connect="/stream"`)
	_, ids = s.Chain(ops.NewCycle{}, ops.CycleRunning, "", apitest.Run{Tier: 1, For: time.Second, Status: ops.SessionRunning})
	running := fmt.Sprintf("/sessions/%d", ids[0])
	mustContain(t, s.page(running), `hx-sse:connect="`+running+`/stream?after=0&amp;seen=`, "Waiting for the first output…", "Not known yet",
		"Stop session", "Keep running", `action="`+running+`/stop"`)
	mustNotContain(t, s.page(ended), `hx-trigger="changed`, "Keep running")
	for _, path := range []string{"/", "/sessions", running, ended} {
		mustNotContain(t, s.page(path), "http-equiv")
	}
}

func TestErrorPagesDoNotFollowAnything(t *testing.T) {
	mustNotContain(t, newSite(t).get("/nope").body, "hx-sse:connect")
}

func TestSessionPageTellsWhyItStopped(t *testing.T) {
	s := newSite(t)
	_, ids := s.Chain(ops.NewCycle{Trigger: ops.TriggerManual}, ops.CycleFailed, "Tier 1 ran too long.",
		apitest.Run{
			Tier: 1, Model: "haiku", For: 30 * time.Minute, Status: ops.SessionTimedOut, Stop: ops.StopWall,
			Error: "stopped after 30m0s", Exit: ops.Ptr(143),
		})
	mustContain(t, s.page(fmt.Sprintf("/sessions/%d", ids[0])),
		"Timed out", "It exceeded the maximum session time.", "stopped after 30m0s", "143", "haiku", "Manual run", "30m 00s")
}

func TestSessionPageShowsTheDecisionAndTheHandoff(t *testing.T) {
	s := newSite(t)
	_, ids := s.threeTiers()
	mustContain(t, s.page(fmt.Sprintf("/sessions/%d", ids[0])),
		"Tier 1 handed jellyfin to Tier 2.", "Source handler", "Target handler", "1 of 2", "Target validated",
		"Self-escalation rejected", "typed_handoff", "Manager present", "tier1 → tier2",
		"&#34;services_affected&#34;: [\n    &#34;jellyfin&#34;\n  ]")
}

func TestTokensAreShownWithTheCachedOnes(t *testing.T) {
	s := newSite(t)
	f := figures(0.02, 4, 900)
	f.InputTokens, f.OutputTokens, f.CacheReadTokens = ops.Ptr[int64](1204), ops.Ptr[int64](2310), ops.Ptr[int64](1045120)
	_, ids := s.Chain(ops.NewCycle{}, ops.CycleHealthy, "fine", apitest.Run{Tier: 1, For: time.Second, Figures: f})
	mustContain(t, s.page(fmt.Sprintf("/sessions/%d", ids[0])), "1,204 in · 2,310 out · 1,045,120 cached")
}

func TestSessionsArePagedByCycle(t *testing.T) {
	s := newSite(t)
	for range 30 {
		s.Chain(ops.NewCycle{}, ops.CycleHealthy, "fine")
	}
	first := s.page("/sessions")
	mustContain(t, first, ">C-30<", ">C-11<", `href="/sessions?cursor=11"`)
	mustNotContain(t, first, ">C-10<", "Newest")
	second := s.page("/sessions?cursor=11")
	mustContain(t, second, ">C-10<", ">C-1<", "Newest")
	mustNotContain(t, second, ">C-11<", "Older")
	if got := s.get("/sessions?cursor=x").StatusCode; got != http.StatusNotFound {
		t.Errorf("a nonsense cursor gives %d", got)
	}
}

func TestRunNowSaysWhatIsHeldBack(t *testing.T) {
	s := newSite(t)
	_, err := s.Store.Watch.AddSilence(t.Context(), ops.Silence{
		Service: "web", Reason: "new disk", Author: "ann", CreatedAt: s.Now, From: s.Now, Until: s.Now.Add(time.Hour),
	})
	must(t, err)
	a := s.do(form(t, "/run", nil))
	mustContain(t, s.page(a.Header.Get("Location")), "Cycle C-1 is queued.", "Agents change nothing where this holds: service web: silenced by ann until",
		"new disk.")
}

func TestRunNowSubmitsAManualCycle(t *testing.T) {
	s := newSite(t)
	a := s.do(form(t, "/run", nil))
	if a.StatusCode != http.StatusSeeOther {
		t.Fatalf("status %d", a.StatusCode)
	}
	if len(s.control.Submitted) != 1 {
		t.Fatalf("submitted %v", s.control.Submitted)
	}
	if n := s.control.Submitted[0]; n.Environment != "default" || n.Trigger != ops.TriggerManual || n.Options.MaxTier != 0 {
		t.Errorf("submitted %+v", n)
	}
	body := s.page(a.Header.Get("Location"))
	mustContain(t, body, "Cycle C-1 is queued.")
	mustNotContain(t, body, "Agents change nothing")
	s.do(form(t, "/run", url.Values{"prompt": {" look at jellyfin "}, "max_tier": {"2"}, "dry_run": {"1"}}))
	if n := s.control.Submitted[1]; n.Prompt != "look at jellyfin" || n.Options.MaxTier != ops.Tier2 || !n.Options.DryRun {
		t.Errorf("submitted %+v", n)
	}
	for _, bad := range []url.Values{{"max_tier": {"4"}}, {"max_tier": {"x"}}, {"prompt": {strings.Repeat("x", 20_001)}}} {
		if got := s.do(form(t, "/run", bad)).StatusCode; got != http.StatusUnprocessableEntity {
			t.Errorf("%v gives %d", bad, got)
		}
	}
	if got := s.do(form(t, "/run", url.Values{"environment": {"nope"}})).StatusCode; got != http.StatusUnprocessableEntity {
		t.Errorf("an unknown environment gives %d", got)
	}
}

func TestStopEndsTheCycleOfARunningSession(t *testing.T) {
	s := newSite(t)
	_, done := s.threeTiers()
	cycle, ids := s.Chain(ops.NewCycle{}, ops.CycleRunning, "", apitest.Run{Tier: 1, For: time.Second, Status: ops.SessionRunning})
	if got := s.do(form(t, fmt.Sprintf("/sessions/%d/stop", ids[0]), nil)).StatusCode; got != http.StatusSeeOther {
		t.Fatalf("status %d", got)
	}
	if len(s.control.Cancelled) != 1 || s.control.Cancelled[0] != cycle {
		t.Errorf("cancelled %v, want %d", s.control.Cancelled, cycle)
	}
	if got := s.do(form(t, fmt.Sprintf("/sessions/%d/stop", done[0]), nil)).StatusCode; got != http.StatusConflict {
		t.Errorf("stopping an ended session gives %d", got)
	}
}

func TestThemeIsKeptInACookie(t *testing.T) {
	s := newSite(t)
	a := s.do(form(t, "/theme", url.Values{"theme": {"dark"}, "back": {"/sessions?status=failed"}}))
	if a.Header.Get("Location") != "/sessions?status=failed" {
		t.Errorf("goes on to %q", a.Header.Get("Location"))
	}
	r := form(t, "/theme", nil)
	r.Method, r.URL.Path = http.MethodGet, "/"
	for _, c := range a.Cookies() {
		r.AddCookie(c)
	}
	mustContain(t, s.do(r).body, `data-theme="dark"`, `name="color-scheme" content="dark"`)
	for _, elsewhere := range []string{"https://evil.example/", "//evil.example", "/\\evil.example", "javascript:alert(1)", ""} {
		a := s.do(form(t, "/theme", url.Values{"theme": {"light"}, "back": {elsewhere}}))
		if a.Header.Get("Location") != "/" {
			t.Errorf("%q sends the visitor to %q", elsewhere, a.Header.Get("Location"))
		}
	}
}

func TestErrorPagesStandInTheSameShell(t *testing.T) {
	s := newSite(t)
	for path, status := range map[string]int{
		"/nope": http.StatusNotFound, "/sessions/99": http.StatusNotFound, "/sessions/x": http.StatusNotFound,
		"/run": http.StatusMethodNotAllowed,
	} {
		a := s.get(path)
		if a.StatusCode != status {
			t.Errorf("%s: status %d, want %d", path, a.StatusCode, status)
		}
		mustContain(t, a.body, `<a class="skip"`, `<main id="main"`, `role="alert"`)
	}
}

func TestSessionsAreFilteredByTheAddress(t *testing.T) {
	s := newSite(t)
	chain, ids := s.threeTiers()
	alone, _ := s.Chain(ops.NewCycle{Trigger: ops.TriggerManual, Prompt: "look at 100% of grafana"}, ops.CycleFailed, "It broke.",
		apitest.Run{Tier: 1, For: time.Second, Events: []ops.Event{{Level: ops.LevelInfo, Verb: ops.VerbProbeFailed, Service: "grafana", Reason: "down"}}})
	s.Now = s.Now.Add(2 * time.Hour)
	young, _ := s.Chain(ops.NewCycle{}, ops.CycleHealthy, "fine")
	name := func(id ops.CycleID) string { return fmt.Sprintf(">C-%d<", id) }
	for query, want := range map[string][]ops.CycleID{
		"tier=3": {chain}, "tier=1": {chain, alone}, "trigger=manual": {alone}, "status=failed": {alone}, "service=grafana": {alone},
		"q=GRAFANA": {alone}, "q=100%25+of": {alone}, "q=1_0%25": {}, "q=broke": {alone}, "range=1h": {young}, "range=24h": {chain, alone, young},
		"trigger=manual&tier=2": {}, "environment=default": {chain, alone, young}, "environment=other": {},
	} {
		body := s.page("/sessions?" + query)
		for _, id := range []ops.CycleID{chain, alone, young} {
			if shown := strings.Contains(body, name(id)); shown != slices.Contains(want, id) {
				t.Errorf("%s: C-%d is shown: %t", query, id, shown)
			}
		}
		mustContain(t, body, "Clear filters")
	}
	if got := s.get(fmt.Sprintf("/sessions?q=%%23%d", ids[1])).Header.Get("Location"); got != fmt.Sprintf("/sessions/%d", ids[1]) {
		t.Errorf("a search for a session leads to %q", got)
	}
	if got := s.get("/sessions?q=c-1").Header.Get("Location"); got != "/cycles/1" {
		t.Errorf("a search for a chain leads to %q", got)
	}
}

func TestEveryPageSaysWhyNoSessionIsStarted(t *testing.T) {
	trouble := "only 3 MB are free in <state>"
	s := newSite(t, func(o *web.Options) { o.Trouble = func() string { return trouble } })
	for _, path := range []string{"/", "/sessions", "/incidents", "/services", "/config"} {
		if body := s.get(path).body; !strings.Contains(body, `class="flash trouble" role="alert"`) || !strings.Contains(body,
			"only 3 MB are free in &lt;state&gt;") {
			t.Errorf("%s does not say it", path)
		}
	}
	trouble = ""
	if body := s.get("/").body; strings.Contains(body, "flash trouble") {
		t.Error("it is said although nothing is wrong")
	}
}
