package realcli_test

import (
	"encoding/json"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"claudeops/test/messagesapi"
	"claudeops/test/realcli"
)

// patience bounds one run, far above what it takes on a busy machine.
const patience = 2 * time.Minute

func TestTheEnvironmentIsItsOwn(t *testing.T) {
	t.Parallel()
	values := map[string]string{}
	for _, v := range realcli.Env(t, "http://127.0.0.1:1") {
		name, value, _ := strings.Cut(v, "=")
		values[name] = value
	}
	home, err := os.UserHomeDir()
	for _, name := range []string{"HOME", "CLAUDE_CONFIG_DIR", "TMPDIR"} {
		if got := values[name]; !strings.HasPrefix(got, os.TempDir()) || err == nil && got == home {
			t.Errorf("%s=%s", name, got)
		}
	}
	if values["ANTHROPIC_BASE_URL"] != "http://127.0.0.1:1" || values["CLAUDE_CODE_MAX_RETRIES"] != "2" {
		t.Errorf("environment: %v", values)
	}
}

func near(a, b float64) bool { return math.Abs(a-b) < 1e-9 }

func raw(text string) json.RawMessage { return json.RawMessage(text) }

// Neither skills nor commands nor servers of an account are part of a session of the supervisor.
func TestASessionLoadsNoSkillsAndNoServers(t *testing.T) {
	t.Parallel()
	r := newRunner(t, messagesapi.Turns(messagesapi.Text("done")), "CLAUDE_CODE_SYNC_SKILLS=1", "CLAUDE_CODE_SYNC_PLUGINS=1", "ENABLE_CLAUDEAI_MCP_SERVERS=true")
	if res := r.run("go", nil); !res.Success() {
		t.Fatalf("%+v", res)
	}
	for _, line := range r.lines {
		var init struct {
			Subtype  string            `json:"subtype"`
			Skills   []string          `json:"skills"`
			Commands []string          `json:"slash_commands"`
			Servers  []json.RawMessage `json:"mcp_servers"`
			Plugins  []struct {
				Path string `json:"path"`
			} `json:"plugins"`
		}
		if json.Unmarshal([]byte(line), &init) != nil || init.Subtype != "init" {
			continue
		}
		if len(init.Skills)+len(init.Commands)+len(init.Servers) > 0 {
			t.Errorf("it loads %q, %q, %s", init.Skills, init.Commands, init.Servers)
		}
		for _, p := range init.Plugins {
			if p.Path != "builtin" {
				t.Errorf("it loads the plugin %s", p.Path)
			}
		}
		return
	}
	t.Error("the session did not begin")
}
