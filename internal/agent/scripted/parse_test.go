package scripted

import (
	"encoding/json"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"claudeops/internal/ops"
)

func TestAScenarioIsReadWhole(t *testing.T) {
	got, err := Parse([]byte(`
name: all
tiers:
  2:
    cost_usd: 0.5
    model: m
    steps:
      - say: hello
      - {bash: "false", expect_failure: true}
      - pause: 500ms
      - write: {path: p, content: ""}
      - when: {bash: x, exit: 3}
        steps: [{say: a}]
        else: [{finish: {exit: 1}}]
      - when: {file_contains: {path: p, text: t}}
    handoff: {b: 1, a: [x]}
    stderr: e
    hang: true
`), "all.yaml")
	if err != nil {
		t.Fatal(err)
	}
	want := Scenario{Name: "all", Tiers: map[ops.Tier]Script{2: {
		Model: "m", CostUSD: 0.5,
		Steps: []Step{
			Say{"hello"},
			Bash{Command: "false", ExpectFailure: ops.Ptr(true), Line: 9},
			Pause{500 * time.Millisecond},
			Write{Path: "p"},
			When{Bash: &BashExits{"x", 3}, Then: []Step{Say{"a"}}, Else: []Step{Finish{Ending{Exit: ops.Ptr(1)}}}},
			When{Contains: &FileContains{"p", "t"}},
		},
		Ending: Ending{Handoff: json.RawMessage("{\n  \"a\": [\n    \"x\"\n  ],\n  \"b\": 1\n}"), Stderr: "e", Hang: true},
	}}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %#v\nwant %#v", got, want)
	}
}

