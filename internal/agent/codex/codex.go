package codex

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/google/uuid"

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
		return ops.Ability{Tells: true, Why: err.Error()}
	}
	v := c.versionOf(ctx, path, env)
	return ops.Ability{
		Version: v.text, Known: v.text != "", Structured: v.text != "" && !agent.OlderVersion(v.text, OldestVersion),
		NoFiles: true, Tells: true, Ungated: true,
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

// OldestVersion is the oldest Codex that may run: the one its flags and its stream were measured on.
const OldestVersion = "0.166.0"

const askTime = 10 * time.Second

// programVersion is what a program said of itself. It holds until the program is replaced.
type programVersion struct {
	path    string
	size    int64
	changed time.Time
	text    string // empty when it does not tell
	why     string // it does not run
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
	v.text, v.why = c.askVersion(asking, path, env)
	if ctx.Err() == nil && v.text != "" {
		c.mu.Lock()
		c.version = v
		c.mu.Unlock()
	}
	return v
}

func (c *Codex) askVersion(ctx context.Context, path string, env []string) (version, why string) {
	home, err := os.MkdirTemp("", "claudeops-version-*")
	if err != nil {
		return "", ""
	}
	defer func() { _ = os.RemoveAll(home) }()
	key := "version-" + uuid.NewString()
	spec := ops.SessionSpec{Env: env, Session: ops.Session{Key: key}}
	vars := agent.Environment(spec, agent.Folders{Home: home, State: home}, agent.Variables{Set: map[string]string{"CODEX_HOME": home}})
	a := agent.Ask(ctx, agent.Program{Path: path, Argv: []string{c.o.Bin, "--version"}, Env: vars, Dir: home, Key: key})
	if m := versionShape().FindStringSubmatch(a.Line); a.ExitCode == 0 && m != nil {
		return m[1], ""
	}
	return "", a.Died()
}

// checkVersion refuses a program of an unknown version: only its flags hold it to its tier.
func (c *Codex) checkVersion(ctx context.Context, path string, spec ops.SessionSpec) (string, error) {
	v := c.versionOf(ctx, path, spec.Env)
	switch {
	case v.why != "":
		return "", agent.Refuse(ops.FailureStart, "%s does not run: %s", c.o.Bin, v.why)
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
