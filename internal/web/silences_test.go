package web_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/store"
	"claudeops/internal/web"
)

func (s *site) silences() []ops.Silence {
	s.t.Helper()
	found, err := s.Store.Watch.Silences(s.t.Context(), store.SilenceFilter{})
	must(s.t, err)
	return found
}

func TestASilenceIsAddedAndEnded(t *testing.T) {
	hub := web.NewHub()
	s := newSite(t, func(o *web.Options) { o.Hub = hub })
	nudges, unsubscribe := hub.Subscribe(ops.ReachPages)
	defer unsubscribe()
	nudged := func() bool {
		select {
		case <-nudges:
			return true
		default:
			return false
		}
	}
	mustContain(t, s.page("/services"), `href="/silences"`)
	mustContain(t, s.page("/silences"), "No active silences", `action="/silences"`)
	mustContain(t, s.page("/silences?all=1"), "No silences yet")
	done := s.post("/silences", url.Values{"service": {" media-* "}, "group": {"home"}, "reason": {"disk is replaced"}, "for": {"4h"}})
	if done.StatusCode != http.StatusSeeOther {
		t.Fatalf("status %d\n%s", done.StatusCode, head(done.body))
	}
	if !nudged() {
		t.Error("nobody was woken")
	}
	found := s.silences()
	if len(found) != 1 || found[0].Service != "media-*" || found[0].Group != "home" || found[0].Environment != "" || found[0].Author == "" ||
		!found[0].Until.Equal(s.Now.Add(4*time.Hour)) {
		t.Fatalf("kept %+v", found)
	}
	mustContain(t, s.page(done.Header.Get("Location")), "Silenced: no cycle starts", "media-*", "disk is replaced", "17:41", "Silenced",
		`action="/silences/1/end"`)
	if got := s.post("/silences/1/end", nil); got.StatusCode != http.StatusSeeOther || s.silences()[0].Active(s.Now) || !nudged() {
		t.Errorf("status %d, left %+v", got.StatusCode, s.silences())
	}
	mustNotContain(t, content(s.page("/silences")), "disk is replaced")
	past := s.page("/silences?all=1")
	mustContain(t, past, "media-*", "Ended")
	mustNotContain(t, past, `action="/silences/1/end"`)
	late := s.post("/silences/1/end", nil)
	if late.StatusCode != http.StatusConflict {
		t.Errorf("ending again gives %d", late.StatusCode)
	}
	for _, path := range []string{"/silences/99/end", "/silences/x/end"} {
		if got := s.post(path, nil).StatusCode; got != http.StatusNotFound {
			t.Errorf("POST %s gives %d", path, got)
		}
	}
	mustContain(t, s.page("/events?kind=silence"), "silenced service media-*", "ended the silence of service media-*", "disk is replaced")
	mustContain(t, s.page("/events?kind=audit"), "POST /silences/1/end (303 See Other)")
}

func TestASilenceMayEndAtAGivenTime(t *testing.T) {
	s := newSite(t, func(o *web.Options) {
		o.Environments = []ops.Environment{{Name: "default"}, {Name: "lab"}}
	})
	if got := s.post("/silences", url.Values{
		"service": {"web"}, "environment": {"lab"}, "reason": {"x"}, "for": {"1h"},
		"until": {"2026-11-16 18:00"}, "zone": {"Europe/Berlin"},
	}).StatusCode; got != http.StatusSeeOther {
		t.Fatalf("status %d", got)
	}
	if q := s.silences()[0]; !q.Until.Equal(time.Date(2026, 11, 16, 17, 0, 0, 0, time.UTC)) || q.Environment != "lab" {
		t.Errorf("kept %+v", q)
	}
	mustContain(t, s.page("/silences?environment=lab"), "16 Nov 17:00", "lab")
	mustContain(t, s.page("/silences?environment=default"), "No silences match")
}

// told puts a notice into the outbox as it stands.
func (s *site) told(status ops.NoticeStatus, text string) int64 {
	s.t.Helper()
	id, err := s.Store.People.AddNotice(s.t.Context(), ops.Notice{
		Kind: ops.NoticeKind(text), Level: ops.LevelCritical, Title: text, Body: text, Status: status, Attempts: 6, Error: text, Service: text,
		Environment: text, CreatedAt: s.Now,
	})
	must(s.t, err)
	return id
}

