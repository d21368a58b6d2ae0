package web_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"claudeops/internal/api/apitest"
	"claudeops/internal/ops"
	"claudeops/internal/web"
)

func TestEmptyPagesSayWhatToDo(t *testing.T) {
	s := newSite(t)
	mustContain(t, s.page("/"), "No checks yet", "Run first check", `action="/run"`)
	mustContain(t, s.page("/sessions"), "No sessions yet")
	mustContain(t, s.page("/sessions?status=failed"), "No sessions match", "Clear filters")
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
		if err := s.Store.AddChecks(t.Context(), []ops.Check{c}); err != nil {
			t.Fatal(err)
		}
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
	err := s.Store.AddChecks(t.Context(), []ops.Check{{
		At: s.Now, Environment: "default", Service: "grafana", Probe: "tcp g", Type: ops.CheckService,
		Status: ops.Healthy, Purpose: ops.ProbeObserve,
	}})
	if err != nil {
		t.Fatal(err)
	}
	mustContain(t, s.page("/"), "Everything is healthy")
	s.Now = s.Now.Add(4 * time.Hour)
	mustContain(t, s.page("/"), "1 service was not checked lately", "1 Unknown", "4h ago")
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
	mustContain(t, s.page("/"), `datetime="2026-11-14T14:30:00Z"`, ">14:30<", "$0.83", "of $25.00", "Resolved", "Tier 3 repaired jellyfin.")
}

func TestPagesReloadOnlyWhileSomethingRuns(t *testing.T) {
	s := newSite(t)
	_, ids := s.threeTiers()
	ended := fmt.Sprintf("/sessions/%d", ids[0])
	for _, path := range []string{"/", "/sessions", ended} {
		mustNotContain(t, s.page(path), "http-equiv")
	}
	_, ids = s.Chain(ops.NewCycle{}, ops.CycleRunning, "", apitest.Run{Tier: 1, For: time.Second, Status: ops.SessionRunning})
	running := fmt.Sprintf("/sessions/%d", ids[0])
	for _, path := range []string{"/", "/sessions", running} {
		mustContain(t, s.page(path), `http-equiv="refresh" content="5; url=`+path+`"`)
	}
	mustContain(t, s.page(running), "Waiting for the first output…", "Not yet", running+"?ask=stop")
	mustNotContain(t, s.page(ended), "http-equiv", "ask=stop")
	asked := s.page(running + "?ask=stop")
	mustContain(t, asked, "Stop session", "Keep running", `action="`+running+`/stop"`)
	mustNotContain(t, asked, "http-equiv")
	mustNotContain(t, s.page(ended+"?ask=stop"), "Stop session")
}

func TestSessionPageTellsWhyItStopped(t *testing.T) {
	s := newSite(t)
	_, ids := s.Chain(ops.NewCycle{Trigger: ops.TriggerManual}, ops.CycleFailed, "Tier 1 ran too long.",
		apitest.Run{
			Tier: 1, Model: "haiku", For: 30 * time.Minute, Status: ops.SessionTimedOut, Stop: ops.StopWall,
			Error: "stopped after 30m0s", Exit: ops.Ptr(143),
		})
	mustContain(t, s.page(fmt.Sprintf("/sessions/%d", ids[0])),
		"Timed out", "It ran longer than a session may.", "stopped after 30m0s", "143", "haiku", "Run by hand", "30m 00s")
}

func TestSessionPageShowsTheDecisionAndTheHandoff(t *testing.T) {
	s := newSite(t)
	_, ids := s.threeTiers()
	mustContain(t, s.page(fmt.Sprintf("/sessions/%d", ids[0])),
		"tier1 handed jellyfin to tier2.", "Source handler", "Target handler", "1 of 2", "Target validated",
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
	mustContain(t, first, ">C-30<", ">C-6<", `href="/sessions?cursor=6"`)
	mustNotContain(t, first, ">C-5<", "Newest")
	second := s.page("/sessions?cursor=6")
	mustContain(t, second, ">C-5<", ">C-1<", "Newest")
	mustNotContain(t, second, ">C-6<", "Older")
	if got := s.get("/sessions?cursor=x").StatusCode; got != http.StatusNotFound {
		t.Errorf("a nonsense cursor gives %d", got)
	}
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
	mustContain(t, s.page(a.Header.Get("Location")), "Cycle C-1 is queued.")
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
