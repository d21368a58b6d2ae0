package api_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"claudeops/internal/api"
	"claudeops/internal/decide/report"
	"claudeops/internal/desk"
	"claudeops/internal/ops"
	"claudeops/test/apitest"
)

type client struct {
	*apitest.Journal
	t       *testing.T
	handler http.Handler
	control *apitest.Control
	ready   error
}

func newClient(t *testing.T) *client {
	t.Helper()
	j := apitest.Open(t, time.Date(2026, 11, 14, 13, 41, 0, 0, time.UTC))
	c := &client{Journal: j, t: t, control: &apitest.Control{Journal: j}}
	c.handler = api.New(api.Options{
		Store: j.Store, Control: c.control, Logger: slog.New(slog.DiscardHandler), Clock: j.Clock, Version: "1.2.3",
		Environments: []ops.Environment{
			{
				Name: "home", Interval: time.Hour,
				Policy: ops.Policy{Cooldowns: apitest.Limits(), BudgetDayUSD: 5, Inventory: ops.Inventory{Services: []ops.Service{{Name: "jellyfin"}}}},
			},
			{Name: "lab", Policy: ops.Policy{Cooldowns: apitest.Limits()}},
		},
		NextCheck: func() map[string]time.Time { return map[string]time.Time{"home": j.Now.Add(90 * time.Second)} },
		Ready:     func() error { return c.ready },
	})
	return c
}

// ask sends a request and returns the status, the headers and the decoded body.
func (c *client) ask(method, path, body string) (int, http.Header, map[string]any) {
	c.t.Helper()
	r := httptest.NewRequestWithContext(c.t.Context(), method, path, strings.NewReader(body))
	w := httptest.NewRecorder()
	c.handler.ServeHTTP(w, r)
	var decoded map[string]any
	if err := json.Unmarshal(w.Body.Bytes(), &decoded); err != nil {
		c.t.Fatalf("%s %s: %v\n%s", method, path, err, w.Body)
	}
	if w.Code >= 400 {
		if got := w.Header().Get("Content-Type"); got != "application/problem+json" {
			c.t.Errorf("%s %s: status %d with %q", method, path, w.Code, got)
		}
		if decoded["status"] != float64(w.Code) || decoded["title"] == "" {
			c.t.Errorf("%s %s: problem %v", method, path, decoded)
		}
	}
	return w.Code, w.Header(), decoded
}

func (c *client) get(path string) map[string]any {
	c.t.Helper()
	status, header, body := c.ask(http.MethodGet, path, "")
	if status != http.StatusOK || header.Get("Content-Type") != "application/json" {
		c.t.Fatalf("GET %s: status %d, %s\n%v", path, status, header.Get("Content-Type"), body)
	}
	return body
}

func items(body map[string]any) []map[string]any {
	var out []map[string]any
	for _, item := range body["items"].([]any) {
		out = append(out, item.(map[string]any))
	}
	return out
}

func (c *client) twoTiers() (ops.CycleID, []ops.SessionID) {
	c.t.Helper()
	return c.Chain(ops.NewCycle{Environment: "home"}, ops.CycleResolved, "Tier 2 repaired it.",
		apitest.Run{
			Tier: 1, Model: "haiku", For: 17 * time.Second, Outcome: ops.OutcomeEscalate,
			Handoff: `{"schema_version":1,"reason":"502"}`, Exit: ops.Ptr(0),
			Figures:  ops.Figures{CostUSD: ops.Ptr(0.25), NumTurns: ops.Ptr[int64](4), DurationMS: ops.Ptr[int64](17000)},
			Lines:    []string{"one", "two", "three"},
			Decision: &ops.Decision{SourceHandler: "tier1", TargetHandler: "tier2", Reason: "ok", Depth: 1, MaxDepth: 2, Verdict: ops.VerdictEscalate},
			Events:   []ops.Event{{Level: ops.LevelWarning, Verb: ops.VerbProbeFailed, Service: "jellyfin", Reason: "is down"}},
		},
		apitest.Run{Tier: 2, Model: "sonnet", For: time.Minute, Outcome: ops.OutcomeResolved, Figures: ops.Figures{CostUSD: ops.Ptr(0.5)}})
}

