package scripted

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/uuid"

	"claudeops/internal/agent"
	"claudeops/internal/agent/claude"
	"claudeops/internal/ops"
)

// forgetful is a recorder that keeps nothing.
type forgetful struct{}

func (forgetful) Started(context.Context, int, string) error { return nil }
func (forgetful) Lines(context.Context, []ops.Line) error    { return nil }

// supervised runs a scenario as the supervisor does.
func supervised(t *testing.T, state, scenario string, change func(*ops.SessionSpec)) ops.RunResult {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "scenario.yaml")
	if err := os.WriteFile(file, []byte(scenario), 0o600); err != nil {
		t.Fatal(err)
	}
	c := agent.NewRunner(claude.New(claude.Options{
		Bin: self, Prefix: []string{agentArg, "--scenario", file}, ExtraEnv: []string{"GORACE"},
		Ability: &ops.Ability{Version: programName, Known: true, Structured: true}, CountRuns: true,
	}), agent.Options{})
	spec := ops.SessionSpec{
		Session: ops.Session{ID: 1, CycleID: 1, Tier: ops.Tier1, Model: "haiku", Key: uuid.NewString(), PlannedID: uuid.NewString()},
		Prompt:  "look around", StateDir: state, Env: []string{"PATH=/usr/bin:/bin", "GORACE=atexit_sleep_ms=0"},
		Limits: ops.Limits{Wall: time.Minute, Grace: 10 * time.Second},
	}
	if change != nil {
		change(&spec)
	}
	return c.Run(t.Context(), spec, forgetful{})
}

func TestTheSupervisorStopsAScriptThatLoops(t *testing.T) {
	const loops = "tiers: {1: {steps: [{repeat: 1000, steps: [{bash: 'echo same'}]}], hang: true}}"
	for name, boundary := range map[string]bool{"at once": false, "at a boundary": true} {
		t.Run(name, func(t *testing.T) {
			results := 0
			res := supervised(t, t.TempDir(), loops, func(s *ops.SessionSpec) {
				s.Watch = func(a ops.Activity) *ops.Halt {
					if a.Kind == ops.ActivityResult && a.Tool == toolBash && a.Output == "same" {
						results++
					}
					if results < 3 {
						return nil
					}
					return &ops.Halt{Cause: ops.StopLoop, Why: "echo same, three times", Boundary: boundary}
				}
			})
			if res.Stop != ops.StopLoop || res.Failure != ops.FailureLoop || res.Err != "echo same, three times" || results < 3 || results > 900 {
				t.Errorf("%d results: %+v", results, res)
			}
		})
	}
}

func TestTheSupervisorReadsAScriptsFailuresAttemptByAttempt(t *testing.T) {
	state := t.TempDir()
	const scenario = `
tiers:
  1:
    attempts:
      - {api_status: 429, retry_after: 3s}
      - {subtype: error_max_turns}
      - {cost_usd: 9}
      - {exit: 77, no_result: true}
roles:
  manager: {outcome: {target: tier2, reason: it knows}}
`
	run := func(role ops.Role) ops.RunResult {
		return supervised(t, state, scenario, func(s *ops.SessionSpec) {
			s.Session.Role, s.BudgetUSD, s.OutcomeJSON = role, 5, "{}"
		})
	}
	if res := run(ops.RoleWork); res.Failure != ops.FailureAPI || res.APIStatus == nil || *res.APIStatus != 429 || res.RetryAfter != 3*time.Second {
		t.Errorf("first: %+v", res)
	}
	if res := run(ops.RoleManager); !res.Success() || string(res.Structured) != `{"reason":"it knows","target":"tier2"}` {
		t.Errorf("manager: %+v, %s", res, res.Structured)
	}
	if res := run(ops.RoleWork); res.Failure != ops.FailureMaxTurns {
		t.Errorf("second: %+v", res)
	}
	if res := run(ops.RoleWork); res.Failure != ops.FailureMaxBudget {
		t.Errorf("third: %+v", res)
	}
	for range 2 {
		if res := run(ops.RoleWork); res.Failure != "exit" || *res.ExitCode != 77 {
			t.Errorf("the last: %+v", res)
		}
	}
}
