package ops

import (
	"context"
	"encoding/json"
	"time"
)

// Limits bound one session in time.
type Limits struct {
	Wall  time.Duration // the whole session
	Idle  time.Duration // no output while no tool call is open
	Tool  time.Duration // one open tool call
	Grace time.Duration // between the polite and the final signal
}

// ToolLists are the tools a tier has, may use unasked, and must not use.
type ToolLists struct {
	Tools      []string
	Allowed    []string
	Disallowed []string
}

// SessionSpec is everything an agent needs to run one session.
type SessionSpec struct {
	Session      Session
	Environment  string
	Prompt       string
	SystemPrompt string
	Tools        ToolLists
	Resume       string      // the conversation to fork; empty for a fresh one
	Conversation Fingerprint // what the record of that conversation must look like
	SpentUSD     *float64    // what the CLI reported as the total of that conversation
	OutcomeJSON  string      // the JSON Schema of the outcome; empty when none is demanded
	StateDir     string
	WorkDir      string
	DryRun       bool
	Env          []string // NAME=value, what passes through from the supervisor's own environment
	Limits       Limits
	Gate         *GateSpec // nil: the CLI's own lists are all there is
}

// GateSpec is how a session is tied to its gates.
type GateSpec struct {
	Settings    []byte // of the CLI, with the hook that asks the gate
	ShellPrefix string // the program every shell command goes through
	// Allowed reports whether a gate allowed the tool call. Nil means that nobody holds the session to it.
	Allowed func(toolUseID string) bool
}

// Recorder takes the redacted output of a session, in order, as it comes.
type Recorder interface {
	Started(ctx context.Context, pid int, processStarted string) error
	Lines(ctx context.Context, lines []Line) error
}

// Ability is what a program can do, as far as its version tells.
type Ability struct {
	Version    string
	Known      bool
	Structured bool // it answers with structured output when given a schema
}

// Denial is a tool call the CLI itself refused.
type Denial struct {
	Tool  string          `json:"tool_name"`
	UseID string          `json:"tool_use_id"`
	Input json.RawMessage `json:"tool_input"`
}

// RunResult is what is known of a session's process after it ended.
type RunResult struct {
	ExitCode     *int // nil when the process never started
	ResultRead   bool
	IsError      bool
	CLISessionID string
	CLIVersion   string
	Model        string
	Structured   json.RawMessage
	Text         string // the agent's last words
	Denials      []Denial
	Warnings     []string // oddities of the stream worth an event
	Stop         StopCause
	StopWhy      string
	Err          string // why it failed, in one sentence; empty on success
	Failure      string // class of the failure
	OpenTool     string // the tool call that was open when the process ended
	Conversation Fingerprint
	ReportedUSD  *float64
	Figures
}

// Success reports whether the run succeeded: exit 0, a result was read, and it is no error.
func (r RunResult) Success() bool {
	return r.ExitCode != nil && *r.ExitCode == 0 && r.ResultRead && !r.IsError && r.Stop == StopNone && r.Err == ""
}
