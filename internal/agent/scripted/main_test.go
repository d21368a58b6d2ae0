package scripted

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// agentArg makes the test binary be the agent, so that signals reach a real process.
const agentArg = "be-the-scripted-agent"

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == agentArg {
		os.Exit(Main(context.Background(), os.Args[2:], os.Environ(), os.Stdin, os.Stdout, os.Stderr)) //nolint:forbidigo // the test binary is the program here
	}
	// A program built with the race detector sleeps a second before it exits, unless told otherwise.
	_ = os.Setenv("GORACE", "atexit_sleep_ms=0")
	os.Exit(m.Run())
}

// play is one run of the agent: what it needs and what came of it.
type play struct {
	scenario string
	args     []string // beside the ones every run has
	tools    string   // empty: no --tools
	stdin    string
	env      []string
	tier     string

	code   int
	stderr string
	events []event
	lines  []string
}

// event is any event of the stream, as a reader of the protocol sees it.
type event struct {
	Type      string   `json:"type"`
	Subtype   string   `json:"subtype"`
	SessionID string   `json:"session_id"`
	CWD       string   `json:"cwd"`
	Model     string   `json:"model"`
	Tools     []string `json:"tools"`
	Version   string   `json:"claude_code_version"`
	Message   struct {
		ID      string `json:"id"`
		Content []struct {
			Type      string `json:"type"`
			Text      string `json:"text"`
			ID        string `json:"id"`
			Name      string `json:"name"`
			Content   string `json:"content"`
			IsError   bool   `json:"is_error"`
			ToolUseID string `json:"tool_use_id"`
			Input     struct {
				Command  string `json:"command"`
				FilePath string `json:"file_path"`
				Content  string `json:"content"`
			} `json:"input"`
		} `json:"content"`
		Usage *usage `json:"usage"`
	} `json:"message"`
	IsError        bool                  `json:"is_error"`
	NumTurns       int64                 `json:"num_turns"`
	Result         *string               `json:"result"`
	Errors         []string              `json:"errors"`
	TotalCostUSD   *float64              `json:"total_cost_usd"`
	DurationMS     *int64                `json:"duration_ms"`
	Usage          usage                 `json:"usage"`
	ModelUsage     map[string]modelUsage `json:"modelUsage"`
	Denials        []map[string]any      `json:"permission_denials"`
	Structured     map[string]any        `json:"structured_output"`
	TerminalReason string                `json:"terminal_reason"`
}

const testID = "75da0b1e-6f2c-4a55-9a0e-0f5a3f6f1c01"

// argv is a command line as the supervisor writes it.
func (p *play) argv(t *testing.T) []string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "scenario.yaml")
	if err := os.WriteFile(file, []byte(p.scenario), 0o600); err != nil {
		t.Fatal(err)
	}
	argv := []string{"--scenario", file, "-p"}
	if p.stdin == "" {
		argv = append(argv, "look after it")
	}
	argv = append(argv, "--output-format", "stream-json", "--verbose", "--model", "haiku",
		"--append-system-prompt", "Environment: test", "--allowedTools", "Bash,Write",
		"--permission-mode", "dontAsk", "--setting-sources", "", "--strict-mcp-config")
	if p.tools != "" {
		argv = append(argv, "--tools", p.tools)
	}
	if !slices.Contains(p.args, "--session-id") && !slices.Contains(p.args, "--resume") {
		argv = append(argv, "--session-id", testID)
	}
	return append(argv, p.args...)
}

func (p *play) environ() []string {
	tier := p.tier
	if tier == "" {
		tier = "1"
	}
	return append([]string{"GORACE=atexit_sleep_ms=0", "PATH=/usr/bin:/bin", envTier + "=" + tier}, p.env...)
}

// run plays the scenario in this process.
func (p *play) run(t *testing.T) *play {
	t.Helper()
	var stdout, stderr bytes.Buffer
	p.code = Main(t.Context(), p.argv(t), p.environ(), strings.NewReader(p.stdin), &stdout, &stderr)
	p.stderr = stderr.String()
	p.read(t, stdout.String())
	return p
}

