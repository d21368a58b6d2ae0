package agent

import (
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"claudeops/internal/guard/redact"
	"claudeops/internal/ops"
	"claudeops/test/agenttest"
)

func TestALineTellsWhatTheSessionDid(t *testing.T) {
	const say = `{"type":"assistant","message":{"id":"m1","model":"claude-haiku-5-5","content":[{"type":"text","text":"let me look"}],` +
		`"usage":{"input_tokens":10,"output_tokens":1,"cache_read_input_tokens":200,"cache_creation_input_tokens":30}}}`
	tests := []struct {
		name string
		line string
		want []ops.Activity
	}{
		{"a text", say, []ops.Activity{{
			Kind: ops.ActivityUsage, Message: "m1", Model: "claude-haiku-5-5", InputTokens: 10, OutputTokens: 1, CacheReadTokens: 200, CacheWriteTokens: 30, Written: 13,
		}}},
		{"two calls", `{"type":"assistant","message":{"id":"m1","model":"m","content":[{"type":"tool_use","id":"a","name":"Bash","input":{"command":"ls"}},` +
			`{"type":"tool_use","id":"b","name":"Read","input":{}}],"usage":{"input_tokens":1}},"parent_tool_use_id":"toolu_sub"}`, []ops.Activity{
			{Kind: ops.ActivityUsage, Message: "m1", Model: "m", InputTokens: 1, Written: 18},
			{Kind: ops.ActivityCall, UseID: "a", Tool: "Bash", Input: `{"command":"ls"}`},
			{Kind: ops.ActivityCall, UseID: "b", Tool: "Read", Input: `{}`},
		}},
		{"a result", `{"type":"user","message":{"role":"user","content":[{"tool_use_id":"a","type":"tool_result","content":"Exit code 3\nhi","is_error":true}]}}`, []ops.Activity{
			{Kind: ops.ActivityResult, UseID: "a", Output: "Exit code 3\nhi", Failed: true},
		}},
		{"a result in parts", `{"type":"user","message":{"content":[{"type":"tool_result","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}],"tool_use_id":"a"}]}}`, []ops.Activity{
			{Kind: ops.ActivityResult, UseID: "a", Output: "a\nb"},
		}},
		{"a picture", `{"type":"user","message":{"content":[{"type":"tool_result","content":[{"type":"image","source":"x"}],"tool_use_id":"a"}]}}`, []ops.Activity{
			{Kind: ops.ActivityResult, UseID: "a", Output: `[{"type":"image","source":"x"}]`},
		}},
		{"an empty result", `{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"a"}]}}`, []ops.Activity{{Kind: ops.ActivityResult, UseID: "a"}}},
		{"what the CLI made up", strings.Replace(say, "claude-haiku-5-5", "<synthetic>", 1), nil},
		{"the prompt", `{"type":"user","message":{"content":[{"type":"text","text":"\"tool_result\" \"assistant\""}]}}`, nil},
		{"the init event", agenttest.Init(), nil},
		{"a cut line", agenttest.Answer("a", "x")[:80] + " … [cut: 9 bytes]", nil},
		{"no event", `the "assistant" said`, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := new(Claude).Activities(tt.line); !reflect.DeepEqual(got, tt.want) {
				t.Errorf("got  %+v\nwant %+v", got, tt.want)
			}
		})
	}
}

func TestALongOutputKeepsItsEndsAndStaysDistinct(t *testing.T) {
	output := func(middle string) string {
		text := "head" + strings.Repeat("ü", 5000) + middle + strings.Repeat("x", 10_000) + "tail"
		return Activities(agenttest.Answer("a", text))[0].Output
	}
	one, two := output("one"), output("two")
	if len(one) > maxOutput+100 || !strings.HasPrefix(one, "headü") || !strings.HasSuffix(one, "xtail") {
		t.Errorf("%d bytes: %.20q … %q", len(one), one, one[len(one)-10:])
	}
	if one == two || one != output("one") {
		t.Error("outputs that differ in the middle look the same, or equal ones do not")
	}
}

