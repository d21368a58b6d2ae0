package scripted

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestAToolThatIsNotGivenIsRefusedAndReported(t *testing.T) {
	for name, tc := range map[string]struct {
		tools   string
		args    []string
		command string
		refused bool
	}{
		"no list":                  {command: "echo ran"},
		"in the list":              {tools: "Read,Bash", command: "echo ran"},
		"not in the list":          {tools: "Read,Grep", command: "echo ran", refused: true},
		"empty list":               {args: []string{"--tools", ""}, command: "echo ran", refused: true},
		"denied by its plain name": {tools: "Bash", args: []string{"--disallowedTools", "Task,Bash"}, command: "echo ran", refused: true},
		"denied by rule":           {tools: "Bash", args: []string{"--disallowedTools", "Task,Bash(echo ran:*)"}, command: "echo ran now", refused: true},
		"rule of another command":  {tools: "Bash", args: []string{"--disallowedTools", "Bash(docker restart:*)"}, command: "echo ran"},
		"rule ends inside a word":  {tools: "Bash", args: []string{"--disallowedTools", "Bash(echo ra:*)"}, command: "echo ran"},
		"rule without a wild card": {tools: "Bash", args: []string{"--disallowedTools", "Bash(echo)"}, command: "echo ran"},
	} {
		t.Run(name, func(t *testing.T) {
			p := (&play{
				tools: tc.tools, args: tc.args,
				scenario: "tiers: {1: {steps: [{bash: '" + tc.command + " >ran; echo ran'}], result: done}}",
			})
			t.Chdir(t.TempDir())
			p.run(t)
			r := p.result(t)
			_, err := os.Stat("ran")
			if ran := err == nil; ran == tc.refused || p.code != 0 || r.IsError {
				t.Fatalf("ran %v, code %d, answers %q", ran, p.code, p.answers())
			}
			if !tc.refused {
				return
			}
			if len(r.Denials) != 1 || r.Denials[0]["tool_name"] != "Bash" || r.Denials[0]["tool_use_id"] == "" {
				t.Errorf("permission_denials %v", r.Denials)
			}
			if a := p.events[2].Message.Content[0]; !a.IsError {
				t.Errorf("refused call answered with %+v", a)
			}
		})
	}
}

func TestCommandsRunInASessionOfTheirOwnAndSeeTheEnvironment(t *testing.T) {
	p := (&play{env: []string{"COLOUR=blue"}, scenario: `
tiers:
  1:
    steps:
      - bash: read -r pid name state parent group session rest </proc/self/stat; echo "$pid $group $session"
      - bash: echo "$COLOUR $CLAUDEOPS_TIER"
`}).run(t)
	got := p.answers()
	ids := strings.Fields(got[0])
	if len(ids) != 3 || ids[0] != ids[1] || ids[0] != ids[2] {
		t.Errorf("pid, group and session are %q, want three times the same", got[0])
	}
	if got[1] != "blue 1" {
		t.Errorf("environment %q", got[1])
	}
}

func TestAnActionIsAskedForAsATool(t *testing.T) {
	bin := t.TempDir()
	program := "#!/bin/sh\nprintf '<%s>' \"$@\"\n"
	if err := os.WriteFile(filepath.Join(bin, "claudeops-act"), []byte(program), 0o700); err != nil { //nolint:gosec // it is a program
		t.Fatal(err)
	}
	p := &play{
		env: []string{"PATH=" + bin}, tools: "Read",
		scenario: `tiers: {1: {steps: [{act: {service: web, action: restart, why: "it's $slow"}}], result: done}}`,
	}
	p.run(t)
	call := p.events[1].Message.Content[0]
	if p.code != 0 || call.Name != "mcp__claudeops__action_run" || !slices.Equal(p.answers(), []string{"<run><web><restart><--why><it's $slow>"}) {
		t.Errorf("code %d, call %+v, answers %q", p.code, call, p.answers())
	}
}

func TestABackgroundChildThatHoldsTheOutputDoesNotDelayTheAnswer(t *testing.T) {
	dir := t.TempDir()
	p := (&play{env: []string{"DIR=" + dir}, scenario: `
tiers:
  1:
    steps:
      - bash: sleep 300 & echo $! >"$DIR/pid"; echo started
      - bash: read -r pid <"$DIR/pid"; kill -0 "$pid" && kill -9 "$pid" && echo ended
`}).run(t)
	if got := p.answers(); !slices.Equal(got, []string{"started", "ended"}) {
		t.Errorf("answers %q", got)
	}
}