func (p *play) read(t *testing.T, out string) {
	t.Helper()
	for line := range strings.Lines(out) {
		var e event
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("line is no JSON: %v\n%s", err, line)
		}
		p.events, p.lines = append(p.events, e), append(p.lines, line)
	}
}

// result returns the result event.
func (p *play) result(t *testing.T) event {
	t.Helper()
	if len(p.events) == 0 || p.events[len(p.events)-1].Type != "result" {
		t.Fatalf("no result event in %d events; stderr: %s", len(p.events), p.stderr)
	}
	return p.events[len(p.events)-1]
}

// answers returns the text of every tool result.
func (p *play) answers() []string {
	var out []string
	for _, e := range p.events {
		if e.Type == "user" {
			out = append(out, e.Message.Content[0].Content)
		}
	}
	return out
}

func TestAPlayedScenarioSpeaksTheProtocol(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	p := (&play{tools: "Bash,Read", scenario: `
name: protocol
tiers:
  1:
    cost_usd: 0.0123
    steps:
      - say: first
      - bash: echo out; echo err >&2; pwd
      - bash: echo hi; exit 3
    result: done
`}).run(t)

	var kinds []string
	for _, e := range p.events {
		kind := e.Type
		if e.Type == "assistant" {
			kind += "/" + e.Message.Content[0].Type
		}
		kinds = append(kinds, kind)
		if e.SessionID != testID {
			t.Errorf("session_id %q in %s, want %s", e.SessionID, e.Type, testID)
		}
	}
	want := []string{
		"system", "assistant/text", "assistant/tool_use", "user", "assistant/tool_use", "user", "assistant/text", "result",
	}
	if !slices.Equal(kinds, want) {
		t.Fatalf("events %v, want %v", kinds, want)
	}

	start := p.events[0]
	if start.Subtype != "init" || start.Model != "haiku" || start.Version != "scripted" || !slices.Equal(start.Tools, []string{"Bash", "Read"}) {
		t.Errorf("init is %s", p.lines[0])
	}
	if p.events[1].Message.ID != p.events[2].Message.ID || p.events[2].Message.ID == p.events[4].Message.ID {
		t.Error("blocks of one turn must share a message id, and turns must not")
	}
	if p.events[1].Message.Usage == nil || p.events[1].Message.Usage.Input == 0 {
		t.Error("an assistant event needs usage")
	}
	if got := p.answers(); got[0] != "out\nerr\n"+start.CWD || got[1] != "Exit code 3\nhi" {
		t.Errorf("answers %q", got)
	}
	if failed := p.events[5].Message.Content[0]; !failed.IsError || failed.ToolUseID != p.events[4].Message.Content[0].ID {
		t.Errorf("failed command answered with %s", p.lines[5])
	}
	if !strings.Contains(p.lines[5], `"tool_use_result":"Error: Exit code 3\nhi"`) ||
		!strings.Contains(p.lines[3], `"tool_use_result":{"stdout":"out\nerr`) {
		t.Errorf("structured answers are %s and %s", p.lines[3], p.lines[5])
	}
}

func TestTheResultCarriesTheFiguresOfTheRun(t *testing.T) {
	p := (&play{scenario: `
tiers:
  1:
    cost_usd: 0.0123
    model: claude-test-1
    steps:
      - bash: echo one
      - bash: echo two
    result: done
`}).run(t)
	r := p.result(t)
	m := r.ModelUsage["claude-test-1"]
	switch {
	case p.code != 0 || r.Subtype != "success" || r.IsError || *r.Result != "done":
		t.Errorf("code %d, result %s", p.code, p.lines[len(p.lines)-1])
	case *r.TotalCostUSD != 0.0123 || m.CostUSD != 0.0123 || m.ContextWindow != 200_000:
		t.Errorf("cost or window wrong: %s", p.lines[len(p.lines)-1])
	case r.NumTurns != 3 || r.DurationMS == nil:
		t.Errorf("%d turns, want 3", r.NumTurns)
	case m.InputTokens != r.Usage.Input || m.InputTokens == 0 || m.OutputTokens == 0 || m.CacheReadTokens == 0:
		t.Errorf("usage wrong: %+v", m)
	case r.Denials == nil:
		t.Error("permission_denials must be an empty list, not null")
	}
}

