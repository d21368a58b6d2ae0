package agent

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"claudeops/internal/ops"
)

const (
	versionTime = 5 * time.Second
	// oldestVersion is the first whose hooks can be told to block when they fail.
	oldestVersion = "2.1.295"
)

// programVersion is what a program said of itself. It holds until the program is replaced.
type programVersion struct {
	path    string
	size    int64
	changed time.Time
	text    string
	known   bool
}

// Version asks the program for its version. It is asked once; known is false when it does not tell.
func (c *Claude) Version(ctx context.Context) (version string, known bool) {
	path, err := c.find(nil)
	if err != nil {
		return "", false
	}
	v := c.versionOf(ctx, path, c.o.Env)
	return v.text, v.known
}

// knownVersion returns the version if the program was asked before.
func (c *Claude) knownVersion(path string) *programVersion {
	c.mu.Lock()
	defer c.mu.Unlock()
	info, err := os.Stat(path)
	if v := c.version; err == nil && v != nil && v.path == path && v.size == info.Size() && v.changed.Equal(info.ModTime()) {
		return v
	}
	return nil
}

func (c *Claude) versionOf(ctx context.Context, path string, env []string) programVersion {
	if v := c.knownVersion(path); v != nil {
		return *v
	}
	v := programVersion{path: path}
	if info, err := os.Stat(path); err == nil {
		v.size, v.changed = info.Size(), info.ModTime()
	}
	asking, cancel := context.WithTimeout(ctx, versionTime)
	defer cancel()
	v.text, v.known = c.askVersion(asking, path, env)
	if ctx.Err() == nil {
		c.mu.Lock()
		c.version = &v
		c.mu.Unlock()
	}
	return v
}

// Compiled once; read only.
var versionShape = regexp.MustCompile(`^v?(\d+\.\d+\.\d+)\S*(\s+\(Claude Code\))?\s*$`)

// askVersion runs the program with --version, as carefully as a session.
func (c *Claude) askVersion(ctx context.Context, path string, env []string) (version string, known bool) {
	home, err := os.MkdirTemp("", "claudeops-version-*")
	if err != nil {
		return "", false
	}
	defer func() { _ = os.RemoveAll(home) }()
	vars := passing(env, isPlain)
	vars.standard("PATH", standardPath)
	vars.standard("DISABLE_AUTOUPDATER", "1")
	vars["HOME"] = home
	key := "version-" + uuid.NewString()
	vars[keyName] = key
	argv := append(append([]string{c.o.Bin}, c.o.Argv0Extra...), "--version")
	a := ask(ctx, command{path: path, argv: argv, env: vars.list(), dir: home, key: key}, c.o.Logger)
	match := versionShape.FindStringSubmatch(strings.TrimSpace(a.Line))
	if a.ExitCode != 0 || match == nil {
		return "", false
	}
	return match[1], true
}

// checkVersion refuses a program that is known to be too old for the tier.
func (c *Claude) checkVersion(ctx context.Context, r *readied, path string, spec ops.SessionSpec) error {
	if c.o.Ability != nil {
		r.version, r.budgets = c.o.Ability.Version, c.o.Ability.Known
		return nil
	}
	v := c.versionOf(ctx, path, spec.Env)
	switch {
	case !v.known:
		r.warnings = append(r.warnings, fmt.Sprintf("%s does not tell its version, so it is run without what only a known version can do", c.o.Bin))
	case !olderVersion(v.text, oldestVersion):
		r.version, r.snapshots, r.budgets, r.retries = v.text, true, true, true
	case spec.Session.May() > ops.Tier1:
		return &startError{class: ops.FailureTooOld, text: fmt.Sprintf(
			"%s is version %s, but %v needs at least %s: update it with npm install -g @anthropic-ai/claude-code@latest",
			c.o.Bin, v.text, spec.Session.May(), oldestVersion)}
	default:
		r.version = v.text
		r.warnings = append(r.warnings, fmt.Sprintf("%s is version %s; tiers above 1 need at least %s", c.o.Bin, v.text, oldestVersion))
	}
	return nil
}

// olderVersion reports whether version a comes before b.
func olderVersion(a, b string) bool {
	left, right := strings.Split(a, "."), strings.Split(b, ".")
	for i := range min(len(left), len(right)) {
		x, _ := strconv.Atoi(left[i])
		y, _ := strconv.Atoi(right[i])
		if d := cmp.Compare(x, y); d != 0 {
			return d < 0
		}
	}
	return false
}
