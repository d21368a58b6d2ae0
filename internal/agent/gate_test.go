package agent

import (
	"slices"
	"strings"
	"testing"

	"claudeops/internal/agent/agenttest"
	"claudeops/internal/ops"
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

func TestAToolThatNoGateAllowedStopsTheSession(t *testing.T) {
	for name, tt := range map[string]struct {
		allow string
		stop  ops.StopCause
	}{"allowed": {"toolu_1", ops.StopNone}, "not allowed": {"toolu_2", ops.StopInvariant}} {
		t.Run(name, func(t *testing.T) {
			bin := agenttest.Fake(t, agenttest.Scenario{Plays: []agenttest.Play{agenttest.Healthy(0.01)}})
			c := NewClaude(ClaudeOptions{Bin: bin})
			spec := testSpec(t)
			spec.Gate = &ops.GateSpec{Settings: []byte(`{"hooks":{}}`), ShellPrefix: "/bin/true", Allowed: func(id string) bool { return id == tt.allow }}
			res := c.Run(t.Context(), spec, &memory{})
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
	res := NewClaude(ClaudeOptions{Bin: bin}).Run(t.Context(), spec, &memory{})
	if res.ExitCode != nil || res.Err == "" || len(agenttest.Calls(t, bin)) != 0 {
		t.Errorf("got %+v", res)
	}
}