func TestTheProgramTellsItsVersion(t *testing.T) {
	var out bytes.Buffer
	if code := Main(t.Context(), []string{"--version"}, nil, nil, &out, &out); code != 0 {
		t.Fatalf("exit %d", code)
	}
	if got := out.String(); got != "scripted 1.0 (Claude Ops scripted agent)\n" {
		t.Errorf("version %q", got)
	}
}

func TestAWrongStartEndsWithCodeOneAndNoEvents(t *testing.T) {
	for name, tc := range map[string]struct {
		play play
		want string
	}{
		"unknown option":        {play{args: []string{"--frobnicate"}}, "unknown option '--frobnicate'"},
		"bad session id":        {play{args: []string{"--session-id", "x"}}, "must be a valid UUID"},
		"schema is a file":      {play{args: []string{"--json-schema", "/tmp/schema.json"}}, "takes the schema itself"},
		"settings missing":      {play{args: []string{"--settings", "/no/such/file"}}, "settings file not found"},
		"bad mode":              {play{args: []string{"--permission-mode", "yolo"}}, "permission-mode"},
		"both system prompts":   {play{args: []string{"--append-system-prompt-file", "/x"}}, "cannot use both"},
		"value missing":         {play{args: []string{"--model"}}, "argument missing"},
		"two prompts":           {play{args: []string{"--verbose", "another"}}, "too many arguments"},
		"session id and resume": {play{args: []string{"--session-id", testID, "--resume", testID}}, "--fork-session"},
		"no prompt":             {play{stdin: " \n"}, "input must be provided"},
		"tier not in scenario":  {play{tier: "2"}, "it has no Tier 2"},
		"tier unknown":          {play{tier: "9"}, "want 1, 2 or 3"},
		"bad pace":              {play{env: []string{envPace + "=fast"}}, "want a number"},
		"bad scenario":          {play{scenario: "tiers: {1: {stepz: []}}"}, "scenario.yaml: line 1: unknown key"},
	} {
		t.Run(name, func(t *testing.T) {
			p := tc.play
			if p.scenario == "" {
				p.scenario = "tiers: {1: {result: done}}"
			}
			p.run(t)
			if p.code != 1 || len(p.events) != 0 || !strings.Contains(p.stderr, tc.want) {
				t.Errorf("code %d, %d events, stderr %q, want %q", p.code, len(p.events), p.stderr, tc.want)
			}
		})
	}
}

func TestAPromptMayComeOnStdin(t *testing.T) {
	p := (&play{scenario: "tiers: {1: {result: done}}", stdin: strings.Repeat("long ", 40_000)}).run(t)
	if r := p.result(t); p.code != 0 || r.Usage.Input < 40_000 {
		t.Errorf("code %d, input tokens %d: the prompt was not counted", p.code, r.Usage.Input)
	}
}

// start runs the agent as a process of its own and returns when it has said "ready".
func (p *play) start(t *testing.T) (cmd *exec.Cmd, rest func() string) {
	t.Helper()
	cmd = exec.CommandContext(t.Context(), os.Args[0], append([]string{agentArg}, p.argv(t)...)...)
	cmd.Env, cmd.Dir = p.environ(), t.TempDir()
	cmd.WaitDelay = time.Minute
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(out)
	var seen strings.Builder
	for !strings.Contains(seen.String(), "ready") {
		line, err := lines.ReadString('\n')
		if err != nil {
			t.Fatalf("the agent ended before it was ready: %v\n%s", err, seen.String())
		}
		seen.WriteString(line)
	}
	return cmd, func() string {
		if _, err := lines.WriteTo(&seen); err != nil {
			t.Error(err)
		}
		_ = cmd.Wait() // the exit code is looked at by the test
		return seen.String()
	}
}

