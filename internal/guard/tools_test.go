package guard

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"claudeops/internal/ops"
)

func toolVerdicts(g *Guard, tool, input string, facts Facts) string {
	got := ""
	for tier := ops.Tier1; tier <= ops.LastTier; tier++ {
		got += string(g.Check(tier, tool, json.RawMessage(input), facts).Verdict)[:1]
	}
	return got
}

func TestToolsOtherThanBash(t *testing.T) {
	facts := testFacts()
	facts.OwnPaths = []string{"/run/claudeops"}
	facts.MCPTools = map[ops.Tier][]string{ops.Tier1: {"mcp__grafana__query_*"}, ops.Tier2: {"mcp__shell__run"}}
	g := newGuard(t)
	for _, c := range []struct{ want, tool, input string }{
		{"aaa", "Read", `{"file_path":"/repos/infra/README.md"}`},
		{"aaa", "Read", `{"file_path":"/repos/infra/inventory/ie.yaml"}`},
		{"aaa", "Read", `{"file_path":"/state/cooldown.json"}`},
		{"ddd", "Read", `{"file_path":"/state/claudeops.db"}`},
		{"ddd", "Read", `{"file_path":"/state/../state/claudeops.db"}`},
		{"ddd", "Read", `{"file_path":"/root/.ssh/id_ed25519"}`},
		{"ddd", "Read", `{"file_path":"/proc/1/environ"}`},
		{"ddd", "Read", `{"file_path":"/repos/infra/.vault_pass"}`},
		{"ddd", "Read", `{"file_path":"/run/claudeops/settings.json"}`},
		{"ddd", "Read", `{}`},
		{"ddd", "Read", `{"FILE_PATH":"/etc/hosts"}`},
		{"ddd", "Read", `[]`},
		{"aaa", "Grep", `{"pattern":"jellyfin"}`},
		{"aaa", "Grep", `{"pattern":"x","path":"/var/log"}`},
		{"ddd", "Grep", `{"pattern":"x","path":"/"}`},
		{"ddd", "Grep", `{"pattern":"x","path":"/root"}`},
		{"ddd", "Grep", `{"pattern":"x","path":7}`},
		{"ddd", "Grep", `{"pattern":"x","glob":"*.{yml,yaml}"}`}, // nobody reads it, so walls have to hold what it picks
		{"ddd", "Grep", `{"pattern":".","glob":".env"}`},
		{"ddd", "Grep", `{"pattern":".","glob":"**/.e[n]v"}`},
		{"ddd", "Grep", `{"pattern":".","glob":"[!a-z]*"}`},
		{"ddd", "Read", `{"file_path":"/repos/infra/a.md","other_path":"/etc/shadow"}`},
		{"aaa", "Glob", `{"pattern":"**/*.yml"}`},
		{"ddd", "Glob", `{"pattern":"/root/.ssh/*"}`},
		{"ddd", "Glob", `{"pattern":".ssh/*","path":"/root"}`},
		{"daa", "Write", `{"file_path":"/repos/infra/docs/x.md","content":"rm -rf /"}`},
		{"daa", "Write", `{"file_path":"/tmp/x"}`},
		{"ddd", "Write", `{"file_path":"/tmp/x","notebook_path":"/etc/x"}`},
		{"daa", "Edit", `{"file_path":"docs/x.md"}`},
		{"daa", "NotebookEdit", `{"notebook_path":"/repos/infra/x.ipynb"}`},
		{"ddd", "NotebookEdit", `{"file_path":"/repos/infra/x.ipynb"}`},
		{"ddd", "Write", `{"file_path":"/repos/infra/inventory/ie.yaml"}`},
		{"ddd", "Write", `{"file_path":"/repos/infra/../../etc/passwd"}`},
		{"ddd", "Write", `{"file_path":"/repos-evil/x"}`},
		{"ddd", "Write", `{"file_path":"/volumes/db/x"}`},
		{"ddd", "Write", `{"file_path":"/state/handoff.json"}`},
		{"ddd", "Edit", `{"file_path":"/repos/infra/.claude/settings.json"}`},
		{"ddd", "Edit", `{"file_path":"/repos/infra/CLAUDE-OPS.md"}`},
		{"aaa", "Read", `{"file_path":"/repos/infra/CLAUDE-OPS.md"}`},
		{"ddd", "Edit", `{"file_path":"/repos/infra/.git/hooks/pre-commit"}`},
		{"ddd", "Edit", `{"file_path":"~/.bashrc"}`},
		{"aaa", "WebFetch", `{"url":"https://example.com/x"}`},
		{"aaa", "WebFetch", `{"url":"http://ie01:8096/health"}`},
		{"ddd", "WebFetch", `{"url":"http://localhost:9090/"}`},
		{"ddd", "WebFetch", `{"url":"http://127.0.0.1:8080/"}`},
		{"ddd", "WebFetch", `{"url":"http://[::ffff:127.0.0.1]/"}`},
		{"ddd", "WebFetch", `{"url":"http://0/"}`},
		{"ddd", "WebFetch", `{"url":"http://0x7f.1/"}`},
		{"ddd", "WebFetch", `{"url":"http://127.0.0.1.nip.io/"}`},
		{"ddd", "WebFetch", `{"url":"http://169.254.169.254/latest"}`},
		{"ddd", "WebFetch", `{"url":"http://[fe80::1]/"}`},
		{"ddd", "WebFetch", `{"url":"http://metadata.google.internal/"}`},
		{"ddd", "WebFetch", `{"url":"https://user:pw@example.com/"}`},
		{"ddd", "WebFetch", `{"url":"file:///etc/passwd"}`},
		{"ddd", "WebFetch", `{"url":"ftp://example.com/"}`},
		{"ddd", "WebFetch", `{"url":"https://exam\u200bple.com/"}`},
		{"ddd", "WebFetch", `{"uri":"https://example.com/"}`},
		{"aaa", "WebSearch", `{"query":"jellyfin crash"}`},
		{"aaa", "StructuredOutput", `{"outcome":"healthy"}`},
		{"aaa", "mcp__grafana__query_prometheus", `{"expr":"up"}`},
		{"ddd", "mcp__grafana__update_dashboard", `{}`},
		{"daa", "mcp__shell__run", `{"command":"docker ps"}`},
		{"daa", "mcp__shell__run", `{"command":["docker","restart","jellyfin"]}`},
		{"ddd", "mcp__shell__run", `{"command":"docker system prune"}`},
		{"ddd", "mcp__shell__run", `{"args":["rm","-rf","/"]}`},
		{"ddd", "mcp__shell__run", `{"input":{"Command":"docker system prune"}}`},
		{"ddd", "mcp__grafana__query_file", `{"path":"/etc/shadow"}`},
		{"aaa", "mcp__grafana__query_file", `{"path":"/d/abc"}`},
		{"ddd", "Task", `{"prompt":"x"}`},
		{"ddd", "Agent", `{}`},
		{"ddd", "Skill", `{}`},
		{"ddd", "CronCreate", `{}`},
		{"ddd", "Unheard", `{}`},
		{"ddd", "", `{}`},
		{"aaa", "Bash", `{"command":"docker ps","run_in_background":false}`},
		{"ddd", "Bash", `{"command":"docker ps","run_in_background":true}`},
		{"ddd", "Bash", `{"command":"docker ps","dangerouslyDisableSandbox":true}`},
		{"ddd", "Bash", `{"Command":"docker ps"}`},
		{"ddd", "Bash", `{"command":["docker","ps"]}`},
		{"ddd", "Read", `{"file_path":"/etc/hosts","file_path":"/etc/shadow"}`},
		{"ddd", "Read", `{"file_path":"/etc/./shadow/"}`},
		{"ddd", "Read", `{"file_path":"../../etc/shadow"}`},
		{"ddd", "Read", `{"file_path":"file:///etc/shadow"}`},
		{"ddd", "Read", `{"file_path":"/etc/shadow\u0000.md"}`},
		{"ddd", "Read", `{"file_path":"/dev/input/event0"}`},
		{"ddd", "Read", `{"file_path":["/etc/shadow"]}`},
		{"ddd", "Read", `{"file_path":null}`},
		{"ddd", "Grep", `{"pattern":".","path":"/repos/infra/.env"}`},
		{"ddd", "Grep", `{"pattern":"x","path":"/etc"}`},
		{"ddd", "Grep", `{"pattern":"x","path":null,"glob":"*.pem","include":"*.key"}`},
		{"ddd", "Grep", `{"pattern":".","glob":[".env"]}`},
		{"ddd", "Glob", `{"pattern":"../../../root/.ssh/*"}`},
		{"ddd", "Glob", `{"pattern":["/root/.ssh/*"]}`},
		{"ddd", "Write", `{"file_path":"/repos/infra/docs/../inventory//ie.yaml"}`},
		{"ddd", "Write", `{"file_path":"/repos/infra/inventory/IE.YAML"}`},
		{"ddd", "Write", `{"file_path":"/repos/infra/inventory/ie.yaml\u0000.md"}`},
		{"ddd", "Write", `{"file_path":"/repos/infra/docs/x.md","file_path":"/etc/x"}`},
		{"ddd", "MultiEdit", `{"file_path":"/repos/infra/.git/config","edits":[]}`},
		{"daa", "MultiEdit", `{"file_path":"/repos/infra/docs/x.md","edits":[{"old_string":"a","new_string":"b"}]}`},
		{"ddd", "Edit", `{"file_path":{"a":"/repos/infra/docs/x.md"}}`},
		{"ddd", "bash", `{"command":"docker ps"}`},
		{"ddd", "Bash ", `{"command":"docker ps"}`},
		{"ddd", "BASH", `{"command":"docker ps"}`},
		{"ddd", "BashOutput", `{"bash_id":"1"}`},
		{"ddd", "KillShell", `{"shell_id":"1"}`},
		{"ddd", "Bash", `{"command":"docker ps","run_in_background":"false"}`},
		{"ddd", "Bash", `{"command":"docker ps","command":"docker system prune"}`},
		{"ddd", "Bash", `{"command":null}`},
		{"ddd", "WebFetch", `{"url":"HTTP://LOCALHOST./"}`},
		{"ddd", "WebFetch", `{"url":" http://localhost/"}`},
		{"ddd", "WebFetch", `{"url":"http://[::1%25lo]/"}`},
		{"ddd", "WebFetch", `{"url":"http://2130706433/"}`},
		{"ddd", "WebFetch", `{"url":"http://[fd00:ec2::254]/"}`},
		{"ddd", "WebFetch", `{"url":"http://100.100.100.200/latest"}`},
		{"ddd", "WebFetch", `{"url":"//example.com/x"}`},
		{"ddd", "WebFetch", `{"url":"https://example.com\\@127.0.0.1/"}`},
		{"ddd", "WebFetch", `{"url":["https://example.com/"]}`},
		{"ddd", "mcp__grafana__query_files", `{"paths":["/d/abc","/etc/shadow"]}`},
		{"ddd", "mcp__grafana__query_files", `{"files":[{"path":["/etc/shadow"]}]}`},
		{"aaa", "mcp__grafana__query_files", `{"paths":["/d/abc"],"description":"rm -rf / is not run"}`},
		{"ddd", "mcp__shell__run", `{"steps":[{"command":"docker system prune"}]}`},
		{"ddd", "mcp__shell__run", `{"commands":["docker system prune"]}`},
		{"ddd", "mcp__shell__run", `{"shell_command":"docker system prune"}`},
		{"ddd", "mcp__shell__run", `{"command":[["docker system prune"]]}`},
		{"ddd", "MCP__shell__run", `{"command":"docker ps"}`},
		{"ddd", "mcp__", `{}`},
		{"ddd", "ToolSearch", `{"query":"select:Task"}`},
		{"ddd", "ListMcpResourcesTool", `{}`},
		{"ddd", "ReadMcpResourceTool", `{"server":"x","uri":"file:///etc/shadow"}`},
		{"ddd", "Bash", `not json`},
	} {
		if got := toolVerdicts(g, c.tool, c.input, facts); got != c.want {
			t.Errorf("%s %s: %s, want %s", c.tool, c.input, got, c.want)
		}
	}
}

