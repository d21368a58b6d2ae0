package api_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"claudeops/internal/api"
	"claudeops/internal/ops"
	"claudeops/internal/store"
)

// send asks with headers and returns the raw answer.
func (c *client) send(method, path, body string, headers ...string) *httptest.ResponseRecorder {
	c.t.Helper()
	r := httptest.NewRequestWithContext(c.t.Context(), method, path, strings.NewReader(body))
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	c.handler.ServeHTTP(w, r)
	return w
}

func TestTheSameKeyGivesTheSameCycle(t *testing.T) {
	c := newClient(t)
	first := c.send("POST", "/api/v1/cycles", `{"prompt":"look"}`, "Idempotency-Key", "k1")
	again := c.send("POST", "/api/v1/cycles", `{"prompt":"look"}`, "Idempotency-Key", "k1")
	if first.Code != http.StatusAccepted || again.Code != http.StatusAccepted || first.Body.String() != again.Body.String() ||
		again.Header().Get("Location") != "/api/v1/cycles/1" || again.Header().Get("Idempotency-Replayed") != "true" {
		t.Errorf("first %d %s, again %d %s %v", first.Code, first.Body, again.Code, again.Body, again.Header())
	}
	if len(c.control.Submitted) != 1 {
		t.Errorf("submitted %d times", len(c.control.Submitted))
	}
	if got := c.send("POST", "/api/v1/cycles", `{"prompt":"other"}`, "Idempotency-Key", "k1"); got.Code != http.StatusConflict {
		t.Errorf("another request with the key: %d %s", got.Code, got.Body)
	}
	if got := c.send("POST", "/api/v1/cycles", `{"prompt":"look"}`, "Idempotency-Key", "k2"); got.Code != http.StatusAccepted || strings.Contains(got.Body.String(), `"id":1,`) {
		t.Errorf("another key: %d %s", got.Code, got.Body)
	}
	if got := c.send("POST", "/api/v1/cycles", "", "Idempotency-Key", strings.Repeat("k", 201)); got.Code != http.StatusUnprocessableEntity {
		t.Errorf("a key that is too long: %d", got.Code)
	}
}

func TestAKeyOutlivesARestartAndACrash(t *testing.T) {
	c := newClient(t)
	c.send("POST", "/api/v1/cycles", `{"prompt":"look"}`, "Idempotency-Key", "k1")
	// The answer was lost on the way, and a day later it is no longer kept: the row still knows the key.
	c.Now = c.Now.Add(25 * time.Hour)
	again := c.send("POST", "/api/v1/cycles", `{"prompt":"look"}`, "Idempotency-Key", "k1")
	if again.Code != http.StatusAccepted || !strings.Contains(again.Body.String(), `"id":1,`) {
		t.Errorf("%d %s", again.Code, again.Body)
	}
	if body := c.get("/api/v1/cycles"); len(items(body)) != 1 {
		t.Errorf("cycles %v", body)
	}
}

func TestAKeyBelongsToItsCaller(t *testing.T) {
	c := newClient(t)
	for _, name := range []string{"token", "127.0.0.1"} {
		r := httptest.NewRequestWithContext(api.WithCaller(t.Context(), api.Caller{Name: name}), "POST", "/api/v1/cycles", nil)
		r.Header.Set("Idempotency-Key", "k")
		c.handler.ServeHTTP(httptest.NewRecorder(), r)
	}
	if len(c.control.Submitted) != 2 {
		t.Errorf("submitted %d times", len(c.control.Submitted))
	}
}

func TestAFailureOfOursCanBeTriedAgainWithItsKey(t *testing.T) {
	c := newClient(t)
	c.control.Err = fmt.Errorf("disk full")
	if got := c.send("POST", "/api/v1/cycles", "", "Idempotency-Key", "k"); got.Code != http.StatusInternalServerError {
		t.Fatalf("status %d", got.Code)
	}
	c.control.Err = nil
	if got := c.send("POST", "/api/v1/cycles", "", "Idempotency-Key", "k"); got.Code != http.StatusAccepted {
		t.Errorf("status %d %s", got.Code, got.Body)
	}
}

