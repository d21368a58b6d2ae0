package conformance_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"claudeops/internal/agent"
	"claudeops/internal/agent/agenttest"
	"claudeops/internal/agent/codex"
	"claudeops/internal/agent/command"
	"claudeops/internal/agent/conformance"
	"claudeops/internal/agent/realcodex"
	"claudeops/internal/agent/responsesapi"
	"claudeops/internal/agent/scripted"
	"claudeops/internal/ops"
)

// scriptedArg makes the test binary be the scripted agent.
const scriptedArg = "be-the-scripted-agent"

func TestMain(m *testing.M) {
	agenttest.RunIfFake()
	if len(os.Args) > 1 && os.Args[1] == scriptedArg {
		os.Exit(scripted.Main(context.Background(), os.Args[2:], os.Environ(), os.Stdin, os.Stdout, os.Stderr)) //nolint:forbidigo // the test binary is the program here
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
		line := agenttest.Structured(cost, words, conformance.Outcome)
		return strings.TrimSuffix(line, "}") + share
	}
	const keep = `mkdir -p "$CLAUDE_CONFIG_DIR/projects/x" && echo '{"type":"user"}' > "$CLAUDE_CONFIG_DIR/projects/x/{{session_id}}.jsonl"`
	conformance.Run(t, conformance.Subject{
		Resumes: true, Structured: true, Input: ops.Ptr(int64(20)), Output: ops.Ptr(int64(30)), CostUSD: ops.Ptr(cost),
		Missing: func(*testing.T) (conformance.Runner, ops.SessionSpec) {
			return agent.NewClaude(agent.ClaudeOptions{Bin: "no-such-program"}), session()
		},
		Make: func(t *testing.T, task conformance.Task, at conformance.Place) (conformance.Runner, ops.SessionSpec) {
			answer := append(agenttest.Lines(agenttest.Init(), agenttest.Text(conformance.Said), result(conformance.Said)), agenttest.Step{Run: keep})
			unknown := `{"type":"result","subtype":"error_during_execution","is_error":true,"num_turns":0,"errors":["No conversation found with session ID: x"]}`
			plays := map[conformance.Task][]agenttest.Play{
				// The fourth run of the test that continues conversations names one that is not there.
				conformance.Answer: {{Attempt: 4, Steps: agenttest.Lines(unknown), Exit: 1}, {Steps: answer}},
				conformance.Fail:   {{Steps: agenttest.Lines(agenttest.Init(), agenttest.APIError(500, "boom")), Exit: 1}},
				conformance.Crash:  {{Steps: []agenttest.Step{{Err: "boom"}}, Exit: 3}},
				conformance.Hang:   {{Steps: []agenttest.Step{{Out: agenttest.Init()}, {Out: agenttest.Use("toolu_1", at.Command), Run: at.Command}}}},
				conformance.Leak:   {{Steps: agenttest.Lines(agenttest.Init(), agenttest.Text(conformance.Secret), result(conformance.Secret))}},
				conformance.Many:   {{Steps: append([]agenttest.Step{{Out: agenttest.Text("{{pad}}"), Size: 2 << 20}}, answer...)}},
			}
			bin := agenttest.Fake(t, agenttest.Scenario{Plays: plays[task]})
			return agent.NewClaude(agent.ClaudeOptions{Bin: bin, Redactor: at.Redactor}), session()
		},
	})
}

func TestScripted(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	able := &ops.Ability{Version: "scripted", Known: true, Structured: true}
	conformance.Run(t, conformance.Subject{
		Resumes: true, Structured: true, Input: ops.Ptr(int64(conformance.Any)), Output: ops.Ptr(int64(conformance.Any)), CostUSD: ops.Ptr(0.02),
		Missing: func(*testing.T) (conformance.Runner, ops.SessionSpec) {
			return agent.NewClaude(agent.ClaudeOptions{Bin: "/no/such/program", Ability: able}), session()
		},
		Make: func(t *testing.T, task conformance.Task, at conformance.Place) (conformance.Runner, ops.SessionSpec) {
			ending := "    result: " + conformance.Said + "\n    outcome: " + conformance.Outcome + "\n"
			script := map[conformance.Task]string{
				conformance.Answer: "    steps: [{say: " + conformance.Said + "}]\n" + ending,
				conformance.Fail:   "    steps: [{say: hm}]\n    result: boom\n    is_error: true\n",
				conformance.Crash:  "    steps: [{say: hm}]\n    no_result: true\n    exit: 3\n    stderr: boom\n",
				conformance.Hang:   "    steps: [{bash: " + at.Command + "}]\n" + ending,
				conformance.Leak:   "    steps: [{say: " + conformance.Secret + "}]\n    result: " + conformance.Secret + "\n",
				conformance.Many:   "    steps: [{say: " + strings.Repeat("x", 2<<20) + "}, {say: " + conformance.Said + "}]\n" + ending,
			}[task]
			file := filepath.Join(t.TempDir(), "scenario.yaml")
			if err := os.WriteFile(file, []byte("name: conformance\ntiers:\n  1:\n    cost_usd: 0.02\n"+script), 0o600); err != nil {
				t.Fatal(err)
			}
			// Under the race detector a program sleeps a second before it exits, unless it is told not to.
			return agent.NewClaude(agent.ClaudeOptions{
				Bin: self, Argv0Extra: []string{scriptedArg, "--scenario", file}, Ability: able, Redactor: at.Redactor, ExtraEnv: []string{"GORACE"},
			}), session("GORACE=atexit_sleep_ms=0")
		},
	})
}