func TestToolRulesAreNamedAfterTheTool(t *testing.T) {
	g := newGuard(t)
	for tool, input := range map[string]string{"Read": `{"file_path":"/etc/hosts"}`, "Bash": `{"command":"docker ps"}`, "WebFetch": `{"url":"https://example.com"}`, "Unheard": `{}`} {
		if d := g.Check(ops.Tier1, tool, json.RawMessage(input), testFacts()); d.Rule != "tool."+tool {
			t.Errorf("%s: rule %q", tool, d.Rule)
		}
	}
}

func TestHandoffModeOpensTheHandoffFileAndNothingElse(t *testing.T) {
	facts := testFacts()
	facts.HandoffMode, facts.Walled = true, true
	g := newGuard(t)
	if got := toolVerdicts(g, "Write", `{"file_path":"/state/handoff.json"}`, facts); got != "aaa" {
		t.Errorf("Write: %s", got)
	}
	for command, want := range map[string]string{
		"cat > /state/handoff.json <<'EOF'\n{}\nEOF":                                  "aaa",
		"echo '{}' > /state/handoff.json":                                             "aaa",
		"cat x > /state/./handoff.json":                                               "aaa",
		`jq -n '{}' > "$CLAUDEOPS_STATE_DIR/handoff.json"`:                            "aaa",
		`echo x > ${CLAUDEOPS_STATE_DIR}/handoff.json`:                                "aaa",
		`echo x > "${CLAUDEOPS_STATE_DIR:-/etc}/handoff.json"`:                        "ddd",
		`x=handoff.json; echo x > "$CLAUDEOPS_STATE_DIR/$x"`:                          "ddd",
		`echo x > "$CLAUDEOPS_STATE_DIR/x.json"`:                                      "ddd",
		`CLAUDEOPS_STATE_DIR=/etc; echo x > "$CLAUDEOPS_STATE_DIR/handoff.json"`:      "ddd",
		`read CLAUDEOPS_STATE_DIR <<<x; echo x > "$CLAUDEOPS_STATE_DIR/handoff.json"`: "ddd",
		`ssh ie01 'echo x > $CLAUDEOPS_STATE_DIR/handoff.json'`:                       "ddd",
		"yes > /state/handoff.json":                                                   "ddd",
		"rm /state/handoff.json":                                                      "ddd",
		"mkdir /state/handoff.json":                                                   "ddd",
		"cp x /state/handoff.json":                                                    "ddd",
		"cat /state/handoff.json":                                                     "ddd",
		"echo x > /state/handoff.json.bak":                                            "ddd",
		"ssh ie01 'echo x > /state/handoff.json'":                                     "ddd",
		"while :; do echo x; done > /state/handoff.json":                              "ddd",
	} {
		if got := toolVerdicts(g, "Bash", string(bashInput(t, command)), facts); got != want {
			t.Errorf("%q: %s, want %s", command, got, want)
		}
	}
}

