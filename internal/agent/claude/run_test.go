package claude

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"claudeops/internal/agent"
	"claudeops/internal/ops"
	"claudeops/test/agenttest"
)

func testSpec(t testing.TB) ops.SessionSpec {
	t.Helper()
	return agenttest.Spec(t, agent.Sweep)
}

// testEnv is the least that programs need.
func testEnv() []string {
	return []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
}

func TestMain(m *testing.M) {
	agenttest.RunIfFake()
	os.Exit(m.Run())
}

func newRunner(o Options) *agent.Runner { return agent.NewRunner(New(o), agent.Options{}) }

func play(steps ...agenttest.Step) agenttest.Scenario {
	return agenttest.Scenario{Plays: []agenttest.Play{{Steps: steps}}}
}

func say(lines ...string) []agenttest.Step { return agenttest.Lines(lines...) }

// runFake runs a scenario.
func runFake(ctx context.Context, t testing.TB, s agenttest.Scenario, spec ops.SessionSpec, rec ops.Recorder) ops.RunResult {
	t.Helper()
	return newRunner(Options{Bin: agenttest.Fake(t, s), Env: testEnv()}).Run(ctx, spec, rec)
}

func wantStop(t *testing.T, res ops.RunResult, cause ops.StopCause, class ops.FailureClass) {
	t.Helper()
	if res.Stop != cause || res.Failure != class || res.Success() || res.Err == "" || res.StopWhy == "" {
		t.Errorf("got stop %q, failure %q, error %q, why %q; want stop %q, failure %q",
			res.Stop, res.Failure, res.Err, res.StopWhy, cause, class)
	}
}

func TestASuccessfulSessionTellsItsFigures(t *testing.T) {
	spec, rec := testSpec(t), &agenttest.Recorder{}
	res := runFake(t.Context(), t, agenttest.Scenario{Plays: []agenttest.Play{agenttest.Healthy(0.0315)}}, spec, rec)
	if !res.Success() || res.Failure != "" || len(res.Warnings) > 0 {
		t.Fatalf("the session failed: %+v", res)
	}
	if res.CLISessionID != spec.Session.PlannedID || res.Model != "haiku" || res.CLIVersion != "2.1.325" || res.Text != "All services are healthy." {
		t.Errorf("got %+v", res)
	}
	got := fmt.Sprint(*res.CostUSD, *res.NumTurns, *res.DurationMS, *res.InputTokens, *res.OutputTokens,
		*res.CacheReadTokens, *res.CacheWriteTokens, *res.ContextTokens, *res.ContextWindow)
	if want := "0.0315 2 1180 20 30 2000 200 15 200000"; got != want {
		t.Errorf("figures: got %s, want %s", got, want)
	}
	if len(rec.All) != 4 || rec.PID == 0 || rec.Since == "" {
		t.Errorf("recorded %d lines of process %d started %q", len(rec.All), rec.PID, rec.Since)
	}
	for i, l := range rec.All {
		if l.Seq != int64(i+1) || l.At.IsZero() {
			t.Errorf("line %d has number %d and time %v", i, l.Seq, l.At)
		}
	}
}

func TestSuccessNeedsExitResultAndNoError(t *testing.T) {
	tests := []struct {
		name    string
		play    agenttest.Play
		failure ops.FailureClass
		err     string
	}{
		{"exit 0 without a result", agenttest.Play{Steps: say(agenttest.Init())}, "no_result", "claude exited 0 without a result event"},
		{"exit 1 after a good result", agenttest.Play{Steps: say(agenttest.Result(0.1, "fine")), Exit: 1}, "exit", "claude exited with code 1"},
		{
			"exit 1 with a word on the error output",
			agenttest.Play{Steps: []agenttest.Step{{Err: "warning"}, {Err: "error: unknown option '--foo'"}, {Err: " "}}, Exit: 1},
			"exit", "claude exited with code 1: warning | error: unknown option '--foo'",
		},
		{
			"an API error",
			agenttest.Play{Steps: say(agenttest.APIError(401, "Invalid API key\nmore")), Exit: 1},
			"api_error", "the API answered 401: Invalid API key",
		},
		{"an API error and exit 0", agenttest.Play{Steps: say(agenttest.APIError(500, ""))}, "api_error", "the API answered 500"},
		{
			"no conversation to resume",
			agenttest.Play{Steps: say(`{"type":"result","subtype":"error_during_execution","is_error":true,"errors":["No conversation found with session ID: x"]}`), Exit: 1},
			"agent_error", "claude ended with error_during_execution: No conversation found with session ID: x",
		},
		{
			"ended by a signal",
			agenttest.Play{Steps: []agenttest.Step{{Run: "kill -9 $PPID"}, {Hang: true}}},
			"exit", "claude was ended by signal 9 (killed)",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			res := runFake(t.Context(), t, agenttest.Scenario{Plays: []agenttest.Play{tt.play}}, testSpec(t), &agenttest.Recorder{})
			if res.Success() || res.Failure != tt.failure || res.Err != tt.err || res.ExitCode == nil {
				t.Errorf("got %q %q (exit %v), want %q %q", res.Failure, res.Err, res.ExitCode, tt.failure, tt.err)
			}
		})
	}
}

func TestAMissingProgramIsNamedWithWhatToDo(t *testing.T) {
	dir := t.TempDir()
	plain := filepath.Join(dir, "plain")
	must(t, os.WriteFile(plain, []byte("x"), 0o600))
	broken := filepath.Join(dir, "broken")
	must(t, os.WriteFile(broken, []byte("#!/nonexistent/interpreter\n"), 0o700))
	tests := []struct {
		bin     string
		failure ops.FailureClass
		text    string
	}{
		{"claude-that-is-not-there", "not_found", "npm install -g @anthropic-ai/claude-code"},
		{filepath.Join(dir, "none"), "not_found", "CLAUDEOPS_CLAUDE_BIN"},
		{plain, "not_found", "not executable"},
		{dir, "not_found", "it is a folder"},
		{broken, "not_found", "it needs /nonexistent/interpreter"},
	}
	for _, tt := range tests {
		res := newRunner(Options{Bin: tt.bin}).Run(t.Context(), testSpec(t), &agenttest.Recorder{})
		if res.Failure != tt.failure || !strings.Contains(res.Err, tt.text) || !strings.Contains(res.Err, tt.bin) || res.ExitCode != nil {
			t.Errorf("%s: got %q %q", tt.bin, res.Failure, res.Err)
		}
	}
}