func TestAWrongScenarioIsRefusedWithFileAndLine(t *testing.T) {
	step := func(text string) string { return "tiers:\n  1:\n    steps:\n      - " + text }
	for name, tc := range map[string]struct{ text, want string }{
		"empty":              {"", "s.yaml: the scenario is empty"},
		"only a comment":     {"# nothing\n", "s.yaml: the scenario is empty"},
		"no tiers":           {"name: x", `s.yaml:1: the scenario needs "tiers"`},
		"not a mapping":      {"- a\n", "s.yaml:1: the scenario must be a mapping"},
		"syntax":             {"tiers:\n  1: [\n", "s.yaml:"},
		"two documents":      {"tiers: {1: {}}\n---\ntiers: {1: {}}\n", "only one YAML document"},
		"unknown key":        {"tiers:\n  1:\n    colour: red", `s.yaml:3: unknown key "colour" in Tier 1; known are: api_status, cost_usd, exit`},
		"unknown tier":       {"tiers:\n  4: {}", `s.yaml:2: unknown key "4" in tiers; known are: 1, 2, 3`},
		"doubled key":        {"tiers:\n  1: {}\n  1: {}", `s.yaml:3: the key "1" appears twice`},
		"cost":               {"tiers:\n  1:\n    cost_usd: much", `s.yaml:3: want an amount of 0 or more, found "much"`},
		"negative cost":      {"tiers: {1: {cost_usd: -1}}", "s.yaml:1: want an amount"},
		"cost is no number":  {"tiers: {1: {cost_usd: .nan}}", "s.yaml:1: want an amount"},
		"exit code":          {"tiers: {1: {exit: 300}}", "s.yaml:1: want an exit code"},
		"flag":               {"tiers: {1: {hang: perhaps}}", `s.yaml:1: want true or false, found "perhaps"`},
		"handoff not JSON":   {"tiers: {1: {handoff: {a: .inf}}}", "s.yaml:1: not expressible as JSON"},
		"doubled handoff":    {"tiers: {1: {handoff: {a: 1, a: 2}}}", "s.yaml:1: mapping key"},
		"steps no list":      {"tiers: {1: {steps: {say: x}}}", "s.yaml:1: steps must be a list, found a mapping"},
		"step no mapping":    {step("hello"), "s.yaml:4: a step must be a mapping"},
		"step without kind":  {step("{expect_failure: true}"), "s.yaml:4: a step needs one of: act, bash, finish"},
		"step of two kinds":  {step("{say: x, bash: y}"), `s.yaml:4: one step cannot be both "say" and "bash"`},
		"key of other kind":  {step("{say: x, expect_failure: true}"), `s.yaml:4: unknown key "expect_failure" in a say step`},
		"empty command":      {step(`bash: ""`), `s.yaml:4: want a text, found ""`},
		"nothing to say":     {step("say:"), "s.yaml:4: want a text"},
		"pause":              {step("pause: 5"), "s.yaml:4: want a duration"},
		"negative pause":     {step("pause: -5s"), "s.yaml:4: want a duration"},
		"act without reason": {step("act: {service: a, action: b}"), `s.yaml:4: act needs "service", "action" and "why"`},
		"write without path": {step("write: {content: x}"), `s.yaml:4: write needs a "path"`},
		"no condition":       {step("{when: {}, steps: []}"), "s.yaml:4: when needs either"},
		"two conditions":     {step("{when: {bash: x, file_contains: {path: p, text: t}}}"), "s.yaml:4: when needs either"},
		"exit without bash":  {step("{when: {file_contains: {path: p, text: t}, exit: 1}}"), "s.yaml:4: exit in when belongs to bash"},
		"half a condition":   {step("{when: {file_contains: {path: p}}}"), `s.yaml:4: file_contains needs "path" and "text"`},
		"attempts no list":   {"tiers: {1: {attempts: {}}}", "s.yaml:1: attempts must be a list of scripts, found a mapping"},
		"no attempt":         {"tiers: {1: {attempts: []}}", "s.yaml:1: attempts must be a list"},
		"beside attempts":    {"tiers: {1: {attempts: [{}], result: x}}", `s.yaml:1: unknown key "result" in Tier 1 with attempts; known are: attempts`},
		"a wrong attempt":    {"tiers:\n  1:\n    attempts:\n      - {}\n      - {exit: x}", "s.yaml:5: want an exit code"},
		"unknown role":       {"roles: {cook: {}}", `s.yaml:1: unknown key "cook" in roles; known are: judge, manager, planner`},
		"wrong handler":      {"handlers: {a: {exit: x}}", "s.yaml:1: want an exit code"},
		"handlers no map":    {"handlers: [a]", "s.yaml:1: handlers must be a mapping"},
		"api status":         {"tiers: {1: {api_status: 200}}", "s.yaml:1: want an HTTP status"},
		"retry after":        {"tiers: {1: {api_status: 429, retry_after: 3}}", "s.yaml:1: want a duration"},
		"subtype":            {"tiers: {1: {subtype: success}}", "s.yaml:1: want a subtype"},
		"repeat too often":   {step("{repeat: 1001, steps: [say: x]}"), "s.yaml:4: want a number from 1 to 1000"},
		"repeat nothing":     {step("{repeat: 2}"), `s.yaml:4: repeat needs "steps"`},
		"endless nesting":    {"tiers:\n  1:\n    steps: &s\n      - when: {bash: x}\n        steps: *s", "nested more than"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Parse([]byte(tc.text), "s.yaml")
			if err == nil || !strings.HasPrefix(err.Error(), "s.yaml:") || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}

func TestTheDocumentedScenarioIsValid(t *testing.T) {
	doc, err := os.ReadFile("../../../docs/scripted-agent.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(doc), "```yaml file=my-scenario.yaml\n")
	text, _, _ := strings.Cut(rest, "```")
	if s, err := Parse([]byte(text), "scripted-agent.md"); err != nil || len(s.Tiers) != 2 {
		t.Errorf("%d tiers, %v", len(s.Tiers), err)
	}
	_, rest, _ = strings.Cut(rest, "## Attempts, roles and handlers\n\n")
	_, rest, _ = strings.Cut(rest, "```yaml file=attempts.yaml\n")
	text, _, _ = strings.Cut(rest, "```")
	if s, err := Parse([]byte(text), "scripted-agent.md"); err != nil || len(s.Tiers[ops.Tier2].Attempts) != 3 || len(s.Roles) != 3 || len(s.Handlers) != 1 {
		t.Errorf("got %+v, %v", s, err)
	}
}

func TestAScenarioCannotGrowWithoutBound(t *testing.T) {
	text := "tiers:\n  1:\n    steps:\n      - say: &a x\n"
	for range maxSteps {
		text += "      - say: *a\n"
	}
	if _, err := Parse([]byte(text), "s.yaml"); err == nil || !strings.Contains(err.Error(), "more than 10000 steps") {
		t.Errorf("got %v", err)
	}
}

func FuzzParse(f *testing.F) {
	demo, err := Builtin(DemoScenario)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(demo)
	f.Add([]byte("tiers: {1: {steps: &s [{when: {bash: x}, steps: *s}]}}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := Parse(data, "s.yaml")
		if err == nil && len(s.Tiers) == 0 {
			t.Error("accepted a scenario without tiers")
		}
		if err != nil && !strings.HasPrefix(err.Error(), "s.yaml:") {
			t.Errorf("the error does not name the file: %v", err)
		}
	})
}

func TestToolListsAreSplitOutsideOfRules(t *testing.T) {
	got := toolList([]string{"Task,Agent", "Bash(docker restart:*),Bash(a, b:*) Read", ""})
	want := []string{"Task", "Agent", "Bash(docker restart:*)", "Bash(a, b:*)", "Read"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

func TestAListFlagTakesEverythingUpToTheNextFlag(t *testing.T) {
	a, err := splitArguments([]string{"--tools", "Bash", "Read", "--model=m", "--allowedTools", "Bash", "--", "--prompt"})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(a.flags["--tools"], []string{"Bash", "Read"}) || a.one("--model") != "m" || !slices.Equal(a.rest, []string{"--prompt"}) {
		t.Errorf("got %+v", a)
	}
}