func TestNoticesThatWereGivenUpAreTriedAgain(t *testing.T) {
	s := newSite(t)
	mustContain(t, s.page("/config"), `href="/notifications"`)
	mustContain(t, s.page("/notifications?status=dead"), "No failed notifications")
	mustContain(t, s.page("/notifications?status=pending"), "No waiting notifications")
	dead := s.told(ops.NoticeDead, "no route to host")
	sent := s.told(ops.NoticeSent, "jellyfin is well again")
	body := s.page("/notifications?status=dead")
	mustContain(t, body, "no route to host", `data-label="Attempts">6<`, "Failed", "Try again",
		fmt.Sprintf(`action="/notifications/%d/retry"`, dead))
	mustNotContain(t, content(body), "jellyfin is well again")
	mustNotContain(t, content(s.page("/notifications?status=sent")), "Try again")
	done := s.post(fmt.Sprintf("/notifications/%d/retry", dead), nil)
	if done.StatusCode != http.StatusSeeOther {
		t.Fatalf("status %d\n%s", done.StatusCode, head(done.body))
	}
	mustContain(t, s.page(done.Header.Get("Location")), "The notification is sent again now.", "no route to host", "Waiting",
		`data-label="Attempts">0<`)
	if due, err := s.Store.People.DueNotices(t.Context(), s.Now, 10); err != nil || len(due) != 1 || due[0].ID != dead {
		t.Errorf("due %+v, %v", due, err)
	}
	mustContain(t, s.page("/notifications?status=dead"), "No failed notifications")
	for path, want := range map[string]int{
		fmt.Sprintf("/notifications/%d/retry", dead): http.StatusConflict, fmt.Sprintf("/notifications/%d/retry", sent): http.StatusConflict,
		"/notifications/99/retry": http.StatusNotFound, "/notifications/x/retry": http.StatusNotFound,
	} {
		if got := s.post(path, nil).StatusCode; got != want {
			t.Errorf("%s gives %d, not %d", path, got, want)
		}
	}
	for _, query := range []string{"status=lost", "cursor=x"} {
		if got := s.get("/notifications?" + query).StatusCode; got != http.StatusNotFound {
			t.Errorf("%s gives %d", query, got)
		}
	}
	mustContain(t, s.page("/events?kind=audit"), fmt.Sprintf("POST /notifications/%d/retry (303 See Other)", dead))
}