func TestAnInterruptEndsTheRunningCommandAndItsChildren(t *testing.T) {
	dir := t.TempDir()
	// The second child does not listen to the polite signal.
	p := &play{env: []string{"DIR=" + dir}, scenario: `
tiers:
  1:
    steps:
      - say: ready
      - bash: |
          sh -c 'trap "" TERM; echo $$ >"$DIR/stubborn.new"; mv "$DIR/stubborn.new" "$DIR/stubborn"; while :; do sleep 1; done' &
          echo $$ >"$DIR/shell.new"; mv "$DIR/shell.new" "$DIR/shell"; wait
      - say: never
`}
	cmd, rest := p.start(t)
	pids := []int{waitForPID(t, filepath.Join(dir, "shell")), waitForPID(t, filepath.Join(dir, "stubborn"))}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	p.read(t, rest())
	r := p.result(t)
	if code := cmd.ProcessState.ExitCode(); code != 1 || r.Subtype != "error_during_execution" || r.TerminalReason != "aborted_tools" || !r.IsError {
		t.Errorf("code %d, result %s", code, p.lines[len(p.lines)-1])
	}
	for _, pid := range pids {
		waitGone(t, pid)
	}
}

func TestAnInterruptOutsideACommandEndsSilently(t *testing.T) {
	for name, scenario := range map[string]string{
		"pause": "tiers: {1: {steps: [{say: ready}, {pause: 1h}]}}",
		"hang":  "tiers: {1: {steps: [{say: ready}], hang: true, exit: 3}}",
	} {
		t.Run(name, func(t *testing.T) {
			p := &play{scenario: scenario}
			cmd, rest := p.start(t)
			if err := cmd.Process.Signal(os.Interrupt); err != nil {
				t.Fatal(err)
			}
			out := rest()
			if code := cmd.ProcessState.ExitCode(); code != 0 || strings.Contains(out, `"type":"result"`) {
				t.Errorf("code %d, output %s", code, out)
			}
		})
	}
}

func TestALingeringAgentStaysAfterItsResult(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	p := &play{scenario: "tiers: {1: {result: done, linger: true, exit: 3}}"}
	out, in := io.Pipe()
	code := make(chan int, 1)
	argv := p.argv(t)
	go func() {
		code <- Main(ctx, argv, p.environ(), nil, in, io.Discard)
		_ = in.Close()
	}()
	lines := bufio.NewReader(out)
	for line := ""; !strings.Contains(line, `"type":"result"`); {
		var err error
		if line, err = lines.ReadString('\n'); err != nil {
			t.Fatalf("no result: %v", err)
		}
	}
	select {
	case got := <-code:
		t.Fatalf("ended by itself with %d", got)
	default:
	}
	cancel()
	if got := <-code; got != 0 {
		t.Errorf("code %d after the interrupt, want 0", got)
	}
}

func waitForPID(t *testing.T, file string) int {
	t.Helper()
	var pid int
	eventually(t, "the file "+file, func() bool {
		data, err := os.ReadFile(file)
		return err == nil && json.Unmarshal(bytes.TrimSpace(data), &pid) == nil
	})
	return pid
}

// waitGone waits until a process is gone, or only waits to be reaped by a parent that is not ours.
func waitGone(t *testing.T, pid int) {
	t.Helper()
	eventually(t, "the end of a process", func() bool { return gone(pid) })
}

func gone(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return true
	}
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	return err == nil && strings.Contains(string(stat), ") Z ")
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.NewTimer(time.Minute)
	defer deadline.Stop()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-deadline.C:
			t.Fatalf("waited too long for %s", what)
		case <-tick.C:
		}
	}
}
