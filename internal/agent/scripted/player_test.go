package scripted

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/uuid"

	"claudeops/internal/ops"
)

// played is what a run of the agent left.
type played struct {
	code   int
	stderr string
	lines  []string
	last   struct {
		Type       string          `json:"type"`
		Subtype    string          `json:"subtype"`
		IsError    bool            `json:"is_error"`
		Result     string          `json:"result"`
		Session    string          `json:"session_id"`
		Cost       float64         `json:"total_cost_usd"`
		Structured json.RawMessage `json:"structured_output"`
		Usage      struct {
			Input int `json:"input_tokens"`
		} `json:"usage"`
		Denials []ops.Denial `json:"permission_denials"`
	}
}

func run(ctx context.Context, t *testing.T, dir, scenario string, env []string, args ...string) (p played) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "scenario.yaml")
	if err := os.WriteFile(file, []byte(scenario), 0o600); err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	args = append([]string{"-p", "look", "--output-format", "stream-json", "--verbose", "--scenario", file}, args...)
	env = append([]string{"PATH=/usr/bin:/bin", "CLAUDE_CONFIG_DIR=" + dir, "CLAUDEOPS_STATE_DIR=" + dir, "CLAUDEOPS_TIER=1"}, env...)
	p.code = Main(ctx, Process{args, env, strings.NewReader(""), &stdout, &stderr})
	p.stderr = stderr.String()
	if p.lines = strings.Split(strings.TrimSpace(stdout.String()), "\n"); p.lines[0] != "" {
		if err := json.Unmarshal([]byte(p.lines[len(p.lines)-1]), &p.last); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

const steps = `
tiers:
  1:
    cost_usd: 0.5
    steps:
      - say: hello
      - when: {bash: 'echo seen; exit 3', exit: 3}
        steps: [{bash: 'echo then'}]
        else: [{finish: {result: wrong}}]
      - when: {bash: 'false'}
        steps: [{finish: {result: wrong}}]
        else: [{bash: 'echo else $CLAUDEOPS_DEMO_DIR'}]
      - when: {bash: 'echo 200 OK', prints: '502'}
        steps: [{finish: {result: wrong}}]
      - when: {look: {what: http, target: web}, exit: 127}
        else: [{finish: {result: wrong}}]
      - finish: {result: done, outcome: {outcome: escalate, handoff: {recommended_tier: 2}}}
      - say: never
roles:
  judge: {result: judged}
`

func TestAScriptIsPlayedStepByStep(t *testing.T) {
	dir := t.TempDir()
	p := run(t.Context(), t, dir, steps, []string{"CLAUDEOPS_DEMO_DIR=/srv/box"}, "--json-schema", "{}")
	all := strings.Join(p.lines, "\n")
	for _, want := range []string{
		`"text":"hello"`, `Exit code 3\nseen`, `"content":"then"`, `"command":"echo else /srv/box"`, `"content":"else /srv/box"`,
		`"name":"mcp__claudeops__look","type":"tool_use"`, `{"what":"http","target":"web"}`,
	} {
		if !strings.Contains(all, want) {
			t.Errorf("%s is missing in %s", want, all)
		}
	}
	if p.code != 0 || p.last.Result != "done" || p.last.Cost != 0.5 || string(p.last.Structured) != `{"handoff":{"recommended_tier":2},"outcome":"escalate"}` ||
		strings.Contains(all, "never") {
		t.Errorf("exit %d: %+v\n%s", p.code, p.last, p.stderr)
	}
	if p := run(t.Context(), t, dir, steps, []string{"CLAUDEOPS_ROLE=judge"}); p.last.Result != "judged" {
		t.Errorf("the judge: %+v", p.last)
	}
	if p := run(t.Context(), t, dir, steps, []string{"CLAUDEOPS_ROLE=planner"}); p.code != 1 || !strings.Contains(p.stderr, `no role "planner"`) {
		t.Errorf("exit %d: %s", p.code, p.stderr)
	}
}

func TestWithoutASchemaTheHandoffIsAFile(t *testing.T) {
	dir := t.TempDir()
	p := run(t.Context(), t, dir, steps, nil)
	if got, err := os.ReadFile(filepath.Join(dir, "handoff.json")); err != nil || string(got) != `{"recommended_tier":2}` || p.last.Structured != nil {
		t.Errorf("%s, %v, %+v", got, err, p.last)
	}
}

func TestTheHookIsAskedAboutEveryCall(t *testing.T) {
	settings := `{"hooks":{"PreToolUse":[{"hooks":[{"command":"echo '{\"hookSpecificOutput\":{\"permissionDecision\":\"deny\",\"permissionDecisionReason\":\"Not now.\"}}'"}]}]}}`
	dir := t.TempDir()
	scenario := "tiers: {1: {steps: [{bash: 'touch " + dir + "/ran'}, {act: {service: web, action: x, why: y}}], outcome: {a: 1}}}"
	p := run(t.Context(), t, dir, scenario, nil, "--settings", settings, "--json-schema", "{}")
	if _, err := os.Stat(dir + "/ran"); !errors.Is(err, os.ErrNotExist) || len(p.last.Denials) != 3 || p.last.Structured != nil {
		t.Errorf("%v, %+v", err, p.last)
	}
}

func TestAConversationIsContinued(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	const scenario = "tiers: {1: {steps: [{say: a long story}]}}"
	first, second := uuid.NewString(), uuid.NewString()
	one := run(t.Context(), t, dir, scenario, nil, "--session-id", first)
	two := run(t.Context(), t, dir, scenario, nil, "--session-id", second, "--resume", first, "--fork-session")
	if one.last.Session != first || two.last.Session != second || two.last.Usage.Input <= one.last.Usage.Input {
		t.Errorf("%+v, then %+v", one.last, two.last)
	}
	unknown := uuid.NewString()
	p := run(t.Context(), t, dir, scenario, nil, "--resume", unknown, "--fork-session")
	if p.code != 1 || !strings.Contains(p.stderr, "No conversation found with session ID: "+unknown) || !p.last.IsError {
		t.Errorf("exit %d: %s %+v", p.code, p.stderr, p.last)
	}
}

// interrupting interrupts the agent as soon as a word comes in its stream.
type interrupting struct {
	word string
	stop context.CancelFunc
}

func (i interrupting) Write(line []byte) (int, error) {
	if bytes.Contains(line, []byte(i.word)) {
		i.stop()
	}
	return len(line), nil
}

func TestAnInterruptEndsTheAgent(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		step, word string
		code       int
	}{"in a command": {"{bash: sleep 60}", "tool_use", 1}, "in a pause": {"{pause: 60s}", "init", 0}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancel(t.Context())
			file := filepath.Join(t.TempDir(), "s.yaml")
			if err := os.WriteFile(file, []byte("tiers: {1: {steps: ["+tt.step+"]}}"), 0o600); err != nil {
				t.Fatal(err)
			}
			env := []string{"PATH=/usr/bin:/bin", "CLAUDE_CONFIG_DIR=" + t.TempDir(), "CLAUDEOPS_TIER=1"}
			if code := Main(ctx, Process{[]string{"-p", "x", "--scenario", file}, env, nil, interrupting{tt.word, cancel}, io.Discard}); code != tt.code {
				t.Errorf("exit %d, want %d", code, tt.code)
			}
		})
	}
}

