package cli

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"claudeops/internal/ops"
	"claudeops/test/apitest"
)

// fill writes at least one row of every resource.
func (e *elsewhere) fill() {
	e.t.Helper()
	e.chain()
	report := &ops.IncidentReport{
		Title: "jellyfin is <down>", Level: ops.LevelCritical, Class: "unresolved", Services: []string{"jellyfin"}, Findings: "no route", CostUSD: 0.33,
	}
	e.Await(ops.NewCycle{Prompt: "look"}, ops.Policy{MaxTier: ops.LastTier, MaxDepth: 2}, ops.Step{
		Reason: "it is down", Incident: report,
		Approval: &ops.Approval{Kind: ops.ApprovalTier, Tier: 3, Handler: "tier3", Reason: "it is down", ExpiresAt: ops.Ptr(e.Now.Add(time.Hour))},
	}, apitest.Run{Tier: 2, Model: "sonnet", For: time.Second, Outcome: ops.OutcomeEscalate, Handoff: `not JSON`})
	cycle, ids := e.Chain(ops.NewCycle{}, "", "", apitest.Run{Tier: 2, For: time.Second, Status: ops.SessionRunning})
	e.Judge(ids[0], ops.GuardRecord{Gate: ops.GateHook, Tool: "Bash", Input: "docker restart web", Tier: 2, Allowed: true, Mutating: true, Rule: "r"},
		ops.Reservation{Service: "web", Action: "restart"})
	e.Judge(ids[0], ops.GuardRecord{Gate: ops.GateShell, Tool: "Bash", Input: "rm -rf /", Tier: 2, Rule: "r", Reason: "no", Took: time.Millisecond})
	e.Step(cycle, ops.Step{
		Kind: ops.StepProbe,
		Recovery: &ops.Recovery{
			CycleID: cycle, SessionID: ids[0], Tier: 2, Level: 2, Action: ops.RecoveryLevel(2).Action(), ErrorType: "transient",
			PreviousLevels: []ops.RecoveryLevel{1}, EnteredAt: e.Now, Reason: "again",
		},
		Verified: &ops.Verification{CycleID: cycle, SessionID: ids[0], JudgeSessionID: ids[0], Verdict: "pass", TotalScore: 90, At: e.Now},
	})
	e.Check("web", ops.Healthy, "")
	e.Check("jellyfin", ops.Down, "HTTP 502")
	ctx := e.t.Context()
	if _, err := e.Store.People.AddMemory(ctx, ops.Memory{Environment: "default", Category: "note", Observation: "slow", Confidence: 0.9}); err != nil {
		e.t.Fatal(err)
	}
	if _, err := e.Store.Watch.AddSilence(ctx, ops.Silence{
		Service: "web", Reason: "new disk", Author: "ada", CreatedAt: e.Now, From: e.Now, Until: e.Now.Add(time.Hour),
	}); err != nil {
		e.t.Fatal(err)
	}
	for _, n := range []ops.Notice{
		{Kind: "opened", Level: ops.LevelCritical, Title: "down", Body: "x", Status: ops.NoticeDead, Attempts: 8, Error: "no route", CreatedAt: e.Now},
		{Kind: "reminder", Level: ops.LevelWarning, Target: ops.TargetSecond, Title: "down", Status: ops.NoticePending, NextAt: e.Now, CreatedAt: e.Now},
	} {
		if _, err := e.Store.People.AddNotice(ctx, n); err != nil {
			e.t.Fatal(err)
		}
	}
}

// api returns what the API sends; of a list only the items.
func (e *elsewhere) api(path string) json.RawMessage {
	e.t.Helper()
	r, err := http.NewRequestWithContext(e.t.Context(), http.MethodGet, e.url+"/api/v1"+path, nil)
	must(e.t, err)
	r.Header.Set("Authorization", "Bearer secret")
	answer, err := http.DefaultClient.Do(r)
	must(e.t, err)
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		e.t.Fatalf("%s: %s, %v", path, answer.Status, err)
	}
	var list struct {
		Items json.RawMessage `json:"items"`
		By    string          `json:"by"`
	}
	if json.Unmarshal(text, &list) == nil && list.Items != nil && list.By == "" {
		return list.Items
	}
	return text
}