func TestWhatACallerHasIsNotSentAgain(t *testing.T) {
	c := newClient(t)
	_, ids := c.twoTiers()
	for _, path := range []string{fmt.Sprintf("/api/v1/sessions/%d", ids[0]), "/api/v1/cycles", "/api/v1/openapi.json", "/api/v1/stats"} {
		first := c.send("GET", path, "")
		tag := first.Header().Get("ETag")
		if first.Code != http.StatusOK || tag == "" {
			t.Fatalf("%s: %d, ETag %q", path, first.Code, tag)
		}
		for _, given := range []string{tag, "W/" + tag, `"x", ` + tag, "*"} {
			if got := c.send("GET", path, "", "If-None-Match", given); got.Code != http.StatusNotModified || got.Body.Len() != 0 {
				t.Errorf("%s with %s: %d, %d bytes", path, given, got.Code, got.Body.Len())
			}
		}
		if got := c.send("GET", path, "", "If-None-Match", `"other"`); got.Code != http.StatusOK {
			t.Errorf("%s with another tag: %d", path, got.Code)
		}
	}
	before := c.send("GET", "/api/v1/cycles", "").Header().Get("ETag")
	c.twoTiers()
	if got := c.send("GET", "/api/v1/cycles", "", "If-None-Match", before); got.Code != http.StatusOK {
		t.Errorf("after a change: %d", got.Code)
	}
	if got := c.send("GET", "/api/v1/sessions/99", "", "If-None-Match", "*"); got.Code != http.StatusNotFound {
		t.Errorf("what is not there: %d", got.Code)
	}
}

func TestMemoriesAreAddedAndForgotten(t *testing.T) {
	c := newClient(t)
	status, header, body := c.ask("POST", "/api/v1/memories", `{"service":"jellyfin","observation":"starts slowly"}`)
	if status != http.StatusCreated || header.Get("Location") != "/api/v1/memories/1" || body["environment"] != "home" || body["source"] != "operator" ||
		body["confidence"] != 0.9 || body["category"] != "note" {
		t.Fatalf("%d %v", status, body)
	}
	if got := c.get("/api/v1/memories/1"); got["observation"] != "starts slowly" {
		t.Errorf("%v", got)
	}
	for _, bad := range []string{
		`{}`, `{"observation":"  "}`, `{"observation":"x","environment":"nowhere"}`, `{"observation":"x","confidence":2}`,
		`{"observation":"x","expires_at":"2020-01-01T00:00:00Z"}`, `{"observation":"x","source":"agent"}`,
	} {
		if status, _, body := c.ask("POST", "/api/v1/memories", bad); status != http.StatusUnprocessableEntity {
			t.Errorf("%s: %d %v", bad, status, body)
		}
	}
	if got := c.send("DELETE", "/api/v1/memories/1", ""); got.Code != http.StatusNoContent || got.Body.Len() != 0 {
		t.Errorf("forget: %d %s", got.Code, got.Body)
	}
	for _, method := range []string{"DELETE", "GET"} {
		if status, _, _ := c.ask(method, "/api/v1/memories/1", ""); status != http.StatusNotFound {
			t.Errorf("%s once more: %d", method, status)
		}
	}
}

