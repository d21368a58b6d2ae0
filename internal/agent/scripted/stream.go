package scripted

import (
	"encoding/json"
	"fmt"
	"io"

	"claudeops/internal/ops"
)

// Figures of a model that does not exist.
const (
	contextWindow   = 200_000
	maxOutputTokens = 32_000
)

// block is one piece of a message: text, a tool call, or the answer to one.
type block struct {
	Type      string          `json:"type"`
	Text      string          `json:"text,omitempty"`
	ID        string          `json:"id,omitempty"`
	Name      string          `json:"name,omitempty"`
	Input     json.RawMessage `json:"input,omitempty"`
	Content   *string         `json:"content,omitempty"`
	IsError   bool            `json:"is_error,omitempty"`
	ToolUseID string          `json:"tool_use_id,omitempty"`
}

// message is what a model or its user said.
type message struct {
	ID         string  `json:"id,omitempty"`
	Type       string  `json:"type,omitempty"`
	Role       string  `json:"role"`
	Model      string  `json:"model,omitempty"`
	Content    []block `json:"content"`
	StopReason *string `json:"stop_reason"`
	Usage      *usage  `json:"usage,omitempty"`
}

type initEvent struct {
	Type           string   `json:"type"`
	Subtype        string   `json:"subtype"`
	CWD            string   `json:"cwd"`
	SessionID      string   `json:"session_id"`
	Tools          []string `json:"tools"`
	MCPServers     []string `json:"mcp_servers"`
	Model          string   `json:"model"`
	PermissionMode string   `json:"permissionMode"`
	APIKeySource   string   `json:"apiKeySource"`
	Version        string   `json:"claude_code_version"`
	UUID           string   `json:"uuid"`
}

type messageEvent struct {
	Type            string  `json:"type"`
	Message         message `json:"message"`
	ParentToolUseID *string `json:"parent_tool_use_id"`
	SessionID       string  `json:"session_id"`
	UUID            string  `json:"uuid"`
	Timestamp       string  `json:"timestamp,omitempty"`
	ToolUseResult   any     `json:"tool_use_result,omitempty"`
	Error           string  `json:"error,omitempty"`
}

// retryEvent tells that a call of the model is made again, and when.
type retryEvent struct {
	Type       string `json:"type"`
	Subtype    string `json:"subtype"`
	Attempt    int    `json:"attempt"`
	MaxRetries int    `json:"max_retries"`
	DelayMS    int64  `json:"retry_delay_ms"`
	Status     int    `json:"error_status"`
	Error      string `json:"error"`
	SessionID  string `json:"session_id"`
}

// commandResult is the second, structured form of a successful command's answer.
type commandResult struct {
	Stdout           string `json:"stdout"`
	Stderr           string `json:"stderr"`
	Interrupted      bool   `json:"interrupted"`
	IsImage          bool   `json:"isImage"`
	NoOutputExpected bool   `json:"noOutputExpected"`
}

type modelUsage struct {
	InputTokens      int64   `json:"inputTokens"`
	OutputTokens     int64   `json:"outputTokens"`
	CacheReadTokens  int64   `json:"cacheReadInputTokens"`
	CacheWriteTokens int64   `json:"cacheCreationInputTokens"`
	WebSearches      int64   `json:"webSearchRequests"`
	CostUSD          float64 `json:"costUSD"`
	ContextWindow    int64   `json:"contextWindow"`
	MaxOutputTokens  int64   `json:"maxOutputTokens"`
}

type resultEvent struct {
	Type           string                `json:"type"`
	Subtype        string                `json:"subtype"`
	IsError        bool                  `json:"is_error"`
	APIErrorStatus *int                  `json:"api_error_status"`
	DurationMS     int64                 `json:"duration_ms"`
	DurationAPIMS  int64                 `json:"duration_api_ms"`
	NumTurns       int64                 `json:"num_turns"`
	Result         *string               `json:"result,omitempty"`
	Errors         []string              `json:"errors,omitempty"`
	StopReason     *string               `json:"stop_reason"`
	SessionID      string                `json:"session_id"`
	TotalCostUSD   float64               `json:"total_cost_usd"`
	Usage          usage                 `json:"usage"`
	ModelUsage     map[string]modelUsage `json:"modelUsage"`
	Denials        []ops.Denial          `json:"permission_denials"`
	Structured     json.RawMessage       `json:"structured_output,omitempty"`
	TerminalReason string                `json:"terminal_reason,omitempty"`
	UUID           string                `json:"uuid"`
}

// The subtypes of a result, and why it came.
const (
	subtypeSuccess = "success"
	subtypeError   = "error_during_execution"
	subtypeBudget  = "error_max_budget_usd"

	reasonCompleted    = "completed"
	reasonAPIError     = "api_error"
	reasonBudget       = "budget_exhausted"
	reasonAbortedTools = "aborted_tools"
)

// stream writes events, one line each.
type stream struct{ out io.Writer }

func (s stream) write(event any) error {
	// One Write per line, so that a reader never sees half of one because of us.
	line, err := encode(event)
	if err != nil {
		return err
	}
	if _, err := s.out.Write(line); err != nil {
		return fmt.Errorf("write event: %w", err)
	}
	return nil
}