func TestACycleIsAcceptedAndQueued(t *testing.T) {
	c := newClient(t)
	status, header, body := c.ask(http.MethodPost, "/api/v1/cycles", `{"environment":"lab","prompt":"look at jellyfin","dry_run":true}`)
	if status != http.StatusAccepted || body["id"] != 1.0 || body["status"] != "queued" || fmt.Sprint(body["held"]) != "[]" || len(body) != 3 {
		t.Errorf("status %d, body %v", status, body)
	}
	if got := header.Get("Location"); got != "/api/v1/cycles/1" {
		t.Errorf("Location %q", got)
	}
	want := ops.NewCycle{
		Environment: "lab", Trigger: ops.TriggerAPI, Prompt: "look at jellyfin",
		Options: ops.CycleOptions{DryRun: true}, At: c.Now, Behind: desk.MaxQueued,
	}
	if len(c.control.Submitted) != 1 || !reflect.DeepEqual(c.control.Submitted[0], want) {
		t.Errorf("submitted %+v", c.control.Submitted)
	}
}

func TestAFullQueueRefusesMoreAndSaysWhenToTryAgain(t *testing.T) {
	c := newClient(t)
	c.control.Err = fmt.Errorf("submit cycle: 10000 cycles of home wait already: %w", ops.ErrQueueFull)
	status, header, body := c.ask(http.MethodPost, "/api/v1/cycles", "{}")
	if text := fmt.Sprint(body["detail"]); status != http.StatusTooManyRequests || header.Get("Retry-After") != "60" || !strings.Contains(text, "cancel some of them") {
		t.Errorf("status %d, Retry-After %q, %v", status, header.Get("Retry-After"), body)
	}
}

func TestACycleNeedsNoBody(t *testing.T) {
	for _, body := range []string{"", "{}"} {
		c := newClient(t)
		if status, _, answer := c.ask(http.MethodPost, "/api/v1/cycles", body); status != http.StatusAccepted {
			t.Errorf("body %q: status %d, %v", body, status, answer)
		}
		if len(c.control.Submitted) != 1 || c.control.Submitted[0].Environment != "home" {
			t.Errorf("body %q: submitted %+v", body, c.control.Submitted)
		}
	}
}

func TestACallerCannotChooseATierOrAnythingUnknown(t *testing.T) {
	c := newClient(t)
	for _, body := range []string{
		`{"tier":3}`, `{"max_tier":3}`, `{"Tier":3}`, `{"options":{"max_tier":3}}`, `{"trigger":"scheduled"}`,
		`{"prompt":"x","tier":3}`, `{"dry_run":"yes"}`, `{"environment":"nowhere"}`, `[]`, `{`, `"x"`,
		`{"prompt":"` + strings.Repeat("x", 20001) + `"}`,
	} {
		status, _, _ := c.ask(http.MethodPost, "/api/v1/cycles", body)
		if status != http.StatusUnprocessableEntity && status != http.StatusBadRequest {
			t.Errorf("%.60s: status %d", body, status)
		}
		if len(c.control.Submitted) != 0 {
			t.Errorf("%.60s: submitted %+v", body, c.control.Submitted)
		}
	}
}

func TestSessionsHaveTheNamesOfTheirColumns(t *testing.T) {
	c := newClient(t)
	_, ids := c.twoTiers()
	body := c.get(fmt.Sprintf("/api/v1/sessions/%d", ids[0]))
	for name, want := range map[string]any{
		"id": 1.0, "cycle_id": 1.0, "parent_session_id": nil, "tier": 1.0, "attempt": 1.0, "handler": "tier1", "model": "haiku",
		"status": "completed", "outcome": "escalate", "cost_usd": 0.25, "num_turns": 4.0, "duration_ms": 17000.0,
		"input_tokens": nil, "cache_read_tokens": nil, "exit_code": 0.0, "stop_cause": nil, "error": nil,
		"context_mode": "fresh", "started_at": "2026-11-14T13:41:00Z", "ended_at": "2026-11-14T13:41:17Z",
		"outcome_json": nil, "retry_of_session_id": nil, "recovery_level": 0.0, "context_tokens": nil,
	} {
		if got, found := body[name]; !found || got != want {
			t.Errorf("%s is %v (there: %v), want %v", name, got, found, want)
		}
	}
	if got, _ := body["handoff_json"].(map[string]any); got["reason"] != "502" {
		t.Errorf("handoff_json is %v", body["handoff_json"])
	}
	if body["$schema"] != nil {
		t.Error("the answer points to a schema that is not served")
	}
	second := c.get(fmt.Sprintf("/api/v1/sessions/%d", ids[1]))
	if second["parent_session_id"] != 1.0 || second["num_turns"] != nil || second["exit_code"] != nil {
		t.Errorf("second session %v", second)
	}
}

