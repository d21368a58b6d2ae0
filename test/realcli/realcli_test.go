package realcli_test

import (
	"os"
	"strings"
	"testing"

	"claudeops/test/realcli"
)

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
