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
	found, err := s.Store.Silences(s.t.Context(), store.SilenceFilter{})
	if err != nil {
		s.t.Fatal(err)
	}
	return found
}

func TestASilenceIsAddedAndEnded(t *testing.T) {
	hub := web.NewHub()
	s := newSite(t, func(o *web.Options) { o.Hub = hub })
	nudges, unsubscribe := hub.Subscribe()
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
	mustContain(t, s.page("/silences/1/end"), "End silence 1 now?", "media-*", `method="post"`)
	if !s.silences()[0].Active(s.Now) {
		t.Fatal("looking ended it")
	}
	if got := s.post("/silences/1/end", nil); got.StatusCode != http.StatusSeeOther || s.silences()[0].Active(s.Now) || !nudged() {
		t.Errorf("status %d, left %+v", got.StatusCode, s.silences())
	}
	mustNotContain(t, content(s.page("/silences")), "disk is replaced")
	past := s.page("/silences?all=1")
	mustContain(t, past, "media-*", "Ended")
	mustNotContain(t, past, `action="/silences/1/end"`)
	mustContain(t, s.page("/silences/1/end"), "Silence 1 has ended")
	late := s.post("/silences/1/end", nil)
	if late.StatusCode != http.StatusConflict {
		t.Errorf("ending again gives %d", late.StatusCode)
	}
	for _, path := range []string{"/silences/99/end", "/silences/x/end"} {
		if got := s.post(path, nil).StatusCode; got != http.StatusNotFound {
			t.Errorf("POST %s gives %d", path, got)
		}
		if got := s.get(path).StatusCode; got != http.StatusNotFound {
			t.Errorf("GET %s gives %d", path, got)
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

func TestUnusableSilencesAreRefused(t *testing.T) {
	s := newSite(t)
	for name, fields := range map[string]url.Values{
		"nothing": {"reason": {"x"}, "for": {"1h"}}, "no reason": {"service": {"web"}, "reason": {"  "}, "for": {"1h"}},
		"no end": {"service": {"web"}, "reason": {"x"}}, "a word": {"service": {"web"}, "reason": {"x"}, "for": {"soon"}},
		"negative": {"service": {"web"}, "reason": {"x"}, "for": {"-1h"}}, "for ever": {"service": {"web"}, "reason": {"x"}, "for": {"9000h"}},
		"past": {"service": {"web"}, "reason": {"x"}, "until": {"2026-11-14 13:00"}}, "no time": {
			"service": {"web"}, "reason": {"x"},
			"until": {"tomorrow"},
		},
		"long": {"service": {strings.Repeat("x", 201)}, "reason": {"x"}, "for": {"1h"}}, "environment": {
			"environment": {"elsewhere"},
			"service":     {"web"}, "reason": {"x"}, "for": {"1h"},
		},
	} {
		a := s.post("/silences", fields)
		if a.StatusCode != http.StatusUnprocessableEntity {
			t.Errorf("%s: status %d", name, a.StatusCode)
		}
		mustContain(t, a.body, "Nothing was added.", `role="alert"`)
	}
	if found := s.silences(); len(found) > 0 {
		t.Errorf("kept %+v", found)
	}
}

func TestSilencesArePaged(t *testing.T) {
	s := newSite(t)
	for n := range 30 {
		if _, err := s.Store.AddSilence(t.Context(), ops.Silence{
			Service: fmt.Sprintf("service-%02d", n), Reason: "x", Author: "alice",
			Until: s.Now.Add(time.Hour),
		}); err != nil {
			t.Fatal(err)
		}
	}
	first := s.page("/silences")
	mustContain(t, first, "service-29", "service-05", `href="/silences?cursor=6"`)
	mustNotContain(t, first, "service-04")
	mustContain(t, s.page("/silences?cursor=6"), "service-04", "Newest")
	if got := s.get("/silences?cursor=x").StatusCode; got != http.StatusNotFound {
		t.Errorf("a nonsense cursor gives %d", got)
	}
}

// told puts a notice into the outbox as it stands.
func (s *site) told(status ops.NoticeStatus, text string) int64 {
	s.t.Helper()
	id, err := s.Store.AddNotice(s.t.Context(), ops.Notice{
		Kind: ops.NoticeKind(text), Level: ops.LevelCritical, Title: text, Body: text, Status: status, Attempts: 6, Error: text, Service: text,
		Environment: text, CreatedAt: s.Now,
	})
	if err != nil {
		s.t.Fatal(err)
	}
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
	if due, err := s.Store.DueNotices(t.Context(), s.Now, 10); err != nil || len(due) != 1 || due[0].ID != dead {
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

func TestNotificationsArePaged(t *testing.T) {
	s := newSite(t)
	for n := range 30 {
		s.told(ops.NoticeDead, fmt.Sprintf("notice-%02d", n))
	}
	first := s.page("/notifications?status=dead")
	mustContain(t, first, "notice-29", "notice-05", `href="/notifications?cursor=6&amp;status=dead"`)
	mustNotContain(t, first, "notice-04")
	mustContain(t, s.page("/notifications?status=dead&cursor=6"), "notice-04", "Newest")
}

func TestSilencesAndRetriesComeOnlyFromOurOwnPages(t *testing.T) {
	s := newSite(t)
	dead := s.told(ops.NoticeDead, "lost")
	if _, err := s.Store.AddSilence(t.Context(), ops.Silence{
		Service: "web", Reason: "x", Author: "alice",
		Until: s.Now.Add(time.Hour),
	}); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{
		"/silences", "/silences/1/end", fmt.Sprintf("/notifications/%d/retry", dead), "/api/v1/silences",
		"/api/v1/silences/1/end",
	} {
		r := form(t, path, url.Values{"service": {"db"}, "reason": {"x"}, "for": {"1h"}})
		r.Header.Set("Sec-Fetch-Site", "cross-site")
		if got := s.do(r).StatusCode; got != http.StatusForbidden {
			t.Errorf("%s from another site gives %d", path, got)
		}
	}
	if found := s.silences(); len(found) != 1 || !found[0].Active(s.Now) {
		t.Errorf("another site left %+v", found)
	}
	if found, err := s.Store.NoticeList(t.Context(), store.NoticeFilter{Status: ops.NoticeDead, Limit: 10}); err != nil || len(found) != 1 {
		t.Errorf("another site left %+v, %v", found, err)
	}
}

func TestHostileTextInSilencesAndNotices(t *testing.T) {
	for n, text := range hostile() {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			s := newSite(t, func(o *web.Options) { o.Environments = []ops.Environment{{Name: "default"}, {Name: "lab"}} })
			_, err := s.Store.AddSilence(t.Context(), ops.Silence{
				Environment: text, Service: text, Group: text, Probe: text, Labels: map[string]string{text: text}, Reason: text + ".", Author: text,
				Until: s.Now.Add(time.Hour),
			})
			if err != nil {
				t.Fatal(err)
			}
			for _, status := range []ops.NoticeStatus{ops.NoticeDead, ops.NoticePending, ops.NoticeSent, ops.NoticeSkipped} {
				s.told(status, text)
				mustBeHarmless(t, content(s.page("/notifications?status="+string(status))))
			}
			query := url.QueryEscape(text)
			for _, path := range []string{"/silences", "/silences?all=1", "/silences?environment=" + query, "/silences/1/end", "/events"} {
				mustBeHarmless(t, content(s.page(path)))
			}
			mustBeHarmless(t, content(s.get("/notifications?status="+query).body))
			mustBeHarmless(t, content(s.post("/silences", url.Values{
				"service": {text}, "group": {text}, "reason": {text}, "until": {text},
				"environment": {text}, "for": {text},
			}).body))
		})
	}
}
