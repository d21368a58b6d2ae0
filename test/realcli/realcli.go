// Package realcli gives tests the real Claude Code. Its own tests hold the facts about that program
// the supervisor relies on, so that a newer version is taken up by changing Version and the
// version in script/setup-tests and reading what fails.
package realcli

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// Version is the version script/setup-tests installs.
const Version = "2.1.325"

// Path returns the program, and fails the test where it is not installed.
func Path(t testing.TB) string {
	t.Helper()
	path := filepath.Join(moduleRoot(t), ".cache", "claude-code-"+Version, "claude")
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("Claude Code %s is not installed: run script/setup-tests", Version)
	}
	if err != nil {
		t.Fatalf("find Claude Code: %v", err)
	}
	if !info.Mode().IsRegular() || info.Mode()&0o111 == 0 {
		t.Fatalf("%s is no program: remove it and run script/setup-tests", path)
	}
	return path
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

func moduleRoot(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatalf("find the module: %v", err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			t.Fatal("find the module: no go.mod above the test")
		}
		dir = parent
	}
}
