package web_test

import (
	"fmt"
	"net/http"
	"net/url"
	"testing"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/store"
	"claudeops/internal/web"
)

func (s *site) silences() []ops.Silence {
	s.t.Helper()
	found, err := s.Store.Silences(s.t.Context(), store.SilenceFilter{})
	must(s.t, err)
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

// told puts a notice into the outbox as it stands.
func (s *site) told(status ops.NoticeStatus, text string) int64 {
	s.t.Helper()
	id, err := s.Store.AddNotice(s.t.Context(), ops.Notice{
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
