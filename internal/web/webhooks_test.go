package web_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"claudeops/internal/api/webhook"
	"claudeops/internal/web"
)

// alertSite takes alerts with a handler that knows one token, beside the pages' own.
func alertSite(t *testing.T, take http.HandlerFunc) *site {
	t.Helper()
	return newSite(t, withToken("secret"), func(o *web.Options) { o.Webhooks = take })
}

// knowing answers like a webhook: it reads everything and knows its own token.
func knowing(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Authorization") != "Bearer sender" {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	var large *http.MaxBytesError
	if _, err := io.ReadAll(r.Body); errors.As(err, &large) {
		w.WriteHeader(http.StatusRequestEntityTooLarge)
		return
	}
	w.WriteHeader(http.StatusAccepted)
}

func alertRequest(t *testing.T, token, body string) *http.Request {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, webhook.Path+"generic", strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer "+token)
	return r
}

func TestAlertsComeInThroughTheSameDoor(t *testing.T) {
	s := alertSite(t, knowing)
	got := s.do(alertRequest(t, "sender", "{}"))
	if got.StatusCode != http.StatusAccepted {
		t.Fatalf("its own token: %d", got.StatusCode)
	}
	for name, want := range map[string]string{
		"Content-Security-Policy": "default-src 'none'", "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer",
		"Cross-Origin-Resource-Policy": "same-origin",
	} {
		if !strings.HasPrefix(got.Header.Get(name), want) {
			t.Errorf("%s is %q", name, got.Header.Get(name))
		}
	}

	other := alertRequest(t, "sender", "{}")
	other.Host = "evil.example"
	if got := s.do(other); got.StatusCode != http.StatusMisdirectedRequest || got.Header.Get("Content-Type") != "application/problem+json" {
		t.Errorf("under another name: %d %s", got.StatusCode, got.Header.Get("Content-Type"))
	}

	page := alertRequest(t, "sender", "{}")
	page.Header.Set("Sec-Fetch-Site", "cross-site")
	if got := s.do(page).StatusCode; got != http.StatusForbidden {
		t.Errorf("from a page of another site: %d", got)
	}
	if got := s.audits(); len(got) != 0 {
		t.Errorf("alerts are rows of their own, not deeds of people: %q", got)
	}
}

func TestAlertsMayBeLongButNotEndless(t *testing.T) {
	s := alertSite(t, knowing)
	for size, want := range map[int]int{200 << 10: http.StatusAccepted, 1<<20 + 1: http.StatusRequestEntityTooLarge} {
		if got := s.do(alertRequest(t, "sender", strings.Repeat("x", size))).StatusCode; got != want {
			t.Errorf("%d bytes: %d", size, got)
		}
	}
}

func TestGuessingTheTokenOfAWebhookIsHeldBack(t *testing.T) {
	s := alertSite(t, knowing)
	var got answer
	for range 20 {
		got = s.do(alertRequest(t, "wrong", "{}"))
	}
	if got.StatusCode != http.StatusTooManyRequests || got.Header.Get("Retry-After") == "" || !strings.Contains(got.body, "wrong tokens") {
		t.Errorf("the twentieth guess: %d %s", got.StatusCode, got.body)
	}
	if got := s.do(alertRequest(t, "sender", "{}")).StatusCode; got != http.StatusAccepted {
		t.Errorf("the right token after wrong ones: %d", got)
	}
}

// A body that nobody waits for does not keep a connection from others until the server gives up reading it.
func TestUnfinishedBodiesOfStrangersAreGivenUpAtOnce(t *testing.T) {
	s := alertSite(t, knowing)
	server := httptest.NewUnstartedServer(s.handler)
	server.Config.ReadTimeout = 5 * time.Minute
	server.Start()
	t.Cleanup(server.CloseClientConnections)
	t.Cleanup(server.Close)
	for _, path := range []string{webhook.Path + "generic", webhook.Path + "sentry/wrong", "/api/v1/cycles"} {
		c, err := net.Dial("tcp", server.Listener.Addr().String())
		must(t, err)
		t.Cleanup(func() { _ = c.Close() })
		must(t, c.SetDeadline(time.Now().Add(time.Minute)))
		fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000\r\nContent-Type: application/json\r\n\r\n{", path)
		answer, err := io.ReadAll(c) // until the connection ends
		if err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 401") {
			t.Errorf("%s: %v, %.60s", path, err, answer)
		}
	}
}

func TestTheSecretInTheAddressOfASenderIsNotRecorded(t *testing.T) {
	s := alertSite(t, knowing)
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, webhook.Path+"sentry/nearly-the-right-secret", strings.NewReader("{}"))
	if got := s.do(r).StatusCode; got != http.StatusUnauthorized {
		t.Fatalf("answered %d", got)
	}
	if got := strings.Join(s.audits(), "\n"); !strings.Contains(got, webhook.Path+"sentry") || strings.Contains(got, "nearly") {
		t.Errorf("recorded %q", got)
	}
}

func TestAFloodOfAlertsFromOneAddressIsHeldBack(t *testing.T) {
	s := alertSite(t, knowing)
	accepted := 0
	for range 3000 {
		switch got := s.do(alertRequest(t, "sender", "{}")); got.StatusCode {
		case http.StatusAccepted:
			accepted++
		case http.StatusTooManyRequests:
			if got.Header.Get("Retry-After") == "" {
				t.Fatal("it is not said when to try again")
			}
		default:
			t.Fatalf("status %d", got.StatusCode)
		}
	}
	if accepted != 2000 {
		t.Errorf("%d of 3000 at the same moment were let in", accepted)
	}
}

func TestACrashingWebhookIsAProblemDocument(t *testing.T) {
	s := alertSite(t, func(http.ResponseWriter, *http.Request) { panic("broken") })
	got := s.do(alertRequest(t, "sender", "{}"))
	if got.StatusCode != http.StatusInternalServerError || got.Header.Get("Content-Type") != "application/problem+json" {
		t.Errorf("%d %s", got.StatusCode, got.Header.Get("Content-Type"))
	}
}

func TestWithoutWebhooksTheAddressIsTheAPIs(t *testing.T) {
	s := newSite(t, withToken("secret"))
	if got := s.do(alertRequest(t, "wrong", "{}")).StatusCode; got != http.StatusUnauthorized {
		t.Errorf("without a token: %d", got)
	}
	if got := s.do(alertRequest(t, "secret", "{}")).StatusCode; got != http.StatusNotFound {
		t.Errorf("nobody takes alerts: %d", got)
	}
}
