package ops

import (
	"fmt"
	"slices"
	"time"
)

// RecoveryLevel is a level of the ladder that gets a usable outcome from one tier. Permissions never change with it.
type RecoveryLevel int

// The levels, from the cheapest to the last. None is a first attempt.
const (
	RecoveryNone      RecoveryLevel = 0
	RecoveryRetry     RecoveryLevel = 1
	RecoveryNudge     RecoveryLevel = 2
	RecoveryReplan    RecoveryLevel = 3
	RecoveryFallback  RecoveryLevel = 4
	RecoveryForceDone RecoveryLevel = 5
)

// RecoveryAction is the name of what a level does, as it is stored.
type RecoveryAction string

// The actions of the levels.
const (
	ActionNone      RecoveryAction = ""
	ActionRetry     RecoveryAction = "retry"
	ActionNudge     RecoveryAction = "nudge"
	ActionReplan    RecoveryAction = "replan"
	ActionFallback  RecoveryAction = "fallback"
	ActionForceDone RecoveryAction = "force-done"
)

// Action is what the level does.
func (l RecoveryLevel) Action() RecoveryAction {
	return map[RecoveryLevel]RecoveryAction{
		RecoveryRetry: ActionRetry, RecoveryNudge: ActionNudge, RecoveryReplan: ActionReplan, RecoveryFallback: ActionFallback,
		RecoveryForceDone: ActionForceDone,
	}[l]
}

func (l RecoveryLevel) String() string {
	if a := l.Action(); a != ActionNone {
		return fmt.Sprintf("level %d (%s)", int(l), a)
	}
	return "no level"
}

// ErrorType is what the recovery matrix calls a failure.
type ErrorType string

// Recovery is one attempt the ladder ordered, and why.
type Recovery struct {
	ID             int64
	CycleID        CycleID
	SessionID      SessionID // the session that failed
	Tier           Tier
	Level          RecoveryLevel
	Action         RecoveryAction
	ErrorType      ErrorType
	PreviousLevels []RecoveryLevel
	EnteredAt      time.Time
	NotBefore      *time.Time
	Deadline       *time.Time
	Variant        int    // which wording of a nudge
	Handler        string // who makes the attempt
	Reason         string
}

// RecoveryPolicy bounds the ladder. Zero values mean the defaults of package recovery.
type RecoveryPolicy struct {
	Enabled bool           `json:"enabled"`
	Limits  RecoveryLimits `json:"limits"`
}

// RecoveryLimits are the limits of the ladder that an operator sets. What it may cost is bounded by the budgets.
type RecoveryLimits struct {
	TotalTime time.Duration `json:"total_time,omitempty"`
}

// Effects are what the gates let a session do, as far as it matters for another attempt.
type Effects struct {
	Mutating bool          // it was allowed something that changes a service
	Done     []GuardRecord // what it was allowed that changes something
	Denied   []GuardRecord
	Attack   *GuardRecord // the first of them that attacks the supervisor
}

// Verification is what a judge made of a claimed repair. The verdict is computed from the numbers.
type Verification struct {
	ID              int64
	CycleID         CycleID
	SessionID       SessionID // whose claim it is
	JudgeSessionID  SessionID
	Verdict         string
	Confidence      float64
	TotalScore      int
	Dimensions      map[string]int
	Reasoning       string
	FailureReasons  []string
	Recommendations []string
	At              time.Time
}

// Memory is something learnt, kept for later sessions.
type Memory struct {
	ID          int64
	Environment string
	Category    string
	Service     string
	Observation string
	Confidence  float64
	Source      string // agent, force-done, operator
	SessionID   *SessionID
	CreatedAt   time.Time
	UpdatedAt   time.Time
	ExpiresAt   *time.Time
	By          string // the person who adds it, for the event; it is not stored with the memory
}

// FailureClass is what kind of failure ended a session. It is stored, matched by the recovery matrix and shown. That of a session which the
// supervisor stopped for a limit, a loop or its money is the cause of the stop.
type FailureClass string

// What an agent CLI reports about itself. Other answers of the model's API are FailureAPI, told apart by the HTTP status.
const (
	FailureNone          FailureClass = ""
	FailureAPI           FailureClass = "api_error"
	FailureMaxTurns      FailureClass = "max_turns"         // its own limit of turns
	FailureMaxBudget     FailureClass = "max_budget"        // its own limit in USD
	FailureStructured    FailureClass = "structured_output" // it gave up on a structured output that fits the schema
	FailureRefusal       FailureClass = "refusal"           // the model refused to answer
	FailureOutputLimit   FailureClass = "output_limit"      // the model's answer was too long
	FailurePromptTooLong FailureClass = "prompt_too_long"   // the conversation is full
	FailureModelNotFound FailureClass = "model_not_found"
	FailureBilling       FailureClass = "billing"     // no credit
	FailureAgent         FailureClass = "agent_error" // the CLI reported another error
)

// What the supervisor finds when it runs the process.
const (
	FailureNotFound      FailureClass = "not_found" // the program does not exist
	FailureStart         FailureClass = "start"     // it could not be started
	FailureTooOld        FailureClass = "too_old"   // its version is too old for the tier
	FailureLayer         FailureClass = "layer"     // a layer of the operating system around it could not be set up
	FailureExit          FailureClass = "exit"      // it exited with an error
	FailureNoResult      FailureClass = "no_result" // it exited without a result
	FailureJournal       FailureClass = "journal"   // its output could not be stored
	FailureInvariant     FailureClass = "invariant" // a tool ran that no gate had allowed
	FailureStopped       FailureClass = "stopped"
	FailureInterrupted   FailureClass = "interrupted"    // the supervisor ended while it ran
	FailureAgentUnknown  FailureClass = "agent"          // the handler names an agent that this build does not have
	FailurePrepare       FailureClass = "prepare"        // what it needs could not be prepared
	FailureGate          FailureClass = "gate"           // its gate could not be opened
	FailureOutcome       FailureClass = "outcome"        // it gave no usable outcome
	FailureResumeRefused FailureClass = "resume_refused" // the conversation could not be continued; nothing ran
	FailureUnpaid        FailureClass = "unpaid"         // no money was left for it; nothing ran
)

// NeverRan reports a session whose program was not started, so that it looked at nothing.
func (c FailureClass) NeverRan() bool {
	return slices.Contains([]FailureClass{
		FailureNotFound, FailureStart, FailureTooOld, FailureLayer, FailureAgentUnknown, FailurePrepare, FailureGate, FailureResumeRefused,
		FailureUnpaid,
	}, c)
}

// Flaw is one thing that is wrong with a registry of handlers.
type Flaw struct {
	// Key names the part of the policy it is about, such as handlers[1].hands_to[0], routes[0].mode or max_depth.
	Key     string
	Message string
	Fix     string
	Unknown string // the name nobody is registered under, when that is what is wrong
}

func (f Flaw) String() string {
	if f.Fix == "" {
		return f.Message
	}
	return f.Message + "; " + f.Fix
}
