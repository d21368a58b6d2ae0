package api_test

import (
	"net/http"
	"strings"
	"testing"
)

func TestReflexesAreListedAndSwitched(t *testing.T) {
	c := newClient(t)
	c.Earn("home", "jellyfin")
	status, _, got := c.ask("GET", "/api/v1/reflexes?service=jellyfin", "")
	rows, _ := got["items"].([]any)
	if status != http.StatusOK || len(rows) != 1 {
		t.Fatalf("%d %v", status, got)
	}
	row, _ := rows[0].(map[string]any)
	if row["state"] != "asked" || row["class"] != "5xx" || row["yaml"] != `{on: http, status: down, do: ["restart"], tries: 2, per: 6h}` || row["changed_by"] != nil {
		t.Errorf("row %v", row)
	}
	for _, tt := range []struct {
		method, path string
		want         int
	}{
		{"GET", "1", http.StatusOK},
		{"GET", "9", http.StatusNotFound},
		{"POST", "1/enable", http.StatusUnprocessableEntity}, // the service has no such action any more
		{"POST", "1/disable", http.StatusOK},
		{"POST", "1/disable", http.StatusConflict},
		{"POST", "9/enable", http.StatusNotFound},
	} {
		body := ""
		if tt.method == "POST" {
			body = `{"reason":"no"}`
		}
		if status, _, got := c.ask(tt.method, "/api/v1/reflexes/"+tt.path, body); status != tt.want {
			t.Errorf("%s %s: %d %v", tt.method, tt.path, status, got)
		}
	}
	if _, _, got := c.ask("GET", "/api/v1/reflexes?service=nothing", ""); !strings.Contains(got["detail"].(string), "nothing") {
		t.Errorf("unknown service: %v", got)
	}
}
