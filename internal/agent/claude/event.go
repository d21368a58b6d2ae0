package claude

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"claudeops/internal/agent"
	"claudeops/internal/ops"
)

// event is an event of the stream other than the result, with the fields that matter.
type event struct {
	Kind      string  `json:"type"`
	Subtype   string  `json:"subtype"`
	SessionID string  `json:"session_id"`
	Version   string  `json:"claude_code_version"`
	Model     string  `json:"model"`
	Parent    string  `json:"parent_tool_use_id"` // the tool call of the subagent it is from
	Err       string  `json:"error"`
	Message   message `json:"message"`
	APIStatus *figure `json:"api_error_status"`
	Params    struct {
		Cut string `json:"cut"` // which limit cut the answer of the model off
	} `json:"api_error_params"`
	// Of a call of the model that failed and that the CLI makes again.
	Attempt *figure `json:"attempt"`
	DelayMS *figure `json:"retry_delay_ms"`
	// The state of a subscription.
	Limit struct {
		Status   string  `json:"status"`
		ResetsAt *figure `json:"resetsAt"` // seconds since 1970
	} `json:"rate_limit_info"`
}

type message struct {
	ID     string  `json:"id"`
	Model  string  `json:"model"`
	Blocks []block `json:"content"`
	Usage  usage   `json:"usage"` // of the call of the model that wrote it
}

type block struct {
	Kind      string          `json:"type"`
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	ToolUseID string          `json:"tool_use_id"`
	Input     json.RawMessage `json:"input"`
	Content   json.RawMessage `json:"content"`
	IsError   bool            `json:"is_error"`
	// The length is all that matters of these.
	Text     json.RawMessage `json:"text"`
	Thinking json.RawMessage `json:"thinking"`
}

// parseEvent reads an event. A field of another type than expected is left out.
func parseEvent(text string) (e event, ok bool) {
	err := json.Unmarshal([]byte(text), &e)
	_, mismatch := errors.AsType[*json.UnmarshalTypeError](err)
	return e, err == nil || mismatch
}

// tools are the blocks that call tools or answer calls, of whatever kind.
func (m message) tools() (out []block) {
	for _, b := range m.Blocks {
		if strings.HasSuffix(b.Kind, "tool_use") || strings.HasSuffix(b.Kind, "tool_result") {
			out = append(out, b)
		}
	}
	return out
}

// written is how many bytes the model wrote, roughly.
func (m message) written() (bytes int64) {
	for _, b := range m.Blocks {
		bytes += int64(len(b.Text) + len(b.Thinking) + len(b.Input))
	}
	return bytes
}

// tokens sums what a call read and wrote.
func (u usage) tokens() (tokens int64) {
	for _, f := range []*figure{u.Input, u.Output, u.CacheRead, u.CacheWrite} {
		tokens += count(f)
	}
	return tokens
}

// maxInput bounds how much of a tool's input is kept to say what it did.
const maxInput = 64 << 10

// keep drops a text that is too long to be kept.
func keep(s string) string {
	if len(s) > maxInput {
		return ""
	}
	return s
}

// activities are what one line of Claude Code's output tells, in order: usage first, then calls, then results. It needs
// nothing but the line, so a stored transcript tells the same as the live stream. Only a running session knows the time and
// the tool of a result: here both are empty, and the id of the call says which one was answered. A line that was cut when it
// was stored tells nothing.
func activities(line string) []ops.Activity {
	line = strings.TrimLeft(line, " \t")
	if !strings.HasPrefix(line, "{") || !strings.Contains(line, `"assistant"`) && !strings.Contains(line, `"tool_result"`) {
		return nil
	}
	e, ok := parseEvent(line)
	if !ok {
		return nil
	}
	switch e.Kind {
	case "assistant":
		return said(e.Message)
	case "user":
		return answered(e.Message)
	}
	return nil
}

// Activities reads from one stored line of output what the session did.
func (c *Claude) Activities(line string) []ops.Activity { return activities(line) }

// Gated is for programs that ask nobody; this one does.
func (c *Claude) Gated(ops.SessionSpec, agent.Walls) bool { return false }

// said is what a message of the model tells.
func said(m message) (out []ops.Activity) {
	if m.Model == synthetic {
		return nil
	}
	u := m.Usage
	if m.ID != "" {
		out = append(out, ops.Activity{
			Kind: ops.ActivityUsage, Message: keep(m.ID), Model: keep(m.Model), InputTokens: count(u.Input), OutputTokens: count(u.Output),
			CacheReadTokens: count(u.CacheRead), CacheWriteTokens: count(u.CacheWrite), Written: m.written(),
		})
	}
	for _, b := range m.Blocks {
		if b.Kind == "tool_use" && b.ID != "" {
			out = append(out, ops.Activity{
				Kind: ops.ActivityCall, UseID: keep(b.ID), Tool: keep(b.Name), Input: shorten(string(b.Input), maxInput),
			})
		}
	}
	return out
}

// answered is what the results of tool calls tell.
func answered(m message) (out []ops.Activity) {
	for _, b := range m.Blocks {
		if b.Kind == "tool_result" {
			out = append(out, ops.Activity{
				Kind: ops.ActivityResult, UseID: keep(b.ToolUseID), Output: shorten(contentText(b.Content), maxOutput), Failed: b.IsError,
			})
		}
	}
	return out
}

// contentText is the text of what a tool returned. What is not text, such as an image, stays as it was written.
func contentText(content []byte) string {
	var text string
	if json.Unmarshal(content, &text) == nil {
		return text
	}
	var parts []struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	if json.Unmarshal(content, &parts) != nil {
		return string(content)
	}
	texts := make([]string, 0, len(parts))
	for _, p := range parts {
		if p.Type != "text" {
			return string(content)
		}
		texts = append(texts, p.Text)
	}
	return strings.Join(texts, "\n")
}

// maxOutput bounds how much of a tool's output is passed on.
const maxOutput = 4 << 10

// shorten returns a text, or its two ends with a hash of the whole between them: two long texts that differ anywhere
// stay different.
func shorten(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	sum := sha256.Sum256([]byte(s))
	return ops.Ends(s, limit/2, limit/2, fmt.Sprintf(" … [%d bytes, sha256 %s] … ", len(s), hex.EncodeToString(sum[:8])))
}
