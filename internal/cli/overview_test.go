package cli

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"claudeops/internal/api"
	"claudeops/internal/ops"
	"claudeops/test/apitest"
)

// status shows the same rows from the local database and from a server.
func TestStatusShowsEverythingOnOneScreen(t *testing.T) {
	e := newElsewhereAt(t, time.Now().UTC().Truncate(time.Second).Add(-10*time.Minute))
	e.fill()
	e.Now = time.Now()
	server := e.environ
	local := []string{"HOME=" + t.TempDir(), "CLAUDEOPS_STATE_DIR=" + filepath.Dir(e.Path), "CLAUDEOPS_BUDGET_DAY_USD=0"}
	for _, from := range [][]string{server, local} {
		e.environ = from
		out := e.shows("status", "Services    1 down, 1 healthy", "down  jellyfin  HTTP 502", "cycle 2  waiting_human", "cycle 3  running",
			"Needs you   1 incident, 1 approval\n", "claudeops approvals show 1", "$0.75 today", "Walls", "Daemon",
			"Doing       jellyfin is down: waiting for your approval of Tier 3 for ", "C-3 Scheduled check: Tier 2 is working, ",
			"Ahead       The question about Tier 3 for C-2 expires at ", "then C-2 ends and still needs a person")
		if lines := strings.Count(out, "\n"); lines > 30 {
			t.Errorf("%d lines are more than a screen:\n%s", lines, out)
		}
	}
	var o overview
	if err := json.Unmarshal([]byte(e.must("status", "-o", "json")), &o); err != nil || len(o.Services) != 2 || len(o.Cycles) != 2 || len(o.Approvals) != 1 {
		t.Errorf("%+v, %v", o, err)
	}
	if !strings.Contains(o.Daemon, "not running") || o.Stats.Walls == nil {
		t.Errorf("this machine: %q, %v", o.Daemon, o.Stats.Walls)
	}
	line := strings.TrimSuffix(wallsLine(o), "; see 'claudeops doctor'")
	if _, out, _ := e.run("doctor"); !strings.Contains(strings.Join(strings.Fields(out), " "), "walls "+line) {
		t.Errorf("status says %q of the walls, and doctor\n%s", line, out)
	}
}

func TestStatusOfAnEmptyDatabase(t *testing.T) {
	e := newElsewhere(t)
	e.shows("status", "none are watched", "none is running", "Needs you   nothing", "Doing       nothing to do", "Ahead       –")
}

// A server tells its walls and whether agents only look; one that is older does not know.
func TestStatusShowsTheWallsOfTheServer(t *testing.T) {
	for text, o := range map[string]overview{
		"–":                   {},
		"on for all sessions": {Stats: api.Stats{Walls: ops.Ptr("Walls: on for all sessions"), WallsMissing: ops.Ptr(false)}},
		"seccomp is missing on this machine; see 'claudeops doctor'": {Stats: api.Stats{
			Walls: ops.Ptr("Walls: seccomp is missing on this machine"), WallsMissing: ops.Ptr(true),
		}},
	} {
		if got := wallsLine(o); got != text {
			t.Errorf("got %q, want %q", got, text)
		}
	}
}

func TestAnApprovalIsShown(t *testing.T) {
	e := newElsewhereAt(t, time.Now().UTC().Truncate(time.Second))
	e.fill()
	e.shows("approvals show 1", "Approval #1: Tier 3, handler tier3 (pending)", "it is down", "Escalation Chain for Cycle #2", "claudeops approvals approve 1")
	if got, want := compact(t, []byte(e.must("approvals", "show", "1", "-o", "json"))), compact(t, e.api("/approvals/1")); got != want {
		t.Errorf("%s\n%s", got, want)
	}
	if code, _, errs := e.run("approvals", "show", "9"); code != exitNotFound || strings.Count(errs, "approval 9") != 1 {
		t.Errorf("one that is not there: exit %d, %s", code, errs)
	}
}

func TestListsBeginAtSince(t *testing.T) {
	e := newElsewhereAt(t, time.Now().UTC().Truncate(time.Second).Add(-48*time.Hour))
	e.fill()
	e.Now = time.Now()
	for _, command := range []string{"sessions list", "cycles list", "incidents list --all", "events"} {
		if out := e.must(append(strings.Fields(command), "--since", "1h", "-o", "json")...); out != "[]\n" {
			t.Errorf("%s of the last hour: %s", command, out)
		}
		if out := e.must(append(strings.Fields(command), "--since", "3d", "-o", "json")...); out == "[]\n" {
			t.Errorf("%s of three days is empty", command)
		}
	}
	if _, err := e.Store.Journal.AddEvent(t.Context(), ops.Event{At: e.Now, Level: ops.LevelInfo, Verb: ops.VerbProbeFailed, Service: "jellyfin", Reason: "is up"}); err != nil {
		t.Fatal(err)
	}
	var found []api.Event
	if err := json.Unmarshal([]byte(e.must("events", "--service", "jellyfin", "--kind", "probe", "--since", "1h", "-o", "json")), &found); err != nil || len(found) != 1 {
		t.Errorf("events of a service: %v, %v", found, err)
	}
	if code, _, errs := e.run("events", "--since", "yesterday"); code != exitUsage || !strings.Contains(errs, "use a duration such as 2h") {
		t.Errorf("a wrong time: exit %d, %s", code, errs)
	}
}

