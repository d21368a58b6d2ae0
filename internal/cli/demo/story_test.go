package demo

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// tierRun is one session of the scripted agent on the demo.
type tierRun struct {
	code    int
	stream  string
	outcome struct {
		Outcome string `json:"outcome"`
		Handoff struct {
			Tier int `json:"recommended_tier"`
		} `json:"handoff"`
	}
	cost    float64
	isError bool
}

// runTier runs the agent as a process of its own, as the supervisor does, and takes the outcome it reports.
func runTier(t *testing.T, demoDir string, tier int) tierRun {
	t.Helper()
	state, bin := t.TempDir(), t.TempDir()
	self, err := os.Executable()
	if err == nil {
		err = errors.Join(InstallCtl(bin, self), os.Symlink(self, filepath.Join(bin, actName)))
	}
	must(t, err)
	cmd := exec.CommandContext(t.Context(), os.Args[0], "demo", "agent", "-p", "look after it",
		"--output-format", "stream-json", "--verbose", "--model", "haiku", "--json-schema", "{}")
	cmd.Dir = t.TempDir()
	cmd.Env = []string{
		"GORACE=atexit_sleep_ms=0",
		"PATH=" + bin, // only the shell and the program itself may be needed
		"CLAUDEOPS_TIER=" + strconv.Itoa(tier), "CLAUDEOPS_STATE_DIR=" + state, "CLAUDEOPS_DEMO_PACE=0",
		"CLAUDEOPS_DEMO_DIR=" + demoDir, "CLAUDE_CONFIG_DIR=" + t.TempDir(),
	}
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("tier %d: %v\n%s%s", tier, err, stdout.String(), stderr.String())
	}
	run := tierRun{code: cmd.ProcessState.ExitCode(), stream: stdout.String()}
	for line := range strings.Lines(run.stream) {
		e := struct {
			Type    string  `json:"type"`
			Outcome any     `json:"structured_output"`
			Cost    float64 `json:"total_cost_usd"`
			IsError bool    `json:"is_error"`
		}{Outcome: &run.outcome}
		must(t, json.Unmarshal([]byte(line), &e))
		if e.Type == "result" {
			run.cost, run.isError = e.Cost, e.IsError
		}
	}
	return run
}

func TestTheScriptedAgentPlaysTheIncidentThroughThreeTiers(t *testing.T) {
	dir := shortDir(t)
	k := startKeeper(t, dir, "service")
	do(t, k, Break)

	pid := readPID(t, dir)
	first := runTier(t, dir, 1)
	if first.outcome.Handoff.Tier != 2 || !strings.Contains(first.stream, "502 Bad Gateway") || first.cost != 0.02 || first.isError {
		t.Errorf("tier 1: outcome %v, cost %v\n%s", first.outcome, first.cost, first.stream)
	}
	if readPID(t, dir) != pid {
		t.Error("tier 1 must only look, and the service has a new process")
	}

	second := runTier(t, dir, 2)
	if second.outcome.Handoff.Tier != 3 || second.cost != 0.31 || !strings.Contains(second.stream, "connection refused") {
		t.Errorf("tier 2: outcome %v, cost %v\n%s", second.outcome, second.cost, second.stream)
	}
	if readPID(t, dir) != pid || health(t, k.URL()) != 502 || !strings.Contains(second.stream, "fill cache: the library does not answer") {
		t.Errorf("tier 2 must ask for a new cache, which does not help\n%s", second.stream)
	}

	third := runTier(t, dir, 3)
	if third.outcome.Outcome != "resolved" || third.cost != 1.20 || !strings.Contains(third.stream, "upstream = "+brokenUpstream) {
		t.Errorf("tier 3: outcome %v, cost %v\n%s", third.outcome, third.cost, third.stream)
	}
	if got := health(t, k.URL()); got != 200 {
		t.Errorf("the service answers %d after the repair", got)
	}
}

func TestTheScriptedAgentFindsAHealthyServiceHealthy(t *testing.T) {
	dir := shortDir(t)
	startKeeper(t, dir, "service")
	if run := runTier(t, dir, 1); run.outcome.Outcome != "healthy" || run.isError || !strings.Contains(run.stream, "Everything is healthy") {
		t.Errorf("outcome %v\n%s", run.outcome, run.stream)
	}
}

func TestTheScriptedAgentAsksForAHumanWhenTheRepairDoesNotHelp(t *testing.T) {
	dir := shortDir(t)
	k := startKeeper(t, dir, "service")
	wrong := confText("also wrong", brokenUpstream)
	must(t, os.WriteFile(filepath.Join(dir, goodConfFile), []byte(wrong), 0o600))
	do(t, k, Break)
	if run := runTier(t, dir, 3); run.outcome.Outcome != "needs_human" || !strings.Contains(run.stream, "A human has to look") {
		t.Errorf("outcome %v\n%s", run.outcome, run.stream)
	}
}