func TestASessionSaysHowSureItIs(t *testing.T) {
	c := newClient(t)
	_, ids := c.Chain(ops.NewCycle{}, ops.CycleResolved, "done",
		apitest.Run{Tier: 1, For: time.Second, Outcome: ops.OutcomeEscalate, Handoff: `{"schema_version":1,"confidence":0.75}`},
		apitest.Run{Tier: 2, For: time.Second, Outcome: ops.OutcomeResolved, Report: `{"outcome":"resolved","confidence":0.4}`},
		apitest.Run{Tier: 1, Attempt: 2, Role: ops.RoleJudge, For: time.Second, Report: `{"verdict":"PASS","confidence":0.9}`},
		apitest.Run{Tier: 3, For: time.Second, Outcome: ops.OutcomeResolved, Report: `{"outcome":"resolved","confidence":40}`})
	for i, want := range []any{0.75, 0.4, nil, nil} {
		if got, found := c.get(fmt.Sprintf("/api/v1/sessions/%d", ids[i]))["confidence"]; !found || got != want {
			t.Errorf("session %d is %v sure (there: %v), want %v", ids[i], got, found, want)
		}
	}
}

func TestAHandoffThatIsNoJSONIsAString(t *testing.T) {
	c := newClient(t)
	_, ids := c.Chain(ops.NewCycle{}, ops.CycleNeedsHuman, "refused",
		apitest.Run{Tier: 1, For: time.Second, Outcome: ops.OutcomeEscalate, Handoff: "{broken\xff"})
	if got := c.get(fmt.Sprintf("/api/v1/sessions/%d", ids[0]))["handoff_json"]; got != "{broken\uFFFD" {
		t.Errorf("handoff_json is %q", got)
	}
}

func TestTheChainIsTheSameFromEverySession(t *testing.T) {
	c := newClient(t)
	_, ids := c.twoTiers()
	for _, id := range ids {
		body := c.get(fmt.Sprintf("/api/v1/sessions/%d/chain", id))
		sessions := body["sessions"].([]any)
		if len(sessions) != 2 || sessions[0].(map[string]any)["id"] != 1.0 || sessions[1].(map[string]any)["id"] != 2.0 {
			t.Errorf("from %d: %v", id, sessions)
		}
		if body["total_cost_usd"] != 0.75 || body["unknown_costs"] != 0.0 {
			t.Errorf("from %d: total %v, unknown %v", id, body["total_cost_usd"], body["unknown_costs"])
		}
	}
}

func TestACycleIsNamedByItsProblem(t *testing.T) {
	c := newClient(t)
	c.Chain(ops.NewCycle{Problem: "redis: connection refused", Prompt: "look"}, ops.CycleResolved, "done")
	c.Chain(ops.NewCycle{}, ops.CycleHealthy, "fine")
	for path, want := range map[string][2]any{
		"/api/v1/cycles/1": {"redis: connection refused", "redis: connection refused"}, "/api/v1/cycles/2": {"Scheduled check", nil},
	} {
		if body := c.get(path); body["title"] != want[0] || body["problem"] != want[1] {
			t.Errorf("%s: title %v, problem %v", path, body["title"], body["problem"])
		}
	}
}

