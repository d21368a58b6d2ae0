package api_test

import (
	"database/sql"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	_ "modernc.org/sqlite" // to lock the database as another process would

	"claudeops/internal/api"
	"claudeops/test/apitest"
)

func TestHealthTellsWhatIsKnownOfTheDatabase(t *testing.T) {
	j := apitest.Open(t, time.Date(2026, 11, 14, 13, 41, 0, 0, time.UTC))
	state := "checking"
	handler := api.New(api.Options{
		Store: j.Store, Control: &apitest.Control{Journal: j}, Logger: slog.New(slog.DiscardHandler), Clock: j.Clock,
		Database: func() string { return state },
	})
	for _, tt := range []struct{ state, status string }{{"checking", "ok"}, {"sound", "ok"}, {"damaged", "degraded"}} {
		state = tt.state
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", "/healthz", nil))
		for _, part := range []string{`"database":"` + tt.state + `"`, `"status":"` + tt.status + `"`} {
			if !strings.Contains(w.Body.String(), part) {
				t.Errorf("%s is not in %s", part, w.Body)
			}
		}
	}
}

// A host that drains still answers: what restarts unready programs must leave it alone.
func TestReadinessSaysDraining(t *testing.T) {
	j := apitest.Open(t, time.Date(2026, 11, 14, 13, 41, 0, 0, time.UTC))
	var why error
	handler := api.New(api.Options{
		Store: j.Store, Control: &apitest.Control{Journal: j}, Logger: slog.New(slog.DiscardHandler), Clock: j.Clock,
		Ready: func() error { return why },
	})
	for _, tt := range []struct {
		why  error
		code int
		said string
	}{{nil, 200, `"status":"ready"`}, {api.ErrDraining, 200, `"status":"draining"`}, {errors.New("starting"), 503, "not ready: starting"}} {
		why = tt.why
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", "/readyz", nil))
		if w.Code != tt.code || !strings.Contains(w.Body.String(), tt.said) {
			t.Errorf("%v: %d %s", tt.why, w.Code, w.Body)
		}
	}
}

func TestALockedDatabaseIsUnavailable(t *testing.T) {
	t.Parallel()
	c := newClient(t)
	lock, err := sql.Open("sqlite", "file:"+c.Path)
	must(t, err)
	lock.SetMaxOpenConns(1)
	if _, err := lock.Exec(`BEGIN EXCLUSIVE`); err != nil {
		t.Fatal(err)
	}
	status, header, body := c.ask(http.MethodPost, "/api/v1/cycles", `{}`)
	if status != http.StatusServiceUnavailable || header.Get("Retry-After") == "" || !strings.Contains(body["detail"].(string), "try again") {
		t.Errorf("status %d, Retry-After %q: %v", status, header.Get("Retry-After"), body)
	}
	if _, err := lock.Exec(`ROLLBACK`); err != nil {
		t.Fatal(err)
	}
	must(t, lock.Close())
	if status, _, body := c.ask(http.MethodPost, "/api/v1/cycles", `{}`); status != http.StatusAccepted {
		t.Errorf("after the lock: %d, %v", status, body)
	}
}

func TestARemovedDatabaseIsUnavailable(t *testing.T) {
	t.Parallel()
	c := newClient(t)
	must(t, os.Rename(c.Path, c.Path+".moved"))
	for _, path := range []string{"/api/v1/cycles", "/api/v1/silences"} {
		body := `{}`
		if path == "/api/v1/silences" {
			body = `{"service":"web","reason":"test","duration":"1h"}`
		}
		if status, header, answer := c.ask(http.MethodPost, path, body); status == http.StatusAccepted || status == http.StatusCreated ||
			status == http.StatusInternalServerError || status == http.StatusServiceUnavailable && header.Get("Retry-After") == "" {
			t.Errorf("POST %s: %d, %v", path, status, answer)
		}
	}
	must(t, os.Rename(c.Path+".moved", c.Path))
}