func TestLongOutputIsCut(t *testing.T) {
	p := (&play{scenario: `tiers: {1: {steps: [{bash: 'printf "%040000d" 1'}]}}`}).run(t)
	if got := p.answers()[0]; len(got) > maxOutput+100 || !strings.HasSuffix(got, "[output cut]") {
		t.Errorf("%d bytes, ends with %q", len(got), got[len(got)-20:])
	}
}

func TestAnExpectationThatIsNotMetEndsTheSession(t *testing.T) {
	for name, tc := range map[string]struct {
		command string
		expect  string
		wrong   bool
	}{
		"fails as expected":    {"exit 7", "true", false},
		"succeeds as expected": {"exit 0", "false", false},
		"should fail":          {"exit 0", "true", true},
		"should succeed":       {"exit 7", "false", true},
	} {
		t.Run(name, func(t *testing.T) {
			p := (&play{scenario: "tiers:\n  1:\n    steps:\n      - bash: " + tc.command +
				"\n        expect_failure: " + tc.expect + "\n    result: done\n"}).run(t)
			r := p.result(t)
			if wrong := p.code == 1 && r.IsError && r.Subtype == "error_during_execution"; wrong != tc.wrong {
				t.Fatalf("code %d, result %s", p.code, p.lines[len(p.lines)-1])
			}
			if tc.wrong && !strings.Contains(p.stderr, "the command was expected to") {
				t.Errorf("stderr %q does not name the line", p.stderr)
			}
		})
	}
}

func TestWriteExpandsThePathAndKeepsTheContent(t *testing.T) {
	dir := t.TempDir()
	p := (&play{env: []string{envStateDir + "=" + dir}, scenario: `
tiers:
  1:
    steps:
      - write: {path: "$CLAUDEOPS_STATE_DIR/deep/file", content: "costs $5 & more"}
      - write: {path: "$CLAUDEOPS_STATE_DIR", content: "a folder"}
`}).run(t)
	data, err := os.ReadFile(filepath.Join(dir, "deep", "file"))
	if err != nil || string(data) != "costs $5 & more" {
		t.Errorf("file holds %q, %v", data, err)
	}
	call := p.events[1].Message.Content[0]
	if call.Name != "Write" || call.Input.FilePath != filepath.Join(dir, "deep", "file") || call.Input.Content != "costs $5 & more" {
		t.Errorf("shown as %s", p.lines[1])
	}
	if refused := p.events[4].Message.Content[0]; !refused.IsError || p.code != 0 {
		t.Errorf("a file that cannot be written: code %d, answer %+v", p.code, refused)
	}
}

func TestAPathWithAnUnsetVariableIsAnError(t *testing.T) {
	p := (&play{scenario: `tiers: {1: {handoff: {schema_version: 1}, result: done}}`}).run(t)
	if r := p.result(t); p.code != 1 || !r.IsError || !strings.Contains(r.Errors[0], envStateDir) {
		t.Errorf("code %d, errors %q", p.code, r.Errors)
	}
}

const endings = `
tiers:
  1:
    handoff: {schema_version: 1, recommended_tier: 2, services_affected: [web]}
    outcome: {schema_version: 1, outcome: escalate}
    result: handed over
`

func TestAHandoffIsWrittenAsJSONThroughATool(t *testing.T) {
	dir := t.TempDir()
	p := (&play{env: []string{envStateDir + "=" + dir}, scenario: endings}).run(t)
	data, err := os.ReadFile(filepath.Join(dir, "handoff.json"))
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Version  int      `json:"schema_version"`
		Tier     int      `json:"recommended_tier"`
		Services []string `json:"services_affected"`
	}
	if err := json.Unmarshal(data, &got); err != nil || got.Version != 1 || got.Tier != 2 || len(got.Services) != 1 {
		t.Errorf("handoff %s: %v", data, err)
	}
	if call := p.events[1].Message.Content[0]; call.Name != "Write" || call.Input.Content != string(data) {
		t.Errorf("shown as %s", p.lines[1])
	}
	if r := p.result(t); r.Structured != nil || *r.Result != "handed over" {
		t.Errorf("result %s", p.lines[len(p.lines)-1])
	}
}

func TestStructuredOutputIsGivenOnlyWhenASchemaWasAskedForAndReplacesTheFile(t *testing.T) {
	dir := t.TempDir()
	p := (&play{
		env: []string{envStateDir + "=" + dir}, args: []string{"--json-schema", `{"type":"object"}`}, tools: "Bash", scenario: endings,
	}).run(t)
	r := p.result(t)
	if r.Structured["outcome"] != "escalate" || len(r.Denials) != 0 || p.events[1].Message.Content[0].Name != "StructuredOutput" {
		t.Errorf("result %s", p.lines[len(p.lines)-1])
	}
	if _, err := os.Stat(filepath.Join(dir, "handoff.json")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a handoff file was written beside structured output: %v", err)
	}
}

