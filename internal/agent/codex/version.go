package codex

import (
	"context"
	"os"
	"time"

	"github.com/google/uuid"

	"claudeops/internal/agent"
	"claudeops/internal/ops"
)

// OldestVersion is the oldest Codex that may run: the one its flags and its stream were measured on.
const OldestVersion = "0.166.0"

const askTime = 10 * time.Second

// programVersion is what a program said of itself. It holds until the program is replaced.
type programVersion struct {
	path    string
	size    int64
	changed time.Time
	text    string // empty when it does not tell
}

// Compiled once; read only.
var versionShape = ops.Pattern(`^codex(?:-cli)? v?(\d+\.\d+\.\d+)\S*\s*$`)

func (c *Codex) versionOf(ctx context.Context, path string, env []string) programVersion {
	v := programVersion{path: path}
	if info, err := os.Stat(path); err == nil {
		v.size, v.changed = info.Size(), info.ModTime()
	}
	c.mu.Lock()
	known := c.version
	c.mu.Unlock()
	if known.path == path && known.size == v.size && known.changed.Equal(v.changed) {
		return known
	}
	asking, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	v.text = c.askVersion(asking, path, env)
	if ctx.Err() == nil && v.text != "" {
		c.mu.Lock()
		c.version = v
		c.mu.Unlock()
	}
	return v
}

func (c *Codex) askVersion(ctx context.Context, path string, env []string) string {
	home, err := os.MkdirTemp("", "claudeops-version-*")
	if err != nil {
		return ""
	}
	defer func() { _ = os.RemoveAll(home) }()
	key := "version-" + uuid.NewString()
	spec := ops.SessionSpec{Env: env, Session: ops.Session{Key: key}}
	vars := agent.Environment(spec, agent.Folders{Home: home, State: home}, agent.Variables{Set: map[string]string{"CODEX_HOME": home}})
	a := agent.Ask(ctx, agent.Program{Path: path, Argv: []string{c.o.Bin, "--version"}, Env: vars, Dir: home, Key: key})
	if m := versionShape().FindStringSubmatch(a.Line); a.ExitCode == 0 && m != nil {
		return m[1]
	}
	return ""
}

// checkVersion refuses a program of an unknown version: only its flags hold it to its tier.
func (c *Codex) checkVersion(ctx context.Context, path string, spec ops.SessionSpec) (string, error) {
	v := c.versionOf(ctx, path, spec.Env)
	switch {
	case v.text == "":
		return "", agent.Refuse(ops.FailureTooOld,
			"%s does not tell its version, so it is not known whether it can be held to its tier: %s", c.o.Bin, hint)
	case agent.OlderVersion(v.text, OldestVersion):
		return "", agent.Refuse(ops.FailureTooOld,
			"%s is version %s, but at least %s is needed: update it with npm install -g @openai/codex@latest",
			c.o.Bin, v.text, OldestVersion)
	}
	return v.text, nil
}
