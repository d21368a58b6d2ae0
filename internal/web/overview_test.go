package web_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"claudeops/internal/api"
	"claudeops/internal/ops"
	"claudeops/internal/web"
	"claudeops/test/apitest"
)

func TestOverviewListsOnlyWhatNobodyHasTaken(t *testing.T) {
	s := newSite(t)
	// A cycle that ended with a call for somebody is over for the overview as soon as somebody has taken it.
	id := s.ends("paperless", "The disk is full.")
	mustContain(t, s.page("/"), "Needs you", "The disk is full.")
	if _, err := s.Store.People.Acknowledge(t.Context(), id, "alice", "", s.Now); err != nil {
		t.Fatal(err)
	}
	mustNotContain(t, content(s.page("/")), `id="needs-you"`)
	s.ends("grafana", "The certificate is too old.")
	body := content(s.page("/"))
	mustContain(t, body, `id="needs-you"`, "1 incident", "The certificate is too old.")
	mustNotContain(t, body, fmt.Sprintf("<strong>C-%d</strong>", 1))
}

// ends lets a cycle end with a call for a person, and returns the incident.
func (s *site) ends(service, text string) int64 {
	s.t.Helper()
	s.Await(ops.NewCycle{}, guarded(), ops.Step{
		Kind: ops.StepFinish, Status: ops.CycleNeedsHuman, Reason: text,
		Incident: reported(service, text),
	},
		apitest.Run{Tier: 1, Outcome: ops.OutcomeNeedsHuman})
	return s.newestIncident().ID
}

// down is a service that failed all its checks, with its cause and the cycle of it.
func (s *site) down(service, message string) ops.CycleID {
	s.t.Helper()
	s.Check(service, ops.Down, message)
	got, _, err := s.Store.Watch.OpenCause(s.t.Context(), ops.Cause{
		Key: service, Environment: "default", Services: []string{service}, Level: ops.Down, Reason: service + " is down.", Began: s.Now, At: s.Now,
	}, ops.NewCycle{Environment: "default", Trigger: ops.TriggerProbe, At: s.Now}, nil, nil, s.Now)
	must(s.t, err)
	return got.Cycle
}

func TestOverviewSaysWhatIsBeingDone(t *testing.T) {
	s := newSite(t)
	s.down("web", "HTTP 502")
	s.Now = s.Now.Add(40 * time.Second)
	body := content(s.page("/"))
	mustContain(t, body, `id="now"`, "web is down: C-1 is queued for ", `data-since="2026-11-14T13:41:00Z">40s<`)
	mustNotContain(t, body, `id="ahead"`)
}

func TestOverviewSaysWhatComesNext(t *testing.T) {
	s := newSite(t)
	check := ops.Check{
		At: s.Now, Environment: "default", Purpose: ops.ProbeWatch, Service: "web", Probe: "http", Type: "http", Status: ops.Down, Error: "x",
	}
	state := ops.CheckState{Service: "web", Probe: "http", Level: ops.Healthy, Last: check, Bad: 2, FailAfter: 3}
	must(t, s.Store.Watch.RecordResults(t.Context(), "default", []ops.Check{check}, nil, []ops.CheckState{state}, nil, nil))
	before := s.seen()
	onHold := []ops.Withheld{{Service: "web", Why: ops.HoldUnsettled, Reason: "2 of 3"}}
	must(t, s.Store.Watch.SaveWithheld(t.Context(), "default", onHold))
	mustContain(t, content(s.page("/")), `id="ahead"`, "web: 2 of 3 failed checks, a cycle starts after the next")
	if s.seen() == before {
		t.Error("open pages are not told that another check failed")
	}
}

// seen is the revision of the overview.
func (s *site) seen() string {
	_, rest, _ := strings.Cut(s.page("/"), "/stream?seen=")
	seen, _, _ := strings.Cut(rest, `"`)
	return seen
}

