package claude

import (
	"cmp"
	"context"
	"encoding/hex"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"time"

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
	o        Options
	versions agent.Versions
}

// New makes an adapter.
func New(o Options) *Claude {
	o.Bin = cmp.Or(o.Bin, "claude")
	if o.Clock == nil {
		o.Clock = time.Now
	}
	return &Claude{o: o, versions: agent.Versions{
		Bin: o.Bin, Args: o.Prefix, Shape: versionShape(), Wait: versionTime,
		Variables: func(string) agent.Variables {
			return agent.Variables{Defaults: map[string]string{"DISABLE_AUTOUPDATER": "1"}}
		},
	}}
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
	v := c.versions.Of(ctx, program, env)
	// Structured output is known to work as we use it from the oldest supported version on.
	return ops.Ability{
		Program: program.File, Identity: program.Identity(), Version: v.Text, Known: v.Text != "", Why: v.Why,
		Structured: v.AtLeast(OldestVersion), Tells: true,
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

// promptsVersion is the first that is known to take --permission-prompts.
const promptsVersion = "2.1.325"

// TooOld reports whether a known version may not run above Tier 1.
func TooOld(version string) bool { return agent.OlderVersion(version, OldestVersion) }

// Compiled once; read only.
var versionShape = ops.Pattern(`^\s*v?(\d+\.\d+\.\d+)\S*(\s+\(Claude Code\))?\s*$`)

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
	v := c.versions.Of(ctx, program, spec.Env)
	switch {
	case v.Text == "":
		warning := c.o.Bin + " does not tell its version, so it is run without what only a known version can do"
		return can, []string{agent.WithDetail(warning, v.Why)}, nil
	case v.AtLeast(OldestVersion):
		return abilities{
			version: v.Text, snapshots: true, budgets: true, retries: true, skills: true,
			prompts: v.AtLeast(promptsVersion),
		}, nil, nil
	case spec.Session.May() > ops.Tier1:
		return can, nil, agent.Refuse(ops.FailureTooOld,
			"%s is version %s, but %v needs at least %s: update it with %s or %s",
			c.o.Bin, v.Text, spec.Session.May(), OldestVersion, InstallCommand, npmCommand)
	}
	warning := fmt.Sprintf("%s is version %s; tiers above 1 need at least %s", c.o.Bin, v.Text, OldestVersion)
	return abilities{version: v.Text}, []string{warning}, nil
}

// KnownVersion is the version that is installed: the one that the tests run.
const KnownVersion = "2.1.328"

// KnownPackage is the package for this machine.
func KnownPackage() (agent.Package, error) {
	platform := agent.Platform()
	if found, _ := filepath.Glob("/lib/ld-musl-*.so.1"); len(found) > 0 {
		platform += "-musl"
	}
	sum := map[string]string{
		"linux-x64":        "sha512-KuzL+dBHgDCFTHJxwW+xuBJdVKfBsesGx2BBcTOG9sYDGoAD7b1hUV8rsTS4xjoJsB2SmeGraGjBiFuhrYuC9w==",
		"linux-arm64":      "sha512-zeWsClzx/rli8q6RsngKisu5BnuZ41J7Htp0qgsdZomaJCINiksf+mewQ/gyaylKajBZCoE9Z8R+OkLMjIkJig==",
		"linux-x64-musl":   "sha512-JiYOp70eNGo+NQGwfPOyzupUf4rVjXd2cXpyF1elbp97mR22tagM7qlCQ/8jGrKSce82/ZKkyXQo39IsQjnNLQ==",
		"linux-arm64-musl": "sha512-7WgJJKqF3+ZHug9afhVfiEouUME1Y4dApnwqXDK0N06ipIyTPmE7Mqi53FfmUZI7In651SI4ZN7A14xGoe3M2w==",
	}[platform]
	if sum == "" {
		return agent.Package{}, agent.NoPackage("Claude Code", whereItIs)
	}
	return agent.Package{
		Name: "@anthropic-ai/claude-code-" + platform + "@" + KnownVersion, Sum: sum, Version: KnownVersion,
		Program: "claude", Folder: "package", Path: "claude",
	}, nil
}
