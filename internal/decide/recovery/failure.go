package recovery

import (
	"time"

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
	SchemaVersion int               `json:"schema_version" report:"required,version"`
	Cycle         int64             `json:"cycle_id,omitempty" report:"min=0,max=9007199254740991"`
	Session       int64             `json:"session_id" report:"required,min=0,max=9007199254740991"`
	Tier          int               `json:"tier" report:"required,min=1,max=3"`
	Handler       string            `json:"handler" report:"required,text"`
	Family        string            `json:"family,omitempty" report:"optional"`
	Model         string            `json:"model,omitempty" report:"optional"`
	Status        ops.SessionStatus `json:"status" report:"required,one=completed|failed|timed_out|cancelled|interrupted|partial"`
	ExitCode      *int              `json:"exit_code,omitempty" report:"min=-2147483648,max=2147483647"` // absent: never started
	StopCause     ops.StopCause     `json:"stop_cause,omitempty" report:"optional"`
	Class         ops.FailureClass  `json:"failure,omitempty" report:"optional"`         // class of the failure as the runner names it
	APIStatus     *int              `json:"api_status,omitempty" report:"min=0,max=999"` // HTTP status of the model API
	APIError      string            `json:"api_error,omitempty" report:"optional"`       // class of the API's error, such as overloaded
	ResultSubtype string            `json:"result_subtype,omitempty" report:"optional"`  // such as error_max_turns
	StopReason    string            `json:"stop_reason,omitempty" report:"optional"`     // of the model, such as refusal
	// Error is the error text of the CLI. Text of a monitored service must never get here.
	Error   string   `json:"error,omitempty" report:"optional"`
	Outcome Unusable `json:"outcome,omitempty" report:"one=|missing|invalid"`
	// OutcomeProblems are what validation found, by JSON pointer.
	OutcomeProblems []Problem   `json:"outcome_problems,omitempty" report:"optional"`
	Denials         []Denial    `json:"guard_denials,omitempty" report:"optional"`
	ToolErrors      []ToolError `json:"tool_errors,omitempty" report:"optional"` // of the agent's own calls
	// Mutating: an allowed action of the session may have changed something. Without a guard log nobody knows, so it
	// has to be true for every tier that may repair.
	Mutating    bool     `json:"mutating,omitempty" report:"optional"`
	Started     []string `json:"started,omitempty" report:"optional"` // the allowed mutating actions, in order
	Loop        *Loop    `json:"loop,omitempty" report:"optional"`
	Judge       *Judged  `json:"judge,omitempty" report:"optional"`
	ProbeRed    []string `json:"probe_red,omitempty" report:"optional"` // services a probe still finds down or degraded after a claimed fix
	Interrupted bool     `json:"interrupted,omitempty" report:"optional"`
	OpenTool    string   `json:"open_tool,omitempty" report:"optional"`                     // open at the end; it may have taken effect
	RetryAfter  *int64   `json:"retry_after,omitempty" report:"min=0,max=9007199254740991"` // seconds the provider asks to wait
}

// Problem is one thing wrong with an outcome.
type Problem struct {
	Pointer string `json:"pointer" report:"required"`
	Message string `json:"message" report:"required"`
}

// Denial is a tool call that was refused.
type Denial struct {
	Tool   string `json:"tool" report:"required"`
	Rule   string `json:"rule,omitempty" report:"optional"`
	Reason string `json:"reason" report:"required"`
}

// ToolError is an error that one of the agent's own calls ended with.
type ToolError struct {
	Tool  string `json:"tool" report:"required"`
	Error string `json:"error" report:"required"`
}

// Loop is what the loop detector found. The level comes from its thresholds.
type Loop struct {
	Count  int               `json:"count" report:"required,min=0,max=1000000"`
	Period int               `json:"period,omitempty" report:"min=0,max=4"`
	Level  ops.RecoveryLevel `json:"level,omitempty" report:"one=0|3|4|5"`
	Call   string            `json:"call,omitempty" report:"optional"`
}

// Judged is what the judge said of a claimed success, recomputed from its numbers.
type Judged struct {
	Verdict              string `json:"verdict" report:"required,one=PASS|CONDITIONAL|FAIL"` // PASS, CONDITIONAL or FAIL
	GoalAlignment        int    `json:"goal_alignment" report:"required,min=0,max=25"`
	ActionCompleteness   int    `json:"action_completeness" report:"required,min=0,max=25"`
	EvidenceOfCompletion int    `json:"evidence_of_completion" report:"required,min=0,max=25"`
	FinalStateCoherence  int    `json:"final_state_coherence" report:"required,min=0,max=25"`
	TotalScore           int    `json:"total_score" report:"required,min=0,max=100"`
	Invalid              bool   `json:"invalid,omitempty" report:"optional"` // the judge's answer could not be used
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
	case f.StopCause != ops.StopLoop:
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
