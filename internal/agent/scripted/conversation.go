package scripted

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"claudeops/internal/ops"
)

// How a script can be broken off.
var (
	errInterrupted     = errors.New("interrupted")
	errInterruptedTool = errors.New("interrupted in a tool call")
)

// conversation plays one script and reports it as a stream of events.
type conversation struct {
	opts      options
	env       environment
	cwd       string
	sessionID string
	model     string
	cost      float64
	pace      float64
	started   time.Time
	stream    stream
	kept      *transcript
	meter     meter

	openID    string // id of the message that is being said; empty after an answer to a tool call
	openUsage usage
	lastText  string
	denials   []ops.Denial
}

// begin opens the stream with what this session is, and counts what the model would be sent first.
func (c *conversation) begin(prompt string, history []record) error {
	for _, r := range history {
		c.meter.heard(len(r.Message))
	}
	c.meter.heard(len(c.opts.systemPrompt))
	c.meter.heard(len(prompt))
	if err := c.kept.add(message{Role: "user", Content: []block{{Type: "text", Text: prompt}}}); err != nil {
		return err
	}
	return c.stream.write(initEvent{
		Type: "system", Subtype: "init", CWD: c.cwd, SessionID: c.sessionID, Tools: c.opts.available(),
		MCPServers: []string{}, Model: c.model, PermissionMode: c.opts.mode, APIKeySource: "none",
		Version: programName, UUID: uuid.NewString(),
	})
}

// assistant says one block. Blocks up to the next answer of a tool belong to the same message.
func (c *conversation) assistant(b block) error {
	if c.openID == "" {
		c.openID = newID("msg_")
		c.openUsage = c.meter.call()
	}
	c.meter.answered(len(b.Text) + len(b.Input))
	if b.Type == "text" {
		c.lastText = b.Text
	}
	u := c.openUsage
	m := message{
		ID: c.openID, Type: "message", Role: "assistant", Model: c.model, Content: []block{b}, Usage: &u,
	}
	if err := c.kept.add(m); err != nil {
		return err
	}
	return c.stream.write(messageEvent{Type: "assistant", Message: m, SessionID: c.sessionID, UUID: uuid.NewString()})
}

func (c *conversation) say(text string) error { return c.assistant(block{Type: "text", Text: text}) }

// toolCall announces a tool call and returns its id.
func (c *conversation) toolCall(tool string, input any) (string, json.RawMessage, error) {
	data, err := encode(input)
	if err != nil {
		return "", nil, err
	}
	id := newID("toolu_")
	raw := json.RawMessage(strings.TrimSpace(string(data)))
	return id, raw, c.assistant(block{Type: "tool_use", ID: id, Name: tool, Input: raw})
}

// toolAnswer reports what a tool call came to; structured is its second form, or nil.
func (c *conversation) toolAnswer(id, text string, isError bool, structured any) error {
	c.openID = ""
	c.meter.heard(len(text))
	if isError {
		structured = "Error: " + text
	}
	m := message{Role: "user", Content: []block{{
		Type: "tool_result", Content: &text, IsError: isError, ToolUseID: id,
	}}}
	if err := c.kept.add(m); err != nil {
		return err
	}
	return c.stream.write(messageEvent{
		Type: "user", Message: m, SessionID: c.sessionID, UUID: uuid.NewString(),
		Timestamp: time.Now().UTC().Format(time.RFC3339Nano), ToolUseResult: structured,
	})
}

// refused answers a tool call that this session may not make, and remembers it. It reports whether it did.
func (c *conversation) refused(ctx context.Context, tool, command, id string, input json.RawMessage) (bool, error) {
	why := c.opts.refuse(tool, command)
	if why == "" {
		why = c.askHook(ctx, tool, id, input)
	}
	if why == "" {
		return false, nil
	}
	c.denials = append(c.denials, ops.Denial{Tool: tool, UseID: id, Input: input})
	return true, c.toolAnswer(id, why, true, nil)
}

// bash runs a command as a tool call. The code is -1 when the call was refused.
func (c *conversation) bash(ctx context.Context, command string) (int, error) {
	id, input, err := c.toolCall(toolBash, map[string]string{"command": command})
	if err != nil {
		return -1, err
	}
	if refused, err := c.refused(ctx, toolBash, command, id, input); refused || err != nil {
		return -1, err
	}
	return c.command(ctx, id, command)
}

// act asks the supervisor for an action, as a call of the tool that Claude Code has for it.
func (c *conversation) act(ctx context.Context, a Act) error {
	id, input, err := c.toolCall(toolAct, map[string]string{"service": a.Service, "action": a.Action, "why": a.Why})
	if err != nil {
		return err
	}
	// The tools of a server are not in --tools; only the hook decides.
	if why := c.askHook(ctx, toolAct, id, input); why != "" {
		c.denials = append(c.denials, ops.Denial{Tool: toolAct, UseID: id, Input: input})
		return c.toolAnswer(id, why, true, nil)
	}
	_, err = c.command(ctx, id, "claudeops-act run "+quote(a.Service)+" "+quote(a.Action)+" --why "+quote(a.Why))
	return err
}

// quote makes one word of a text for a shell.
func quote(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

// command runs a command and answers a tool call with its output.
func (c *conversation) command(ctx context.Context, id, command string) (int, error) {
	end, err := runCommand(ctx, command, c.cwd, c.env)
	switch {
	case ctx.Err() != nil:
		return -1, errors.Join(errInterruptedTool, c.toolAnswer(id, "[Request interrupted by user for tool use]", true, nil))
	case err != nil:
		return -1, c.toolAnswer(id, err.Error(), true, nil)
	case end.code != 0:
		text := strings.TrimRight(fmt.Sprintf("Exit code %d\n%s", end.code, end.output), "\n")
		return end.code, c.toolAnswer(id, text, true, nil)
	default:
		return 0, c.toolAnswer(id, end.output, false, commandResult{Stdout: end.output})
	}
}

// result is the last event, with the figures of the run filled in.
func (c *conversation) result(e resultEvent) error {
	e.Type, e.SessionID, e.UUID = "result", c.sessionID, uuid.NewString()
	e.DurationMS = time.Since(c.started).Milliseconds()
	e.DurationAPIMS = e.DurationMS
	e.NumTurns, e.Usage = c.meter.calls, c.meter.total
	e.ModelUsage = map[string]modelUsage{}
	if c.meter.calls > 0 {
		e.TotalCostUSD = c.cost
		e.ModelUsage[c.model] = modelUsage{
			InputTokens: c.meter.total.Input, OutputTokens: c.meter.total.Output,
			CacheReadTokens: c.meter.total.CacheRead, CacheWriteTokens: c.meter.total.CacheWrite,
			CostUSD: c.cost, ContextWindow: contextWindow, MaxOutputTokens: maxOutputTokens,
		}
	}
	e.Denials = c.denials
	if e.Denials == nil {
		e.Denials = []ops.Denial{}
	}
	return c.stream.write(e)
}

// failed ends the stream with an error of the program itself.
func (c *conversation) failed(reason string, texts ...string) error {
	return c.result(resultEvent{Subtype: subtypeError, IsError: true, Errors: texts, TerminalReason: reason})
}

func newID(prefix string) string { return prefix + strings.ReplaceAll(uuid.NewString(), "-", "") }
