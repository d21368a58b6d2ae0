package scripted

import (
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
			{Say: ops.Ptr("hello")},
			{Bash: ops.Ptr("false"), ExpectFailure: ops.Ptr(true)},
			{Pause: ops.Ptr(500 * time.Millisecond)},
			{Write: &Write{Path: "p"}},
			{When: &When{Bash: "x", Exit: 3}, Steps: []Step{{Say: ops.Ptr("a")}}, Else: []Step{{Finish: &Ending{Exit: ops.Ptr(1)}}}},
			{When: &When{Contains: &FileContains{"p", "t"}}},
		},
		Ending: Ending{Handoff: document("{\n  \"a\": [\n    \"x\"\n  ],\n  \"b\": 1\n}"), Stderr: "e", Hang: true},
	}}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %#v\nwant %#v", got, want)
	}
}

func TestAWrongScenarioIsRefusedWithFileAndPlace(t *testing.T) {
	step := func(text string) string { return "tiers:\n  1:\n    steps:\n      - " + text }
	for name, tc := range map[string]struct{ text, want string }{
		"empty":              {"", "s.yaml: the scenario is empty"},
		"only a comment":     {"# nothing\n", "s.yaml: the scenario is empty"},
		"no tiers":           {"name: x", `the scenario needs "tiers"`},
		"not a mapping":      {"- a\n", "line 1: cannot unmarshal"},
		"syntax":             {"tiers:\n  1: [\n", "line 2: did not find"},
		"two documents":      {"tiers: {1: {}}\n---\ntiers: {1: {}}\n", "only one YAML document"},
		"unknown key":        {"tiers:\n  1:\n    colour: red", "line 3: unknown key colour"},
		"unknown tier":       {"tiers:\n  4: {}", "there is no tier 4"},
		"doubled key":        {"tiers:\n  1: {}\n  1: {}", `line 3: mapping key "1" already defined at line 2`},
		"cost":               {"tiers:\n  1:\n    cost_usd: much", "line 3: cannot unmarshal"},
		"negative cost":      {"tiers: {1: {cost_usd: -1}}", "Tier 1: cost_usd: want an amount"},
		"cost is no number":  {"tiers: {1: {cost_usd: .nan}}", "want an amount"},
		"exit code":          {"tiers: {1: {exit: 300}}", "want an exit code"},
		"flag":               {"tiers: {1: {hang: perhaps}}", "line 1: cannot unmarshal"},
		"handoff not JSON":   {"tiers: {1: {handoff: {a: .inf}}}", "unsupported value"},
		"doubled handoff":    {"tiers: {1: {handoff: {a: 1, a: 2}}}", "mapping key"},
		"steps no list":      {"tiers: {1: {steps: {say: x}}}", "line 1: cannot unmarshal"},
		"step no mapping":    {step("hello"), "line 4: cannot unmarshal"},
		"step without kind":  {step("{expect_failure: true}"), "Tier 1: step 1: a step is one of act, bash, finish"},
		"step of two kinds":  {step("{say: x, bash: y}"), "a step is one of"},
		"key of other kind":  {step("{say: x, expect_failure: true}"), "expect_failure belongs to bash"},
		"steps of no kind":   {step("{say: x, steps: [say: y]}"), "steps belong to when and repeat"},
		"empty command":      {step(`bash: ""`), "the text is empty"},
		"nothing to say":     {step("say:"), "a step is one of"},
		"pause":              {step("pause: 5"), "line 4: cannot unmarshal"},
		"negative pause":     {step("pause: -5s"), "want a duration"},
		"act without reason": {step("act: {service: a, action: b}"), `act needs "service", "action" and "why"`},
		"write without path": {step("write: {content: x}"), `write needs a "path"`},
		"no condition":       {step("{when: {}, steps: []}"), "when needs either"},
		"two conditions":     {step("{when: {bash: x, file_contains: {path: p, text: t}}}"), "when needs either"},
		"exit without bash":  {step("{when: {file_contains: {path: p, text: t}, exit: 1}}"), "exit in when belongs to bash"},
		"half a condition":   {step("{when: {file_contains: {path: p}}}"), `file_contains needs "path" and "text"`},
		"attempts no list":   {"tiers: {1: {attempts: {}}}", "line 1: cannot unmarshal"},
		"beside attempts":    {"tiers: {1: {attempts: [{}], steps: [say: x]}}", "only attempts may stand beside attempts"},
		"a wrong attempt":    {"tiers:\n  1:\n    attempts:\n      - {}\n      - {exit: 256}", "Tier 1: attempt 2: exit: want an exit code"},
		"unknown role":       {"roles: {cook: {}}", `there is no role "cook"`},
		"wrong handler":      {"handlers: {a: {exit: 256}}", "handler a: exit: want an exit code"},
		"handlers no map":    {"handlers: [a]", "line 1: cannot unmarshal"},
		"api status":         {"tiers: {1: {api_status: 200}}", "want an HTTP status"},
		"retry after":        {"tiers: {1: {api_status: 429, retry_after: -3s}}", "want a duration"},
		"subtype":            {"tiers: {1: {subtype: success}}", "want a subtype"},
		"repeat too often":   {step("{repeat: 1001, steps: [say: x]}"), "a number from 1 to 1000"},
		"repeat nothing":     {step("{repeat: 2}"), `"steps"`},
		"endless nesting":    {"tiers:\n  1:\n    steps: &s\n      - when: {bash: x}\n        steps: *s", "contains itself"},
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
