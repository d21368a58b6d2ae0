package agentsuite_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"claudeops/internal/agent"
	"claudeops/internal/agent/claude"
	"claudeops/internal/agent/codex"
	"claudeops/internal/agent/command"
	"claudeops/internal/agent/scripted"
	"claudeops/internal/ops"
	"claudeops/test/agentsuite"
	"claudeops/test/agenttest"
	"claudeops/test/realcodex"
	"claudeops/test/responsesapi"
)

// scriptedArg makes the test binary be the scripted agent.
const scriptedArg = "be-the-scripted-agent"

func TestMain(m *testing.M) {
	agenttest.RunIfFake()
	if len(os.Args) > 1 && os.Args[1] == scriptedArg {
		os.Exit(scripted.Main(context.Background(), scripted.Process{Args: os.Args[2:], Environ: os.Environ(), Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr})) //nolint:forbidigo // the test binary is the program here
	}
	os.Exit(m.Run())
}

const searchPath = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

func session(env ...string) ops.SessionSpec {
	return ops.SessionSpec{Session: ops.Session{Model: "some-model"}, Env: append([]string{searchPath}, env...)}
}

func TestClaude(t *testing.T) {
	t.Parallel()
	const cost = 0.01
	share := `,"model_usage_since_last_result":{"{{model}}":{"inputTokens":20,"outputTokens":30,"costUSD":0.01}}}`
	result := func(words string) string {
		line := agenttest.Structured(cost, words, agentsuite.Outcome)
		return strings.TrimSuffix(line, "}") + share
	}
	const keep = `mkdir -p "$CLAUDE_CONFIG_DIR/projects/x" && echo '{"type":"user"}' > "$CLAUDE_CONFIG_DIR/projects/x/{{session_id}}.jsonl"`
	agentsuite.Run(t, agentsuite.Subject{
		Resumes: true, Structured: true, Input: ops.Ptr(int64(20)), Output: ops.Ptr(int64(30)), CostUSD: ops.Ptr(cost),
		Missing: func(*testing.T) (agent.Adapter, ops.SessionSpec) {
			return claude.New(claude.Options{Bin: "no-such-program"}), session()
		},
		Make: func(t *testing.T, task agentsuite.Task, with agentsuite.Fixture) (agent.Adapter, ops.SessionSpec) {
			answer := append(agenttest.Lines(agenttest.Init(), agenttest.Text(agentsuite.Said), result(agentsuite.Said)), agenttest.Step{Run: keep})
			unknown := `{"type":"result","subtype":"error_during_execution","is_error":true,"num_turns":0,"errors":["No conversation found with session ID: x"]}`
			plays := map[agentsuite.Task][]agenttest.Play{
				// The fourth run of the test that continues conversations names one that is not there.
				agentsuite.Answer: {{Attempt: 4, Steps: agenttest.Lines(unknown), Exit: 1}, {Steps: answer}},
				agentsuite.Fail:   {{Steps: agenttest.Lines(agenttest.Init(), agenttest.APIError(500, "boom")), Exit: 1}},
				agentsuite.Crash:  {{Steps: []agenttest.Step{{Err: "boom"}}, Exit: 3}},
				agentsuite.Hang:   {{Steps: []agenttest.Step{{Out: agenttest.Init()}, {Out: agenttest.Use("toolu_1", with.Command), Run: with.Command}}}},
				agentsuite.Silent: {{Steps: []agenttest.Step{{Out: agenttest.Init()}, {Hang: true}}}},
				agentsuite.Leak:   {{Steps: agenttest.Lines(agenttest.Init(), agenttest.Text(agentsuite.Secret), result(agentsuite.Secret))}},
				agentsuite.Many:   {{Steps: append([]agenttest.Step{{Out: agenttest.Text("{{pad}}"), Size: 2 << 20}}, answer...)}},
			}
			bin := agenttest.Fake(t, agenttest.Scenario{Plays: plays[task]})
			return claude.New(claude.Options{Bin: bin}), session()
		},
	})
}

func TestScripted(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	able := &ops.Ability{Version: "scripted", Known: true, Structured: true, Tells: true}
	agentsuite.Run(t, agentsuite.Subject{
		Resumes: true, Structured: true, Input: ops.Ptr(int64(agentsuite.Any)), Output: ops.Ptr(int64(agentsuite.Any)), CostUSD: ops.Ptr(0.02),
		Missing: func(*testing.T) (agent.Adapter, ops.SessionSpec) {
			return claude.New(claude.Options{Bin: "/no/such/program", Ability: able}), session()
		},
		Make: func(t *testing.T, task agentsuite.Task, with agentsuite.Fixture) (agent.Adapter, ops.SessionSpec) {
			ending := "    result: " + agentsuite.Said + "\n    outcome: " + agentsuite.Outcome + "\n"
			script := map[agentsuite.Task]string{
				agentsuite.Answer: "    steps: [{say: " + agentsuite.Said + "}]\n" + ending,
				agentsuite.Fail:   "    steps: [{say: hm}]\n    result: boom\n    is_error: true\n",
				agentsuite.Crash:  "    steps: [{say: hm}, {bash: 'kill -KILL $PPID'}]\n",
				agentsuite.Hang:   "    steps: [{bash: " + with.Command + "}]\n" + ending,
				agentsuite.Silent: "    steps: [{say: hm}, {pause: 300s}]\n",
				agentsuite.Leak:   "    steps: [{say: " + agentsuite.Secret + "}]\n    result: " + agentsuite.Secret + "\n",
				agentsuite.Many:   "    steps: [{say: " + strings.Repeat("x", 2<<20) + "}, {say: " + agentsuite.Said + "}]\n" + ending,
			}[task]
			file := filepath.Join(t.TempDir(), "scenario.yaml")
			if err := os.WriteFile(file, []byte("name: conformance\ntiers:\n  1:\n    cost_usd: 0.02\n"+script), 0o600); err != nil {
				t.Fatal(err)
			}
			// Under the race detector a program sleeps a second before it exits, unless it is told not to.
			return claude.New(claude.Options{
				Bin: self, Prefix: []string{scriptedArg, "--scenario", file}, Ability: able, ExtraEnv: []string{"GORACE"},
			}), session("GORACE=atexit_sleep_ms=0")
		},
	})
}

