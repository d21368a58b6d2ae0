package api_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"claudeops/internal/ops"
)

func TestSilencesAreAddedListedAndEnded(t *testing.T) {
	c := newClient(t)
	status, header, added := c.ask("POST", "/api/v1/silences", `{"service":"media-*","labels":{"severity":"warn*"},"reason":"disk is replaced","for":"2h"}`)
	if status != http.StatusCreated || added["service"] != "media-*" || added["environment"] != nil || added["active"] != true || added["reason"] != "disk is replaced" ||
		added["author"] == "" || added["until"] != c.Now.Add(2*time.Hour).UTC().Format(time.RFC3339) {
		t.Fatalf("%d %v", status, added)
	}
	if found := items(c.get(header.Get("Location"))); len(found) != 1 || found[0]["id"] != added["id"] {
		t.Errorf("%s leads to %v", header.Get("Location"), found)
	}
	until := c.Now.Add(30 * time.Hour).UTC().Format(time.RFC3339)
	if status, _, body := c.ask("POST", "/api/v1/silences", fmt.Sprintf(`{"environment":"home","group":"net","reason":"move","from":%q,"until":%q}`,
		c.Now.Add(time.Hour).UTC().Format(time.RFC3339), until)); status != http.StatusCreated || body["active"] != false || body["environment"] != "home" {
		t.Errorf("one for later: %d %v", status, body)
	}
	if found := items(c.get("/api/v1/silences")); len(found) != 2 || found[0]["group"] != "net" {
		t.Errorf("listed %v", found)
	}
	if status, _, body := c.ask("POST", "/api/v1/silences/1/end", ""); status != http.StatusOK || body["active"] != false {
		t.Errorf("end: %d %v", status, body)
	}
	if status, _, _ := c.ask("POST", "/api/v1/silences/1/end", ""); status != http.StatusConflict {
		t.Errorf("end again: %d", status)
	}
	if status, _, _ := c.ask("POST", "/api/v1/silences/99/end", ""); status != http.StatusNotFound {
		t.Errorf("end of nothing: %d", status)
	}
	if found := items(c.get("/api/v1/silences")); len(found) != 1 {
		t.Errorf("still in force: %v", found)
	}
	first := c.get("/api/v1/silences?all=true&limit=1")
	if len(items(first)) != 1 || first["next_cursor"] != "2" || len(items(c.get("/api/v1/silences?all=true&cursor=2"))) != 1 {
		t.Errorf("paged %v", first)
	}
}

func TestDeadNotificationsAreListedAndTriedAgain(t *testing.T) {
	c := newClient(t)
	for n, status := range []ops.NoticeStatus{ops.NoticeDead, ops.NoticeSent, ops.NoticeSkipped, ops.NoticePending} {
		_, err := c.Store.AddNotice(t.Context(), ops.Notice{
			Kind: "opened", Level: ops.LevelCritical, Title: fmt.Sprintf("notice %d", n), Status: status, Attempts: 6, Error: "no route to host", Service: "web",
			CreatedAt: c.Now,
		})
		must(t, err)
	}
	dead := items(c.get("/api/v1/notifications?status=dead"))
	if len(dead) != 1 || dead[0]["title"] != "notice 0" || dead[0]["attempts"] != 6.0 || dead[0]["error"] != "no route to host" || dead[0]["next_at"] != nil {
		t.Fatalf("dead %v", dead)
	}
	first := c.get("/api/v1/notifications?limit=3")
	if len(items(first)) != 3 || first["next_cursor"] != "2" || len(items(c.get("/api/v1/notifications?cursor=2"))) != 1 {
		t.Errorf("paged %v", first)
	}
	status, _, body := c.ask("POST", "/api/v1/notifications/1/retry", "")
	if status != http.StatusOK || body["status"] != "pending" || body["attempts"] != 0.0 || body["error"] != nil || body["next_at"] == nil {
		t.Errorf("retry: %d %v", status, body)
	}
	for id, want := range map[int]int{1: http.StatusConflict, 2: http.StatusConflict, 3: http.StatusOK, 99: http.StatusNotFound} {
		if status, _, body := c.ask("POST", fmt.Sprintf("/api/v1/notifications/%d/retry", id), ""); status != want {
			t.Errorf("retry of %d: %d %v", id, status, body)
		}
	}
	if status, _, _ := c.ask("GET", "/api/v1/notifications?status=lost", ""); status != http.StatusUnprocessableEntity {
		t.Errorf("an unknown status: %d", status)
	}
}
