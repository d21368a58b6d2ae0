package scripted

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"claudeops/internal/ops"
)

const (
	programName   = "scripted"
	contextWindow = 200_000 // of a model that does not exist
	bytesPerToken = 4       // the figures only have to look right and grow with the conversation
	maxPace       = 1000

	demoDir = "CLAUDEOPS_DEMO_DIR" // the folder of the demo's service

	toolBash = "Bash"
	tools    = "mcp__" + ops.ToolServerName + "__"
)

var (
	errInterrupted    = errors.New("interrupted")
	errNoConversation = errors.New("No conversation found with session ID") //nolint:staticcheck // the words of Claude Code
)

// event is one line of the stream.
type event map[string]any

// player plays one script and reports it as a stream of events.
type player struct {
	flags   map[string]string
	environ []string
	hook    Hook
	cwd     string
	id      string // of the conversation
	model   string
	pace    float64 // factor of every pause
	started time.Time
	out     io.Writer
	record  *os.File // the conversation, for a session that continues it

	said           string
	turns          int
	input, output  int // bytes that a model would have read and written
	denials        []ops.Denial
	interruptedRun bool // a command was running when the interrupt came
}

// Process is what a program gets from whoever starts it.
type Process struct {
	Args, Environ  []string
	Stdin          io.Reader
	Stdout, Stderr io.Writer
}

// Main runs the scripted agent as a program and returns its exit code. An interrupt ends the running command; then the program ends as
// Claude Code does: with an error result inside a tool call, silently with code 0 elsewhere.
func Main(ctx context.Context, as Process) int {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt)
	defer stop()
	p := &player{environ: as.Environ, out: as.Stdout, started: time.Now()}
	code, err := p.run(ctx, as.Args, as.Stdin)
	if p.record != nil {
		err = errors.Join(err, p.record.Close())
	}
	if err != nil {
		fmt.Fprintf(as.Stderr, "error: %v\n", err)
		return 1
	}
	return code
}

func (p *player) run(ctx context.Context, args []string, stdin io.Reader) (code int, err error) {
	prompt, err := p.parse(args)
	if err != nil {
		return 1, err
	}
	if p.flags["--version"] != "" {
		_, err := fmt.Fprintln(p.out, "scripted 2.0 (Claude Ops scripted agent)")
		return 0, err
	}
	scenario, err := load(cmp.Or(p.flags["--scenario"], builtin))
	if err != nil {
		return 1, err
	}
	script, err := scenario.script(p.variable("CLAUDEOPS_TIER"), p.variable("CLAUDEOPS_ROLE"))
	if err == nil && prompt == "" {
		var text []byte
		text, err = io.ReadAll(stdin)
		prompt = string(text)
	}
	if err == nil {
		err = p.open()
	}
	if errors.Is(err, errNoConversation) {
		return 1, errors.Join(err, p.result(event{"subtype": "error_during_execution", "is_error": true, "errors": []string{err.Error()}}))
	}
	if err != nil {
		return 1, err
	}
	p.input += len(prompt) + len(p.flags["--append-system-prompt"])
	err = p.emit(event{
		"type": "system", "subtype": "init", "cwd": p.cwd, "tools": []string{toolBash}, "mcp_servers": []string{}, "model": p.model,
		"permissionMode": p.flags["--permission-mode"], "apiKeySource": "none", "claude_code_version": programName,
	})
	if err != nil {
		return 1, err
	}
	return p.play(ctx, script)
}

