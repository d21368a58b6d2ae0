package codex

import (
	"strings"
	"testing"

	"claudeops/internal/ops"
)

func TestTheSupervisorsToolsAreOfferedWithoutTheKeyOfTheSession(t *testing.T) {
	spec := ops.SessionSpec{Session: ops.Session{Key: "secret-key"}, Gate: &ops.GateSpec{Tools: ops.ToolServer{MCP: []string{"/bin/claudeops", "agent", "tools", "/run/g/gate.sock"}}}}
	args, _ := arguments(spec, true, "")
	line := strings.Join(args, " ")
	const want = `mcp_servers.claudeops={command="/bin/claudeops",args=["agent","tools","/run/g/gate.sock"],env_vars=["CLAUDEOPS_SESSION_KEY"]`
	for _, setting := range []string{`default_tools_approval_mode="approve"`, `features.code_mode={direct_only_tool_namespaces=["mcp__claudeops"]}`} {
		if !strings.Contains(line, setting) {
			t.Errorf("%s is missing: %s", setting, line)
		}
	}
	if !strings.Contains(line, want) || strings.Contains(line, "secret-key") {
		t.Errorf("arguments: %s", line)
	}
	spec.Gate = nil
	if args, _ := arguments(spec, true, ""); strings.Contains(strings.Join(args, " "), "mcp_servers") || strings.Contains(strings.Join(args, " "), "code_mode") {
		t.Error("tools are offered without a gate")
	}
}