func TestWhenGoesTheWayTheConditionSays(t *testing.T) {
	for name, tc := range map[string]struct{ condition, want string }{
		"command exits as asked":     {`{bash: "exit 4", exit: 4}`, "then"},
		"command exits otherwise":    {`{bash: "exit 4"}`, "else"},
		"file holds the text":        {`{file_contains: {path: "$DIR/file", text: needle}}`, "then"},
		"file holds another text":    {`{file_contains: {path: "$DIR/file", text: thread}}`, "else"},
		"file is not there":          {`{file_contains: {path: "$DIR/none", text: needle}}`, "else"},
		"file in the working folder": {`{file_contains: {path: "local", text: needle}}`, "then"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			t.Chdir(dir)
			for _, file := range []string{"file", "local"} {
				if err := os.WriteFile(filepath.Join(dir, file), []byte("hay needle hay"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			p := (&play{env: []string{"DIR=" + dir}, scenario: `
tiers:
  1:
    steps:
      - when: ` + tc.condition + `
        steps: [{say: then}]
        else: [{say: else}]
`}).run(t)
			if r := p.result(t); *r.Result != tc.want {
				t.Errorf("went %q, want %q", *r.Result, tc.want)
			}
		})
	}
}

func TestARefusedConditionDoesNotHold(t *testing.T) {
	p := (&play{tools: "Read", scenario: `
tiers: {1: {steps: [{when: {bash: "true"}, steps: [{say: then}], else: [{say: else}]}]}}
`}).run(t)
	if r := p.result(t); *r.Result != "else" || len(r.Denials) != 1 {
		t.Errorf("result %q, denials %v", *r.Result, r.Denials)
	}
}

func TestFinishEndsTheScriptInItsOwnWay(t *testing.T) {
	dir := t.TempDir()
	p := (&play{env: []string{envStateDir + "=" + dir}, scenario: `
tiers:
  1:
    steps:
      - when: {bash: "true"}
        steps: [{finish: {result: early, exit: 5}}]
      - say: never
    handoff: {schema_version: 1}
    result: late
`}).run(t)
	if r := p.result(t); p.code != 5 || *r.Result != "early" || strings.Contains(strings.Join(p.lines, ""), "never") {
		t.Errorf("code %d, result %q", p.code, *r.Result)
	}
	if _, err := os.Stat(filepath.Join(dir, "handoff.json")); !errors.Is(err, os.ErrNotExist) {
		t.Error("the handoff of the other ending was written")
	}
}

func TestFailuresCanBePlayed(t *testing.T) {
	for name, tc := range map[string]struct {
		ending string
		code   int
		result bool
		error  bool
		stderr string
	}{
		"plain":            {"result: done", 0, true, false, ""},
		"exit code":        {"exit: 42", 42, true, false, ""},
		"no result":        {"no_result: true", 0, false, false, ""},
		"error":            {"is_error: true", 1, true, true, ""},
		"error but exit 0": {"is_error: true, exit: 0", 0, true, true, ""},
		"stderr":           {"stderr: boom", 0, true, false, "boom\n"},
	} {
		t.Run(name, func(t *testing.T) {
			p := (&play{scenario: "tiers: {1: {" + tc.ending + "}}"}).run(t)
			last := p.events[len(p.events)-1]
			if p.code != tc.code || (last.Type == "result") != tc.result || last.IsError != tc.error || p.stderr != tc.stderr {
				t.Errorf("code %d, last event %s, stderr %q", p.code, p.lines[len(p.lines)-1], p.stderr)
			}
		})
	}
}

func TestPausesFollowThePaceAndEndWithTheContext(t *testing.T) {
	for _, tc := range []struct {
		pace float64
		want time.Duration
	}{{0, 0}, {0.5, 400 * time.Millisecond}, {1, 800 * time.Millisecond}} {
		synctest.Test(t, func(t *testing.T) {
			from := time.Now()
			if err := (&conversation{pace: tc.pace}).pause(t.Context(), 800*time.Millisecond); err != nil {
				t.Fatal(err)
			}
			if got := time.Since(from); got != tc.want {
				t.Errorf("pace %v: paused %v, want %v", tc.pace, got, tc.want)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := (&conversation{pace: 1}).pause(ctx, time.Hour); !errors.Is(err, errInterrupted) {
			t.Errorf("got %v", err)
		}
	})
}