// play plays a script to its end, or to where it is interrupted.
func (p *player) play(ctx context.Context, script Script) (code int, err error) {
	end, err := p.steps(ctx, script.Steps)
	if end == nil {
		end = &script.Ending
	}
	var structured json.RawMessage
	if err == nil {
		structured, err = p.passOn(ctx, end.Outcome)
	}
	if err == nil && end.Result != "" {
		err = p.say(end.Result)
	}
	last := event{"subtype": "success", "is_error": end.IsError, "result": p.said, "terminal_reason": "completed"}
	switch {
	case errors.Is(err, errInterrupted) && !p.interruptedRun:
		return 0, nil
	case err != nil:
		last = event{"subtype": "error_during_execution", "is_error": true, "errors": []string{err.Error()}}
	case structured != nil:
		last["structured_output"] = structured
	}
	last["total_cost_usd"] = script.CostUSD
	if errors.Is(err, errInterrupted) {
		err = nil
	}
	if err = errors.Join(err, p.result(last)); err != nil || last["is_error"] == true {
		code = 1
	}
	return code, err
}

// parse reads the flags of Claude Code that the supervisor uses, and the prompt.
func (p *player) parse(args []string) (prompt string, err error) {
	bare := []string{"-p", "--verbose", "--version", "--fork-session", "--strict-mcp-config"}
	valued := []string{
		"--scenario", "--output-format", "--model", "--session-id", "--resume", "--append-system-prompt", "--append-system-prompt-file",
		"--tools", "--allowedTools", "--disallowedTools", "--permission-mode", "--settings", "--setting-sources", "--mcp-config",
		"--json-schema", "--max-budget-usd",
	}
	p.flags = map[string]string{}
	for i := 0; i < len(args); i++ {
		switch arg := args[i]; {
		case !strings.HasPrefix(arg, "-"):
			prompt = arg
		case slices.Contains(bare, arg):
			p.flags[arg] = "true"
		case !slices.Contains(valued, arg):
			return "", fmt.Errorf("unknown option '%s'", arg)
		case i+1 == len(args):
			return "", fmt.Errorf("option '%s' argument missing", arg)
		default:
			i++
			p.flags[arg] = args[i]
		}
	}
	if p.hook, err = HookIn(p.flags["--settings"]); err != nil {
		return "", err
	}
	p.model, p.id = cmp.Or(p.flags["--model"], programName), cmp.Or(p.flags["--session-id"], uuid.NewString())
	if uuid.Validate(p.id) != nil {
		return "", errors.New("invalid session ID, must be a valid UUID")
	}
	text := cmp.Or(p.variable("CLAUDEOPS_DEMO_PACE"), "1")
	if p.pace, err = strconv.ParseFloat(text, 64); err != nil || !(p.pace >= 0 && p.pace <= maxPace) {
		return "", fmt.Errorf("read CLAUDEOPS_DEMO_PACE: want a number from 0 to %d, found %q", maxPace, text)
	}
	p.cwd, err = os.Getwd()
	return prompt, err
}

func (p *player) variable(name string) string {
	for _, entry := range slices.Backward(p.environ) { // the last one wins, as for any program
		if value, ok := strings.CutPrefix(entry, name+"="); ok {
			return value
		}
	}
	return ""
}

// open starts the record of the conversation, with the one that it continues.
func (p *player) open() error {
	base := p.variable("CLAUDE_CONFIG_DIR")
	if base == "" {
		base = filepath.Join(p.variable("HOME"), ".claude")
	}
	dir := filepath.Join(base, "projects", strings.ReplaceAll(p.cwd, "/", "-"))
	var history []byte
	if from := p.flags["--resume"]; from != "" {
		var err error
		if history, err = os.ReadFile(filepath.Join(dir, filepath.Base(from)+".jsonl")); errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%w: %s", errNoConversation, from)
		} else if err != nil {
			return fmt.Errorf("read conversation: %w", err)
		}
	}
	err := os.MkdirAll(dir, 0o700)
	if err == nil {
		p.record, err = os.OpenFile(filepath.Join(dir, p.id+".jsonl"), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	}
	if err == nil {
		_, err = p.record.Write(history)
	}
	p.input = len(history)
	return err
}

