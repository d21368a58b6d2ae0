package ops

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"
)

// Trigger is what started a cycle.
type Trigger string

// The triggers of a cycle.
const (
	TriggerScheduled Trigger = "scheduled"
	TriggerManual    Trigger = "manual"
	TriggerAPI       Trigger = "api"
	TriggerAlert     Trigger = "alert"
	TriggerProbe     Trigger = "probe"
)

// Title returns the trigger in words.
func (t Trigger) Title() string {
	switch t {
	case TriggerScheduled:
		return "Scheduled check"
	case TriggerManual:
		return "Manual run"
	case TriggerAPI:
		return "API run"
	case TriggerAlert:
		return "Alert"
	case TriggerProbe:
		return "Failed probe"
	}
	return string(t)
}

// CycleStatus is where a cycle stands. Everything but queued, running and waiting_human is an end.
type CycleStatus string

// The statuses of a cycle.
const (
	CycleQueued       CycleStatus = "queued"
	CycleRunning      CycleStatus = "running"
	CycleWaitingHuman CycleStatus = "waiting_human"
	CycleHealthy      CycleStatus = "healthy"
	CycleResolved     CycleStatus = "resolved"
	CycleNeedsHuman   CycleStatus = "needs_human"
	CycleSuppressed   CycleStatus = "suppressed"
	CycleBlocked      CycleStatus = "blocked"
	CyclePartial      CycleStatus = "partial"
	CycleFailed       CycleStatus = "failed"
	CycleCancelled    CycleStatus = "cancelled"
)

// CycleStatuses returns every status of a cycle.
func CycleStatuses() []CycleStatus {
	return []CycleStatus{
		CycleQueued, CycleRunning, CycleWaitingHuman, CycleHealthy, CycleResolved, CycleNeedsHuman, CycleSuppressed, CycleBlocked, CyclePartial,
		CycleFailed, CycleCancelled,
	}
}

// Ended reports whether nothing more will happen in the cycle.
func (s CycleStatus) Ended() bool {
	switch s {
	case CycleQueued, CycleRunning, CycleWaitingHuman:
		return false
	case CycleHealthy, CycleResolved, CycleNeedsHuman, CycleSuppressed, CycleBlocked,
		CyclePartial, CycleFailed, CycleCancelled:
		return true
	}
	return false
}

// Proof is who says that a problem is over.
type Proof string

// The proofs. A cycle that is not resolved has none, not even ProofNone.
const (
	ProofProbe  Proof = "probe"  // our own probes failed before the repair and are healthy after it
	ProofJudge  Proof = "judge"  // a second agent looked at what was done
	ProofHuman  Proof = "human"  // a person closed the incident or accepted the repair
	ProofPlan   Proof = "plan"   // the plan that a person approved was carried out, and probes are healthy after it
	ProofReflex Proof = "reflex" // an action without an agent was carried out, and probes are healthy after it
	ProofNone   Proof = "none"   // only the agent itself
	// ProofReport ends incidents only, never a cycle: another session looked and found the service well.
	ProofReport Proof = "report"
)

// CycleOptions narrow the policy of one cycle; they can only make it stricter.
type CycleOptions struct {
	DryRun  bool `json:"dry_run,omitempty"`
	MaxTier Tier `json:"max_tier,omitempty"`
}

// Cycle is one run from trigger to end.
type Cycle struct {
	ID                CycleID
	Environment       string
	Trigger           Trigger
	Status            CycleStatus
	Reason            string
	Policy            Policy
	Options           CycleOptions
	Prompt            string
	Problem           string // what is wrong, in one line, such as "redis: connection refused"; empty until known
	WakeAt            *time.Time
	WakeSeq           int64
	CancelRequestedAt *time.Time
	CancelReason      string
	Owner             Owner
	Result            json.RawMessage
	Verified          *bool      // resolved: whether somebody but the agent confirmed it
	VerifiedBy        Proof      // resolved: who confirmed it
	RefutedAt         *time.Time // resolved: when a check showed that the repair did not hold
	ProbationUntil    *time.Time // resolved: until then a check can show that, for the incidents that it closed
	CreatedAt         time.Time
	StartedAt         *time.Time
	EndedAt           *time.Time
}