func TestServicesTellTheirWorstCheck(t *testing.T) {
	c := newClient(t)
	check := func(service, probe string, status ops.Health, ago time.Duration) ops.Check {
		return ops.Check{At: c.Now.Add(-ago), Environment: "home", Service: service, Probe: probe, Type: "http", Status: status, Purpose: ops.ProbeWatch}
	}
	err := c.Store.AddChecks(t.Context(), []ops.Check{
		check("web", "GET /", ops.Healthy, time.Minute), check("web", "tcp", ops.Degraded, time.Minute),
		check("db", "tcp", ops.Down, time.Minute), check("old", "tcp", ops.Down, 5*time.Hour),
	})
	must(t, err)
	want := map[string]string{"web": "degraded", "db": "down", "old": "unknown", "jellyfin": "unknown"}
	found := items(c.get("/api/v1/services"))
	if len(found) != len(want) {
		t.Errorf("services %v", found)
	}
	for _, s := range found {
		if s["state"] != want[s["name"].(string)] {
			t.Errorf("%v is %v", s["name"], s["state"])
		}
	}
	if got := items(c.get("/api/v1/services?state=down")); len(got) != 1 || got[0]["name"] != "db" {
		t.Errorf("down: %v", got)
	}
	if got := c.get("/api/v1/services/web"); len(got["checks"].([]any)) != 2 || got["uptime_24h"] != 1.0 {
		t.Errorf("web: %v", got)
	}
	past := c.get("/api/v1/services/db/history?days=7")
	days := past["days"].([]any)
	if last := days[len(days)-1].(map[string]any); len(days) != 7 || last["day"] != "2026-11-14" || last["down"] != 1.0 || past["uptime"] != 0.0 {
		t.Errorf("history of db: %v", past)
	}
	if past := c.get("/api/v1/services/jellyfin/history"); past["uptime"] != nil || len(past["days"].([]any)) != 0 {
		t.Errorf("history of a service that was never checked: %v", past)
	}
	for _, path := range []string{"/api/v1/services/nothing", "/api/v1/services/nothing/history"} {
		if status, _, _ := c.ask("GET", path, ""); status != http.StatusNotFound {
			t.Errorf("%s: %d", path, status)
		}
	}
}

func TestCostsAddUp(t *testing.T) {
	c := newClient(t)
	c.twoTiers()
	body := c.get("/api/v1/costs")
	if body["total_cost_usd"] != 0.75 || body["sessions"] != 2.0 || body["unknown_costs"] != 0.0 || len(items(body)) != 2 {
		t.Errorf("%v", body)
	}
	// One of the environments has no limit, so neither have all of them together.
	if home := c.get("/api/v1/costs?environment=home"); body["budget_day_usd"] != 0.0 || home["budget_day_usd"] != 5.0 {
		t.Errorf("budget of all %v, of one %v", body["budget_day_usd"], home["budget_day_usd"])
	}
	if got := items(c.get("/api/v1/costs?by=model")); len(got) != 2 || got[0]["key"] != "haiku" || got[0]["cost_usd"] != 0.25 || got[0]["day"] != "2026-11-14" || got[0]["input_tokens"] != nil {
		t.Errorf("by model: %v", got)
	}
	if got := c.get("/api/v1/costs?environment=lab"); got["total_cost_usd"] != nil || got["sessions"] != 0.0 {
		t.Errorf("elsewhere: %v", got)
	}
	if got := items(c.get("/api/v1/costs/chains")); len(got) != 1 || got[0]["cycle_id"] != 1.0 || got[0]["cost_usd"] != 0.75 {
		t.Errorf("chains: %v", got)
	}
	for _, bad := range []string{"by=colour", "since=yesterday", "environment=nowhere", "since=2026-11-14T00:00:00Z&until=2026-11-13T00:00:00Z"} {
		if status, _, _ := c.ask("GET", "/api/v1/costs?"+bad, ""); status != http.StatusUnprocessableEntity {
			t.Errorf("%s: %d", bad, status)
		}
	}
}

func TestStatsAreFlat(t *testing.T) {
	c := newClient(t)
	if body := c.get("/api/v1/stats"); body["last_cycle_status"] != nil || body["services_unknown"] != 1.0 || body["cost_today_usd"] != 0.0 {
		t.Errorf("before anything: %v", body)
	}
	c.twoTiers()
	c.Now = c.Now.Add(time.Minute)
	body := c.get("/api/v1/stats")
	for name, want := range map[string]any{
		"version": "1.2.3", "services_total": 1.0, "services_down": 0.0, "needs_you": 0.0, "approvals_pending": 0.0, "sessions_running": 0.0,
		"last_cycle_status": "resolved", "last_cycle_age_seconds": 60.0, "next_check_in_seconds": 90.0, "cost_today_usd": 0.75,
		"cost_30_days_usd": 0.75, "budget_day_usd": 5.0, "budget_used_percent": 15.0,
	} {
		if body[name] != want {
			t.Errorf("%s is %v, want %v", name, body[name], want)
		}
	}
	for name, value := range body {
		switch value.(type) {
		case map[string]any, []any:
			t.Errorf("%s is not flat", name)
		}
	}
}