func TestATotalOfUnknownCostsIsNull(t *testing.T) {
	c := newClient(t)
	_, ids := c.Chain(ops.NewCycle{}, ops.CycleFailed, "failed", apitest.Run{Tier: 1, For: time.Second, Status: ops.SessionFailed})
	body := c.get(fmt.Sprintf("/api/v1/sessions/%d/chain", ids[0]))
	if total, found := body["total_cost_usd"]; !found || total != nil || body["unknown_costs"] != 1.0 {
		t.Errorf("chain %v", body)
	}
}

func TestListsArePagedWithoutGapOrRepeat(t *testing.T) {
	c := newClient(t)
	for range 5 {
		c.twoTiers()
	}
	for path, want := range map[string]int{
		"/api/v1/cycles": 5, "/api/v1/sessions": 10, "/api/v1/events": 5, "/api/v1/sessions/1/transcript": 3,
		"/api/v1/sessions?status=completed&tier=2": 5, "/api/v1/events?cycle_id=2": 1, "/api/v1/sessions?status=failed": 0,
		"/api/v1/cycles?environment=lab": 0, "/api/v1/cycles?status=resolved": 5, "/api/v1/events?level=critical": 0,
	} {
		separator := "?"
		if strings.Contains(path, "?") {
			separator = "&"
		}
		var seen []float64
		cursor := ""
		for {
			body := c.get(path + separator + "limit=2" + cursor)
			page := items(body)
			if len(page) > 2 {
				t.Fatalf("%s: %d items on a page of 2", path, len(page))
			}
			for _, item := range page {
				id, isRow := item["id"].(float64)
				if !isRow {
					id = item["seq"].(float64)
				}
				seen = append(seen, id)
			}
			next, more := body["next_cursor"].(string)
			if !more {
				break
			}
			cursor = "&cursor=" + next
		}
		sorted := slices.Clone(seen)
		slices.Sort(sorted)
		if len(seen) != want || len(slices.Compact(sorted)) != want {
			t.Errorf("%s: saw %v, want %d", path, seen, want)
		}
	}
}

func TestBadQuestionsAreProblems(t *testing.T) {
	c := newClient(t)
	_, ids := c.twoTiers()
	for _, q := range []struct {
		method, path string
		status       int
	}{
		{"GET", "/api/v1/cycles?limit=201", 422},
		{"GET", "/api/v1/cycles?limit=0", 422},
		{"GET", "/api/v1/cycles?cursor=x", 422},
		{"GET", "/api/v1/cycles?cursor=-4", 422},
		{"GET", "/api/v1/cycles?status=happy", 422},
		{"GET", "/api/v1/events?kind=party", 422},
		{"GET", "/api/v1/sessions/x", 422},
		{"GET", "/api/v1/sessions/99", 404},
		{"GET", "/api/v1/sessions/99/chain", 404},
		{"GET", "/api/v1/sessions/99/transcript", 404},
		{"GET", "/api/v1/cycles/99", 404},
		{"GET", "/api/v1/nothing", 404},
		{"GET", "/api/", 404},
		{"DELETE", "/api/v1/cycles", 405},
		{"PUT", "/api/v1/sessions/1/stop", 405},
		{"POST", "/api/v1/cycles/99/cancel", 404},
		{"POST", "/api/v1/cycles/1/cancel", 409},
		{"POST", "/api/v1/sessions/99/stop", 404},
		{"POST", fmt.Sprintf("/api/v1/sessions/%d/stop", ids[0]), 409},
	} {
		if status, _, body := c.ask(q.method, q.path, ""); status != q.status {
			t.Errorf("%s %s: status %d, want %d: %v", q.method, q.path, status, q.status, body)
		}
	}
}

func TestStoppingAndCancelling(t *testing.T) {
	c := newClient(t)
	cycle, ids := c.Chain(ops.NewCycle{}, ops.CycleRunning, "", apitest.Run{Tier: 1, For: time.Second, Status: ops.SessionRunning})
	if status, _, body := c.ask("POST", fmt.Sprintf("/api/v1/sessions/%d/stop", ids[0]), ""); status != http.StatusAccepted {
		t.Errorf("stop: status %d, %v", status, body)
	}
	if status, _, body := c.ask("POST", fmt.Sprintf("/api/v1/cycles/%d/cancel", cycle), `{"reason":"maintenance"}`); status != http.StatusAccepted {
		t.Errorf("cancel: status %d, %v", status, body)
	}
	if !slices.Equal(c.control.Cancelled, []ops.CycleID{cycle, cycle}) {
		t.Errorf("cancelled %v", c.control.Cancelled)
	}
}