func TestCommand(t *testing.T) {
	t.Parallel()
	agentsuite.Run(t, agentsuite.Subject{
		Structured: true, Input: ops.Ptr(int64(7)), Output: ops.Ptr(int64(3)), CostUSD: ops.Ptr(0.5),
		Walls: func(string) agent.Walls { return agentsuite.Paper(command.LayerLandlock) },
		Missing: func(*testing.T) (agent.Adapter, ops.SessionSpec) {
			spec := session()
			spec.Command = []string{"/no/such/program"}
			return command.New(command.Options{}), spec
		},
		Make: func(_ *testing.T, task agentsuite.Task, with agentsuite.Fixture) (agent.Adapter, ops.SessionSpec) {
			answer := "cat >/dev/null; echo looking; echo '{\"type\":\"figures\",\"cost_usd\":0.5,\"input_tokens\":7,\"output_tokens\":3}'; echo '" + agentsuite.Outcome + "'"
			script := map[agentsuite.Task]string{
				agentsuite.Answer: answer,
				agentsuite.Fail:   "echo boom >&2; exit 2",
				agentsuite.Crash:  "exit 3",
				agentsuite.Hang:   with.Command,
				agentsuite.Silent: "sleep 300",
				agentsuite.Leak:   "echo " + agentsuite.Secret,
				agentsuite.Many:   "head -c 2000000 /dev/zero | tr '\\0' x; echo; " + answer,
			}[task]
			spec := session()
			spec.Command = []string{"sh", "-c", script}
			return command.New(command.Options{}), spec
		},
	})
}

func TestCodex(t *testing.T) {
	t.Parallel()
	path := realcodex.Path(t)
	took := responsesapi.Usage{Input: 100, Cached: 10, Output: 5, Reasoning: 3}
	prices := ops.Prices{realcodex.Model: {Input: 2, CacheRead: 0.5, Output: 10}}
	agentsuite.Run(t, agentsuite.Subject{
		Resumes: true, Structured: true, Input: ops.Ptr(int64(90)), Output: ops.Ptr(int64(5)),
		CostUSD: ops.Ptr((90*2 + 10*0.5 + 5*10) / 1e6),
		Missing: func(*testing.T) (agent.Adapter, ops.SessionSpec) {
			return codex.New(codex.Options{Bin: "no-such-program"}), session()
		},
		Make: func(t *testing.T, task agentsuite.Task, with agentsuite.Fixture) (agent.Adapter, ops.SessionSpec) {
			// As the strict form of the schema makes the model answer: null where ours leaves a field out.
			strict := strings.Replace(agentsuite.Outcome, `"error":""`, `"error":"","response_time_ms":null`, 1)
			strict = strings.Replace(strict, `"actions"`, `"handoff":null,"actions"`, 1)
			answer := func(req responsesapi.Request) responsesapi.Answer {
				if req.Text.Format != nil {
					return responsesapi.Text(strict).Took(took)
				}
				return responsesapi.Text(agentsuite.Said).Took(took)
			}
			scripts := map[agentsuite.Task]responsesapi.Script{
				agentsuite.Answer: answer,
				agentsuite.Fail:   responsesapi.Turns(responsesapi.Fail(401, "the key is wrong")),
				agentsuite.Crash:  answer,
				agentsuite.Hang:   responsesapi.Turns(responsesapi.Exec("call_1", with.Command), responsesapi.Text("done")),
				agentsuite.Silent: responsesapi.Turns(responsesapi.Hang()),
				agentsuite.Leak:   responsesapi.Turns(responsesapi.Exec("call_1", "echo "+agentsuite.Secret), responsesapi.Text(agentsuite.Secret)),
				agentsuite.Many:   responsesapi.Turns(responsesapi.Exec("call_1", `head -c 3000000 /dev/zero | tr '\0' x`), responsesapi.Text(agentsuite.Said)),
			}
			api := responsesapi.New(t, scripts[task])
			spec := session(realcodex.Env(t, api.URL())...)
			spec.Session.Model = realcodex.Model
			if task == agentsuite.Crash {
				spec.Prompt = strings.Repeat("x", 1<<20+1) // more than Codex takes
			}
			return codex.New(codex.Options{Bin: path, Prices: prices}), spec
		},
	})
}