func TestSymbolicLinksAreResolvedBeforePathsAreCompared(t *testing.T) {
	facts := testFacts()
	facts.Resolve = func(name string) (string, error) {
		switch {
		case strings.HasPrefix(name, "/repos/infra/link"):
			return "/etc" + strings.TrimPrefix(name, "/repos/infra/link"), nil
		case name == "/repos/infra/broken":
			return "", errors.New("loop")
		}
		return name, nil
	}
	g := newGuard(t)
	for _, c := range []struct{ want, tool, input string }{
		{"daa", "Write", `{"file_path":"/repos/infra/x.md"}`},
		{"ddd", "Write", `{"file_path":"/repos/infra/link/x"}`},
		{"ddd", "Write", `{"file_path":"/repos/infra/broken"}`},
		{"ddd", "Read", `{"file_path":"/repos/infra/link/shadow"}`},
		{"aaa", "Read", `{"file_path":"/repos/infra/link/hosts"}`},
		{"ddd", "Bash", `{"command":"cat link/shadow"}`},
		{"ddd", "Bash", `{"command":"echo x > link/x"}`},
		{"ddd", "Bash", `{"command":"cd link && rm x"}`},
		{"ddd", "Bash", `{"command":"cat link/../repos/../etc/shadow"}`},
		{"ddd", "Bash", `{"command":"echo x > link/../etc/x"}`},
		{"ddd", "Bash", `{"command":"cat broken"}`},
	} {
		if got := toolVerdicts(g, c.tool, c.input, facts); got != c.want {
			t.Errorf("%s %s: %s, want %s", c.tool, c.input, got, c.want)
		}
	}
}

