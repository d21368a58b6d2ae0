// Package command runs any program as an agent: it gets the prompt on its standard input, prints what it does, and ends with
// an outcome in JSON. docs/command-agent.md is its contract.
package command

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"claudeops/internal/agent"
	"claudeops/internal/ops"
)

// Options say what the programs get to see.
type Options struct {
	ExtraEnv []string // names that pass through beside the usual ones
}

// The layers one of which a program needs: both keep it from changing files outside its own folders.
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
	program, err := agent.Find(spec.Command[0], hint, spec.Env)
	if err != nil {
		return nil, err
	}
	if !walled(walls, spec.Session.May()) {
		return nil, agent.Refuse(ops.FailureLayer,
			"no gate judges what a command does, so it runs only behind the sandbox layer %q or %q, and both are off: "+
				"set sandbox.mode: auto",
			LayerBubblewrap, LayerLandlock)
	}
	f, err := agent.MakeFolders(spec)
	if err != nil {
		return nil, err
	}
	p := &agent.Prepared{
		Name: filepath.Base(spec.Command[0]), Decoder: &decoder{model: spec.Session.Model},
	}
	program.Argv, program.Dir = append(program.Argv, spec.Command[1:]...), f.Work
	p.Program = program
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

// maxWhole bounds how much of the output is kept to be read as one document.
const maxWhole = 1 << 20

// decoder keeps what a program printed so far, as far as it matters for its end.
type decoder struct {
	model   string
	object  json.RawMessage // the last line that is an outcome
	last    string          // the last line that is not empty
	figures figures
	whole   strings.Builder
	dropped bool // whole is incomplete
}

// figures are what a program may report about its cost. Later lines add to earlier ones.
type figures struct {
	CostUSD    *float64 `json:"cost_usd"`
	Turns      *int64   `json:"num_turns"`
	Input      *int64   `json:"input_tokens"`
	Output     *int64   `json:"output_tokens"`
	CacheRead  *int64   `json:"cache_read_tokens"`
	CacheWrite *int64   `json:"cache_write_tokens"`
}

// Line reads one line. No tool calls of a program are known.
func (d *decoder) Line(text string) agent.Progress {
	if d.whole.Len()+len(text) < maxWhole {
		d.whole.WriteString(text + "\n")
	} else {
		d.dropped = true
	}
	trimmed := strings.TrimSpace(text)
	if trimmed == "" {
		return agent.Progress{}
	}
	d.last = strings.Clone(text)
	if !strings.HasPrefix(trimmed, "{") {
		return agent.Progress{}
	}
	var line struct {
		Type string `json:"type"`
		figures
	}
	switch {
	case isOutcome(trimmed):
		d.object = json.RawMessage(strings.Clone(trimmed))
	case json.Unmarshal([]byte(trimmed), &line) == nil && line.Type == "figures":
		d.figures.add(line.figures)
	}
	return agent.Progress{}
}

// Activities are what a line tells: nothing, whatever it says.
func (d *decoder) Activities(string) []ops.Activity { return nil }

// Finish adds the outcome and the figures. The exit code decides whether there is a result.
func (d *decoder) Finish(res *ops.RunResult, _ string) {
	res.Model = d.model
	res.ResultRead = res.Stop == ops.StopNone && *res.ExitCode == 0
	raw, summary := d.outcome()
	if res.ResultRead {
		res.Structured = raw
	}
	summary = cmp.Or(summary, d.last)
	res.Text = strings.TrimSpace(summary)
	d.figures.fill(res)
}

// isOutcome tells an outcome from any other object a program may print.
func isOutcome(text string) bool {
	var fields map[string]json.RawMessage
	if json.Unmarshal([]byte(text), &fields) != nil {
		return false
	}
	_, ok := fields["outcome"]
	return ok
}

// outcome returns the outcome and its summary: the last line that is one, or the whole output.
func (d *decoder) outcome() (raw json.RawMessage, summary string) {
	raw = d.object
	if whole := strings.TrimSpace(d.whole.String()); raw == nil && !d.dropped && isOutcome(whole) {
		raw = json.RawMessage(whole)
	}
	var said struct {
		Summary string `json:"summary"`
	}
	// One without a summary is refused later, by what reads outcomes.
	_ = json.Unmarshal(raw, &said)
	return raw, said.Summary
}

func (f *figures) add(more figures) {
	f.CostUSD = sum(f.CostUSD, more.CostUSD)
	f.Turns = sum(f.Turns, more.Turns)
	f.Input, f.Output = sum(f.Input, more.Input), sum(f.Output, more.Output)
	f.CacheRead, f.CacheWrite = sum(f.CacheRead, more.CacheRead), sum(f.CacheWrite, more.CacheWrite)
}

// sum adds what was reported, unless it cannot be.
func sum[N int64 | float64](to, by *N) *N {
	switch {
	case by == nil || *by < 0:
		return to
	case to == nil:
		return by
	}
	return ops.Ptr(*to + *by)
}

func (f figures) fill(res *ops.RunResult) {
	res.CostUSD, res.NumTurns = f.CostUSD, f.Turns
	res.InputTokens, res.OutputTokens = f.Input, f.Output
	res.CacheReadTokens, res.CacheWriteTokens = f.CacheRead, f.CacheWrite
}