// Title names the cycle for people: its problem, else the first line of what was asked, else its trigger.
func (c Cycle) Title() string {
	if c.Problem != "" {
		return c.Problem
	}
	if line, _, _ := strings.Cut(strings.TrimSpace(c.Prompt), "\n"); line != "" {
		return strings.TrimSpace(line)
	}
	return c.Trigger.Title()
}

// NewCycle is what a trigger submits.
type NewCycle struct {
	Environment string
	Trigger     Trigger
	Prompt      string
	Problem     string
	Options     CycleOptions
	At          time.Time
	// Key names the request. The same request with the same key gives the same cycle; empty for none.
	Key string
}

// Journal is what has happened in a cycle so far, in order. Next reads nothing else.
type Journal struct {
	Sessions   []Session
	Decisions  []Decision
	Checks     []Check
	Recoveries []Recovery
	Approvals  []Approval
	Incidents  []Incident // open ones of the environment, whichever cycle opened them, and those this cycle waited for
	// Effects are what the gates let each session do, and what they refused.
	Effects map[SessionID]Effects
	// Runs are the actions that the supervisor did for this cycle.
	Runs []ActionRun
	// Spend and Cooldowns are read when the cycle is loaded; a decision stores them among its inputs.
	Spend     Spend
	Cooldowns []Cooldown
	// Before is how the environment's last cycles ended, the newest first.
	Before []Ending
	// Denials are the questions in the environment to which a human said no, for as long as the no lasts, whichever cycle asked.
	Denials []Approval
	// Silences are the environment's silences that hold now, Withheld what the watch holds back of bad services.
	Silences []Silence
	Withheld []Withheld
	// Told are the services that the watch has told people of when it started the cycle. It is read in a dry run only.
	Told []string
	// LastLook is when an agent last looked at the environment and said what it found; nil when none has.
	LastLook *time.Time
	// Windows are the context windows the CLIs reported last, by the model they were started with.
	Windows map[string]int64
}

// Newest returns the session that was queued last, or nil before the first one.
func (j Journal) Newest() *Session {
	if len(j.Sessions) == 0 {
		return nil
	}
	return &j.Sessions[len(j.Sessions)-1]
}

// Last returns the newest session that did the work of a tier itself, or nil before the first one.
func (j Journal) Last() *Session {
	for i := len(j.Sessions) - 1; i >= 0; i-- {
		if j.Sessions[i].Works() {
			return &j.Sessions[i]
		}
	}
	return nil
}

// Parent returns the session whose outcome led to s, or nil.
func (j Journal) Parent(s Session) *Session {
	if s.ParentID == nil {
		return nil
	}
	return j.Session(*s.ParentID)
}

// Session returns the session with that id, or nil.
func (j Journal) Session(id SessionID) *Session {
	for i := range j.Sessions {
		if j.Sessions[i].ID == id {
			return &j.Sessions[i]
		}
	}
	return nil
}

// With returns the journal as it will read once r is recorded.
func (j Journal) With(r Result) Journal {
	out := j
	if r.Session != nil {
		out.Sessions = make([]Session, len(j.Sessions))
		copy(out.Sessions, j.Sessions)
		for i := range out.Sessions {
			if out.Sessions[i].ID == r.Session.ID {
				out.Sessions[i] = *r.Session
			}
		}
	}
	if r.Session != nil && r.Effects != nil {
		out.Effects = maps.Clone(j.Effects)
		if out.Effects == nil {
			out.Effects = map[SessionID]Effects{}
		}
		out.Effects[r.Session.ID] = *r.Effects
	}
	if len(r.Checks) > 0 {
		out.Checks = append(append([]Check{}, j.Checks...), r.Checks...)
	}
	if len(r.Runs) > 0 {
		out.Runs = slices.DeleteFunc(slices.Clone(j.Runs), func(o ActionRun) bool {
			return slices.ContainsFunc(r.Runs, func(n ActionRun) bool { return n.ID == o.ID })
		})
		out.Runs = append(out.Runs, r.Runs...)
	}
	return out
}

// Spend is what others have spent or reserved today.
type Spend struct {
	DayUSD float64 `json:"day_usd"`
}

// Ending is how a cycle ended.
type Ending struct {
	Status CycleStatus
	At     time.Time
}

// Claimed reports what a worker got when it asked for a cycle.
type Claimed struct {
	Cycle   Cycle
	Journal Journal
}
