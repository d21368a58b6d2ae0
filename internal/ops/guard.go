package ops

import "time"

// Gate is where a tool call was judged.
type Gate string

// The gates of a session: before the CLI calls a tool, before a shell command runs, and before a request reaches the Docker engine.
const (
	GateHook   Gate = "hook"
	GateShell  Gate = "shell"
	GateDocker Gate = "docker"
	GateAction Gate = "action" // the supervisor is asked to act
)

// GuardRecord is one judgement of a tool call, as it is recorded before the answer is given.
type GuardRecord struct {
	ID        int64
	At        time.Time
	CycleID   CycleID
	SessionID SessionID
	Tier      Tier
	Gate      Gate
	ToolUseID string
	Tool      string
	Input     string // redacted, shortened
	Digest    string // of the whole input
	Allowed   bool
	Rule      string
	Reason    string
	Mutating  bool // it reserves a cooldown
	Took      time.Duration
}

// RuleAttack refuses a call that would change, signal or stop the supervisor, or read its secrets: its session ends at once.
const RuleAttack = "never.attack"

// Reservation asks for one action on one service before it is done.
type Reservation struct {
	Service string
	Project string // the compose project: an open half of the project covers its services
	Action  string // restart or redeployment
	Half    Half
}

// Half says whether an action is one half of a redeployment.
type Half string

// The halves: taking a service down opens a redeployment, bringing it up closes it.
const (
	HalfNone  Half = ""
	HalfOpen  Half = "open"
	HalfClose Half = "close"
)

// CooldownLimit is how often an action may be done to a service within a sliding window.
type CooldownLimit struct {
	Service string        `json:"service,omitempty"` // empty: every service
	Action  string        `json:"action"`
	Count   int           `json:"count"`
	Window  time.Duration `json:"window"`
}
