package claude

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"claudeops/internal/agent"
	"claudeops/internal/ops"
	"claudeops/test/agenttest"
)

func TestWhichToolsRan(t *testing.T) {
	st := stream{held: true}
	st.line(agenttest.Use("a", "x"))
	st.line(agenttest.Answer("a", "fine"))
	st.line(strings.Replace(agenttest.Answer("b", "denied"), `"is_error":false`, `"is_error":true`, 1))
	st.line(agenttest.Answer("never-opened", "fine"))
	if !slices.Equal(st.ran, []string{"a", "never-opened"}) {
		t.Errorf("ran: %v", st.ran)
	}
}

// Tools of an unknown kind, and tools in which others run, count as ran: no gate has allowed them.
func TestToolsThatNoGateIsAskedAboutRan(t *testing.T) {
	for line, want := range map[string]string{
		`{"type":"assistant","message":{"id":"m","content":[{"type":"server_tool_use","id":"srvtoolu_1","name":"code_execution","input":{}}]}}`: "srvtoolu_1",
		`{"type":"assistant","message":{"id":"m","content":[{"type":"mcp_tool_use","id":"mcptoolu_1","name":"x","input":{}}]}}`:                 "mcptoolu_1",
		`{"type":"assistant","message":{"id":"m","content":[{"type":"bash_code_execution_tool_result","tool_use_id":"s2","content":""}]}}`:      "s2",
		`{"type":"assistant","parent_tool_use_id":"toolu_batch","message":{"id":"m","content":[{"type":"text","text":"x"}]}}`:                   "toolu_batch",
	} {
		st := stream{held: true}
		st.line(line)
		if !slices.Equal(st.ran, []string{want}) {
			t.Errorf("%s: %q", line, st.ran)
		}
		ungated := stream{}
		if ungated.line(line); len(ungated.ran) > 0 {
			t.Errorf("%s without a gate: %q", line, ungated.ran)
		}
	}
}

func TestAToolThatNoGateAllowedStopsTheSession(t *testing.T) {
	for name, tt := range map[string]struct {
		allow string
		stop  ops.StopCause
	}{"allowed": {"toolu_1", ops.StopNone}, "not allowed": {"toolu_2", ops.StopInvariant}} {
		t.Run(name, func(t *testing.T) {
			bin := agenttest.Fake(t, agenttest.Scenario{Plays: []agenttest.Play{agenttest.Healthy(0.01)}})
			c := New(Options{Bin: bin})
			spec := testSpec(t)
			spec.Gate = &ops.GateSpec{Settings: []byte(`{"hooks":{}}`), ShellPrefix: "/bin/true", Allowed: func(id string) bool { return id == tt.allow }}
			res := agent.NewRunner(c, agent.Options{}).Run(t.Context(), spec, &agenttest.Recorder{})
			if res.Stop != tt.stop {
				t.Errorf("stopped by %q: %s", res.Stop, res.StopWhy)
			}
			call := agenttest.Calls(t, bin)[0]
			if v, _ := call.Var("CLAUDE_CODE_SHELL_PREFIX"); v != "/bin/true" {
				t.Errorf("the shell prefix is %q", v)
			}
		})
	}
}

func TestSettingsThatAreNotJSONStartNothing(t *testing.T) {
	bin := agenttest.Fake(t, agenttest.Scenario{Plays: []agenttest.Play{agenttest.Healthy(0.01)}})
	spec := testSpec(t)
	spec.Gate = &ops.GateSpec{Settings: []byte(`{"hooks":`)}
	res := newRunner(Options{Bin: bin}).Run(t.Context(), spec, &agenttest.Recorder{})
	if res.ExitCode != nil || res.Err == "" || len(agenttest.Calls(t, bin)) != 0 {
		t.Errorf("got %+v", res)
	}
}

// meddling walls do something to the agent's files between their making and the start.
type meddling struct{ do func() error }

func (m meddling) Layers(ops.Tier) []string                        { return nil }
func (m meddling) Prepare(ops.Tier) error                          { return m.do() }
func (m meddling) Collect(ops.Tier) error                          { return nil }
func (m meddling) Hides(ops.Tier, agent.Program) func(string) bool { return nil }
func (m meddling) GatesShells(ops.Tier) bool                       { return false }

func (m meddling) Wrap(_ ops.Tier, p agent.Program) (agent.Program, error) { return p, nil }

func TestSettingsThatWereChangedStartNothing(t *testing.T) {
	const hooks = `{"hooks":{"PreToolUse":[]}}`
	for name, tt := range map[string]struct {
		meddle func(settings string) error
		words  string // of the refusal; empty: the session starts
	}{
		"untouched":     {func(string) error { return nil }, ""},
		"written again": {func(f string) error { return os.WriteFile(f, []byte(hooks), 0o600) }, ""},
		"emptied":       {func(f string) error { return os.Truncate(f, 0) }, "were changed"},
		"replaced":      {func(f string) error { return os.WriteFile(f, []byte(`{"hooks":{}}`), 0o600) }, "were changed"},
		"one more byte": {func(f string) error { return os.WriteFile(f, []byte(hooks+" "), 0o600) }, "were changed"},
		"a link elsewhere": {func(f string) error {
			other := filepath.Join(filepath.Dir(f), "other.json")
			return errors.Join(os.WriteFile(other, []byte("{}"), 0o600), os.Remove(f), os.Symlink(other, f))
		}, "were changed"},
		"taken away": {os.Remove, "cannot be read again"},
	} {
		t.Run(name, func(t *testing.T) {
			bin := agenttest.Fake(t, agenttest.Scenario{Plays: []agenttest.Play{agenttest.Healthy(0.01)}})
			spec := testSpec(t)
			spec.Gate = &ops.GateSpec{Settings: []byte(hooks), Allowed: func(string) bool { return true }}
			settings := filepath.Join(spec.StateDir, "agent", "settings-"+spec.Session.Key+".json")
			walls := meddling{func() error { return tt.meddle(settings) }}
			runner := agent.NewRunner(New(Options{Bin: bin}), agent.Options{Walls: func(string) agent.Walls { return walls }})
			res := runner.Run(t.Context(), spec, &agenttest.Recorder{})
			calls := agenttest.Calls(t, bin)
			if tt.words == "" {
				if !res.Success() || len(calls) != 1 {
					t.Errorf("%d runs: %+v", len(calls), res)
				}
				return
			}
			if len(calls) != 0 || res.ExitCode != nil || res.Failure != ops.FailureStart || !strings.Contains(res.Err, tt.words) || !strings.Contains(res.Err, "settings") {
				t.Errorf("%d runs: %+v", len(calls), res)
			}
			if _, err := os.Lstat(settings); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("the settings are left: %v", err)
			}
		})
	}
}