// A refused call looks like one that failed in the stream of its agent.
func TestLogsTellARefusedCallFromOneThatRan(t *testing.T) {
	e := newElsewhere(t)
	item := func(id, command, output string) string {
		return `{"type":"item.completed","item":{"id":"` + id + `","type":"command_execution","command":"/bin/bash -lc '` + command +
			`'","aggregated_output":"` + output + `","exit_code":126,"status":"failed"}}`
	}
	_, ids := e.Chain(ops.NewCycle{}, "", "", apitest.Run{Tier: 1, Status: ops.SessionRunning, Lines: []string{
		`{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"toolu_1","is_error":true,"content":"not here"}]}}`,
		`{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"toolu_2","is_error":true,"content":"Exit code 1"}]}}`,
		item("item_1", "touch /x", "touch is refused"), item("item_2", "touch /y", "no such folder"),
	}})
	e.Judge(ids[0], ops.GuardRecord{Gate: ops.GateHook, Tool: "Bash", ToolUseID: "toolu_1", Input: "{}", Tier: 1, Rule: "R7", Reason: "not here"})
	e.Judge(ids[0], ops.GuardRecord{Gate: ops.GateShell, Tool: "Bash", Input: `{"command":"touch /x"}`, Tier: 1, Rule: "R7", Reason: "touch is refused"})
	e.shows("sessions logs 1", "refused   not here", "failed    Exit code 1", "refused   Exit code 126", "failed    Exit code 126")
	var lines []api.Line
	must(t, json.Unmarshal(e.api("/sessions/1/transcript"), &lines))
	var refused []string
	for _, l := range lines {
		refused = append(refused, l.Refused...)
	}
	if got := strings.Join(refused, " "); got != "toolu_1 item_1" {
		t.Errorf("the API tells of %q", got)
	}
}

func TestLogsAreReadable(t *testing.T) {
	e := newElsewhere(t)
	long := strings.Repeat("line\\n", 60)
	e.Chain(ops.NewCycle{}, ops.CycleHealthy, "", apitest.Run{Tier: 1, For: time.Second, Outcome: ops.OutcomeHealthy, Lines: []string{
		`{"type":"system","subtype":"init","model":"haiku","tools":["Bash","Read"]}`,
		`{"type":"assistant","message":{"content":[{"type":"text","text":"I look at redis."},{"type":"tool_use","name":"Bash","input":{"command":"redis-cli ping"}}]}}`,
		`{"type":"user","message":{"content":[{"type":"tool_result","content":"` + long + `"}]}}`,
		`{"type":"user","message":{"content":[{"type":"tool_result","is_error":true,"content":"Exit code 1"}]}}`,
		`{"type":"result","result":"All is well.","num_turns":2,"duration_ms":1500,"total_cost_usd":0.25}`,
		"a bare \x1b[31mline",
	}})
	out := e.shows("sessions logs 1", "start     haiku with 2 tools", "text      I look at redis.", "call      Bash redis-cli ping", "output    line",
		"… 40 more lines; --raw shows them", "failed    Exit code 1", "result    All is well.", "2 turns · 1.5s · $0.25", "stdout    a bare")
	if strings.Contains(out, "\x1b") || strings.Contains(out, `"type"`) {
		t.Errorf("raw output:\n%s", out)
	}
	raw := e.shows("sessions logs 1 --raw", `{"type":"assistant"`)
	if strings.Count(raw, "\n") != 6 {
		t.Errorf("lines are missing:\n%s", raw)
	}
}

func TestShellsGetValues(t *testing.T) {
	e := newElsewhereAt(t, time.Now().UTC().Truncate(time.Second))
	for args, want := range map[string]string{
		"sessions list --status": "timed_out",
		"cycles list --status":   "needs_human",
		"events --kind":          "audit",
		"events --level":         "critical",
		"services list --state":  "degraded",
		"costs --by":             "model",
		"sessions list --output": "yaml",
		"help sessions":          "logs",
	} {
		out := e.must(append(append([]string{"__complete"}, strings.Fields(args)...), "")...)
		if !strings.Contains("\n"+out, "\n"+want) {
			t.Errorf("%s: no %q in\n%s", args, want, out)
		}
	}
	if out := e.must("__complete", "sessions", "show", ""); !strings.HasPrefix(out, fmt.Sprintf(":%d", 4)) {
		t.Errorf("files are proposed: %s", out)
	}
}

// A cycle that probes answered has no cost to be unknown, and one that goes on after a yes does not wait for it any more.
func TestACycleInARowTellsOnlyWhatHolds(t *testing.T) {
	c := api.Cycle{Status: ops.CycleRunning, Reason: ops.Ptr("Tier 2 needs a human's approval")}
	if spent(c) != "–" || whyNow(c) != "" {
		t.Errorf("%q, %q", spent(c), whyNow(c))
	}
	c.Status, c.Sessions = ops.CycleWaitingHuman, []api.Session{{ID: 1}}
	if spent(c) != "unknown" || whyNow(c) != *c.Reason {
		t.Errorf("%q, %q", spent(c), whyNow(c))
	}
}
