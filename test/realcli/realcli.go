// Package realcli gives tests the real Claude Code. Its own tests hold the facts about that program
// the supervisor relies on, so that a newer version is taken up by changing Version and the
// version in script/setup-tests and reading what fails. TestCLI_… see the program alone: only another version changes them, so
// make test leaves them to make test-all.
package realcli

import (
	"os"
	"path/filepath"
	"testing"

	"claudeops/test/needs"
)

// Version is the version script/setup-tests installs.
const Version = "2.1.328"

// Path returns the program, and fails the test where it is not installed.
func Path(t testing.TB) string {
	t.Helper()
	return needs.Cached(t, "Claude Code "+Version, "claude-code-"+Version, "claude")
}

// Env returns an environment in which the program knows nothing of this machine's user and talks
// to baseURL only. HOME, CLAUDE_CONFIG_DIR and TMPDIR are new with every call. To change a variable,
// append it: the last one counts.
func Env(t testing.TB, baseURL string) []string {
	t.Helper()
	home := t.TempDir()
	temp := filepath.Join(home, "tmp")
	if err := os.Mkdir(temp, 0o700); err != nil {
		t.Fatalf("make the agent's temporary folder: %v", err)
	}
	return []string{
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"LANG=C.UTF-8",
		"HOME=" + home,
		"TMPDIR=" + temp,
		"CLAUDE_CONFIG_DIR=" + filepath.Join(home, ".claude"),
		"ANTHROPIC_BASE_URL=" + baseURL,
		"ANTHROPIC_API_KEY=dummy-key-of-a-test",
		"DISABLE_TELEMETRY=1",
		"DISABLE_AUTOUPDATER=1",
		"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1",
		"CLAUDE_CODE_MAX_RETRIES=2",
	}
}
