package webhook

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"claudeops/internal/notice"
	"claudeops/internal/ops"
)

// rows keeps alerts in memory; hold stops writing until it is closed.
type rows struct {
	mu      sync.Mutex
	alerts  []ops.Alert
	writes  int
	pending int
	broken  error
	hold    chan struct{}
	seen    map[string]bool
	events  []ops.Event
}

func (r *rows) AddEvent(_ context.Context, e ops.Event) (int64, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, e)
	return int64(len(r.events)), r.broken
}

func (r *rows) AddAlerts(_ context.Context, alerts []ops.Alert) error {
	if r.hold != nil {
		<-r.hold
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.writes++
	if r.broken != nil {
		return r.broken
	}
	r.alerts = append(r.alerts, alerts...)
	return nil
}

func (r *rows) AddSignedAlerts(ctx context.Context, requests []ops.SignedAlerts) ([]bool, error) {
	replayed := make([]bool, len(requests))
	for i, q := range requests {
		r.mu.Lock()
		replayed[i] = r.seen[q.Signature]
		if r.seen == nil {
			r.seen = map[string]bool{}
		}
		r.seen[q.Signature] = true
		r.mu.Unlock()
		if !replayed[i] {
			if err := r.AddAlerts(ctx, q.Alerts); err != nil {
				return nil, err
			}
		}
	}
	return replayed, nil
}

func (r *rows) CountPendingAlerts(context.Context, int) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.pending, nil
}

func (r *rows) all() []ops.Alert {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.alerts
}

// running is a hook with a clock, a log and a way in.
func running(t *testing.T, o Options) *Hook {
	t.Helper()
	o.Clock, o.Logger = time.Now, slog.New(slog.DiscardHandler)
	if events, ok := o.Store.(Events); ok {
		o.Events = events
	}
	if o.Token == "" && o.Secret == "" {
		o.Token = testToken
	}
	if o.Environments == nil {
		o.Environments = []string{"default"}
	}
	if o.Service == nil {
		o.Service = func(_, name string) string { return name }
	}
	if o.Redact == nil {
		o.Redact = func(text string) string { return text }
	}
	if o.Wake == nil {
		o.Wake = func() {}
	}
	return New(o)
}

type header map[string]string

// testToken is the token of a hook whose test is not about who may send; post sends it if no header is given.
const testToken = "token-of-the-test-hook"

