package acp

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"claudeops/internal/agent"
	"claudeops/internal/ops"
)

// Options say which CLI runs and what it gets to see.
type Options struct {
	Profile  Profile
	Env      []string   // NAME=value, the supervisor's environment, to find the program in
	ExtraEnv []string   // names that pass through to the agent beside the usual ones
	Prices   ops.Prices // where a CLI tells tokens and no cost
	// Trust holds which versions were tried. Nil trusts every version; only tests do that.
	Trust Trust
	Clock ops.Clock
}

// Trust keeps what the trials of CLIs showed.
type Trust interface {
	// Canary returns the trial of a version; ops.ErrNotFound when there was none.
	Canary(ctx context.Context, profile, version, settings string) (ops.Canary, error)
	SaveCanary(ctx context.Context, c ops.Canary) error
}

// The layers one of which a CLI needs above Tier 1: both keep it from changing files outside its own folders.
const (
	LayerBubblewrap = "bubblewrap"
	LayerLandlock   = "landlock"
)

// ACP is the adapter of one CLI.
type ACP struct {
	o Options

	mu    sync.Mutex
	known probed
}

// New makes an adapter.
func New(o Options) *ACP { return &ACP{o: o} }

// Profile is that of the CLI.
func (a *ACP) Profile() Profile { return a.o.Profile }

func (a *ACP) hint() string {
	return cmp.Or(a.o.Profile.Hint, "correct the command of the profile") + ", or set command of the profile in agent.acp"
}

func (a *ACP) find(env []string) (string, error) {
	if len(a.o.Profile.Command) == 0 {
		return "", agent.Refuse(ops.FailureNotFound, "the profile %s of agent.acp has no command", a.o.Profile.Name)
	}
	return agent.Find(a.o.Profile.Command[0], a.hint(), env, a.o.Env)
}

// Able tells what the program can do. Its answers are read from its last message, whatever its version.
func (a *ACP) Able(ctx context.Context, env []string) ops.Ability {
	path, err := a.find(env)
	if err != nil {
		return ops.Ability{Tells: true, Why: err.Error()}
	}
	p := a.probe(ctx, path, env)
	return ops.Ability{Version: p.version, Known: p.version != "", Why: p.died, Structured: p.version != "", NoFiles: true, Tells: true}
}

// Prepare makes everything a session needs except its process.
func (a *ACP) Prepare(ctx context.Context, spec ops.SessionSpec, walls agent.Walls) (*agent.Prepared, error) {
	if err := a.check(spec, walls); err != nil {
		return nil, err
	}
	path, err := a.find(spec.Env)
	if err != nil {
		return nil, err
	}
	cli, err := a.trusted(ctx, path, spec)
	if err != nil {
		return nil, err
	}
	if spec.Gate.Allowed == nil {
		return nil, agent.Refuse(ops.FailureStart,
			"%s did not tell its version when the session was made, and does now: start it again", a.o.Profile.Name)
	}
	if spec.Resume != "" && (!agent.ValidConversationID(spec.Resume) || cli.told.continues() == "" || a.o.Profile.Record == "") {
		return nil, agent.Refuse(ops.FailureResumeRefused, "%s cannot continue conversation %q", a.o.Profile.Name, spec.Resume)
	}
	return a.prepare(spec, path, cli, nil)
}

// check refuses a session that nothing would hold.
func (a *ACP) check(spec ops.SessionSpec, walls agent.Walls) error {
	name, tier := a.o.Profile.Name, spec.Session.May()
	if spec.Gate == nil || spec.Gate.Ask == nil {
		return agent.Refuse(ops.FailureGate,
			"%s asks before it runs a tool, and the guard, which would answer, is off: switch it on (guard.enabled: true)", name)
	}
	if tier > ops.Tier1 && !walled(walls, tier) {
		return agent.Refuse(ops.FailureLayer,
			"an agent CLI behind the Agent Client Protocol need not ask before it runs a tool, so at %v %s runs only behind the sandbox "+
				"layer %q or %q, and both are off: switch one on (sandbox.mode: auto or sandbox.bubblewrap: true), or give this tier to "+
				"another agent", tier, name, LayerBubblewrap, LayerLandlock)
	}
	return nil
}

// walled reports whether a layer keeps the program from changing files outside its own folders.
func walled(walls agent.Walls, tier ops.Tier) bool {
	if walls == nil {
		return false
	}
	on := walls.Layers(tier)
	return slices.Contains(on, LayerBubblewrap) || slices.Contains(on, LayerLandlock)
}

// trusted refuses a version that was not shown to ask.
func (a *ACP) trusted(ctx context.Context, path string, spec ops.SessionSpec) (probed, error) {
	cli := a.probe(ctx, path, spec.Env)
	name := a.o.Profile.Name
	if cli.died != "" {
		return cli, agent.Refuse(ops.FailureStart, "%s", cli.died)
	}
	if cli.version == "" {
		return cli, agent.Refuse(ops.FailureTooOld,
			"%s does not tell its version by the Agent Client Protocol (%s), so nothing is known of whether it asks before it runs a tool",
			name, cmp.Or(cli.why, "it gave none"))
	}
	if a.o.Trust == nil {
		return cli, nil
	}
	c, err := a.o.Trust.Canary(ctx, name, cli.version, a.o.Profile.Digest())
	switch {
	case err != nil:
		return cli, agent.Refuse(ops.FailureTooOld, "%s %s does not run, because it was not tried whether it asks before it runs a tool: %v",
			name, cli.version, err)
	case !c.Passed:
		return cli, untrusted(c)
	}
	return cli, nil
}

