package claude

import (
	"encoding/json"
	"errors"
	"strings"
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
