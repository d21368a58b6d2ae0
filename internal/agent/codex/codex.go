package codex

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"claudeops/internal/agent"
	"claudeops/internal/ops"
)

// Options say which program runs and what it gets to see.
type Options struct {
	Bin      string     // the program; "codex" when empty
	ExtraEnv []string   // names that pass through to the agent beside the usual ones
	Prices   ops.Prices // a model without one has no cost
}

// Codex is the adapter of the Codex CLI.
type Codex struct {
	o        Options
	versions agent.Versions

	mu    sync.Mutex
	tried map[string]bool // where the read-only sandbox worked once
}

// New makes an adapter.
func New(o Options) *Codex {
	o.Bin = cmp.Or(o.Bin, "codex")
	return &Codex{o: o, tried: make(map[string]bool), versions: agent.Versions{
		Bin: o.Bin, Shape: versionShape(), Wait: askTime, Needed: true,
		Variables: func(home string) agent.Variables { return agent.Variables{Set: map[string]string{"CODEX_HOME": home}} },
	}}
}

const name = "codex" // in messages

// Able tells what the program can do. Only a version that is known promises anything.
func (c *Codex) Able(ctx context.Context, env []string) ops.Ability {
	program, err := c.find(env)
	if err != nil {
		return ops.Ability{Program: program.File, Tells: true, Why: err.Error()}
	}
	v := c.versions.Of(ctx, program, env)
	return ops.Ability{
		Program: program.File, Identity: program.Identity(), Version: v.Text, Known: v.Text != "", Why: v.Why,
		Structured: v.AtLeast(OldestVersion),
		NoFiles:    true, Tells: true, Ungated: true,
	}
}

// find returns the program as it is started. What npm puts into PATH is a script that needs Node and starts the native program of its
// package: that one is taken itself.
func (c *Codex) find(env []string) (agent.Program, error) {
	program, err := agent.Find(c.o.Bin, hint, env)
	script, linkErr := filepath.EvalSymlinks(program.File)
	if linkErr != nil || filepath.Base(script) != "codex.js" {
		return program, err
	}
	for dir := filepath.Dir(script); dir != "/"; dir = filepath.Dir(dir) {
		for _, place := range []string{"node_modules/@openai/codex-" + agent.Platform(), "."} {
			found, _ := filepath.Glob(filepath.Join(dir, place, "vendor", "*", "bin", name)) // the pattern is right
			if len(found) == 1 {
				return agent.Program{Path: found[0], Argv: []string{c.o.Bin}, File: found[0]}, nil
			}
		}
	}
	return program, err
}

// Prepare makes everything a session needs except its process.
func (c *Codex) Prepare(ctx context.Context, spec ops.SessionSpec, walls agent.Walls) (*agent.Prepared, error) {
	program, err := c.find(spec.Env)
	if err != nil {
		return nil, err
	}
	version, err := c.checkVersion(ctx, program, spec)
	if err != nil {
		return nil, err
	}
	readOnly, err := sandboxFor(spec, walls)
	if err != nil {
		return nil, err
	}
	if spec.Resume != "" && !agent.ValidConversationID(spec.Resume) {
		return nil, agent.Refuse(ops.FailureResumeRefused, "%q is not a conversation of Codex", spec.Resume)
	}
	f, err := agent.MakeFolders(spec)
	if err != nil {
		return nil, err
	}
	home := filepath.Join(f.Home, homeName)
	if err := os.MkdirAll(home, 0o700); err != nil {
		return nil, agent.Refuse(ops.FailureStart, "the folder %s cannot be made: %v", home, err)
	}
	program.Env, program.Dir = c.environment(spec, f, home), f.Work
	p := &agent.Prepared{Name: name, Program: program}
	if readOnly {
		if err := c.trySandbox(ctx, spec, walls, p.Program); err != nil {
			return nil, err
		}
	}
	if err := setProgram(spec, f, readOnly, p); err != nil {
		p.RemoveFiles()
		return nil, err
	}
	p.Decoder = newDecoder(spec, home, version, c.o.Prices)
	return p, nil
}