// emit writes an event to the stream, and a message to the record too.
func (p *player) emit(e event) error {
	e["session_id"], e["uuid"] = p.id, uuid.NewString()
	var line bytes.Buffer
	enc := json.NewEncoder(&line)
	enc.SetEscapeHTML(false) // shell commands stay readable
	err := enc.Encode(e)
	if err == nil {
		_, err = p.out.Write(line.Bytes())
	}
	if err == nil && e["message"] != nil {
		_, err = p.record.Write(line.Bytes())
	}
	return ops.Wrapped(err, "write event")
}

func (p *player) usage() map[string]int {
	return map[string]int{"input_tokens": p.input/bytesPerToken + 1, "output_tokens": p.output/bytesPerToken + 1}
}

// assistant says one block as the model.
func (p *player) assistant(size int, block event) error {
	p.turns++
	p.output += size
	err := p.emit(event{"type": "assistant", "message": event{
		"id": newID("msg_"), "type": "message", "role": "assistant", "model": p.model, "content": []event{block}, "usage": p.usage(),
	}})
	p.input += size
	return err
}

func (p *player) say(text string) error {
	p.said = text
	return p.assistant(len(text), event{"type": "text", "text": text})
}

func newID(prefix string) string { return prefix + strings.ReplaceAll(uuid.NewString(), "-", "") }

// call announces a tool call and asks the hook about it.
func (p *player) call(ctx context.Context, tool string, input any) (id string, allowed bool, err error) {
	raw, err := json.Marshal(input)
	if err != nil {
		return "", false, fmt.Errorf("encode tool call: %w", err)
	}
	id = newID("toolu_")
	if err := p.assistant(len(raw), event{"type": "tool_use", "id": id, "name": tool, "input": input}); err != nil {
		return id, false, err
	}
	mode := cmp.Or(p.flags["--permission-mode"], "default")
	why := p.hook.Ask(ctx, Call{SessionID: p.id, Mode: mode, Cwd: p.cwd, Tool: tool, Input: raw, ID: id}, p.environ)
	if why == "" {
		return id, true, nil
	}
	p.denials = append(p.denials, ops.Denial{Tool: tool, UseID: id, Input: raw})
	return id, false, p.answer(id, why, true)
}

// answer reports what a tool call came to.
func (p *player) answer(id, text string, isError bool) error {
	p.input += len(text)
	return p.emit(event{"type": "user", "timestamp": time.Now().UTC().Format(time.RFC3339Nano), "message": event{
		"role": "user", "content": []event{{"type": "tool_result", "tool_use_id": id, "content": text, "is_error": isError}},
	}})
}

// bash runs a command as a tool call. The code is -1 when the call was refused.
func (p *player) bash(ctx context.Context, command string) (commandEnd, error) {
	if dir := p.variable(demoDir); dir != "" { // the record shows where it looked
		command = strings.ReplaceAll(command, "$"+demoDir, dir)
	}
	id, allowed, err := p.call(ctx, toolBash, map[string]string{"command": command})
	if !allowed || err != nil {
		return commandEnd{code: -1}, err
	}
	return p.command(ctx, id, command)
}

// ask calls a tool of the supervisor, by the command that agents without its protocol have.
func (p *player) ask(ctx context.Context, tool string, input any, words ...string) (commandEnd, error) {
	id, allowed, err := p.call(ctx, tools+tool, input)
	if !allowed || err != nil {
		return commandEnd{code: -1}, err
	}
	command := "claudeops-act"
	for _, w := range words {
		command += " '" + strings.ReplaceAll(w, "'", `'\''`) + "'"
	}
	return p.command(ctx, id, command)
}

// holds runs the command or the look of a condition.
func (p *player) holds(ctx context.Context, w When) (bool, error) {
	var end commandEnd
	var err error
	if w.Look != nil {
		end, err = p.ask(ctx, "look", w.Look, "look", w.Look.What, w.Look.Target)
	} else {
		end, err = p.bash(ctx, w.Bash)
	}
	return end.code == w.Exit && strings.Contains(end.output, w.Prints), err
}

