package claude

import (
	"context"
	"encoding/hex"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"claudeops/internal/agent"
	"claudeops/internal/ops"
)

// Options say which program runs and what it gets to see.
type Options struct {
	Bin      string       // the program; "claude" when empty
	Prefix   []string     // arguments before the usual ones: the built-in scripted agent is a subcommand
	Env      []string     // NAME=value, the supervisor's environment, to find the program in and for --version
	ExtraEnv []string     // names that pass through beside the usual ones
	Ability  *ops.Ability // of a program that need not be asked for its version
	Clock    ops.Clock
}

// Claude is the adapter of Claude Code.
type Claude struct {
	o Options

	mu      sync.Mutex
	version *programVersion
}

// New makes an adapter.
func New(o Options) *Claude {
	if o.Bin == "" {
		o.Bin = "claude"
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	return &Claude{o: o}
}

// InstallHint says how to get Claude Code. Without its version, npm installs one that is too old where Node is older than 22.
const InstallHint = "Install it with '" + InstallCommand + "' or '" + npmCommand + "', " + whereItIs

// InstallCommand installs the version that is known to work.
const InstallCommand = "claudeops agent install"

// Back says how to get the version that is known to be held.
const Back = "install " + KnownVersion + " with " + InstallCommand + " or " + npmCommand

const (
	hint       = "install it with " + InstallCommand + " or " + npmCommand + ", " + whereItIs
	npmCommand = "npm install -g @anthropic-ai/claude-code@" + KnownVersion
	whereItIs  = "or set CLAUDEOPS_CLAUDE_BIN to its path in the environment of claudeops"
)

// Able tells what the program can do. Only a version that is known promises anything.
func (c *Claude) Able(ctx context.Context, env []string) ops.Ability {
	if c.o.Ability != nil {
		return *c.o.Ability
	}
	program, err := agent.Find(c.o.Bin, hint, env, c.o.Env)
	if err != nil {
		return ops.Ability{Program: program.File, Tells: true, Why: err.Error()}
	}
	v := c.versionOf(ctx, program, env)
	// Structured output is known to work as we use it from the oldest supported version on.
	return ops.Ability{
		Program: program.File, Identity: program.Identity(), Version: v.text, Known: v.known, Why: v.why,
		Structured: v.known && !TooOld(v.text), Tells: true,
	}
}

// Prepare makes everything a session needs except its process.
func (c *Claude) Prepare(ctx context.Context, spec ops.SessionSpec, _ agent.Walls) (*agent.Prepared, error) {
	program, err := agent.Find(c.o.Bin, hint, spec.Env, c.o.Env)
	if err != nil {
		return nil, err
	}
	can, warnings, err := c.checkVersion(ctx, program, spec)
	if err != nil {
		return nil, err
	}
	f, err := agent.MakeFolders(spec)
	if err != nil {
		return nil, err
	}
	settings, err := settingsFor(spec, f)
	if err != nil {
		return nil, err
	}
	p := &agent.Prepared{
		Name: filepath.Base(c.o.Bin), Warnings: warnings, Verify: settings.verify, Attachments: longOutputs,
		Attrs: []slog.Attr{slog.String("settings", hex.EncodeToString(settings.sum[:8]))},
	}
	args, stdin, err := arguments(spec, f, p, settings, can)
	if err != nil {
		p.RemoveFiles()
		return nil, err
	}
	env := c.environment(spec, f)
	can.retries = can.retries && !slices.Contains(env, maxRetries+"=0")
	program.Argv, program.Env, program.Dir, program.Stdin = slices.Concat(program.Argv, c.o.Prefix, args), env, f.Work, stdin
	p.Program = program
	p.Decoder = newDecoder(spec, p.Name, f.Config, can, c.o.Clock)
	return p, nil
}

const versionTime = 5 * time.Second

// OldestVersion is the oldest Claude Code that may run above Tier 1: the first whose hooks can be told to block when they fail.
const OldestVersion = "2.1.295"

// TooOld reports whether a known version may not run above Tier 1.
func TooOld(version string) bool { return agent.OlderVersion(version, OldestVersion) }

// programVersion is what a program said of itself. It holds until the program is replaced.
type programVersion struct {
	path    string
	size    int64
	changed time.Time
	text    string
	known   bool
	why     string // it does not run
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

func (c *Claude) versionOf(ctx context.Context, program agent.Program, env []string) programVersion {
	if v := c.knownVersion(program.File); v != nil {
		return *v
	}
	v := programVersion{path: program.File}
	if info, err := os.Stat(v.path); err == nil {
		v.size, v.changed = info.Size(), info.ModTime()
	}
	asking, cancel := context.WithTimeout(ctx, versionTime)
	defer cancel()
	answer := c.askVersion(asking, program, env)
	if died := answer.Died(); died != "" {
		v.why = c.o.Bin + " does not run: " + died
	} else if match := versionShape.FindStringSubmatch(strings.TrimSpace(answer.Line)); match != nil {
		v.text, v.known = match[1], true
	}
	if ctx.Err() == nil && answer.ExitCode <= 0 { // what a program that failed lacks may be installed without changing it
		c.mu.Lock()
		c.version = &v
		c.mu.Unlock()
	}
	return v
}

// Compiled once; read only.
var versionShape = regexp.MustCompile(`^v?(\d+\.\d+\.\d+)\S*(\s+\(Claude Code\))?\s*$`)

// askVersion runs the program with --version.
func (c *Claude) askVersion(ctx context.Context, program agent.Program, env []string) agent.Answer {
	home, err := os.MkdirTemp("", "claudeops-version-*")
	if err != nil {
		return agent.Answer{ExitCode: -1, Error: err.Error()}
	}
	defer func() { _ = os.RemoveAll(home) }()
	key := "version-" + uuid.NewString()
	spec := ops.SessionSpec{Env: env, Session: ops.Session{Key: key}}
	program.Argv, program.Dir, program.Key = slices.Concat(program.Argv, c.o.Prefix, []string{"--version"}), home, key
	program.Env = agent.Environment(spec, agent.Folders{Home: home, State: home}, agent.Variables{
		Defaults: map[string]string{"DISABLE_AUTOUPDATER": "1"},
	})
	return agent.Ask(ctx, program)
}

// abilities are what the version of a program says that it can do.
type abilities struct {
	version string
	// snapshots: the program keeps the system prompt and the tools of a conversation it continues, unless told otherwise.
	snapshots bool
	budgets   bool // it stops by itself when it has spent what it may
	retries   bool // it repeats a call of the model that failed
	skills    bool // it can be told to load none
	prompts   bool // it can be told that nobody answers its prompts
}

// checkVersion refuses a program that is known to be too old for the tier.
func (c *Claude) checkVersion(
	ctx context.Context, program agent.Program, spec ops.SessionSpec,
) (can abilities, warnings []string, err error) {
	if a := c.o.Ability; a != nil {
		return abilities{version: a.Version, budgets: a.Known}, nil, nil
	}
	v := c.versionOf(ctx, program, spec.Env)
	switch {
	case !v.known:
		warning := c.o.Bin + " does not tell its version, so it is run without what only a known version can do"
		return can, []string{agent.WithDetail(warning, v.why)}, nil
	case !TooOld(v.text):
		return abilities{
			version: v.text, snapshots: true, budgets: true, retries: true, skills: true,
			prompts: !agent.OlderVersion(v.text, KnownVersion),
		}, nil, nil
	case spec.Session.May() > ops.Tier1:
		return can, nil, agent.Refuse(ops.FailureTooOld,
			"%s is version %s, but %v needs at least %s: update it with %s or %s",
			c.o.Bin, v.text, spec.Session.May(), OldestVersion, InstallCommand, npmCommand)
	}
	warning := fmt.Sprintf("%s is version %s; tiers above 1 need at least %s", c.o.Bin, v.text, OldestVersion)
	return abilities{version: v.text}, []string{warning}, nil
}