func TestACycleTellsItsDecisions(t *testing.T) {
	c := newClient(t)
	id, _ := c.twoTiers()
	body := c.get(fmt.Sprintf("/api/v1/cycles/%d", id))
	if body["status"] != "resolved" || body["reason"] != "Tier 2 repaired it." || body["total_cost_usd"] != 0.75 {
		t.Errorf("cycle %v", body)
	}
	decisions := body["escalations"].([]any)
	if len(decisions) != 1 || decisions[0].(map[string]any)["decision"] != "escalate" || decisions[0].(map[string]any)["source_handler"] != "tier1" {
		t.Errorf("decisions %v", decisions)
	}
	if policy := body["policy"].(map[string]any); policy["max_tier"] != 3.0 {
		t.Errorf("policy %v", policy)
	}
}

func TestHealthAndReadiness(t *testing.T) {
	c := newClient(t)
	body := c.get("/healthz")
	if body["status"] != "ok" || body["version"] != "1.2.3" || body["last_cycle_age_seconds"] != nil {
		t.Errorf("before the first cycle: %v", body)
	}
	c.twoTiers()
	c.Now = c.Now.Add(90 * time.Second)
	if body := c.get("/healthz"); body["last_cycle_age_seconds"] != 90.0 || body["last_cycle_status"] != "resolved" {
		t.Errorf("after it: %v", body)
	}
	if body := c.get("/readyz"); body["status"] != "ready" {
		t.Errorf("ready: %v", body)
	}
	c.ready = errors.New("the journal is being read")
	if status, _, body := c.ask("GET", "/readyz", ""); status != http.StatusServiceUnavailable || !strings.Contains(body["detail"].(string), "journal") {
		t.Errorf("not ready: status %d, %v", status, body)
	}
}

func TestTroubleIsNotToldToCallers(t *testing.T) {
	c := newClient(t)
	c.control.Err = errors.New("open /secret/path: disk full")
	status, _, body := c.ask("POST", "/api/v1/cycles", "")
	text, _ := json.Marshal(body)
	if status != http.StatusInternalServerError || bytes.Contains(text, []byte("secret")) {
		t.Errorf("status %d, %s", status, text)
	}
}

func TestTheDescriptionNamesEveryRoute(t *testing.T) {
	c := newClient(t)
	_, header, body := c.ask("GET", "/api/v1/openapi.json", "")
	if header.Get("Content-Type") != "application/openapi+json" || body["openapi"] != "3.1.0" {
		t.Errorf("%s, openapi %v", header.Get("Content-Type"), body["openapi"])
	}
	paths := body["paths"].(map[string]any)
	for _, path := range []string{
		"/cycles", "/cycles/{id}", "/cycles/{id}/cancel", "/sessions", "/sessions/{id}", "/sessions/{id}/chain",
		"/sessions/{id}/transcript", "/sessions/{id}/stop", "/sessions/{id}/guard", "/cooldowns", "/events",
	} {
		if paths[path] == nil {
			t.Errorf("%s is not described", path)
		}
	}
	text, _ := json.Marshal(body)
	for _, word := range []string{`"cost_usd"`, `"handoff_json"`, `"total_cost_usd"`, `"next_cursor"`, `"limit"`} {
		if !bytes.Contains(text, []byte(word)) {
			t.Errorf("%s is not described", word)
		}
	}
}

func TestTheHandoffSchemaIsPublished(t *testing.T) {
	c := newClient(t)
	w := httptest.NewRecorder()
	c.handler.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", "/schemas/handoff/v1.json", nil))
	if w.Code != http.StatusOK || !bytes.Equal(w.Body.Bytes(), report.HandoffSchema()) {
		t.Errorf("status %d, %d bytes", w.Code, w.Body.Len())
	}
}