func post(h http.Handler, path, body string, headers header) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
	r.Host = "127.0.0.1:8080"
	if headers == nil {
		r.Header.Set("Authorization", "Bearer "+testToken)
	}
	for name, value := range headers {
		if name == "Host" {
			r.Host = value
			continue
		}
		r.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

const body = `{"name":"Down","service":"www","status":"firing","tier":3,"max_tier":3,"environment":"lab","prompt":"be free"}`

func TestAnAlertIsWrittenBefore202(t *testing.T) {
	store := &rows{}
	woken := 0
	h := running(t, Options{
		Store: store, Environments: []string{"home", "lab"}, Wake: func() { woken++ },
		Service: func(_, name string) string { return map[string]string{"www": "web"}[name] },
	})
	w := post(h, Path+"generic", body, nil)
	if w.Code != http.StatusAccepted || strings.TrimSpace(w.Body.String()) != `{"accepted":1}` {
		t.Fatalf("answered %d %s", w.Code, w.Body)
	}
	got := store.all()
	if len(got) != 1 || got[0].Service != "web" || got[0].Environment != "home" || woken != 1 {
		t.Errorf("stored %+v, woken %d times", got, woken)
	}
	post(h, Path+"generic?environment=lab", body, nil)
	if got := store.all(); len(got) != 2 || got[1].Environment != "lab" {
		t.Errorf("stored %+v", got)
	}
}

func TestWhoMayTellUsSomething(t *testing.T) {
	for _, tt := range []struct {
		name          string
		token, secret string
		headers       header
		want          int
	}{
		{"loopback without a token", "secret-token", "", header{"Host": "127.0.0.1:8080"}, 401},
		{"localhost without a token", "secret-token", "", header{"Host": "localhost:8080"}, 401},
		{"an empty token", "secret-token", "", header{"Authorization": "Bearer "}, 401},
		{"no token", "secret-token", "", header{}, 401},
		{"wrong token", "secret-token", "", header{"Authorization": "Bearer other"}, 401},
		{"token", "secret-token", "", header{"Authorization": "Bearer secret-token"}, 202},
		{"token from afar", "secret-token", "", header{"Authorization": "Bearer secret-token", "Host": "ops.example.org"}, 202},
		{"no signature", "", "key", header{}, 401},
		{"signature", "", "key", signed("key", Path+"generic", body, time.Now()), 202},
		{"signature beside a token", "secret-token", "key", signed("key", Path+"generic", body, time.Now()), 202},
		{"token beside a secret", "secret-token", "key", header{"Authorization": "Bearer secret-token"}, 202},
		{"no hex", "", "key", header{signatureHeader: fmt.Sprintf("t=%d,v2=zz", time.Now().Unix())}, 401},
		{"signature where no secret is set", "secret-token", "", signed("", Path+"generic", body, time.Now()), 401},
		{"a page of another site", "", "", header{"Origin": "https://evil.example.org", "Sec-Fetch-Site": "cross-site"}, 403},
	} {
		t.Run(tt.name, func(t *testing.T) {
			store := &rows{}
			h := running(t, Options{Store: store, Token: tt.token, Secret: tt.secret})
			w := post(h, Path+"generic", body, tt.headers)
			if w.Code != tt.want || (len(store.all()) == 1) != (tt.want == 202) {
				t.Errorf("answered %d %s, %d stored", w.Code, w.Body, len(store.all()))
			}
		})
	}
}

func TestWhatIsRefused(t *testing.T) {
	h := running(t, Options{Store: &rows{}, Environments: []string{"home"}})
	for _, tt := range []struct {
		name, path, body string
		want             int
	}{
		{"unknown source", Path + "nagios", body, 404},
		{"nothing", Path, body, 404},
		{"a secret of nobody", Path + "generic/x", body, 401},
		{"unknown environment", Path + "generic?environment=mars", body, 422},
		{"no JSON", Path + "generic", "{down!", 422},
		{"no text", Path + "alertmanager", "down!", 422},
		{"another's body", Path + "alertmanager", body, 422},
		{"too large", Path + "generic", `{"name":"` + strings.Repeat("x", maxBody) + `"}`, 413},
		{"too many", Path + "generic", `{"alerts":[` + strings.TrimSuffix(strings.Repeat(`{"name":"a"},`, 1001), ",") + `]}`, 413},
		{"a test message", Path + "generic", `{"msg":"Testing","heartbeat":null,"monitor":null}`, 202},
	} {
		if w := post(h, tt.path, tt.body, nil); w.Code != tt.want {
			t.Errorf("%s: answered %d %s", tt.name, w.Code, w.Body)
		}
	}
	r := httptest.NewRequest(http.MethodGet, Path+"generic", nil)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if w.Code != http.StatusMethodNotAllowed || w.Header().Get("Allow") != "POST" {
		t.Errorf("GET gives %d", w.Code)
	}
}

func TestASenderThatCannotSetHeadersHasASecretAddress(t *testing.T) {
	store := &rows{}
	h := running(t, Options{Store: store, Token: testToken, Secret: "key", Senders: []ops.AlertSender{
		{Name: "sentry", Form: "generic", Secret: "secret-of-the-sentry-sender"}, {Name: "other", Form: "alertmanager"},
	}})
	token := header{"Authorization": "Bearer " + testToken}
	for _, tt := range []struct {
		path    string
		headers header
		want    int
	}{
		{"sentry/secret-of-the-sentry-sender", header{}, 202},
		{"sentry/secret-of-the-sentry-sender?environment=default", header{}, 202},
		{"sentry", token, 202},
		{"sentry", signed("key", Path+"sentry", body, time.Now()), 202},
		{"sentry", header{}, 401},
		{"sentry/", header{}, 401},
		{"sentry/secret-of-the-sentry-sende", header{}, 401},
		{"sentry/wrong", token, 401}, // a wrong secret is wrong whatever else is sent
		{"other/secret-of-the-sentry-sender", header{}, 401},
		{"other/", header{}, 401},
		{"generic/secret-of-the-sentry-sender", header{}, 401},
		{"nobody/secret-of-the-sentry-sender", header{}, 401},
		{"nobody", header{}, 404},
	} {
		if w := post(h, Path+tt.path, body, tt.headers); w.Code != tt.want {
			t.Errorf("%s %v: answered %d %s", tt.path, tt.headers, w.Code, w.Body)
		}
	}
	for _, a := range store.all() {
		if a.Source != "sentry" {
			t.Errorf("%+v", a)
		}
	}
}

func TestATestButtonIsAnsweredAndShown(t *testing.T) {
	store := &rows{}
	h := running(t, Options{Store: store})
	w := post(h, Path+"grafana", `{"alerts":[{"status":"firing","labels":{"alertname":"TestAlert","instance":"Grafana"},"annotations":{"summary":"Notification test"}}]}`, nil)
	if w.Code != 202 || strings.TrimSpace(w.Body.String()) != `{"accepted":0,"test":true}` {
		t.Errorf("answered %d %s", w.Code, w.Body)
	}
	if len(store.all()) != 0 || len(store.events) != 1 || !strings.Contains(notice.Words(store.events[0]).Words(), "a test of the webhook grafana arrived") {
		t.Errorf("stored %+v, %+v", store.all(), store.events)
	}
}

func TestAPlainTextIsTaken(t *testing.T) {
	store := &rows{}
	h := running(t, Options{Store: store})
	w := post(h, Path+"generic?service=nas&severity=critical", "no space left", header{"Authorization": "Bearer " + testToken, "Content-Type": "text/plain"})
	if got := store.all(); w.Code != 202 || len(got) != 1 || got[0].Service != "nas" || got[0].Level != ops.LevelCritical || got[0].Summary != "no space left" {
		t.Errorf("answered %d %s: %+v", w.Code, w.Body, got)
	}
}

func TestMoreThanCanBeWrittenIsSentAgain(t *testing.T) {
	store := &rows{hold: make(chan struct{})}
	h := running(t, Options{Store: store, AtOnce: 8})
	codes := make(chan int, 100)
	var group sync.WaitGroup
	for i := range 100 {
		group.Go(func() {
			w := post(h, Path+"generic", fmt.Sprintf(`{"name":"a%d"}`, i), nil)
			if w.Code == http.StatusTooManyRequests && w.Header().Get("Retry-After") == "" {
				t.Error("429 without Retry-After")
			}
			codes <- w.Code
		})
	}
	for range 92 { // whoever found no room
		if code := <-codes; code != http.StatusTooManyRequests {
			t.Fatalf("answered %d while nothing can be written", code)
		}
	}
	close(store.hold)
	group.Wait()
	for range 8 {
		if code := <-codes; code != http.StatusAccepted {
			t.Errorf("answered %d", code)
		}
	}
	if len(store.all()) != 8 || store.writes > 8 {
		t.Errorf("%d stored in %d writes", len(store.all()), store.writes)
	}
}

func TestMoreThanAnybodyLooksAtIsSentAgain(t *testing.T) {
	store := &rows{pending: 10}
	h := running(t, Options{Store: store, Pending: 10})
	if w := post(h, Path+"generic", body, nil); w.Code != http.StatusTooManyRequests || len(store.all()) != 0 {
		t.Errorf("answered %d, %d stored", w.Code, len(store.all()))
	}
}

func TestWhatCannotBeWrittenIsNotAccepted(t *testing.T) {
	h := running(t, Options{Store: &rows{broken: errors.New("disk full")}})
	if w := post(h, Path+"generic", body, nil); w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" || strings.Contains(w.Body.String(), "disk") {
		t.Errorf("answered %d %s", w.Code, w.Body)
	}
}

func TestSecretsInAlertsAreNotStored(t *testing.T) {
	store := &rows{}
	h := running(t, Options{Store: store, Redact: func(s string) string { return strings.ReplaceAll(s, "hunter2", "***") }})
	post(h, Path+"generic", `{"name":"a hunter2","message":"login hunter2 failed","labels":{"p":"hunter2"},"url":"http://u:hunter2@x/"}`, nil)
	if got := fmt.Sprintf("%+v", store.all()); strings.Contains(got, "hunter2") {
		t.Errorf("stored %s", got)
	}
}