func TestBannersComeAndGoWithTheirReason(t *testing.T) {
	trouble := ""
	s := newSite(t, func(o *web.Options) {
		o.Trouble = func() string { return trouble }
		o.Walls = func() []web.Wall { return []web.Wall{{Name: "seccomp", State: "missing", Missing: true}} }
		o.Environments[0].Policy = ops.Policy{BudgetDayUSD: 0.5, DryRun: true}
		o.Setup = func(context.Context, bool) []api.SetupRow {
			return []api.SetupRow{{Step: api.StepTrust, State: api.SetupDone, Detail: "ask: agents repair after your approval", Page: "/config?q=trust"}}
		}
	})
	s.threeTiers() // $0.83
	body := content(s.page("/"))
	mustContain(t, body, `id="banner-budget"`, "Daily budget reached", `href="/config?q=budget_day"`, `id="banner-walls"`,
		"Walls: seccomp is missing on this machine.", "What it may do", `<a class="quiet" href="/config?q=trust">Trust ask: agents repair after your approval</a>`, `href="/config#walls"`, "Dry run: agents only look, nothing is changed")
	today := s.seen()
	trouble = "this host is being drained"
	if drained := s.seen(); drained == today {
		t.Error("open pages are not told of trouble")
	}
	trouble = ""
	if s.seen() != today {
		t.Error("open pages are not told that the trouble is over")
	}
	s.Now = s.Now.Add(24 * time.Hour)
	mustNotContain(t, content(s.page("/")), `id="banner-budget"`)
	if s.seen() == today {
		t.Error("open pages are not told of the new budget")
	}
}

func TestActivityIsInTheWordsOfPeople(t *testing.T) {
	s := newSite(t, withToken("secret"))
	s.Chain(ops.NewCycle{Trigger: ops.TriggerScheduled}, ops.CycleHealthy, "", apitest.Run{Tier: 1, For: time.Second})
	first, second := s.logIn("secret"), s.logIn("secret")
	post := func(path string, fields url.Values) {
		r := form(t, path, fields)
		r.AddCookie(first)
		if a := s.do(r); a.StatusCode != http.StatusSeeOther {
			t.Fatalf("%s: status %d", path, a.StatusCode)
		}
	}
	post("/run", url.Values{"prompt": {"Is the disk full?"}})
	id := s.ends("web", strings.Repeat("The disk is full. ", 30))
	post(fmt.Sprintf("/incidents/%d/ack", id), nil)
	looks := form(t, "/settings/services/new", url.Values{"name": {"shop"}, "url": {"shop"}})
	looks.AddCookie(first)
	if a := s.do(looks); a.StatusCode == http.StatusNotFound {
		t.Fatal("there is no such form")
	}
	overview := func(cookie *http.Cookie) string {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		r.AddCookie(cookie)
		return content(s.do(r).body)
	}
	body := overview(first)
	mustContain(t, body, "An operator started a cycle: Is the disk full?", "The schedule started", "An operator acknowledged incident", `<details class="clamp">`)
	mustNotContain(t, body, "POST /", "an operator from", "See Other", "was refused", "changed something")
	if overview(second) != body {
		t.Error("another visitor reads another activity")
	}
}

// The walls of this host are in the API, for commands on other machines.
func TestStatsTellTheSameAsTheOverview(t *testing.T) {
	s := newSite(t, func(o *web.Options) {
		o.Walls = func() []web.Wall { return []web.Wall{{Name: "landlock", State: "on"}} }
		o.Environments[0].Policy.DryRun = true
	})
	s.down("web", "HTTP 502")
	body := s.page("/api/v1/stats")
	mustContain(t, body, `"walls":"Walls: on for all sessions"`, `"walls_missing":false`, `"dry_run":true`,
		`"services_down":1`)
	mustContain(t, s.page("/api/v1/situation"), `"text":"web is down: C-1 is queued for 0 s"`, `"ahead":[]`)
}

