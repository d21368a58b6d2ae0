package claude

import (
	"context"
	"encoding/hex"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"claudeops/internal/agent"
	"claudeops/internal/ops"
)

// Options say which program runs and what it gets to see.
type Options struct {
	Bin       string       // the program; "claude" when empty
	Prefix    []string     // arguments before the usual ones: the built-in scripted agent is a subcommand
	Env       []string     // NAME=value, the supervisor's environment, to find the program in and for --version
	ExtraEnv  []string     // names that pass through beside the usual ones
	Ability   *ops.Ability // of a program that need not be asked for its version
	CountRuns bool         // tell the program which sessions its cycle started before: the scripted agent needs it
	Clock     ops.Clock
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

// InstallHint says how to get Claude Code.
const InstallHint = "Install it with 'npm install -g @anthropic-ai/claude-code', " + whereItIs

const hint = "install it with npm install -g @anthropic-ai/claude-code, " + whereItIs

const whereItIs = "or set CLAUDEOPS_CLAUDE_BIN to its path in the environment of claudeops"

// Able tells what the program can do. Only a version that is known promises anything.
func (c *Claude) Able(ctx context.Context, env []string) ops.Ability {
	if c.o.Ability != nil {
		return *c.o.Ability
	}
	path, err := agent.Find(c.o.Bin, hint, env, c.o.Env)
	if err != nil {
		return ops.Ability{}
	}
	v := c.versionOf(ctx, path, env)
	// Structured output is known to work as we use it from the oldest supported version on.
	return ops.Ability{Version: v.text, Known: v.known, Structured: v.known && !TooOld(v.text)}
}

// Prepare makes everything a session needs except its process.
func (c *Claude) Prepare(ctx context.Context, spec ops.SessionSpec, _ agent.Walls) (*agent.Prepared, error) {
	path, err := agent.Find(c.o.Bin, hint, spec.Env, c.o.Env)
	if err != nil {
		return nil, err
	}
	can, warnings, err := c.checkVersion(ctx, path, spec)
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
	env, err := c.environment(spec, f)
	if err != nil {
		p.RemoveFiles()
		return nil, err
	}
	can.retries = can.retries && !slices.Contains(env, maxRetries+"=0")
	p.Program = agent.Program{
		Path: path, Argv: slices.Concat([]string{c.o.Bin}, c.o.Prefix, args), Env: env, Dir: f.Work, Stdin: stdin,
	}
	p.Decoder = newDecoder(spec, p.Name, f.Config, can, c.o.Clock)
	return p, nil
}
