package api_test

import (
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