func TestAWatcherIsToldInOrderAndAsTheTranscriptTellsItLater(t *testing.T) {
	const secret = "hunter2-hunter2"
	bin := agenttest.Fake(t, agenttest.Scenario{Plays: []agenttest.Play{{Steps: say(
		agenttest.Init(), agenttest.Text("I look"), agenttest.Use("a", "login "+secret), agenttest.Answer("a", "welcome "+secret),
		agenttest.Use("b", "ls"), agenttest.Refused("b", "no"), agenttest.Result(0.1, "done"),
	)}}})
	spec, rec := testSpec(t), &memory{}
	var got []ops.Activity
	spec.Watch = func(a ops.Activity) *ops.Halt {
		got = append(got, a)
		return nil
	}
	c := NewClaude(ClaudeOptions{Bin: bin, Env: testEnv(), Redactor: redact.New([]string{secret})})
	if res := c.Run(t.Context(), spec, rec); !res.Success() {
		t.Fatalf("got %+v", res)
	}
	var kinds []string
	for _, a := range got {
		kinds = append(kinds, string(a.Kind)+" "+a.UseID+a.Tool)
		if a.At.IsZero() {
			t.Errorf("no time: %+v", a)
		}
	}
	if want := []string{"usage ", "usage ", "call aBash", "result aBash", "usage ", "call bBash", "result bBash"}; !slices.Equal(kinds, want) {
		t.Errorf("got %q\nwant %q", kinds, want)
	}
	var later []ops.Activity
	for _, l := range rec.lines {
		later = append(later, c.Activities(l.Text)...)
	}
	for i := range got {
		got[i].At = time.Time{}
		if got[i].Kind == ops.ActivityResult {
			got[i].Tool = ""
		}
	}
	if !reflect.DeepEqual(got, later) || strings.Contains(fmt.Sprint(got), secret) {
		t.Errorf("told    %+v\nrebuilt %+v", got, later)
	}
}

// haltOn stops at the first activity of a kind.
func haltOn(kind ops.ActivityKind, halt ops.Halt) func(ops.Activity) *ops.Halt {
	return func(a ops.Activity) *ops.Halt {
		if a.Kind != kind {
			return nil
		}
		return &halt
	}
}

func TestAHaltEndsTheSessionWithItsCause(t *testing.T) {
	for cause, class := range map[ops.StopCause]ops.FailureClass{ops.StopLoop: "loop", ops.StopBudget: "budget", ops.StopDeadline: "deadline"} {
		t.Run(string(cause), func(t *testing.T) {
			t.Parallel()
			spec := testSpec(t)
			spec.Watch = haltOn(ops.ActivityCall, ops.Halt{Cause: cause, Why: "that is enough"})
			res := runFake(t.Context(), t, agenttest.Scenario{Plays: []agenttest.Play{{OnInterrupt: "result", Steps: append(
				say(agenttest.Init(), agenttest.Use("a", "sleep 60")), agenttest.Step{Hang: true},
			)}}}, spec, &memory{})
			wantStop(t, res, cause, class)
			if res.StopWhy != "that is enough" || res.OpenTool != "Bash: sleep 60" {
				t.Errorf("got %q, open tool %q", res.StopWhy, res.OpenTool)
			}
		})
	}
}

func TestAHaltAtABoundaryLetsOpenCallsEnd(t *testing.T) {
	spec, rec := testSpec(t), &memory{}
	// The fake would die of an early interrupt while its calls are open.
	spec.Watch = haltOn(ops.ActivityCall, ops.Halt{Cause: ops.StopBudget, Why: "spent", Boundary: true})
	res := runFake(t.Context(), t, play(
		agenttest.Step{Out: agenttest.Use("a", "one")},
		agenttest.Step{Out: strings.Replace(agenttest.Use("b", "two"), "msg_b", "msg_a", 1), Sleep: 100 * time.Millisecond},
		agenttest.Step{Out: agenttest.Answer("a", "1"), Sleep: 100 * time.Millisecond},
		agenttest.Step{Out: agenttest.Answer("b", "2")},
		agenttest.Step{Hang: true},
	), spec, rec)
	wantStop(t, res, ops.StopBudget, "budget")
	if res.OpenTool != "" || !strings.Contains(rec.text(), `"content":"2"`) {
		t.Errorf("open tool %q\n%s", res.OpenTool, rec.text())
	}
}

func TestAHaltAtABoundaryStopsAtOnceWhenNoCallIsOpen(t *testing.T) {
	spec := testSpec(t)
	spec.Watch = haltOn(ops.ActivityUsage, ops.Halt{Cause: ops.StopDeadline, Why: "late", Boundary: true})
	res := runFake(t.Context(), t, play(append(say(agenttest.Init(), agenttest.Text("thinking")), agenttest.Step{Hang: true})...), spec, &memory{})
	wantStop(t, res, ops.StopDeadline, "deadline")
}

