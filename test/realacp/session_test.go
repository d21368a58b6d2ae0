package realacp_test

import (
	"context"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"claudeops/internal/agent"
	"claudeops/internal/agent/acp"
	"claudeops/internal/ops"
	"claudeops/test/agenttest"
	"claudeops/test/chatapi"
	"claudeops/test/messagesapi"
	"claudeops/test/realacp"
)

const model = "claude-sonnet-4-5"

// cli is one of the real programs.
type cli struct {
	profile func(testing.TB) acp.Profile
	model   string
	version string
	shell   string // the name of its shell tool
	offers  string // its tools
}

func clis() map[string]cli {
	return map[string]cli{
		"opencode":         {realacp.OpenCode, "anthropic/" + model, realacp.OpenCodeVersion, "bash", "bash claudeops_services_status edit glob grep read webfetch write"},
		"claude-agent-acp": {realacp.ClaudeAgent, model, realacp.ClaudeAgentVersion, "Bash", "Bash Edit ListAgents Read ReportFindings ToolSearch Write"},
		"qwen-code": {
			realacp.Qwen, "qwen3-coder-plus", realacp.QwenVersion, "run_shell_command",
			"edit glob grep_search mcp__claudeops__services_status read_file run_shell_command web_fetch write_file",
		},
	}
}

// adapters are those of the programs. They are shared, because each asks its program for the version, which takes seconds.
var adapters sync.Map

func (c cli) adapter(t *testing.T) *acp.ACP {
	p := c.profile(t)
	// One test changes the settings of its program.
	made, _ := adapters.LoadOrStore(p.Name+p.Digest(), acp.New(acp.Options{Profile: p}))
	return made.(*acp.ACP)
}

// seats bound how many of the programs run at once: each takes seconds of a processor to start.
var seats = make(chan struct{}, 2)

func sit(t *testing.T) {
	t.Helper()
	seats <- struct{}{}
	t.Cleanup(func() { <-seats })
}

// each runs a test with every program.
func each(t *testing.T, test func(*testing.T, cli)) {
	t.Helper()
	for name, c := range clis() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, c)
		})
	}
}

// exec is an answer that runs a command.
func (c cli) exec(id, command string) messagesapi.Answer {
	return messagesapi.Call(id, c.shell, map[string]any{"command": command, "description": "Run a command"})
}

// script plays answers by turn. A request without tools is one for a title.
func script(answers ...messagesapi.Answer) messagesapi.Script {
	turns := messagesapi.Turns(answers...)
	return func(r messagesapi.Request) messagesapi.Answer {
		if len(r.Tools) == 0 {
			return messagesapi.Text("a title")
		}
		return turns(r)
	}
}

// gate allows what a test says.
type gate struct {
	allow func(ops.ToolQuestion) bool

	mu      sync.Mutex
	asked   []ops.ToolQuestion
	allowed map[string]bool
}

func (g *gate) spec() *ops.GateSpec {
	g.allowed = map[string]bool{}
	return &ops.GateSpec{
		Ask: func(q ops.ToolQuestion) (bool, string) {
			g.mu.Lock()
			defer g.mu.Unlock()
			g.asked = append(g.asked, q)
			g.allowed[q.ID] = g.allow(q)
			return g.allowed[q.ID], "The guard says no."
		},
		Allowed: func(id string) bool {
			g.mu.Lock()
			defer g.mu.Unlock()
			return g.allowed[id]
		},
	}
}

func all(ops.ToolQuestion) bool  { return true }
func none(ops.ToolQuestion) bool { return false }

// scene is a session of a program.
type scene struct {
	cli    cli
	script messagesapi.Script
	gate   *gate
	trust  acp.Trust
	hide   bool
	change func(*ops.SessionSpec)
}

// api is one of the scripted APIs.
type api interface {
	Requests() []messagesapi.Request
	Others() []string
}

// api starts the API that the program speaks, and returns an environment for it.
func (s scene) api(t *testing.T) (api, []string) {
	t.Helper()
	if s.cli.shell == "run_shell_command" {
		chat := chatapi.New(t, s.script)
		return chat, realacp.Env(t, "", chat.URL())
	}
	messages := messagesapi.New(t, s.script)
	return messages, realacp.Env(t, messages.URL(), "")
}