func TestAWrongScenarioIsRefusedWithFileAndPlace(t *testing.T) {
	t.Parallel()
	step := func(text string) string { return "tiers:\n  1:\n    steps:\n      - " + text }
	for name, tc := range map[string]struct{ text, want string }{
		"empty":              {"", "s.yaml: the scenario is empty"},
		"no tiers":           {"name: x", `the scenario needs "tiers"`},
		"syntax":             {"tiers:\n  1: [\n", "line 2: did not find"},
		"unknown key":        {"tiers:\n  1:\n    colour: red", "line 3: unknown key colour"},
		"unknown tier":       {"tiers:\n  4: {}", "there is no tier 4"},
		"unknown role":       {"roles: {cook: {}}", `there is no role "cook"`},
		"step of two kinds":  {step("{say: x, bash: y}"), "Tier 1: step 1: a step is one of act, bash, finish"},
		"empty command":      {step(`bash: ""`), "a step is one of"},
		"act without reason": {step("act: {service: a, action: b}"), `act needs "service", "action" and "why"`},
		"no condition":       {step("{when: {}, steps: []}"), `when needs "bash"`},
		"steps of no kind":   {step("{say: x, steps: [say: y]}"), "steps and else belong to when"},
		"deep":               {step("{when: {bash: x}, else: [{say: x, bash: y}]}"), "step 1: step 1: a step is one of"},
		"endless nesting":    {"tiers:\n  1:\n    steps: &s\n      - when: {bash: x}\n        steps: *s", "contains itself"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := Parse([]byte(tc.text), "s.yaml")
			if err == nil || !strings.HasPrefix(err.Error(), "s.yaml:") || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}

func TestTheDemoIsAScenario(t *testing.T) {
	t.Parallel()
	s, err := load(builtin)
	if err != nil || len(s.Tiers) != 3 {
		t.Errorf("%d tiers, %v", len(s.Tiers), err)
	}
	if _, err := load("builtin:other"); err == nil || !strings.Contains(err.Error(), "the only built-in one is builtin:demo") {
		t.Errorf("got %v", err)
	}
}
