package claude

import (
	"path/filepath"
	"reflect"
	"strings"
	"testing"

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
			if got := New(Options{}).Activities(tt.line); !reflect.DeepEqual(got, tt.want) {
				t.Errorf("got  %+v\nwant %+v", got, tt.want)
			}
		})
	}
}

func TestALongOutputKeepsItsEndsAndStaysDistinct(t *testing.T) {
	output := func(middle string) string {
		text := "head" + strings.Repeat("ü", 5000) + middle + strings.Repeat("x", 10_000) + "tail"
		return activities(agenttest.Answer("a", text))[0].Output
	}
	one, two := output("one"), output("two")
	if len(one) > maxOutput+100 || !strings.HasPrefix(one, "headü") || !strings.HasSuffix(one, "xtail") {
		t.Errorf("%d bytes: %.20q … %q", len(one), one, one[len(one)-10:])
	}
	if one == two || one != output("one") {
		t.Error("outputs that differ in the middle look the same, or equal ones do not")
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
		"continued":            {0.0001, 7, "2.1.325 (Claude Code)", "0.0001"}, // it counts this run only
		"no limit":             {0, 0, "2.1.325 (Claude Code)", ""},
		"too old to be sure":   {0.25, 0, "2.1.200 (Claude Code)", ""},
		"an unknown version":   {0.25, 0, "wrapper", ""},
		"the oldest supported": {0.25, 0, OldestVersion + " (Claude Code)", "0.25"},
	} {
		t.Run(name, func(t *testing.T) {
			bin := agenttest.Fake(t, agenttest.Scenario{Version: tt.version, Plays: []agenttest.Play{agenttest.Healthy(0.01)}})
			spec := testSpec(t)
			spec.BudgetUSD = tt.budget
			if tt.spent > 0 {
				spec.Resume, spec.SpentUSD = "22222222-2222-4222-8222-222222222222", &tt.spent
			}
			newRunner(Options{Bin: bin, Env: testEnv()}).Run(t.Context(), spec, &agenttest.Recorder{})
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
		newRunner(Options{Bin: filepath.Clean(bin), Env: testEnv()}).Run(t.Context(), spec, &agenttest.Recorder{})
		call := agenttest.Calls(t, bin)[0]
		if got, _ := call.Var("CLAUDEOPS_ROLE"); got != want {
			t.Errorf("role %q", got)
		}
		if got, _ := call.Var("CLAUDEOPS_HANDLER"); got != "tier2" {
			t.Errorf("handler %q", got)
		}
	}
}
