package ops

import (
	"encoding/json"
	"time"
)

// Level is how urgent an event is.
type Level string

// The levels of an event.
const (
	LevelInfo     Level = "info"
	LevelWarning  Level = "warning"
	LevelCritical Level = "critical"
)

// Verdict is what the supervisor did with a proposal.
type Verdict string

// The verdicts of a decision.
const (
	VerdictEscalate   Verdict = "escalate"
	VerdictRefused    Verdict = "refused"
	VerdictSuppressed Verdict = "suppressed"
	VerdictBlocked    Verdict = "blocked"
	VerdictNeedsHuman Verdict = "needs_human"
	VerdictApproval   Verdict = "approval" // a human must agree first
)

// Objection is the check of a decision that objected to the proposal.
type Objection string

// The checks of a decision, in their order.
const (
	ObjectionEndOfChain   Objection = "end of chain"
	ObjectionValidity     Objection = "validity"
	ObjectionRoute        Objection = "route"
	ObjectionReason       Objection = "reason"
	ObjectionIndependence Objection = "independence"
	ObjectionHeld         Objection = "held"
	ObjectionTrust        Objection = "trust"
	ObjectionDryRun       Objection = "dry run"
	ObjectionMaxTier      Objection = "maximum tier"
	ObjectionCooldown     Objection = "cooldown"
	ObjectionBudget       Objection = "budget"
	ObjectionApproval     Objection = "approval"
	ObjectionNone         Objection = "all" // every check was passed
)

// ProcessMode is how the target of a route was chosen.
type ProcessMode string

// The process modes.
const (
	ProcessTyped   ProcessMode = "typed_handoff"
	ProcessManager ProcessMode = "manager_process"
)

// Decision is what the supervisor did with one proposed escalation, and why.
type Decision struct {
	ID                     int64
	CycleID                CycleID
	SessionID              SessionID
	SourceHandler          string
	TargetHandler          string
	Reason                 string // one sentence, stored, shown and notified unchanged
	Proposed               string // the agent's own reason
	Depth                  int
	MaxDepth               int
	TargetValidated        bool
	SelfEscalationRejected bool
	ProcessMode            ProcessMode
	ManagerPresent         bool
	Path                   []string
	Services               []string // what is handed on: the affected services nobody holds back
	Verdict                Verdict
	Check                  Objection       // the check that decided
	Inputs                 json.RawMessage // everything the decision was computed from
	At                     time.Time
}

// Recorded is a cycle with what is stored to decide it again.
type Recorded struct {
	ID          CycleID
	Environment string
	Options     CycleOptions
	At          time.Time
	Steps       []RecordedStep
	Decisions   []RecordedDecision
}

// RecordedStep is a step with what it was decided from, as package decide writes it.
type RecordedStep struct {
	N     int
	Facts []byte
}

// RecordedDecision is a decision with the family of the model that made the proposal.
type RecordedDecision struct {
	Decision
	Family string
}

// Text is a notice as people read it.
type Text struct {
	Title string
	Body  string
}

// Notice is a message to people, waiting in the outbox or delivered from it.
type Notice struct {
	ID      int64
	CycleID *CycleID
	Kind    NoticeKind
	Level   Level
	Title   string
	Body    string
	Target  NoticeTarget
	// Incident is the one that the notice is about; 0 if it is not about a single one.
	Incident int64
	// Link is the page on which a person can act on it. It is added when the notice is sent, and not stored.
	Link string
	// Answers are links with which people answer it on a page. They are made when it is sent and are not stored.
	Answers []AnswerLink
	// Environment and Service choose the route; Service may be empty.
	Environment string
	Service     string
	// Key names what the notice tells: while one with the same key is young, another is not written.
	Key       string
	Status    NoticeStatus
	Attempts  int
	NextAt    time.Time
	Error     string
	CreatedAt time.Time
	SentAt    *time.Time
	// Deliveries are the targets that took it. Only these people were told.
	Deliveries []Delivery
}

// Delivery is a target that took a notice.
type Delivery struct {
	Route string    `json:"route" doc:"first, second, route NAME, or escalation of route NAME."`
	To    string    `json:"to" doc:"Name of the target; never its address, which can be a secret."`
	At    time.Time `json:"at"`
}

