package api_test

import (
	"net/http"
	"strings"
	"testing"
)

func TestUpdatesAreListedAndAskedFor(t *testing.T) {
	c := newClient(t)
	status, _, got := c.ask("GET", "/api/v1/updates?service=jellyfin", "")
	rows, _ := got["items"].([]any)
	if status != http.StatusOK || len(rows) != 1 {
		t.Fatalf("%d %v", status, got)
	}
	row, _ := rows[0].(map[string]any)
	if why, _ := row["not_updated"].(string); !strings.Contains(why, "compose") || row["newer"] != false || row["latest"] != nil {
		t.Errorf("row %v", row)
	}
	for _, tt := range []struct {
		method, path, body string
		want               int
	}{
		{"POST", "/runs", `{"service":"jellyfin"}`, http.StatusConflict},
		{"POST", "/runs", `{"service":"nothing"}`, http.StatusUnprocessableEntity},
		{"GET", "/runs", "", http.StatusOK},
		{"GET", "/runs/1", "", http.StatusNotFound},
		{"GET", "?service=nothing", "", http.StatusUnprocessableEntity},
	} {
		if status, _, got := c.ask(tt.method, "/api/v1/updates"+tt.path, tt.body); status != tt.want {
			t.Errorf("%s %s: %d %v", tt.method, tt.path, status, got)
		}
	}
}
