package daemon

import (
	"testing"

	"claudeops/internal/agent"
)

func TestWhichSessionsAreGated(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		env             []string
		gate            string
		ungated, shells bool
	}{
		"Claude Code":       {[]string{"CLAUDE_CODE_SHELL_PREFIX=/gates/1-1/claudeops-guard-shell"}, "/gates/1-1", false, false},
		"Codex":             {[]string{"CLAUDEOPS_SHELL_GATE=/gates/1-1", "CLAUDEOPS_TOOL_SOCKET=/gates/1-1/gate.sock"}, "/gates/1-1", false, true},
		"Codex, not judged": {[]string{"CLAUDEOPS_TOOL_SOCKET=/gates/1-1/gate.sock"}, "/gates/1-1", true, false},
		"a command":         {nil, "", true, false},
	} {
		s := sessionOf(agent.Program{Env: c.env}, "/gates")
		if s.Gate != c.gate || s.Ungated != c.ungated || s.Shells != c.shells {
			t.Errorf("%s: %+v", name, s)
		}
	}
}
