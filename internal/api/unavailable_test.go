package api_test

import (
	"database/sql"
	"net/http"
	"os"
	"strings"
	"testing"

	_ "modernc.org/sqlite" // to lock the database as another process would
)

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
