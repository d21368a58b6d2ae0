package recovery

import (
	"time"

	"claudeops/internal/decide/judge"
	"claudeops/internal/ops"
)

// Unusable is why an outcome cannot be used; empty when it can, or none was due.
type Unusable string

// The reasons.
const (
	OutcomeMissing Unusable = "missing"
	OutcomeInvalid Unusable = "invalid"
)

// Failure is the report that enters the ladder: what is known of one failed session, from the agent's side alone.
type Failure struct {
	Session   ops.SessionID
	Tier      ops.Tier
	Handler   string
	Family    string
	Model     string
	ExitCode  *int // absent: never started
	StopCause ops.StopCause
	Class     ops.FailureClass // class of the failure as the runner names it
	APIStatus *int             // HTTP status of the model API
	// Error is the error text of the CLI. Text of a monitored service must never get here.
	Error           string
	Outcome         Unusable
	OutcomeProblems []string // what is wrong with it
	Denials         []Denial
	// Mutating: an allowed action of the session may have changed something. Without a guard log nobody knows, so it
	// has to be true for every tier that may repair.
	Mutating    bool
	Started     []string // the allowed mutating actions, in order
	Loop        *Loop
	Judge       *judge.Judgement
	ProbeRed    []string // services a probe still finds down or degraded after a claimed fix
	Interrupted bool
	OpenTool    string        // open at the end; it may have taken effect
	RetryAfter  time.Duration // how long the provider asks to be left alone
}

// Denial is a tool call that was refused.
type Denial struct {
	Tool   string `json:"tool"`
	Rule   string `json:"rule,omitempty"`
	Reason string `json:"reason"`
}

// Loop is what the loop detector found. The level comes from its thresholds.
type Loop struct {
	Count int               `json:"count"`
	Level ops.RecoveryLevel `json:"level,omitempty"`
	Call  string            `json:"call,omitempty"`
}

// loopLevel is the level of a loop.
func (f Failure) loopLevel() ops.RecoveryLevel {
	if f.StopCause != ops.StopLoop {
		return ops.RecoveryNone
	}
	return max(f.Loop.Level, ops.RecoveryReplan)
}

// signaled reports whether the agent's process was ended by a signal. Shells and the runner write it as 128+n.
func (f Failure) signaled() bool {
	return f.ExitCode != nil && (*f.ExitCode < 0 || *f.ExitCode > 128 && *f.ExitCode < 128+65)
}