// setProgram sets the arguments and the standard input of the program.
func setProgram(spec ops.SessionSpec, f agent.Folders, readOnly bool, p *agent.Prepared) error {
	schema := ""
	if spec.OutcomeJSON != "" {
		text, err := strictSchema(spec.OutcomeJSON)
		if err != nil {
			return agent.Refuse(ops.FailureStart, "the schema of the outcome cannot be used: %v", err)
		}
		schema = filepath.Join(f.Agent, fmt.Sprintf("codex-schema-%d.json", spec.Session.ID))
		if err := p.WriteFile(schema, string(text)); err != nil {
			return err
		}
	}
	args, prompt := arguments(spec, readOnly, schema)
	p.Program.Argv = append(p.Program.Argv, args...)
	var err error
	p.Program.Stdin, err = agent.TextFile(f.Agent, prompt)
	return err
}

// OldestVersion is the oldest Codex that may run: the one its flags and its stream were measured on.
const OldestVersion = "0.166.0"

const askTime = 10 * time.Second

// Compiled once; read only.
var versionShape = ops.Pattern(`^codex(?:-cli)? v?(\d+\.\d+\.\d+)\S*\s*$`)

// checkVersion refuses a program of an unknown version: only its flags hold it to its tier.
func (c *Codex) checkVersion(ctx context.Context, program agent.Program, spec ops.SessionSpec) (string, error) {
	v := c.versions.Of(ctx, program, spec.Env)
	switch {
	case v.Why != "":
		return "", agent.Refuse(ops.FailureStart, "%s", v.Why)
	case v.Text == "":
		return "", agent.Refuse(ops.FailureTooOld,
			"%s does not tell its version, so it is not known whether it can be held to its tier: %s", c.o.Bin, hint)
	case !v.AtLeast(OldestVersion):
		return "", agent.Refuse(ops.FailureTooOld,
			"%s is version %s, but at least %s is needed: %s", c.o.Bin, v.Text, OldestVersion, hint)
	}
	return v.Text, nil
}

// KnownVersion is the version that is installed: the one that the tests run.
const KnownVersion = "0.169.0"

// InstallCommand installs the version that is known to work.
const InstallCommand = "claudeops agent install codex"

// Back says how to get the version that is known to be held.
const Back = "install " + KnownVersion + " with " + InstallCommand + " or " + npmCommand

const (
	npmCommand = "npm install -g @openai/codex@" + KnownVersion
	whereItIs  = "or set CLAUDEOPS_CODEX_BIN to its path in the environment of claudeops"
	hint       = "install it with " + InstallCommand + " or " + npmCommand + ", " + whereItIs
)

// InstallHint says how to get Codex.
const InstallHint = "Install it with '" + InstallCommand + "' or '" + npmCommand + "', " + whereItIs

// KnownPackage is the package for this machine.
func KnownPackage() (agent.Package, error) {
	known := map[string]agent.Package{
		"linux-x64": {
			Sum:    "sha512-o05NyAOCDygSPRo1yinzxvkRSdmsZyBD9E7mbpmjRanSfM8lypqWtQgEo4XfNkwhuCR2aFu8mlGOsQGFXVbVww==",
			Folder: "package/vendor/x86_64-unknown-linux-musl",
		},
		"linux-arm64": {
			Sum:    "sha512-NZ/DaQUpcQmxmqee7Z9uC1rzw3GhSbooawcaTe1LN5Yk+WlinUKGdTXJgClRT/9ogQEEM9TWxYzvxPfj5G/xFg==",
			Folder: "package/vendor/aarch64-unknown-linux-musl",
		},
	}
	p, ok := known[agent.Platform()]
	if !ok {
		return p, agent.NoPackage("Codex", whereItIs)
	}
	p.Name, p.Version, p.Program, p.Path = "@openai/codex@"+KnownVersion+"-"+agent.Platform(), KnownVersion, name, "bin/codex"
	return p, nil
}
