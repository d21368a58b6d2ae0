package recovery

import (
	"time"

	"claudeops/internal/ops"
)

// The states of an outcome that cannot be used.
const (
	OutcomeMissing = "missing"
	OutcomeInvalid = "invalid"
)

// Failure is the report that enters the ladder: what is known of one failed session, from the agent's side alone.
type Failure struct {
	SchemaVersion int              `json:"schema_version"`
	Cycle         int64            `json:"cycle_id,omitempty"`
	Session       int64            `json:"session_id"`
	Tier          int              `json:"tier"`
	Handler       string           `json:"handler"`
	Family        string           `json:"family,omitempty"`
	Model         string           `json:"model,omitempty"`
	Status        string           `json:"status"`
	ExitCode      *int             `json:"exit_code,omitempty"` // absent when the process never started
	StopCause     string           `json:"stop_cause,omitempty"`
	Class         ops.FailureClass `json:"failure,omitempty"`        // class of the failure as the runner names it
	APIStatus     *int             `json:"api_status,omitempty"`     // HTTP status of the model API
	APIError      string           `json:"api_error,omitempty"`      // class of the API's error, such as overloaded
	ResultSubtype string           `json:"result_subtype,omitempty"` // such as error_max_turns
	StopReason    string           `json:"stop_reason,omitempty"`    // of the model, such as refusal
	// Error is the error text of the CLI. Text of a monitored service must never get here.
	Error   string `json:"error,omitempty"`
	Outcome string `json:"outcome,omitempty"` // missing or invalid; empty when it was usable or none was due
	// OutcomeProblems are what validation found, by JSON pointer.
	OutcomeProblems []Problem   `json:"outcome_problems,omitempty"`
	Denials         []Denial    `json:"guard_denials,omitempty"`
	ToolErrors      []ToolError `json:"tool_errors,omitempty"` // of the agent's own calls
	// Mutating: an allowed action of the session may have changed something. Without a guard log nobody knows, so it
	// has to be true for every tier that may repair.
	Mutating    bool     `json:"mutating,omitempty"`
	Started     []string `json:"started,omitempty"` // the allowed mutating actions, in order
	Loop        *Loop    `json:"loop,omitempty"`
	Judge       *Judged  `json:"judge,omitempty"`
	ProbeRed    []string `json:"probe_red,omitempty"` // services a probe still finds down or degraded after a claimed fix
	Interrupted bool     `json:"interrupted,omitempty"`
	OpenTool    string   `json:"open_tool,omitempty"`   // the call that was open at the end; it may have taken effect
	RetryAfter  *int64   `json:"retry_after,omitempty"` // seconds the provider asks to wait
}

// Problem is one thing wrong with an outcome.
type Problem struct {
	Pointer string `json:"pointer"`
	Message string `json:"message"`
}

// Denial is a tool call that was refused.
type Denial struct {
	Tool   string `json:"tool"`
	Rule   string `json:"rule,omitempty"`
	Reason string `json:"reason"`
}

// ToolError is an error that one of the agent's own calls ended with.
type ToolError struct {
	Tool  string `json:"tool"`
	Error string `json:"error"`
}

// Loop is what the loop detector found. The level comes from its thresholds.
type Loop struct {
	Count  int               `json:"count"`
	Period int               `json:"period,omitempty"`
	Level  ops.RecoveryLevel `json:"level,omitempty"`
	Call   string            `json:"call,omitempty"`
}

// Judged is what the judge said of a claimed success, recomputed from its numbers.
type Judged struct {
	Verdict              string `json:"verdict"` // PASS, CONDITIONAL or FAIL
	GoalAlignment        int    `json:"goal_alignment"`
	ActionCompleteness   int    `json:"action_completeness"`
	EvidenceOfCompletion int    `json:"evidence_of_completion"`
	FinalStateCoherence  int    `json:"final_state_coherence"`
	TotalScore           int    `json:"total_score"`
}

// wait is how long the provider asks to be left alone.
func (f Failure) wait() time.Duration {
	const most = 366 * 24 * 3600 // a longer wait would overflow, and means the same
	if f.RetryAfter == nil || *f.RetryAfter <= 0 {
		return 0
	}
	return time.Duration(min(*f.RetryAfter, most)) * time.Second
}

// loopLevel is the level of a loop. A report that gives the count alone is read with the default thresholds.
func (f Failure) loopLevel() ops.RecoveryLevel {
	switch {
	case f.StopCause != string(ops.StopLoop):
		return ops.RecoveryNone
	case f.Loop == nil:
		return ops.RecoveryReplan
	case f.Loop.Level >= ops.RecoveryReplan && f.Loop.Level <= ops.RecoveryForceDone:
		return f.Loop.Level
	case f.Loop.Count >= 8:
		return ops.RecoveryForceDone
	case f.Loop.Count >= 5:
		return ops.RecoveryFallback
	}
	return ops.RecoveryReplan
}

// signaled reports whether the agent's process was ended by a signal. Shells and the runner write it as 128+n.
func (f Failure) signaled() bool {
	return f.ExitCode != nil && (*f.ExitCode < 0 || *f.ExitCode > 128 && *f.ExitCode < 128+65)
}