// command runs a command and answers a tool call with its output.
func (p *player) command(ctx context.Context, id, command string) (commandEnd, error) {
	end, err := runCommand(ctx, command, p.cwd, p.environ)
	switch {
	case ctx.Err() != nil:
		p.interruptedRun = true
		return commandEnd{code: -1}, errors.Join(errInterrupted, p.answer(id, "[Request interrupted by user for tool use]", true))
	case err != nil:
		return commandEnd{code: -1}, p.answer(id, err.Error(), true)
	case end.code != 0:
		return end, p.answer(id, strings.TrimRight(fmt.Sprintf("Exit code %d\n%s", end.code, end.output), "\n"), true)
	}
	return end, p.answer(id, end.output, false)
}

// steps plays a list. A step may end the script early by returning an ending.
func (p *player) steps(ctx context.Context, list []Step) (*Ending, error) {
	for _, s := range list {
		if ctx.Err() != nil {
			return nil, errInterrupted
		}
		if end, err := p.step(ctx, s); end != nil || err != nil {
			return end, err
		}
	}
	return nil, nil
}

func (p *player) step(ctx context.Context, s Step) (*Ending, error) {
	switch {
	case s.Say != "":
		return nil, p.say(s.Say)
	case s.Act != nil:
		_, err := p.ask(ctx, "action_run", s.Act, "run", s.Act.Service, s.Act.Action, "--why", s.Act.Why)
		return nil, err
	case s.Bash != "":
		_, err := p.bash(ctx, s.Bash)
		return nil, err
	case s.Pause > 0:
		if !ops.Pause(ctx, time.Duration(float64(s.Pause)*p.pace)) {
			return nil, errInterrupted
		}
		return nil, nil
	case s.When != nil:
		yes, err := p.holds(ctx, *s.When)
		switch {
		case err != nil:
			return nil, err
		case yes:
			return p.steps(ctx, s.Steps)
		}
		return p.steps(ctx, s.Else)
	}
	return s.Finish, nil
}

// passOn gives the facts to the supervisor: as structured output, or the handoff in them as a file where none was asked for.
func (p *player) passOn(ctx context.Context, outcome document) (json.RawMessage, error) {
	if outcome == nil {
		return nil, nil
	}
	if p.flags["--json-schema"] != "" {
		id, allowed, err := p.call(ctx, ops.ToolOutcome, json.RawMessage(outcome))
		if !allowed || err != nil {
			return nil, err
		}
		return json.RawMessage(outcome), p.answer(id, "Structured output provided successfully", false)
	}
	var o struct {
		Handoff json.RawMessage `json:"handoff"`
	}
	if err := json.Unmarshal(outcome, &o); err != nil || o.Handoff == nil {
		return nil, err
	}
	name := filepath.Join(p.variable("CLAUDEOPS_STATE_DIR"), "handoff.json")
	id, allowed, err := p.call(ctx, "Write", map[string]string{"file_path": name, "content": string(o.Handoff)})
	if !allowed || err != nil {
		return nil, err
	}
	if err := os.WriteFile(name, o.Handoff, 0o600); err != nil {
		return nil, p.answer(id, err.Error(), true)
	}
	return nil, p.answer(id, "File created successfully at: "+name, false)
}

// result is the last event, with the figures of the run filled in.
func (p *player) result(e event) error {
	used := p.usage()
	e["type"], e["num_turns"], e["usage"] = "result", p.turns, used
	e["duration_ms"] = time.Since(p.started).Milliseconds()
	e["permission_denials"] = append([]ops.Denial{}, p.denials...)
	e["modelUsage"] = event{p.model: event{
		"inputTokens": used["input_tokens"], "outputTokens": used["output_tokens"], "costUSD": e["total_cost_usd"],
		"contextWindow": contextWindow,
	}}
	return p.emit(e)
}
