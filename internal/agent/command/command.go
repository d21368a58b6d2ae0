// Package command runs any program as an agent: it gets the prompt on its standard input, prints what it does, and ends with
// an outcome in JSON. docs/command-agent.md is its contract.
package command

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"

	"claudeops/internal/agent"
	"claudeops/internal/ops"
)

// Options say what the programs get to see and what holds them.
type Options struct {
	Env      []string // NAME=value, the supervisor's environment, to find a program in
	ExtraEnv []string // names that pass through beside the usual ones
	// Trusted: the operator vouches for the programs, so they also run without walls. No gate judges what they do.
	Trusted bool
}

// The layers one of which a program that is not trusted needs: both keep it from changing files outside its own folders.
const (
	LayerBubblewrap = "bubblewrap"
	LayerLandlock   = "landlock"
)

// Command is the adapter of any program. The session names the program.
type Command struct {
	o Options
}

// New makes an adapter.
func New(o Options) *Command { return &Command{o: o} }

// Able tells what the programs can do: by contract they end with an outcome.
func (c *Command) Able(context.Context, []string) ops.Ability {
	return ops.Ability{Version: "command", Known: true, Structured: true, NoFiles: true, Ungated: true}
}

// Activities reads from one stored line of output what the session did: nothing, whatever it says.
func (c *Command) Activities(string) []ops.Activity { return nil }

// Gated is false: nothing of such a program is judged.
func (c *Command) Gated(ops.SessionSpec, agent.Walls) bool { return false }

const hint = "name the program in the command of the handler"

// Prepare makes everything a session needs except its process.
func (c *Command) Prepare(_ context.Context, spec ops.SessionSpec, walls agent.Walls) (*agent.Prepared, error) {
	if len(spec.Command) == 0 || spec.Command[0] == "" {
		return nil, agent.Refuse(ops.FailureNotFound, "handler %s names no program: %s", spec.Session.Handler, hint)
	}
	if spec.Resume != "" {
		return nil, agent.Refuse(ops.FailureResumeRefused, "a command cannot continue a conversation")
	}
	path, err := agent.Find(spec.Command[0], hint, spec.Env, c.o.Env)
	if err != nil {
		return nil, err
	}
	if !c.o.Trusted && !walled(walls, spec.Session.May()) {
		return nil, agent.Refuse(ops.FailureLayer,
			"no gate judges what a command does, so it runs only behind the sandbox layer %q or %q, and both are off: "+
				"switch one on (sandbox.mode: auto or sandbox.bubblewrap: true), or vouch for your programs (agent.command_trusted: true)",
			LayerBubblewrap, LayerLandlock)
	}
	f, err := agent.MakeFolders(spec)
	if err != nil {
		return nil, err
	}
	p := &agent.Prepared{
		Name: filepath.Base(spec.Command[0]), Decoder: &decoder{model: spec.Session.Model},
		Program: agent.Program{Path: path, Argv: spec.Command, Dir: f.Work},
	}
	if err := c.addFiles(spec, f, p); err != nil {
		p.RemoveFiles()
		return nil, err
	}
	return p, nil
}

// walled reports whether a layer keeps the program from changing files outside its own folders.
func walled(walls agent.Walls, tier ops.Tier) bool {
	if walls == nil {
		return false
	}
	on := walls.Layers(tier)
	return slices.Contains(on, LayerBubblewrap) || slices.Contains(on, LayerLandlock)
}

// addFiles writes the schema and the prompt, and sets the environment that names them.
func (c *Command) addFiles(spec ops.SessionSpec, f agent.Folders, p *agent.Prepared) error {
	set := map[string]string{"CLAUDEOPS_MODEL": spec.Session.Model}
	if spec.OutcomeJSON != "" {
		schema := filepath.Join(f.Agent, fmt.Sprintf("command-schema-%d.json", spec.Session.ID))
		if err := p.WriteFile(schema, spec.OutcomeJSON); err != nil {
			return err
		}
		set["CLAUDEOPS_OUTCOME_SCHEMA"] = schema
	}
	passes := func(name string) bool {
		// A key is of use only with the address that takes it.
		return slices.Contains(c.o.ExtraEnv, name) ||
			slices.ContainsFunc(c.o.ExtraEnv, func(key string) bool { return agent.BaseURLVariable(key) == name })
	}
	p.Program.Env = agent.Environment(spec, f, agent.Variables{Passes: passes, Set: set})
	var err error
	p.Program.Stdin, err = agent.TextFile(f.Agent, prompt(spec))
	return err
}

func prompt(spec ops.SessionSpec) string {
	if spec.SystemPrompt == "" {
		return spec.Prompt + "\n"
	}
	return spec.SystemPrompt + "\n\n" + spec.Prompt + "\n"
}
