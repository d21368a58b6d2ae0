package daemon

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
	"unicode"

	"claudeops/internal/ops"
)

// The limits for reading recent changes: a prompt has little room, and no session waits long for them.
const (
	changesTime    = 2 * time.Second
	changesRepos   = 5
	changesCommits = "3"
	changesLength  = 160 // of one line
)

// changes are the last commits of an environment's repositories, one line each. Without git or repositories there are none.
func changes(ctx context.Context, env ops.Environment) []string {
	if env.ReposDir == "" {
		return nil
	}
	entries, err := os.ReadDir(env.ReposDir)
	if err != nil {
		return nil // the prompt does without
	}
	ctx, cancel := context.WithTimeout(ctx, changesTime)
	defer cancel()
	var out []string
	read := 0
	for _, e := range entries {
		dir := filepath.Join(env.ReposDir, e.Name())
		if _, err := os.Stat(filepath.Join(dir, ".git")); err != nil || !e.IsDir() || read == changesRepos {
			continue
		}
		read++
		for _, line := range commits(ctx, dir) {
			out = append(out, e.Name()+": "+line)
		}
	}
	return out
}

// commits reads the newest commits of a repository. Its settings come from people and agents, so nothing in them is run.
func commits(ctx context.Context, dir string) []string {
	//nolint:gosec // the folder is the operator's; what it holds is only read
	c := exec.CommandContext(ctx, "git",
		"-c", "core.fsmonitor=", "-c", "core.hooksPath=/dev/null", "-c", "safe.directory=*", "-c", "log.showSignature=false",
		"--no-pager", "-C", dir, "log", "-n", changesCommits, "--no-color", "--format=%h %cs %s")
	c.Env = []string{
		"PATH=" + os.Getenv("PATH"), //nolint:forbidigo // where git is; nothing else of the environment reaches it
		"HOME=/nonexistent", "GIT_CONFIG_NOSYSTEM=1", "GIT_OPTIONAL_LOCKS=0", "GIT_TERMINAL_PROMPT=0",
		"GIT_NO_LAZY_FETCH=1", "LC_ALL=C.UTF-8",
	}
	c.WaitDelay = 100 * time.Millisecond
	text, err := c.Output()
	if err != nil {
		return nil
	}
	var out []string
	for line := range strings.Lines(string(text)) {
		line = strings.Map(func(r rune) rune {
			if unicode.IsControl(r) {
				return -1
			}
			return r
		}, strings.ToValidUTF8(line, "?"))
		if line == "" {
			continue
		}
		out = append(out, ops.Cut(line, changesLength))
	}
	return out
}
