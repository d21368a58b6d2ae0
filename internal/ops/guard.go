package ops

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
	"time"
)

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

// Digest identifies the input of a call.
func Digest(input []byte) string {
	sum := sha256.Sum256(input)
	return hex.EncodeToString(sum[:])
}

// Refusals are the calls of a session that were refused. None of them ran, whatever its answer looks like.
type Refusals []GuardRecord

// Of finds the refusal of a call: by its id, or, where the gate of an agent learns no id, by its input and by the answer, which is the
// reason then.
func (r Refusals) Of(useID, input, answer string) (GuardRecord, bool) {
	for _, g := range r {
		same := useID != "" && g.ToolUseID == useID
		if g.ToolUseID == "" && g.Gate == GateShell && g.Reason != "" && strings.Contains(answer, g.Reason) {
			same = g.Input == input || g.Digest == Digest([]byte(input))
		}
		if same {
			return g, true
		}
	}
	return GuardRecord{}, false
}

// Ran leaves out of the calls that gates allowed those that were refused after the first gate.
func (r Refusals) Ran(allowed []GuardRecord) []GuardRecord {
	return slices.DeleteFunc(slices.Clone(allowed), func(g GuardRecord) bool {
		_, refused := r.Of(g.ToolUseID, "", "")
		return g.Gate == GateHook && refused
	})
}

// RuleAttack refuses a call that would change, signal or stop the supervisor, or read its secrets: its session ends at once.
const RuleAttack = "never.attack"

// Reservation asks for one action on one service before it is done.
type Reservation struct {
	Service string
	Project string // the compose project: an open half of the project covers its services
	Action  string // restart or redeployment
	Phase   Phase
}

// Phase says whether an action is one half of a redeployment.
type Phase string

// The halves: taking a service down opens a redeployment, bringing it up closes it.
const (
	PhaseNone  Phase = ""
	PhaseOpen  Phase = "open"
	PhaseClose Phase = "close"
)

// CooldownLimit is how often an action may be done to a service within a sliding window.
type CooldownLimit struct {
	Service string        `json:"service,omitempty"` // empty: every service
	Action  string        `json:"action"`
	Count   int           `json:"count"`
	Window  time.Duration `json:"window"`
}
