package scripted

import (
	"context"
	"encoding/json"
	"time"

	"claudeops/internal/ops"
)

// Scenario is what the agent does at each tier, for certain handlers, and in other roles than work.
type Scenario struct {
	Name     string
	Tiers    map[ops.Tier]Script
	Handlers map[string]Script
	Roles    map[ops.Role]Script
}

// Script is one session.
type Script struct {
	// Attempts are the runs in one cycle, one after the other; the last is repeated. Then nothing else is set.
	Attempts []Script

	Model   string  // empty: what --model says
	CostUSD float64 // what the session reports as its cost
	Steps   []Step
	Ending  Ending
}

// Ending is how a session ends.
type Ending struct {
	Handoff json.RawMessage // written to handoff.json in the state folder; nil: none
	Outcome json.RawMessage // structured output, given only when a schema was asked for
	Result  string          // the last words; empty: what was said last
	Exit    *int            // nil: 1 after an error, otherwise 0
	Stderr  string

	IsError    bool          // the result says that it is an error
	APIStatus  int           // the model's API failed with this status
	RetryAfter time.Duration // and asked to wait this long before the next call
	Subtype    string        // of the result of a program that ended itself, such as error_max_turns

	NoResult bool // the process ends without a result event
	Hang     bool // the process stays before its result, until it is interrupted
	Linger   bool // the process stays after its result, until it is interrupted
}

// Code is the exit code of the process.
func (e Ending) Code() int {
	switch {
	case e.Exit != nil:
		return *e.Exit
	case e.IsError || e.APIStatus != 0 || e.Subtype != "":
		return 1
	default:
		return 0
	}
}

// Step is one thing the agent does. A step may end the script early by returning an ending.
type Step interface {
	play(ctx context.Context, c *conversation) (*Ending, error)
}

// Say is text of the agent.
type Say struct{ Text string }

// Bash is a command that really runs.
type Bash struct {
	Command string
	// ExpectFailure ends the session with an error when the command ends otherwise; nil: either is fine.
	ExpectFailure *bool
	Line          int // in the scenario file, for the message
}

// Act is an action that the agent asks the supervisor for.
type Act struct{ Service, Action, Why string }

// Pause makes the agent slow enough to be watched.
type Pause struct{ Duration time.Duration }

// Write is a file the agent writes. Variables in the path are expanded, those in the content are not.
type Write struct{ Path, Content string }

// When chooses between two ways to go on.
type When struct {
	Contains *FileContains
	Bash     *BashExits
	Then     []Step
	Else     []Step
}

// Repeat plays steps several times.
type Repeat struct {
	Times int
	Steps []Step
}

// FileContains is the condition that a file holds a text. It is looked at silently.
type FileContains struct{ Path, Text string }

// BashExits is the condition that a command ends with a certain code. The command is shown like any other.
type BashExits struct {
	Command string
	Exit    int
}

// Finish ends the script here, in its own way.
type Finish struct{ Ending Ending }
