package api_test

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"claudeops/internal/api"
	"claudeops/internal/ops"
)

// The address of a heartbeat is in one answer, and nowhere else: not in the stored answer to a request with a key either.
func TestTheAddressOfAHeartbeatIsShownOnce(t *testing.T) {
	c := newClient(t)
	c.handler = api.New(api.Options{
		Store: c.Store, Control: c.control, Logger: slog.New(slog.DiscardHandler), Clock: c.Clock, Address: func() string { return "https://ops.example.org" },
		Environments: []ops.Environment{{
			Name: "home", Policy: ops.Policy{Inventory: ops.Inventory{Services: []ops.Service{{Name: "backup"}}}},
			Probes: []ops.ProbeSpec{{Service: "backup", Type: ops.ProbeHeartbeat, Name: "heartbeat"}},
		}},
	})
	ask := func() *httptest.ResponseRecorder {
		return c.send("POST", "/api/v1/services/backup/heartbeat", `{}`, "Content-Type", "application/json", "Idempotency-Key", "k")
	}
	first := ask()
	var made api.HeartbeatAddress
	if err := json.Unmarshal(first.Body.Bytes(), &made); err != nil || first.Code != http.StatusOK || first.Header().Get("Cache-Control") != "no-store" {
		t.Fatalf("%d %s", first.Code, first.Body)
	}
	token, own := strings.CutPrefix(made.URL, "https://ops.example.org/ping/")
	if _, err := c.Store.Heartbeat(t.Context(), token); err != nil || !own || !strings.HasSuffix(made.Curl, " "+made.URL) {
		t.Errorf("%+v: %v", made, err)
	}
	if again := ask(); again.Code != http.StatusConflict || strings.Contains(again.Body.String(), token) || !strings.Contains(again.Body.String(), "shown once") {
		t.Errorf("again: %d %s", again.Code, again.Body)
	}
	shown := c.send("GET", "/api/v1/services/backup", "").Body.String()
	if strings.Contains(shown, token) || !strings.Contains(shown, `"addressed":true`) {
		t.Errorf("the service is %s", shown)
	}
}