// Why a notice was skipped.
const (
	SkippedNoTarget = "no notification target is configured: set CLAUDEOPS_APPRISE_URLS or CLAUDEOPS_APPRISE_API"
	SkippedMuted    = "its route has no target"
)

// NoticeTarget is who gets a notice.
type NoticeTarget string

// The targets: the people who are told first, and those who are told when the first do not answer.
const (
	TargetFirst  NoticeTarget = ""
	TargetSecond NoticeTarget = "second"
)

// NoticeStatus is where a notice stands.
type NoticeStatus string

// The statuses of a notice.
const (
	NoticePending NoticeStatus = "pending"
	NoticeSent    NoticeStatus = "sent"
	NoticeDead    NoticeStatus = "dead"    // tried often enough
	NoticeSkipped NoticeStatus = "skipped" // no target is configured
)

// Spending is what the sessions of an environment have cost.
type Spending struct {
	TodayUSD  float64 // since midnight UTC
	RecentUSD float64 // in the window over which the rate is measured
}

// ProbePurpose is why probes ran.
type ProbePurpose string

// The purposes of a probe.
const (
	ProbeObserve ProbePurpose = "observe"
	ProbeVerify  ProbePurpose = "verify"
	ProbeWatch   ProbePurpose = "watch"
	ProbeRecheck ProbePurpose = "recheck" // after a wait for a human
	ProbePlan    ProbePurpose = "plan"    // after an approved plan was carried out
	ProbeReflex  ProbePurpose = "reflex"  // after a reflex
	ProbeRunning ProbePurpose = "running" // after a repair: whether what the service runs in is up
	ProbeAlert   ProbePurpose = "alert"   // no probe: what an alert says
)

// Check is the result of one probe.
type Check struct {
	ID             int64
	At             time.Time
	Environment    string
	CycleID        *CycleID
	AfterSession   *SessionID // the session whose claim is verified
	Purpose        ProbePurpose
	Service        string
	Probe          string // what was probed, in one line
	Type           CheckType
	Status         Health
	Error          string
	ResponseTimeMS int64
	Instance       Instance `json:",omitzero"` // the container that was found
	// Note says how far the probe is from failing or from recovery; it is read, never stored.
	Note string `json:"-"`
}

// LastOfEach are the last results of each probe, in the order in which the probes came first.
func LastOfEach(checks []Check) []Check {
	type probe struct{ service, name string }
	at := make(map[probe]int, len(checks))
	out := make([]Check, 0, len(checks))
	for _, c := range checks {
		key := probe{c.Service, c.Probe}
		if i, known := at[key]; known {
			out[i] = c
			continue
		}
		at[key] = len(out)
		out = append(out, c)
	}
	return out
}

// Instance is one start of a container.
type Instance struct {
	ID       string
	Started  time.Time
	Restarts int // by the engine
}

// RestartsSince is how often the same container was started again since another result; 0 for another container.
func (i Instance) RestartsSince(was Instance) int {
	switch {
	case i.ID == "" || i.ID != was.ID:
		return 0
	case i.Restarts > was.Restarts:
		return i.Restarts - was.Restarts
	case i.Started.After(was.Started):
		return 1
	}
	return 0
}

// Result is what an effect produced. It is recorded in one transaction with the step that follows from it.
type Result struct {
	Session *Session
	Checks  []Check
	Events  []Event
	Lessons []Lesson
	Notices []Notice
	Problem string      // what the session found, in one line; kept as the problem of a cycle that has none
	Runs    []ActionRun // actions that were run; they are recorded already
	Effects *Effects    // what the gates let the session do, where that matters
	Gated   bool        // the session ran behind its gates, so what it did is on record
}

// Cooldown is what is left of one kind of action on one service.
type Cooldown struct {
	Service string    `json:"service"`
	Action  string    `json:"action"` // restart or redeployment
	Left    int       `json:"left"`
	Until   time.Time `json:"until"` // when the next one becomes possible
}

// AnswerLink is a link with which a person answers a notice.
type AnswerLink struct {
	Label   string // such as Deny
	Address string
}