func TestAListOfWebHostsIsTheOnlyOne(t *testing.T) {
	facts := testFacts()
	facts.WebHosts = []string{"example.com", "*.example.org"}
	g := newGuard(t)
	for address, want := range map[string]string{
		"https://example.com/": "aaa", "https://EXAMPLE.com./": "aaa", "https://a.example.org/": "aaa", "https://example.org/": "ddd", "https://evilexample.com/": "ddd", "https://notexample.org/": "ddd",
	} {
		if got := toolVerdicts(g, "WebFetch", `{"url":"`+address+`"}`, facts); got != want {
			t.Errorf("%s: %s, want %s", address, got, want)
		}
	}
}

func TestDryRunGivesTier1VerdictsToEveryTier(t *testing.T) {
	facts := testFacts()
	facts.DryRun = true
	g := newGuard(t)
	for _, c := range readCases(t) {
		want := strings.Repeat(c.want[:1], 3)
		if got := toolVerdicts(g, "Bash", string(bashInput(t, c.command)), facts); got != want {
			t.Errorf("cases.txt:%d: %q: %s in a dry run, want %s", c.line, c.command, got, want)
		}
	}
	d := g.Check(ops.Tier2, "Bash", bashInput(t, "docker restart jellyfin"), facts)
	if d.Rule != "R11" || !strings.Contains(d.Reason, "dry run") {
		t.Errorf("got %s %s", d.Rule, d.Reason)
	}
	if d := g.Check(ops.Tier2, "Bash", bashInput(t, "docker system prune"), facts); d.Rule != "never.docker-prune" {
		t.Errorf("a dry run hides the rule: %s", d.Rule)
	}
}

func TestAnUnknownTierMayDoNothing(t *testing.T) {
	for _, tier := range []ops.Tier{0, -1, 4, 99} {
		if d := newGuard(t).Check(tier, "Bash", bashInput(t, "docker ps"), testFacts()); d.Allowed() {
			t.Errorf("tier %d: %+v", tier, d)
		}
	}
}

func TestAPanicIsADeny(t *testing.T) {
	facts := testFacts()
	facts.Resolve = func(string) (string, error) { panic("broken") }
	d := newGuard(t).Check(ops.Tier3, "Read", json.RawMessage(`{"file_path":"/x"}`), facts)
	if d.Allowed() || d.Reason == "" {
		t.Errorf("got %+v", d)
	}
}