func untrusted(c ops.Canary) error {
	return agent.Refuse(ops.FailureTooOld,
		"%s %s does not run at any tier: %s; use another version, or change its settings in agent.acp", c.Profile, c.Version, c.Detail)
}

// prepare makes a session of a CLI, or a trial.
func (a *ACP) prepare(spec ops.SessionSpec, path string, cli probed, t *trial) (*agent.Prepared, error) {
	f, err := agent.MakeFolders(spec)
	if err != nil {
		return nil, err
	}
	pl := a.places(spec, f)
	p := &agent.Prepared{
		Name:  a.o.Profile.Name,
		Attrs: []slog.Attr{slog.String("profile", a.o.Profile.Name), slog.String("version", cli.version)},
		Program: agent.Program{
			Path: path, Dir: f.Work, Argv: append([]string{path}, pl.all(a.o.Profile.Command[1:])...), Env: a.environment(spec, f, pl),
		},
	}
	if folder := a.o.Profile.Beside; folder != "" {
		p.Attachments = func(string) string { return pl.fill(folder) }
	}
	if err := a.writeFiles(f, pl, p); err != nil {
		p.RemoveFiles()
		return nil, err
	}
	stdin, in, err := os.Pipe()
	if err != nil {
		p.RemoveFiles()
		return nil, agent.Refuse(ops.FailureStart, "the input of %s cannot be made: %v", p.Name, err)
	}
	c := &client{
		spec: spec, profile: a.o.Profile, version: cli.version, work: f.Work, wire: &wire{file: in}, trial: t, prompt: prompt(spec),
		pending: map[string]string{}, seen: map[string]bool{}, calls: newLedger(f.Work, a.o.Profile.AsksLate),
	}
	if t != nil {
		c.prompt = t.begin(f.Work)
	}
	p.Program.Stdin, p.Close = stdin, c.wire.close
	p.Decoder = &decoder{client: c, prices: a.o.Prices, places: pl, told: map[string]bool{}}
	c.begin()
	return p, nil
}

func prompt(spec ops.SessionSpec) string {
	text := spec.Prompt
	if spec.SystemPrompt != "" {
		text = spec.SystemPrompt + "\n\n" + text
	}
	if spec.OutcomeJSON != "" {
		text += instruction(spec.OutcomeJSON)
	}
	return strings.ToValidUTF8(strings.ReplaceAll(text, "\x00", ""), "\uFFFD")
}

// places are what the texts of the profile name.
func (a *ACP) places(spec ops.SessionSpec, f agent.Folders) places {
	url := func(variable, usual string) string {
		return strings.TrimRight(cmp.Or(agent.Variable(spec.Env, variable), usual), "/")
	}
	return newPlaces(spec.Session.Model,
		map[string]string{"home": f.Home, "config": f.Config, "work": f.Work},
		map[string]string{
			"anthropic_url": url(anthropicURL, "https://api.anthropic.com"),
			"openai_url":    url(openaiURL, "https://api.openai.com/v1"),
			"gemini_url":    url(geminiURL, "https://generativelanguage.googleapis.com"),
		})
}

// environment builds the environment of the program.
func (a *ACP) environment(spec ops.SessionSpec, f agent.Folders, pl places) []string {
	passes := func(name string) bool {
		return slices.Contains(a.o.Profile.Keys, name) || slices.Contains(a.o.Profile.Passes, name) || slices.Contains(a.o.ExtraEnv, name)
	}
	set := map[string]string{}
	for name, value := range a.o.Profile.Env {
		set[name] = pl.fill(value)
	}
	return agent.Environment(spec, f, agent.Variables{Passes: passes, Set: set})
}

// writeFiles writes the settings of the CLI into its own folders.
func (a *ACP) writeFiles(f agent.Folders, pl places, p *agent.Prepared) error {
	for name, text := range a.o.Profile.Files {
		file := filepath.Clean(pl.fill(name))
		if !below(f.Home, file) && !below(f.Config, file) {
			return agent.Refuse(ops.FailureStart, "the file %s of the profile %s is not below {home} or {config}", name, a.o.Profile.Name)
		}
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			return agent.Refuse(ops.FailureStart, "a folder of the agent cannot be made: %v", err)
		}
		if err := p.WriteFile(file, pl.fill(text)); err != nil {
			return err
		}
	}
	return nil
}

func below(dir, file string) bool {
	rel, err := filepath.Rel(dir, file)
	return err == nil && rel != "." && filepath.IsLocal(rel)
}

// String names the adapter in logs.
func (a *ACP) String() string { return fmt.Sprintf("acp (%s)", a.o.Profile.Name) }