func TestAFollowerOfEventsMissesNothing(t *testing.T) {
	c := newClient(t)
	for i := range 5 {
		if _, err := c.Store.AddEvent(t.Context(), ops.Event{Level: ops.LevelInfo, Kind: map[bool]ops.EventKind{true: "audit", false: "agent"}[i%2 == 0], Message: fmt.Sprint(i)}); err != nil {
			t.Fatal(err)
		}
	}
	first := c.get("/api/v1/events?after=1&limit=2")
	second := c.get(fmt.Sprintf("/api/v1/events?after=1&limit=2&cursor=%v", first["next_cursor"]))
	var seen []any
	for _, e := range append(items(first), items(second)...) {
		seen = append(seen, e["id"])
	}
	if fmt.Sprint(seen) != "[2 3 4 5]" || second["next_cursor"] != nil {
		t.Errorf("saw %v", seen)
	}
	if got := items(c.get("/api/v1/events?kind=audit")); len(got) != 3 {
		t.Errorf("audit: %v", got)
	}
}

// Whatever the description names is there to be read by people who never saw the code.
func TestTheDescriptionIsComplete(t *testing.T) {
	c := newClient(t)
	var document struct {
		Info struct {
			Description string `json:"description"`
		} `json:"info"`
		Tags []struct {
			Name string `json:"name"`
		} `json:"tags"`
		Components struct {
			SecuritySchemes map[string]any `json:"securitySchemes"`
		} `json:"components"`
		Paths map[string]map[string]struct {
			ID          string   `json:"operationId"`
			Summary     string   `json:"summary"`
			Description string   `json:"description"`
			Tags        []string `json:"tags"`
			Parameters  []struct {
				Name        string `json:"name"`
				Description string `json:"description"`
			} `json:"parameters"`
			Responses map[string]any `json:"responses"`
		} `json:"paths"`
	}
	must(t, json.Unmarshal(c.send("GET", "/api/v1/openapi.json", "").Body.Bytes(), &document))
	if document.Info.Description == "" || document.Components.SecuritySchemes["token"] == nil {
		t.Errorf("info %+v, security %v", document.Info, document.Components.SecuritySchemes)
	}
	tags := map[string]bool{}
	for _, tag := range document.Tags {
		tags[tag.Name] = true
	}
	ids := map[string]bool{}
	for path, methods := range document.Paths {
		for method, o := range methods {
			if o.ID == "" || ids[o.ID] || o.Summary == "" || o.Description == "" || len(o.Tags) != 1 || !tags[o.Tags[0]] || len(o.Responses) < 2 {
				t.Errorf("%s %s: %+v", method, path, o)
			}
			ids[o.ID] = true
			keyed := false
			for _, p := range o.Parameters {
				keyed = keyed || p.Name == "Idempotency-Key"
				if p.Description == "" {
					t.Errorf("%s %s: parameter %s is not described", method, path, p.Name)
				}
			}
			if keyed != (method == "post" && o.Tags[0] != "webhooks") { // a fingerprint identifies an alert that is sent again
				t.Errorf("%s %s: takes a key: %v", method, path, keyed)
			}
		}
	}
	for _, path := range []string{
		"/incidents", "/incidents/{id}", "/incidents/{id}/ack", "/incidents/{id}/snooze", "/incidents/{id}/resolve", "/approvals", "/approvals/{id}",
		"/approvals/{id}/approve", "/approvals/{id}/deny", "/services", "/services/{name}", "/cooldowns/clear", "/memories", "/memories/{id}",
		"/costs", "/costs/chains", "/stats", "/situation", "/held", "/changes", "/guard/explain", "/config/check", "/doctor", "/silences", "/trust", "/reflexes", "/reflexes/{id}", "/reflexes/{id}/enable", "/reflexes/{id}/disable", "/silences/{id}/end", "/notifications", "/notifications/{id}/retry",
		"/webhooks/{sender}", "/webhooks/{sender}/{secret}",
	} {
		if document.Paths[path] == nil {
			t.Errorf("%s is not described", path)
		}
	}
}

