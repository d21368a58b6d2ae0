package web_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"claudeops/internal/ops"
	"claudeops/internal/store"
	"claudeops/internal/web"
)

func TestJobsCallTheirHeartbeat(t *testing.T) {
	s := newSite(t, func(o *web.Options) {
		o.Redact = func(text string) string { return strings.ReplaceAll(text, "hunter2", "[redacted]") }
	})
	beat := ops.Heartbeat{Environment: "default", Service: "backup", Probe: "heartbeat"}
	token, err := s.Store.AddressHeartbeat(t.Context(), beat, "ann", s.Now)
	must(t, err)
	s.token = "" // jobs have none
	call := func(method, path, body string) answer {
		return s.do(httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body)))
	}
	known := func() ops.Heartbeat {
		t.Helper()
		found, err := s.Store.HeartbeatsOf(t.Context(), "default", "backup")
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
	old, err := s.Store.AddressHeartbeat(t.Context(), beat, "ann", s.Now)
	must(t, err)
	token, err := s.Store.AddressHeartbeat(t.Context(), beat, "ann", s.Now)
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
	events, err := s.Store.Events(t.Context(), store.EventFilter{Limit: 100})
	if err != nil || len(events) == 0 {
		t.Fatal(err)
	}
	for _, e := range events {
		mustNotContain(t, e.Message, old, token)
	}
}

func TestTheServicePageShowsTheCallsOfItsJob(t *testing.T) {
	s := newSite(t, func(o *web.Options) {
		o.Environments[0].Policy.Inventory.Services = []ops.Service{{Name: "backup"}}
	})
	beat := ops.Heartbeat{Environment: "default", Service: "backup", Probe: "heartbeat"}
	page := func() string { return s.get("/services/default/backup").body }
	must(t, s.Store.AddHeartbeats(t.Context(), "default", []ops.Heartbeat{beat}))
	mustContain(t, page(), "claudeops services heartbeat")
	if _, err := s.Store.AddressHeartbeat(t.Context(), beat, "ann", s.Now); err != nil {
		t.Fatal(err)
	}
	mustContain(t, page(), "no call yet")
	must(t, s.Store.Ping(t.Context(), beat, ops.Ping{Failed: true, Exit: 3, Output: "copying <b>\ndisk full", At: s.Now}))
	mustContain(t, page(), "failed with exit code 3", "<pre>copying &lt;b&gt;\ndisk full</pre>")
}
