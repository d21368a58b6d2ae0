package agenttest_test

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"claudeops/test/agenttest"
)

func TestMain(m *testing.M) {
	agenttest.RunIfFake()
	os.Exit(m.Run())
}

// run starts the fake as a supervisor would and returns its output and exit code.
func run(t *testing.T, bin, state string, tier int, args ...string) (string, int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), bin, args...)
	cmd.Env = []string{"PATH=/usr/bin:/bin", "CLAUDEOPS_STATE_DIR=" + state, "CLAUDEOPS_TIER=" + strconv.Itoa(tier)}
	out, err := cmd.Output()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

func TestThePlayThatFitsTierAndAttemptIsPlayed(t *testing.T) {
	state := t.TempDir()
	bin := agenttest.Fake(t, agenttest.Scenario{Plays: []agenttest.Play{
		{Tier: 1, Attempt: 2, Steps: agenttest.Lines("second"), Exit: 3},
		{Tier: 1, Steps: []agenttest.Step{{Out: "{{model}} {{session_id}} {{tier}} {{n}}{{pad}}", Repeat: 2, Size: 3}}, Handoff: agenttest.Handoff(2, "web")},
		{Tier: 2, Steps: agenttest.Lines("two")},
	}})
	for _, tt := range []struct {
		tier int
		out  string
		code int
	}{
		{1, "m id 1 1xxx\nm id 1 2xxx\n", 0},
		{2, "two\n", 0},
		{1, "second\n", 3},
		{3, "", 97},
	} {
		if out, code := run(t, bin, state, tt.tier, "-p", "x", "--model", "m", "--session-id", "id"); out != tt.out || code != tt.code {
			t.Errorf("tier %d: got %q, exit %d", tt.tier, out, code)
		}
	}
	if out, code := run(t, bin, state, 1, "--version"); out != "2.1.325 (Claude Code)\n" || code != 0 {
		t.Errorf("version: %q, exit %d", out, code)
	}
	calls := agenttest.Calls(t, bin)
	if len(calls) != 4 || calls[2].Tier != 1 || calls[2].Attempt != 2 {
		t.Fatalf("calls: %+v", calls)
	}
	if model, ok := calls[0].Option("--model"); !ok || model != "m" {
		t.Errorf("model %q", model)
	}
	if dir, ok := calls[0].Var("CLAUDEOPS_STATE_DIR"); !ok || dir != state {
		t.Errorf("state folder %q", dir)
	}
	data, err := os.ReadFile(filepath.Join(state, "handoff.json"))
	if err != nil || !json.Valid(data) || !strings.Contains(string(data), `"recommended_tier":2`) {
		t.Errorf("handoff %s: %v", data, err)
	}
}

func TestEveryEventIsJSON(t *testing.T) {
	for _, line := range []string{
		agenttest.Init(), agenttest.Text(`a "b"`), agenttest.Use("t", "ls"), agenttest.Answer("t", "ok\n"), agenttest.Result(0.5, "done"),
		agenttest.Structured(0.5, "done", `{"a":1}`), agenttest.APIError(401, "no"), agenttest.Interrupted(), agenttest.Handoff(3, "web", "db"),
	} {
		if !json.Valid([]byte(line)) {
			t.Errorf("no JSON: %s", line)
		}
	}
}