func TestCommand(t *testing.T) {
	t.Parallel()
	conformance.Run(t, conformance.Subject{
		Structured: true, Input: ops.Ptr(int64(7)), Output: ops.Ptr(int64(3)), CostUSD: ops.Ptr(0.5),
		Missing: func(*testing.T) (conformance.Runner, ops.SessionSpec) {
			spec := session()
			spec.Command = []string{"/no/such/program"}
			return command.New(command.Options{Trusted: true}), spec
		},
		Make: func(_ *testing.T, task conformance.Task, at conformance.Place) (conformance.Runner, ops.SessionSpec) {
			answer := "cat >/dev/null; echo looking; echo '{\"type\":\"figures\",\"cost_usd\":0.5,\"input_tokens\":7,\"output_tokens\":3}'; echo '" + conformance.Outcome + "'"
			script := map[conformance.Task]string{
				conformance.Answer: answer,
				conformance.Fail:   "echo boom >&2; exit 2",
				conformance.Crash:  "exit 3",
				conformance.Hang:   at.Command,
				conformance.Leak:   "echo " + conformance.Secret,
				conformance.Many:   "head -c 2000000 /dev/zero | tr '\\0' x; echo; " + answer,
			}[task]
			spec := session()
			spec.Command = []string{"sh", "-c", script}
			return command.New(command.Options{Trusted: true, Redactor: at.Redactor}), spec
		},
	})
}

func TestCodex(t *testing.T) {
	t.Parallel()
	path := realcodex.Path(t)
	took := responsesapi.Usage{Input: 100, Cached: 10, Output: 5, Reasoning: 3}
	prices := ops.Prices{realcodex.Model: {Input: 2, CacheRead: 0.5, Output: 10}}
	conformance.Run(t, conformance.Subject{
		Resumes: true, Structured: true, Input: ops.Ptr(int64(90)), Output: ops.Ptr(int64(5)),
		CostUSD: ops.Ptr((90*2 + 10*0.5 + 5*10) / 1e6),
		Missing: func(*testing.T) (conformance.Runner, ops.SessionSpec) {
			return codex.New(codex.Options{Bin: "no-such-program"}), session()
		},
		Make: func(t *testing.T, task conformance.Task, at conformance.Place) (conformance.Runner, ops.SessionSpec) {
			// As the strict form of the schema makes the model answer: null where ours leaves a field out.
			strict := strings.Replace(conformance.Outcome, `"error":""`, `"error":"","response_time_ms":null`, 1)
			strict = strings.Replace(strict, `"actions"`, `"handoff":null,"actions"`, 1)
			answer := func(req responsesapi.Request) responsesapi.Answer {
				if req.Text.Format != nil {
					return responsesapi.Text(strict).Took(took)
				}
				return responsesapi.Text(conformance.Said).Took(took)
			}
			scripts := map[conformance.Task]responsesapi.Script{
				conformance.Answer: answer,
				conformance.Fail:   responsesapi.Turns(responsesapi.Fail(401, "the key is wrong")),
				conformance.Crash:  answer,
				conformance.Hang:   responsesapi.Turns(responsesapi.Exec("call_1", at.Command), responsesapi.Text("done")),
				conformance.Leak:   responsesapi.Turns(responsesapi.Exec("call_1", "echo "+conformance.Secret), responsesapi.Text(conformance.Secret)),
				conformance.Many:   responsesapi.Turns(responsesapi.Exec("call_1", `head -c 3000000 /dev/zero | tr '\0' x`), responsesapi.Text(conformance.Said)),
			}
			api := responsesapi.New(t, scripts[task])
			spec := session(realcodex.Env(t, api.URL())...)
			spec.Session.Model = realcodex.Model
			if task == conformance.Crash {
				spec.Prompt = strings.Repeat("x", 1<<20+1) // more than Codex takes
			}
			return codex.New(codex.Options{Bin: path, Prices: prices, Redactor: at.Redactor}), spec
		},
	})
}
