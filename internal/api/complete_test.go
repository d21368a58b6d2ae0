package api_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"claudeops/internal/api"
	"claudeops/internal/ops"
	"claudeops/test/apitest"
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
	err := c.Store.Watch.AddChecks(t.Context(), []ops.Check{
		check("web", "GET /", ops.Healthy, time.Minute), check("web", "tcp", ops.Degraded, time.Minute),
		check("db", "tcp", ops.Down, time.Minute), check("old", "tcp", ops.Down, 5*time.Hour),
		check("boxed", "container boxed", ops.Unknown, time.Minute),
		check("mixed", "container mixed", ops.Unknown, time.Minute), check("mixed", "tcp", ops.Healthy, time.Minute),
	})
	must(t, err)
	want := map[string]string{"web": "degraded", "db": "down", "old": "stale", "jellyfin": "unknown", "boxed": "unknown", "mixed": "healthy"}
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
	if got := c.get("/api/v1/services/boxed"); got["uptime_24h"] != nil {
		t.Errorf("boxed: %v", got)
	}
	if got := c.get("/api/v1/stats"); got["services_unknown"] != 2.0 || got["services_stale"] != 1.0 {
		t.Errorf("stats: %v", got)
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
		if _, err := c.Store.Journal.AddEvent(t.Context(), ops.Event{Level: ops.LevelInfo, Verb: map[bool]ops.Verb{true: ops.VerbRequestDone, false: ops.VerbAgentReported}[i%2 == 0], Reason: fmt.Sprint(i)}); err != nil {
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
			for _, p := range o.Parameters {
				if p.Description == "" {
					t.Errorf("%s %s: parameter %s is not described", method, path, p.Name)
				}
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
	if _, err := c.Store.People.AddMemory(t.Context(), ops.Memory{Environment: "home", Category: "note", Observation: "slow", Confidence: 0.5}); err != nil {
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

func TestChangesAreListed(t *testing.T) {
	c := newClient(t)
	var changes []ops.Change
	for _, text := range []string{"first", "second", "third"} {
		c.Now = c.Now.Add(1)
		changes = append(changes, ops.Change{Kind: ops.ChangeDisk, Subject: "/", Text: text, At: c.Now, NotBefore: c.Now})
	}
	resources := []ops.Resource{{Kind: ops.ChangePackage, Unseen: "no log"}}
	must(t, c.Store.Watch.RecordLook(t.Context(), "home", "attic", ops.Look{Resources: resources, Changes: changes}, c.Now))
	status, _, got := c.ask("GET", "/api/v1/changes?limit=2", "")
	if status != http.StatusOK || len(items(got)) != 2 || got["next_cursor"] == nil {
		t.Fatalf("%d %v", status, got)
	}
	if row := items(got)[0]; row["text"] != "third" || row["host"] != "attic" || row["kind"] != "disk" || row["service"] != nil {
		t.Errorf("row %v", row)
	}
	_, _, rest := c.ask("GET", "/api/v1/changes?limit=2&cursor="+got["next_cursor"].(string), "")
	if len(items(rest)) != 1 || rest["next_cursor"] != nil {
		t.Errorf("the rest is %v", rest)
	}
	for path, want := range map[string]int{
		"/api/v1/changes?environment=nowhere": http.StatusUnprocessableEntity,
		"/api/v1/changes?service=nothing":     http.StatusUnprocessableEntity,
		"/api/v1/changes?cursor=x":            http.StatusUnprocessableEntity,
	} {
		if status, _, got := c.ask("GET", path, ""); status != want {
			t.Errorf("%s: %d %v", path, status, got)
		}
	}
}

func TestReflexesAreListedAndSwitched(t *testing.T) {
	c := newClient(t)
	c.Earn("home", "jellyfin")
	status, _, got := c.ask("GET", "/api/v1/reflexes?service=jellyfin", "")
	rows, _ := got["items"].([]any)
	if status != http.StatusOK || len(rows) != 1 {
		t.Fatalf("%d %v", status, got)
	}
	row, _ := rows[0].(map[string]any)
	if row["state"] != "asked" || row["class"] != "5xx" || row["changed_by"] != nil {
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

// The address of a heartbeat is in one answer, and nowhere else.
func TestTheAddressOfAHeartbeatIsShownOnce(t *testing.T) {
	c := newClient(t)
	c.handler = api.New(api.Options{
		Store: c.Store, Control: c.control, Logger: slog.New(slog.DiscardHandler), Clock: c.Clock, Address: func() string { return "https://ops.example.org" },
		Environments: []ops.Environment{{
			Name: "home", Policy: ops.Policy{Inventory: ops.Inventory{Services: []ops.Service{{Name: "backup"}}}},
			Probes: []ops.ProbeSpec{{Service: "backup", Type: ops.ProbeHeartbeat, Name: "heartbeat"}},
		}},
	})
	first := c.send("POST", "/api/v1/services/backup/heartbeat", `{}`, "Content-Type", "application/json")
	var made api.HeartbeatAddress
	if err := json.Unmarshal(first.Body.Bytes(), &made); err != nil || first.Code != http.StatusOK || first.Header().Get("Cache-Control") != "no-store" {
		t.Fatalf("%d %s", first.Code, first.Body)
	}
	token, own := strings.CutPrefix(made.URL, "https://ops.example.org/ping/")
	if _, err := c.Store.Watch.Heartbeat(t.Context(), token); err != nil || !own || !strings.HasSuffix(made.Curl, " "+made.URL) {
		t.Errorf("%+v: %v", made, err)
	}
	shown := c.send("GET", "/api/v1/services/backup", "").Body.String()
	if strings.Contains(shown, token) || !strings.Contains(shown, `"addressed":true`) {
		t.Errorf("the service is %s", shown)
	}
}

func TestACycleOnProbationAndOneThatDidNotHoldSaySo(t *testing.T) {
	c := newClient(t)
	id := c.Repair("jellyfin")
	until := "2026-11-14T13:51:00Z"
	for what, row := range map[string]map[string]any{
		"cycle": c.get(fmt.Sprintf("/api/v1/cycles/%d", id)), "list": items(c.get("/api/v1/cycles"))[0], "incident": c.get("/api/v1/incidents/1"),
	} {
		if row["probation_until"] != until || row["refuted_at"] != nil || row["reopened_at"] != nil {
			t.Errorf("%s on probation: %v, %v, %v", what, row["probation_until"], row["refuted_at"], row["reopened_at"])
		}
	}
	c.Now = c.Now.Add(4 * time.Minute)
	c.Relapse("jellyfin")
	at := "2026-11-14T13:45:00Z"
	cycle, incident := c.get(fmt.Sprintf("/api/v1/cycles/%d", id)), c.get("/api/v1/incidents/1")
	if cycle["status"] != "resolved" || cycle["refuted_at"] != at || cycle["probation_until"] != nil {
		t.Errorf("the cycle is %v", cycle)
	}
	if incident["status"] != "open" || incident["reopened_at"] != at || incident["called_at"] != at || incident["probation_until"] != nil ||
		incident["occurrences"] != 2.0 || incident["resolved_at"] != nil {
		t.Errorf("the incident is %v", incident)
	}
}

func TestAStatusSaysThatARepairDidNotHold(t *testing.T) {
	at, no := time.Now(), false
	for want, c := range map[string]api.Cycle{
		"resolved":               {Status: ops.CycleResolved},
		"resolved, unverified":   {Status: ops.CycleResolved, Verified: &no},
		"resolved, did not hold": {Status: ops.CycleResolved, Verified: &no, RefutedAt: &at},
	} {
		if got := c.StatusText(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestDecisionsOfTheGuardArePaged(t *testing.T) {
	c := newClient(t)
	_, ids := c.Chain(ops.NewCycle{Environment: "home"}, "", "", apitest.Run{Tier: 2, Status: ops.SessionRunning})
	path := fmt.Sprintf("/api/v1/sessions/%d/guard", ids[0])
	if got := items(c.get(path)); len(got) != 0 {
		t.Errorf("nothing was judged, and %v is listed", got)
	}
	restart := ops.Reservation{Service: "web", Action: "restart"}
	c.Judge(ids[0], ops.GuardRecord{
		Gate: ops.GateHook, ToolUseID: "toolu_1", Tool: "Bash", Input: `{"command":"docker restart web"}`, Digest: "d", Tier: 2,
		Allowed: true, Mutating: true, Rule: "tool.Bash", Reason: "ok",
	}, restart)
	c.Judge(ids[0], ops.GuardRecord{Gate: ops.GateHook, ToolUseID: "toolu_2", Tool: "Bash", Input: "rm", Tier: 2, Rule: "never.rm-root", Reason: "Never."})
	first := c.get(path + "?limit=1")
	got := items(first)
	if len(got) != 1 || got[0]["verdict"] != "allow" || got[0]["gate"] != "hook" || got[0]["tool_use_id"] != "toolu_1" || got[0]["mutating"] != true {
		t.Fatalf("first page: %v", first)
	}
	second := c.get(fmt.Sprintf("%s?limit=1&cursor=%v", path, first["next_cursor"]))
	got = items(second)
	if len(got) != 1 || got[0]["verdict"] != "deny" || got[0]["rule"] != "never.rm-root" || got[0]["reason"] != "Never." || second["next_cursor"] != nil {
		t.Errorf("second page: %v", second)
	}
	if status, _, _ := c.ask("GET", "/api/v1/sessions/999/guard", ""); status != 404 {
		t.Errorf("a session that is not there answers %d", status)
	}

	cooldowns := items(c.get("/api/v1/cooldowns"))
	if len(cooldowns) != 1 || cooldowns[0]["service"] != "web" || cooldowns[0]["action"] != "restart" || cooldowns[0]["left"] != 1.0 || cooldowns[0]["environment"] != "home" {
		t.Errorf("cooldowns: %v", cooldowns)
	}
	if got := items(c.get("/api/v1/cooldowns?environment=lab")); len(got) != 0 {
		t.Errorf("cooldowns elsewhere: %v", got)
	}
	if status, _, _ := c.ask("GET", "/api/v1/cooldowns?environment=nowhere", ""); status != 422 {
		t.Errorf("an unknown environment answers %d", status)
	}
}

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
		_, err := c.Store.People.AddNotice(t.Context(), ops.Notice{
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
