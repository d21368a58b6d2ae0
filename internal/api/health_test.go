package api_test

import (
	"errors"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

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
