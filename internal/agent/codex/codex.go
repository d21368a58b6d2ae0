package codex

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"

	"claudeops/internal/agent"
	"claudeops/internal/ops"
)

// Options say which program runs and what it gets to see.
type Options struct {
	Bin      string     // the program; "codex" when empty
	Env      []string   // NAME=value, the supervisor's environment, to find the program in
	ExtraEnv []string   // names that pass through to the agent beside the usual ones
	Prices   ops.Prices // a model without one has no cost
	// Network lets the commands of Tier 1 use the network: without it the read-only sandbox leaves them only files to look
	// at, with it they reach whatever listens on this host, the Docker socket included if its permissions allow.
	Network bool
}

// Codex is the adapter of the Codex CLI.
type Codex struct {
	o Options

	mu      sync.Mutex
	version programVersion
	tried   map[string]bool // where the read-only sandbox worked once
}

// New makes an adapter.
func New(o Options) *Codex {
	if o.Bin == "" {
		o.Bin = "codex"
	}
	return &Codex{o: o, tried: make(map[string]bool)}
}

const (
	name = "codex" // in messages
	hint = "install it with npm install -g @openai/codex, or set agent.codex_bin to the program"
)

// Able tells what the program can do. Only a version that is known promises anything.
func (c *Codex) Able(ctx context.Context, env []string) ops.Ability {
	path, err := agent.Find(c.o.Bin, hint, env, c.o.Env)
	if err != nil {
		return ops.Ability{}
	}
	v := c.versionOf(ctx, path, env)
	return ops.Ability{
		Version: v.text, Known: v.text != "", Structured: v.text != "" && !agent.OlderVersion(v.text, OldestVersion),
		NoFiles: true, Ungated: true,
	}
}

// Prepare makes everything a session needs except its process.
func (c *Codex) Prepare(ctx context.Context, spec ops.SessionSpec, walls agent.Walls) (*agent.Prepared, error) {
	path, err := agent.Find(c.o.Bin, hint, spec.Env, c.o.Env)
	if err != nil {
		return nil, err
	}
	version, err := c.checkVersion(ctx, path, spec)
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
	home, err := makeHome(f)
	if err != nil {
		return nil, err
	}
	p := &agent.Prepared{Name: name, Program: agent.Program{Path: path, Env: c.environment(spec, f, home), Dir: f.Work}}
	if readOnly {
		if err := c.trySandbox(ctx, spec, walls, p.Program); err != nil {
			return nil, err
		}
	}
	if err := c.setProgram(spec, f, readOnly, p); err != nil {
		p.RemoveFiles()
		return nil, err
	}
	p.Decoder = newDecoder(spec, home, version, c.o.Prices)
	return p, nil
}

// setProgram sets the arguments and the standard input of the program.
func (c *Codex) setProgram(spec ops.SessionSpec, f agent.Folders, readOnly bool, p *agent.Prepared) error {
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
	args, prompt := c.arguments(spec, readOnly, schema)
	p.Program.Argv = append([]string{c.o.Bin}, args...)
	var err error
	p.Program.Stdin, err = agent.TextFile(f.Agent, prompt)
	return err
}