// The command line reads the rows that the API sends; nothing may be lost on the way.
func TestRowsReadBackAreTheSame(t *testing.T) {
	c := newClient(t)
	cycle, ids := c.twoTiers()
	if _, err := c.Store.AddMemory(t.Context(), ops.Memory{Environment: "home", Category: "note", Observation: "slow", Confidence: 0.5}); err != nil {
		t.Fatal(err)
	}
	same := func(path string, row any) {
		t.Helper()
		sent := c.send("GET", path, "").Body.Bytes()
		must(t, json.Unmarshal(sent, row))
		again, err := json.Marshal(row)
		must(t, err)
		if first, second := strings.TrimSpace(string(sent)), string(again); first != second {
			t.Errorf("%s\n%s\n%s", path, first, second)
		}
	}
	same(fmt.Sprintf("/api/v1/sessions/%d", ids[0]), &api.SessionReport{})
	same(fmt.Sprintf("/api/v1/cycles/%d", cycle), &api.CycleReport{})
	same("/api/v1/memories/1", &api.Memory{})
}

// Nobody is told that a key is in use by a request that nobody works on.
func TestTheKeyOfADeadProcessIsTakenOver(t *testing.T) {
	c := newClient(t)
	const body = `{"prompt":"look"}`
	digest := sha256.Sum256([]byte("POST /api/v1/cycles\n" + body))
	dead := store.Request{Caller: "api", Key: "k1", Digest: hex.EncodeToString(digest[:]), At: c.Now}
	if before, err := c.Store.BeginRequest(t.Context(), dead); before != nil || err != nil {
		t.Fatal(before, err)
	}
	if got := c.send("POST", "/api/v1/cycles", body, "Idempotency-Key", "k1"); got.Code != http.StatusAccepted || len(c.control.Submitted) != 1 {
		t.Errorf("%d %s, submitted %d times", got.Code, got.Body, len(c.control.Submitted))
	}
}

func TestEqualRequestsAtOnceGetOneAnswer(t *testing.T) {
	c := newClient(t)
	answers := make(chan *httptest.ResponseRecorder, 8)
	var all sync.WaitGroup
	for range cap(answers) {
		all.Go(func() { answers <- c.send("POST", "/api/v1/cycles", `{"prompt":"look"}`, "Idempotency-Key", "k1") })
	}
	all.Wait()
	close(answers)
	bodies := map[string]int{}
	for a := range answers {
		bodies[fmt.Sprint(a.Code, " ", a.Body)]++
	}
	if len(bodies) != 1 || len(c.control.Submitted) != 1 {
		t.Errorf("submitted %d times: %v", len(c.control.Submitted), bodies)
	}
}

func TestAnAmbiguousBodyIsRefused(t *testing.T) {
	c := newClient(t)
	for _, body := range []string{`{"prompt":"look","prompt":"delete"}`, "{\"prompt\":\"\xff\"}", `{"prompt":"\ud800"}`} {
		if got := c.send("POST", "/api/v1/cycles", body); got.Code != http.StatusUnprocessableEntity || len(c.control.Submitted) != 0 {
			t.Errorf("%q: %d %s", body, got.Code, got.Body)
		}
	}
	if got := c.send("POST", "/api/v1/cycles", `{"prompt":"café ✅"}`); got.Code != http.StatusAccepted {
		t.Errorf("plain text: %d %s", got.Code, got.Body)
	}
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}
