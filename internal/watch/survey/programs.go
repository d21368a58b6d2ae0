package survey

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// versionTime is how long a program may take to tell its version.
const versionTime = 10 * time.Second

// Program is an installed agent CLI.
type Program struct {
	Name, Path string
	Version    string // empty if it does not tell
}

// agents are the programs that are looked for. Claude Ops has its own adapters for the first two.
func agents() []string {
	return []string{"claude", "codex", "gemini", "opencode", "goose", "aider", "qwen", "copilot"}
}

// Programs finds agent CLIs in the folders of path, a list such as PATH, and asks each for its version.
func Programs(ctx context.Context, path string) []Program {
	var out []Program
	for _, name := range agents() {
		for _, dir := range filepath.SplitList(path) {
			file := filepath.Join(dir, name)
			if info, err := os.Stat(file); err != nil || !filepath.IsAbs(dir) || info.IsDir() || info.Mode()&0o111 == 0 {
				continue
			}
			out = append(out, Program{Name: name, Path: file, Version: versionOf(ctx, file, path)})
			break
		}
	}
	return out
}

// Compiled once; read only.
var versionShape = regexp.MustCompile(`\b\d+\.\d+(?:\.\d+)?\b`)

// versionOf runs a program with --version, in an empty home folder so that it finds and keeps nothing.
func versionOf(ctx context.Context, file, path string) string {
	home, err := os.MkdirTemp("", "claudeops-version-*")
	if err != nil {
		return ""
	}
	defer func() { _ = os.RemoveAll(home) }()
	ctx, cancel := context.WithTimeout(ctx, versionTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, file, "--version") //nolint:gosec // an agent CLI on the operator's PATH
	cmd.Dir, cmd.WaitDelay = home, time.Second
	cmd.Env = []string{"HOME=" + home, "CODEX_HOME=" + home, "PATH=" + path, "DISABLE_AUTOUPDATER=1", "NO_COLOR=1"}
	text, err := cmd.Output()
	if err != nil {
		return ""
	}
	first, _, _ := strings.Cut(string(text), "\n")
	return versionShape.FindString(first)
}