func TestAnImmediateHaltDoesNotWaitForTheBoundaryOfAnother(t *testing.T) {
	spec := testSpec(t)
	spec.Watch = func(a ops.Activity) *ops.Halt {
		if a.Kind == ops.ActivityUsage {
			return &ops.Halt{Cause: ops.StopBudget, Why: "spent", Boundary: true}
		}
		return &ops.Halt{Cause: ops.StopLoop, Why: "again"}
	}
	res := runFake(t.Context(), t, play(append(say(agenttest.Use("a", "x")), agenttest.Step{Hang: true})...), spec, &memory{})
	wantStop(t, res, ops.StopLoop, "loop")
}

func TestTheWallStillCutsACallThatABoundaryWaitsFor(t *testing.T) {
	spec := testSpec(t)
	spec.Limits.Wall = 300 * time.Millisecond
	spec.Watch = haltOn(ops.ActivityCall, ops.Halt{Cause: ops.StopBudget, Why: "spent", Boundary: true})
	res := runFake(t.Context(), t, play(append(say(agenttest.Use("a", "x")), agenttest.Step{Hang: true})...), spec, &memory{})
	wantStop(t, res, ops.StopWall, "wall_limit")
	if res.OpenTool != "Bash: x" {
		t.Errorf("open tool %q", res.OpenTool)
	}
}

// TestASessionThatEndsByItselfIsNotStopped plays a session that gives its outcome although it was to stop at the next boundary.
func TestASessionThatEndsByItselfIsNotStopped(t *testing.T) {
	spec := testSpec(t)
	spec.Watch = haltOn(ops.ActivityUsage, ops.Halt{Cause: ops.StopBudget, Why: "spent", Boundary: true})
	use := strings.Replace(agenttest.Use("s", "x"), `"name":"Bash"`, `"name":"StructuredOutput"`, 1)
	res := runFake(t.Context(), t, play(say(use, agenttest.Answer("s", "ok"), agenttest.Structured(0.1, "done", `{"a":1}`))...), spec, &memory{})
	if !res.Success() || string(res.Structured) != `{"a":1}` {
		t.Errorf("got %+v", res)
	}
}

func TestTheBudgetIsPassedToAProgramThatKnowsIt(t *testing.T) {
	for name, tt := range map[string]struct {
		budget  float64
		spent   float64
		version string
		want    string
	}{
		"known":                {0.25, 0, "2.1.325 (Claude Code)", "0.25"},
		"continued":            {0.0001, 7, "2.1.325 (Claude Code)", "0.0001"}, // it counts the run alone
		"no limit":             {0, 0, "2.1.325 (Claude Code)", ""},
		"too old to be sure":   {0.25, 0, "2.1.200 (Claude Code)", ""},
		"an unknown version":   {0.25, 0, "wrapper", ""},
		"the oldest supported": {0.25, 0, oldestVersion + " (Claude Code)", "0.25"},
	} {
		t.Run(name, func(t *testing.T) {
			bin := agenttest.Fake(t, agenttest.Scenario{Version: tt.version, Plays: []agenttest.Play{agenttest.Healthy(0.01)}})
			spec := testSpec(t)
			spec.BudgetUSD = tt.budget
			if tt.spent > 0 {
				spec.Resume, spec.SpentUSD = "22222222-2222-4222-8222-222222222222", &tt.spent
			}
			NewClaude(ClaudeOptions{Bin: bin, Env: testEnv()}).Run(t.Context(), spec, &memory{})
			if got, _ := agenttest.Calls(t, bin)[0].Option("--max-budget-usd"); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestASessionKnowsItsRoleAndHandler(t *testing.T) {
	for role, want := range map[ops.Role]string{"": "work", ops.RoleJudge: "judge"} {
		bin := agenttest.Fake(t, agenttest.Scenario{Plays: []agenttest.Play{agenttest.Healthy(0.01)}})
		spec := testSpec(t)
		spec.Session.Role, spec.Session.Handler = role, "tier2"
		NewClaude(ClaudeOptions{Bin: filepath.Clean(bin), Env: testEnv()}).Run(t.Context(), spec, &memory{})
		call := agenttest.Calls(t, bin)[0]
		if got, _ := call.Var("CLAUDEOPS_ROLE"); got != want {
			t.Errorf("role %q", got)
		}
		if got, _ := call.Var("CLAUDEOPS_HANDLER"); got != "tier2" {
			t.Errorf("handler %q", got)
		}
	}
}
