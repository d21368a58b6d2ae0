package scripted

import (
	"encoding/json"
	"time"

	"go.yaml.in/yaml/v3"

	"claudeops/internal/ops"
)

// Scenario is what the agent does at each tier, for certain handlers, and in other roles than work.
type Scenario struct {
	Name     string              `yaml:"name"`
	Tiers    map[ops.Tier]Script `yaml:"tiers"`
	Handlers map[string]Script   `yaml:"handlers"`
	Roles    map[ops.Role]Script `yaml:"roles"`
}

// Script is one session.
type Script struct {
	// Attempts are the runs in one cycle, one after the other; the last is repeated. Then nothing else is set.
	Attempts []Script `yaml:"attempts"`

	Model   string  `yaml:"model"`    // empty: what --model says
	CostUSD float64 `yaml:"cost_usd"` // what the session reports as its cost
	Steps   []Step  `yaml:"steps"`
	Ending  Ending  `yaml:",inline"`
}

// Ending is how a session ends.
type Ending struct {
	Handoff document `yaml:"handoff"` // written to handoff.json in the state folder; nil: none
	Outcome document `yaml:"outcome"` // structured output, given only when a schema was asked for
	Result  string   `yaml:"result"`  // the last words; empty: what was said last
	Exit    *int     `yaml:"exit"`    // nil: 1 after an error, otherwise 0
	Stderr  string   `yaml:"stderr"`

	IsError    bool          `yaml:"is_error"`    // the result says that it is an error
	APIStatus  int           `yaml:"api_status"`  // the model's API failed with this status
	RetryAfter time.Duration `yaml:"retry_after"` // and asked to wait this long before the next call
	Subtype    string        `yaml:"subtype"`     // of the result of a program that ended itself, such as error_max_turns

	NoResult bool `yaml:"no_result"` // the process ends without a result event
	Hang     bool `yaml:"hang"`      // the process stays before its result, until it is interrupted
	Linger   bool `yaml:"linger"`    // the process stays after its result, until it is interrupted
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

// document is any YAML value, as indented JSON.
type document []byte

// UnmarshalYAML keeps a value as JSON.
func (d *document) UnmarshalYAML(n *yaml.Node) error {
	var v any
	err := n.Decode(&v)
	if err == nil {
		*d, err = json.MarshalIndent(v, "", "  ")
	}
	return err
}

// Step is one thing the agent does: one of its first eight fields.
type Step struct {
	Say    *string        `yaml:"say"`    // text of the agent
	Act    *Act           `yaml:"act"`    // an action that the agent asks the supervisor for
	Bash   *string        `yaml:"bash"`   // a command that really runs
	Pause  *time.Duration `yaml:"pause"`  // makes the agent slow enough to be watched
	Write  *Write         `yaml:"write"`  // a file the agent writes
	When   *When          `yaml:"when"`   // chooses between two ways to go on
	Repeat *int           `yaml:"repeat"` // plays steps several times
	Finish *Ending        `yaml:"finish"` // ends the script here, in its own way

	// ExpectFailure ends the session with an error when the command ends otherwise; nil: either is fine.
	ExpectFailure *bool  `yaml:"expect_failure"`
	Steps         []Step `yaml:"steps"` // of When and Repeat
	Else          []Step `yaml:"else"`  // of When
}

// Act is an action that the agent asks the supervisor for.
type Act struct {
	Service string `yaml:"service"`
	Action  string `yaml:"action"`
	Why     string `yaml:"why"`
}

// Write is a file the agent writes. Variables in the path are expanded, those in the content are not.
type Write struct {
	Path    string `yaml:"path"`
	Content string `yaml:"content"`
}

// When is a condition: a file holds a text, which is looked at silently, or a command, which is shown, ends with a certain code.
type When struct {
	Contains *FileContains `yaml:"file_contains"`
	Bash     string        `yaml:"bash"`
	Exit     int           `yaml:"exit"`
}

// FileContains is the condition that a file holds a text.
type FileContains struct {
	Path string `yaml:"path"`
	Text string `yaml:"text"`
}