// Every resource is printed as the API sends it, from the local database and from a server.
func TestLocalJSONIsWhatTheAPISends(t *testing.T) {
	e := newElsewhereAt(t, time.Now().UTC().Truncate(time.Second).Add(-10*time.Minute))
	e.fill()
	e.Now = time.Now()
	server := e.environ
	local := []string{"HOME=" + t.TempDir(), "CLAUDEOPS_STATE_DIR=" + filepath.Dir(e.Path), "CLAUDEOPS_BUDGET_DAY_USD=0"}
	for _, tc := range []struct {
		command, path string
		lines         bool // it prints lines without an end
	}{
		{command: "sessions list", path: "/sessions"},
		{command: "sessions logs 1", path: "/sessions/1/transcript", lines: true},
		{command: "cycles list", path: "/cycles"},
		{command: "cycles show 1", path: "/cycles/1"}, // with an escalation
		{command: "cycles show 2", path: "/cycles/2"}, // with an approval
		{command: "cycles show 3", path: "/cycles/3"}, // with a recovery and a verification
		{command: "events", path: "/events"},
		{command: "incidents list", path: "/incidents"},
		{command: "incidents show 1", path: "/incidents/1"},
		{command: "approvals list", path: "/approvals"},
		{command: "cooldowns list", path: "/cooldowns"},
		{command: "memory list", path: "/memories"},
		{command: "silences list", path: "/silences"},
		{command: "notify list", path: "/notifications"},
		{command: "services list --state down", path: "/services?state=down"},
		{command: "services show web", path: "/services/web"},
		{command: "costs --days 31", path: "/costs?since=" + time.Now().UTC().Truncate(24*time.Hour).AddDate(0, 0, -30).Format(time.RFC3339)},
		{command: "hosts list", path: "/hosts"},
	} {
		want := e.api(tc.path)
		if len(want) < 10 {
			t.Errorf("%s: the API sends only %s", tc.path, want)
		}
		for _, from := range [][]string{local, server} {
			e.environ = from
			out := e.must(append(strings.Fields(tc.command), "-o", "json")...)
			if tc.lines {
				out = "[" + strings.ReplaceAll(strings.TrimSpace(e.must(append(strings.Fields(tc.command), "-o", "jsonl")...)), "\n", ",") + "]"
			}
			still := regexp.MustCompile(`Down [^·]* · `) // an outage that goes on grows longer between two questions
			if got, want := still.ReplaceAllString(compact(t, []byte(out)), ""), still.ReplaceAllString(compact(t, want), ""); got != want {
				t.Errorf("%s, environment %v\n%s\nthe API\n%s", tc.command, from, got, want)
			}
		}
		e.environ = server
	}
}

func TestAShownSessionIsWhatTheAPISendsWithItsGuardDecisions(t *testing.T) {
	e := newElsewhereAt(t, time.Now().UTC().Truncate(time.Second))
	e.fill()
	session := strings.TrimSpace(string(e.api("/sessions/4")))
	want := strings.TrimSuffix(session, "}") + `,"guard_decisions":` + string(e.api("/sessions/4/guard")) + `,"wall_refusals":` + string(e.api("/events?session_id=4&kind=guard")) + `,"own_refusals":[]}`
	atServer := e.must("sessions", "show", "4", "-o", "json")
	e.environ = []string{"HOME=" + t.TempDir(), "CLAUDEOPS_STATE_DIR=" + filepath.Dir(e.Path), "CLAUDEOPS_BUDGET_DAY_USD=0"}
	if got := e.must("sessions", "show", "4", "-o", "json"); got != atServer || compact(t, []byte(got)) != compact(t, []byte(want)) {
		t.Errorf("local\n%s\nserver\n%s\nAPI\n%s", got, atServer, want)
	}
}

// compact is JSON on one line, without the moment at which costs were added up.
func compact(t *testing.T, text []byte) string {
	t.Helper()
	var b bytes.Buffer
	if err := json.Compact(&b, text); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	out := regexp.MustCompile(`,"until":"[^"]*","total_cost_usd"`).ReplaceAllString(b.String(), `,"until":"","total_cost_usd"`)
	return strings.NewReplacer(`\u003c`, "<", `\u003e`, ">").Replace(out)
}