func TestEventsAreFilteredAndPaged(t *testing.T) {
	s := newSite(t)
	mustContain(t, s.page("/events"), "No events yet")
	cycle, _ := s.threeTiers()
	for n := range 60 {
		e := ops.Event{
			At: s.Now.Add(time.Duration(n-60) * time.Hour), Level: ops.LevelInfo, Verb: ops.VerbProbeFailed, Service: "web",
			Reason: fmt.Sprintf("event %02d.", n),
		}
		if n%2 == 1 {
			e.Level, e.Verb, e.Service, e.CycleID = ops.LevelCritical, ops.VerbSessionFailed, "db", &cycle
		}
		if _, err := s.Store.Journal.AddEvent(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	first := s.page("/events")
	mustContain(t, first, "event 59.", "event 10.", "Older", "Yesterday", "Thursday, 12 November 2026", `href="/events?service=db"`)
	mustNotContain(t, first, "event 09.", "Newest")
	at := strings.Index(first, `href="/events?cursor=`)
	if at < 0 {
		t.Fatal("no way to older events")
	}
	path, _, _ := strings.Cut(first[at+len(`href="`):], `"`)
	mustContain(t, s.page(path), "event 09.", "event 00.", "Newest")

	for query, want := range map[string]string{
		"level=critical": "event 59.", "kind=session": "event 59.", "service=db": "event 59.", fmt.Sprintf("cycle=C-%d", cycle): "event 59.",
		"level=info": "event 58.", "kind=probe&service=web": "event 58.",
	} {
		body := content(s.page("/events?" + query))
		mustContain(t, body, want, "Clear filters")
		mustNotContain(t, body, map[string]string{"event 59.": "event 58.", "event 58.": "event 59."}[want])
	}
	mustContain(t, s.page("/events?kind=nope"), "No events match")
	for _, query := range []string{"level=loud", "cycle=x", "cursor=-1"} {
		if got := s.get("/events?" + query).StatusCode; got != http.StatusNotFound {
			t.Errorf("%s gives %d", query, got)
		}
	}
}

func (s *site) memories() []ops.Memory {
	s.t.Helper()
	found, err := s.Store.People.Memories(s.t.Context(), store.MemoryFilter{All: true})
	must(s.t, err)
	return found
}

func TestMemoryIsAddedAndRemoved(t *testing.T) {
	s := newSite(t)
	mustContain(t, s.page("/memory"), "No memories yet", `action="/memory"`)
	done := s.post("/memory", url.Values{
		"observation": {" the first start takes ten minutes "}, "service": {"jellyfin"},
		"category": {"timing"}, "keep": {"30"},
	})
	if done.StatusCode != http.StatusSeeOther {
		t.Fatalf("status %d\n%s", done.StatusCode, head(done.body))
	}
	found := s.memories()
	if len(found) != 1 || found[0].Observation != "the first start takes ten minutes" || found[0].Source != "operator" || found[0].Confidence != 0.9 ||
		found[0].Environment != "default" || !found[0].ExpiresAt.Equal(s.Now.AddDate(0, 0, 30)) {
		t.Fatalf("kept %+v", found)
	}
	body := s.page(done.Header.Get("Location"))
	mustContain(t, body, "Memory added", "the first start takes ten minutes", "jellyfin", "timing", "90 %", "An operator", "14 Dec",
		`action="/memory/1/remove"`)
	if got := s.post("/memory/1/remove", nil); got.StatusCode != http.StatusSeeOther || len(s.memories()) != 0 {
		t.Errorf("status %d, left %v", got.StatusCode, s.memories())
	}
	if got := s.post("/memory/1/remove", nil).StatusCode; got != http.StatusNotFound {
		t.Errorf("removing again gives %d", got)
	}
	events := s.page("/events?kind=memory")
	mustContain(t, events, "added memory 1: the first start takes ten minutes", "removed memory 1")
}

func TestMemoriesAreFilteredAndPaged(t *testing.T) {
	s := newSite(t)
	for n := range 30 {
		m := ops.Memory{
			Environment: "default", Category: "note", Service: "web", Observation: fmt.Sprintf("observation %02d", n),
			CreatedAt: s.Now,
		}
		if n == 29 {
			m.Service, m.ExpiresAt = "db", ops.Ptr(s.Now.Add(-time.Hour))
		}
		if _, err := s.Store.People.AddMemory(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	first := s.page("/memory")
	mustContain(t, first, "observation 28", "observation 04", `href="/memory?cursor=5"`)
	mustNotContain(t, first, "observation 03", "observation 29")
	mustContain(t, s.page("/memory?cursor=5"), "observation 03", "Newest")
	mustContain(t, s.page("/memory?all=1&service=db"), "observation 29", "Expired")
	mustContain(t, s.page("/memory?service=nope"), "No memories match")
	if got := s.get("/memory?cursor=x").StatusCode; got != http.StatusNotFound {
		t.Errorf("a nonsense cursor gives %d", got)
	}
}

func TestConfigShowsOriginsAndNoSecrets(t *testing.T) {
	s := newSite(t, func(o *web.Options) {
		o.Environments[0].Policy = ops.Policy{
			DryRun: true, MaxTier: 2, ApprovalTier: 2, Mode: ops.ContextResume, Entry: "tier1", Handlers: []ops.Handler{
				{ID: "tier1", Tier: 1, Agent: "claude", Model: "haiku", HandsTo: []string{"tier2"}, Fallback: []string{"spare"}},
				{ID: "tier2", Tier: 2, Agent: "claude", Model: "sonnet", HandsTo: []string{"oncall"}},
				{ID: "spare", Tier: 1, Command: []string{"/opt/agent"}},
				{ID: "tier3", Tier: 3, Agent: "claude"},
				{ID: "oncall", Tier: ops.HumanTier, Agent: ops.AgentHuman},
			},
		}
		o.Settings = []web.Setting{
			{Key: "interval", Value: "1h0m0s", Origin: "default", Env: "CLAUDEOPS_INTERVAL", Doc: "Time between cycles. See [Schedule](#schedule)."},
			{Key: "budget.day_usd", Value: "5", Origin: "claudeops.yaml:4", Env: "CLAUDEOPS_BUDGET_DAY_USD"},
			{Key: "api_token", Value: "[redacted]", Origin: "environment CLAUDEOPS_API_TOKEN", Env: "CLAUDEOPS_API_TOKEN"},
			{Key: "tiers.1.disallowed_tools", Value: strings.Repeat("Bash(rm:*),", 40), Origin: "default"},
		}
	})
	body := s.page("/config")
	mustContain(t, body, "4 of 4", "interval", "1h0m0s", "claudeops.yaml:4", "CLAUDEOPS_BUDGET_DAY_USD", "set (hidden)", "Dry run is on",
		"See Schedule.",
		`data-label="Escalates to"><code>tier2</code>`, `data-label="Falls back to"><code>spare</code>`,
		"above the maximum", "Command agent", "Finally, a human is asked. Tier 2", "Everything", "Entry", "Fallback", "1 changed",
		"<summary><code>Bash(rm:*), ")
	mustNotContain(t, content(body), "[redacted]", "(#schedule)")
	found := content(s.page("/config?q=BUDGET"))
	mustContain(t, found, "1 of 4", "budget.day_usd", "Clear filters")
	mustNotContain(t, found, "1h0m0s")
	mustContain(t, s.page("/config?own=1"), "2 of 4")
	mustContain(t, s.page("/config?q=nothing"), "No settings match")
	mustContain(t, newSite(t).page("/config"), "claudeops config show --origin", "No handlers are registered")
}

func TestEventsNameTheirServiceOnce(t *testing.T) {
	s := newSite(t)
	if _, err := s.Store.Journal.AddEvent(t.Context(), ops.Event{
		At: s.Now, Level: ops.LevelWarning, Verb: ops.VerbWatchChanged, Service: "jellyfin",
		Reason: "jellyfin is down: HTTP 502",
	}); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/events", "/events?service=jellyfin"} {
		body := s.page(path)
		mustContain(t, body, "is down: HTTP 502")
		mustNotContain(t, body, "jellyfin is down")
	}
}