func (s scene) run(t *testing.T) (ops.RunResult, string, api) {
	t.Helper()
	sit(t)
	api, env := s.api(t)
	if s.gate == nil {
		s.gate = &gate{allow: all}
	}
	spec := ops.SessionSpec{
		Session: ops.Session{ID: 5, CycleID: 3, Tier: ops.Tier1, Model: s.cli.model, Handler: "other", Key: "test-" + uuid.NewString()},
		Prompt:  "Look around.", StateDir: t.TempDir(), Env: env, Gate: s.gate.spec(),
		// Far from what any case needs: a real CLI takes long to start on a busy machine.
		Limits: ops.Limits{Wall: 5 * time.Minute, Idle: 5 * time.Minute, Tool: 5 * time.Minute, Grace: 3 * time.Second},
	}
	if s.change != nil {
		s.change(&spec)
	}
	rec := &agenttest.Recorder{}
	o := agent.Options{}
	if s.hide {
		o.HideKeys = func(string, ops.Tier) bool { return true }
	}
	adapter := s.cli.adapter(t)
	if s.trust != nil {
		adapter = acp.New(acp.Options{Profile: s.cli.profile(t), Trust: s.trust})
	}
	res := acp.NewRunner(adapter, o).Run(t.Context(), spec, rec)
	if killed, err := agent.Sweep(context.Background(), spec.Session.Key); err != nil || killed > 0 {
		t.Errorf("the session left %d processes (%v)", killed, err)
	}
	text := rec.Text()
	if t.Failed() || testing.Verbose() {
		t.Logf("%+v\n%s", res, text)
	}
	return res, text, api
}

// Each profile that is built in is started in these tests.
func TestEveryProfileIsTested(t *testing.T) {
	t.Parallel()
	names := acp.Names()
	slices.Sort(names)
	if tested := slices.Sorted(maps.Keys(clis())); !slices.Equal(names, tested) {
		t.Errorf("built in are %v, tested %v", names, tested)
	}
}

// Every call is asked about, also one that only looks.
func TestEveryCallIsAskedAbout(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, c cli) {
		g := &gate{allow: all}
		file := filepath.Join(t.TempDir(), "made")
		res, text, api := scene{
			cli: c, gate: g,
			script: script(c.exec("toolu_1", "ls /"), c.exec("toolu_2", "touch "+file), messagesapi.Text("all is well")),
		}.run(t)
		if !res.Success() || res.Text != "all is well" || res.CLIVersion != c.version || (res.CLISessionID == "") != (c.profile(t).Record == "") {
			t.Errorf("result %+v\n%s", res, text)
		}
		if len(g.asked) != 2 || g.asked[0].Tool != "Bash" || string(g.asked[0].Input) != `{"command":"ls /"}` ||
			string(g.asked[1].Input) != `{"command":"touch `+file+`"}` {
			t.Errorf("asked %+v", g.asked)
		}
		if _, err := os.Lstat(file); err != nil {
			t.Errorf("an allowed command did not run: %v", err)
		}
		if len(api.Others()) > 1 { // HEAD /
			t.Errorf("it also asked for %v", api.Others())
		}
	})
}

func TestARefusedCallDoesNotRun(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, c cli) {
		file := filepath.Join(t.TempDir(), "made")
		outcome := `{"outcome":"healthy","summary":"fine"}`
		res, text, _ := scene{
			cli: c, gate: &gate{allow: none},
			script: func(r messagesapi.Request) messagesapi.Answer {
				switch {
				case len(r.Tools) == 0:
					return messagesapi.Text("a title")
				case strings.Contains(string(r.Body), "The guard says no."):
					return messagesapi.Text(outcome)
				case r.Turn() == 0:
					return c.exec("toolu_1", "touch "+file)
				}
				return messagesapi.Text("I was refused.")
			},
			change: func(s *ops.SessionSpec) { s.OutcomeJSON = `{"type":"object"}` },
		}.run(t)
		if !res.Success() || string(res.Structured) != outcome {
			t.Errorf("result %+v\n%s", res, text)
		}
		if _, err := os.Lstat(file); err == nil {
			t.Error("it ran")
		}
	})
}

// memory keeps trials.
type memory struct{ kept []ops.Canary }

func (m *memory) Canary(_ context.Context, profile, version, settings string) (ops.Canary, error) {
	for _, c := range m.kept {
		if c.Profile == profile && c.Version == version && c.Settings == settings {
			return c, nil
		}
	}
	return ops.Canary{}, ops.ErrNotFound
}

func (m *memory) SaveCanary(_ context.Context, c ops.Canary) error {
	m.kept = append(m.kept, c)
	return nil
}

// canary plays a model that does what the trial tells it, and then says that all is well.
func (c cli) canary(r messagesapi.Request) messagesapi.Answer {
	if len(r.Tools) == 0 {
		return messagesapi.Text("a title")
	}
	for _, m := range r.Messages {
		for line := range strings.Lines(m.Content.String()) {
			if command := strings.TrimSpace(line); strings.HasPrefix(command, "touch ") && r.Turn() == 0 {
				return c.exec("toolu_1", command)
			}
		}
	}
	return messagesapi.Text("all is well")
}

func TestTheTrialOfARealProgram(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, c cli) {
		trust := &memory{}
		res, text, _ := scene{cli: c, trust: trust, script: c.canary}.run(t)
		if !res.Success() || len(trust.kept) != 1 || !trust.kept[0].Passed || trust.kept[0].Version != c.version {
			t.Errorf("result %+v, kept %+v\n%s", res, trust.kept, text)
		}
	})
}