// The rail has six entries; every other page is one of theirs, and the search finds everything by name.
func TestSixEntriesAndASearch(t *testing.T) {
	s := newSite(t)
	s.breaks("jellyfin", "HTTP 502")
	s.Check("jellyfin", ops.Down, "HTTP 502")
	body := s.page("/")
	rail := body[strings.Index(body, `class="rail"`):strings.Index(body, `class="more"`)]
	if n := strings.Count(rail, "<a "); n != 6 {
		t.Errorf("%d entries", n)
	}
	for path, want := range map[string][]string{
		"/guard":         {`<a href="/events">Events</a>`, `<a href="/guard" aria-current="page">Guard</a>`, `rail-cycles tab" aria-current="page"`},
		"/notifications": {`<a href="/hosts">Hosts</a>`, `rail-config" aria-current="page"`},
		"/silences":      {`<a href="/actions">Actions</a>`, `rail-services tab" aria-current="page"`},
	} {
		mustContain(t, s.page(path), want...)
	}
	mustContain(t, s.page("/search?q=jelly"), `href="/services/default/jellyfin"`, `href="/incidents/1"`)
	mustContain(t, s.page("/search?q=scheduled"), `href="/cycles/1"`)
	mustContain(t, s.page("/search?q=silence"), `href="/silences"`, "claudeops silences add")
	mustContain(t, s.page("/search?q=zzz"), "Nothing found")
	for query, path := range map[string]string{"C-1": "/cycles/1", "%231": "/sessions/1", "incident+1": "/incidents/1"} {
		if a := s.get("/search?q=" + query); a.Header.Get("Location") != path {
			t.Errorf("%s leads to %q", query, a.Header.Get("Location"))
		}
	}
}

// While a tier works, the headline says so; probes have a rhythm, and what was found is drawn.
func TestOverviewSaysWhoRepairsAndHowOftenProbesLook(t *testing.T) {
	s := newSite(t, func(o *web.Options) {
		o.Environments = []ops.Environment{{Name: "default", Probes: []ops.ProbeSpec{{Service: "web", Type: "http", Interval: 20 * time.Second}}}}
	})
	s.down("web", "HTTP 502")
	s.Now = s.Now.Add(4 * time.Second)
	body := content(s.page("/"))
	mustContain(t, body, "Probing every 20 s · last 4 s ago", `class="ticks"`, "The last 1 result on record")
	mustNotContain(t, body, "Next check", "Latest summary")
	if strings.Count(body, "HTTP 502") > 2 {
		t.Errorf("the outage is told %d times", strings.Count(body, "HTTP 502"))
	}
	mustNotContain(t, body, `id="services"`) // its only service is the problem above
}

// Good results are stored every few seconds, however often probes look: that is no reason to speak of the schedule.
func TestOverviewKnowsProbesThatLookOften(t *testing.T) {
	s := newSite(t, func(o *web.Options) {
		o.Environments = []ops.Environment{{Name: "default", Probes: []ops.ProbeSpec{{Service: "web", Type: "http", Interval: 2 * time.Second}}}}
	})
	s.down("web", "HTTP 502")
	for after, want := range map[time.Duration]string{2 * time.Second: "Probing every 2 s · last 2 s ago", 11 * time.Second: "Probing every 2 s<"} {
		at := s.Now
		s.Now = at.Add(after)
		mustContain(t, content(s.page("/")), want)
		s.Now = at
	}
}

// While an agent works, its story stands where the newest events stand otherwise.
func TestOverviewTellsTheStoryOfWhatRuns(t *testing.T) {
	s := newSite(t)
	id, ids := s.Chain(ops.NewCycle{Problem: "web is slow"}, ops.CycleHealthy, "",
		apitest.Run{Tier: 1, For: time.Second, Outcome: ops.OutcomeEscalate, Report: `{"summary":"web answers 502"}`},
		apitest.Run{Tier: 2, Status: ops.SessionRunning})
	body := content(s.page("/"))
	mustContain(t, body, `class="card story"`, "Tier 1 says: web answers 502", "at work")
	mustNotContain(t, body, `<ol class="events">`)
	s.End(ids[1], ops.OutcomeResolved, ops.CycleResolved, "It is repaired.")
	body = content(s.page("/"))
	mustContain(t, body, `<ol class="events">`, fmt.Sprintf("C-%d", id))
	mustNotContain(t, body, `class="card story"`)
}