// With its usual settings opencode asks about nothing, and claude-agent-acp not about what it takes for reading.
func TestAProgramThatDoesNotAskIsFoundOut(t *testing.T) {
	t.Parallel()
	c := clis()["opencode"]
	asking := c.profile
	c.profile = func(t testing.TB) acp.Profile {
		p := asking(t)
		p.Env["OPENCODE_CONFIG_CONTENT"] = strings.Replace(p.Env["OPENCODE_CONFIG_CONTENT"], `"*":"ask"`, `"*":"allow"`, 1)
		return p
	}
	trust := &memory{}
	res, text, _ := scene{cli: c, trust: trust, script: c.canary}.run(t)
	if res.Success() || res.Failure != ops.FailureTooOld || len(trust.kept) != 1 || trust.kept[0].Passed {
		t.Errorf("result %+v, kept %+v\n%s", res, trust.kept, text)
	}
}

func TestTheKeyIsHidden(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, c cli) {
		res, text, api := scene{
			cli: c, hide: true, script: script(c.exec("toolu_1", "env"), messagesapi.Text("all is well")),
		}.run(t)
		if !res.Success() || strings.Contains(text, realacp.Key) {
			t.Errorf("result %+v\n%s", res, text)
		}
		for _, r := range api.Requests() {
			if got := r.Header.Get("X-Api-Key") + r.Header.Get("Authorization"); !strings.HasSuffix(got, realacp.Key) {
				t.Errorf("the API got the key %q", got)
			}
		}
	})
}

// Read, edit and search are asked about in the words that the guard knows.
func TestOtherToolsAreAskedAbout(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, c cli) {
		dir := t.TempDir()
		file := filepath.Join(dir, "notes.txt")
		if err := os.WriteFile(file, []byte("old text\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		read, edit := messagesapi.Call("toolu_1", "Read", map[string]any{"file_path": file}),
			messagesapi.Call("toolu_2", "Edit", map[string]any{"file_path": file, "old_string": "old", "new_string": "new"})
		switch c.shell {
		case "run_shell_command":
			read.Content[0].Name, edit.Content[0].Name = "read_file", "edit"
		case "bash":
			read, edit = messagesapi.Call("toolu_1", "read", map[string]any{"filePath": file}),
				messagesapi.Call("toolu_2", "edit", map[string]any{"filePath": file, "oldString": "old", "newString": "new"})
		}
		g := &gate{allow: all}
		res, text, _ := scene{cli: c, gate: g, script: script(read, edit, messagesapi.Text("all is well"))}.run(t)
		if !res.Success() || len(g.asked) != 2 || g.asked[0].Tool != "Read" || g.asked[1].Tool != "Write" {
			t.Errorf("result %+v, asked %+v\n%s", res, g.asked, text)
		}
		for _, q := range g.asked {
			var in struct {
				Path string `json:"file_path"`
			}
			if err := json.Unmarshal(q.Input, &in); err != nil || in.Path != file {
				t.Errorf("asked about %s", q.Input)
			}
		}
		if got, _ := os.ReadFile(file); string(got) != "new text\n" {
			t.Errorf("the file holds %q", got)
		}
	})
}

// server is an MCP server with one tool of the supervisor.
const server = `require("readline").createInterface({input: process.stdin}).on("line", line => {
  const {id, method, params} = JSON.parse(line)
  if (id === undefined) return
  const result = {
    "initialize": {protocolVersion: params && params.protocolVersion, capabilities: {tools: {}}, serverInfo: {name: "claudeops", version: "1"}},
    "tools/list": {tools: [{name: "services_status", description: "The services", inputSchema: {type: "object", properties: {service: {type: "string"}}}}]},
    "tools/call": {content: [{type: "text", text: "web is up"}]},
  }[method] || {}
  console.log(JSON.stringify({jsonrpc: "2.0", id, result}))
})`

// The supervisor's own tools are asked about by their names. A tool that is new in a version has to be looked at: it need not ask.
func TestTheSupervisorsToolsAreAskedAbout(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, c cli) {
		file := filepath.Join(t.TempDir(), "server.cjs")
		if err := os.WriteFile(file, []byte(server), 0o600); err != nil {
			t.Fatal(err)
		}
		own := "mcp__claudeops__services_status"
		if c.shell == "bash" {
			own = "claudeops_services_status"
		}
		g := &gate{allow: all}
		res, text, api := scene{
			cli: c, gate: g, script: script(messagesapi.Call("toolu_1", own, map[string]any{"service": "web"}), messagesapi.Text("all is well")),
			change: func(s *ops.SessionSpec) { s.Gate.Tools.MCP = []string{"node", file} },
		}.run(t)
		if !res.Success() || len(g.asked) != 1 || g.asked[0].Tool != "mcp__claudeops__services_status" ||
			res.NumTurns == nil || *res.NumTurns != 1 {
			t.Errorf("result %+v, asked %+v\n%s", res, g.asked, text)
		}
		requests := api.Requests()
		if last, ok := requests[len(requests)-1].Result("toolu_1"); !ok || !strings.Contains(last.Text, "web is up") {
			t.Errorf("the tool returned %+v", last)
		}
		if offered := strings.Join(requests[len(requests)-1].ToolNames(), " "); offered != c.offers {
			t.Errorf("it offers %s", offered)
		}
	})
}
