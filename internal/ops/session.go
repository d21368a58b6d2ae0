package ops

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// SessionStatus is where a session stands.
type SessionStatus string

// The statuses of a session. Queued means nothing ran; running means a process may exist.
const (
	SessionQueued      SessionStatus = "queued"
	SessionRunning     SessionStatus = "running"
	SessionCompleted   SessionStatus = "completed"
	SessionFailed      SessionStatus = "failed"
	SessionTimedOut    SessionStatus = "timed_out"
	SessionCancelled   SessionStatus = "cancelled"
	SessionInterrupted SessionStatus = "interrupted"
	SessionPartial     SessionStatus = "partial"
)

// SessionStatuses returns every status of a session.
func SessionStatuses() []SessionStatus {
	return []SessionStatus{
		SessionQueued, SessionRunning, SessionCompleted, SessionFailed, SessionTimedOut, SessionCancelled, SessionInterrupted, SessionPartial,
	}
}

// Ended reports whether the session is journaled as over.
func (s SessionStatus) Ended() bool { return s != SessionQueued && s != SessionRunning }

// Role is what a session is for.
type Role string

// The roles. Only work touches anything; the others answer a question of the supervisor.
const (
	RoleWork    Role = "work"
	RoleManager Role = "manager" // chooses among permitted targets
	RolePlanner Role = "planner" // finds the root cause and a new plan
	RoleJudge   Role = "judge"   // scores a claimed repair
)

// ContextMode is how a session got its context.
type ContextMode string

// The context modes.
const (
	ContextFresh   ContextMode = "fresh"
	ContextResume  ContextMode = "resume"
	ContextHandoff ContextMode = "handoff"
)

// OutcomeKind is what a session says at its end, or what the supervisor says of it.
type OutcomeKind string

// The outcomes. Inconclusive is set by the supervisor, never by an agent.
const (
	OutcomeHealthy      OutcomeKind = "healthy"
	OutcomeResolved     OutcomeKind = "resolved"
	OutcomeEscalate     OutcomeKind = "escalate"
	OutcomeNeedsHuman   OutcomeKind = "needs_human"
	OutcomeInconclusive OutcomeKind = "inconclusive"
)

// StopCause is why a session was stopped before its own end.
type StopCause string

// The causes of a stop.
const (
	StopNone      StopCause = ""
	StopUser      StopCause = "user"
	StopShutdown  StopCause = "shutdown"
	StopWall      StopCause = "wall_limit"
	StopIdle      StopCause = "idle"
	StopTool      StopCause = "tool_limit"
	StopCrash     StopCause = "crash"
	StopJournal   StopCause = "journal"
	StopInvariant StopCause = "invariant" // a tool ran that no gate had allowed
	StopLoop      StopCause = "loop"      // it repeated itself
	StopBudget    StopCause = "budget"    // its money was spent
	StopDeadline  StopCause = "deadline"  // the time of its recovery level was over
	StopAttack    StopCause = "attack"    // it attacked the supervisor
	StopLease     StopCause = "lease"     // its host could not tell the others that it lives
)

// StopError carries a stop cause through a context.
type StopError struct {
	Cause StopCause
	Why   string
}

func (e *StopError) Error() string {
	return cmp.Or(e.Why, "stopped: "+string(e.Cause))
}

// Stop makes the cause with which a context is cancelled.
func Stop(cause StopCause, why string) error { return &StopError{Cause: cause, Why: why} }

// Figures are the numbers of one run alone. Nil means the agent did not report it.
type Figures struct {
	CostUSD          *float64
	NumTurns         *int64
	DurationMS       *int64
	InputTokens      *int64
	OutputTokens     *int64
	CacheReadTokens  *int64
	CacheWriteTokens *int64
	ContextTokens    *int64
	ContextWindow    *int64
}

// Session is one agent process: one handler, one model, one set of figures.
type Session struct {
	ID             SessionID
	CycleID        CycleID
	ParentID       *SessionID
	RetryOf        *SessionID
	Attempt        int
	Role           Role
	Tier           Tier
	Permissions    Tier // the tier whose guard and tools apply
	Handler        string
	Family         string
	Agent          string
	Model          string
	Key            string // in the environment of every process of the session; also names its cgroup and log lines
	PlannedID      string // the conversation id we give the CLI
	CLISessionID   string // the conversation id read from its stream
	Status         SessionStatus
	Outcome        OutcomeKind
	OutcomeJSON    json.RawMessage
	HandoffJSON    []byte // what the agent wrote, byte for byte
	HandoffError   string // why the file was not read, when it was there and unsafe
	Failure        FailureClass
	Error          string // the failure in one sentence
	StopCause      StopCause
	Walls          string // what the trial of its walls found to stand around it; empty: none was made
	ContextMode    ContextMode
	RecoveryLevel  RecoveryLevel
	BudgetUSD      *float64 // what was reserved for it; nil without a limit
	ExitCode       *int
	APIStatus      *int          // what the model's API answered last, when it failed
	RetryAfter     time.Duration // how long it asked to wait
	CLIVersion     string
	PID            int
	ProcessStarted string // start time of the process as /proc tells it, so that a reused pid is not mistaken for it
	Structured     bool   // structured output was demanded: the CLI's version is known to give it
	LoopCount      int    // how often it had repeated itself when it was stopped for it
	LoopCall       string // the call it repeated
	OpenTool       string // the tool call that was open when the process ended; it may have taken effect
	Conversation   Fingerprint
	Unseen         []string // what it looked for that is there and not visible to agents
	ReportedUSD    *float64 // the total the CLI told, which may include the conversation it continued
	Owner          string
	// Proposal and Report are what HandoffJSON and OutcomeJSON say, filled once when the session is read or ends.
	Proposal  *Proposal `json:"-"`
	Report    *Outcome  `json:"-"`
	CreatedAt time.Time
	StartedAt *time.Time
	EndedAt   *time.Time
	Figures
}

// Works reports whether the session does the work of a tier, and does not only answer a question.
func (s Session) Works() bool { return s.Role == RoleWork || s.Role == "" }

// Confidence is how sure the session says it is of what it reports, from 0 to 1; nil if it does not say.
func (s Session) Confidence() *float64 {
	var said struct {
		Confidence *float64 `json:"confidence"`
	}
	for _, raw := range [][]byte{s.OutcomeJSON, s.HandoffJSON} {
		if s.Works() && json.Unmarshal(raw, &said) == nil && said.Confidence != nil && *said.Confidence >= 0 && *said.Confidence <= 1 {
			return said.Confidence
		}
	}
	return nil
}

// May is the tier whose guard and tools apply to the session.
func (s Session) May() Tier {
	return cmp.Or(s.Permissions, s.Tier)
}

// Fingerprint tells whether the CLI's own record of a conversation is still what the session left.
type Fingerprint struct {
	Path string
	Size int64
	SHA  string
}

// Proposed reports whether the session left a handoff, readable or not.
func (s Session) Proposed() bool { return len(s.HandoffJSON) > 0 || s.HandoffError != "" }

// Reported are the checks that the session told of at its end.
func (s Session) Reported() []CheckResult {
	if s.Report == nil {
		return nil
	}
	return s.Report.CheckResults
}

// NewSession is the intent to run a session: a row that is written before anything runs.
type NewSession struct {
	ParentID    *SessionID
	RetryOf     *SessionID
	Attempt     int
	Role        Role // empty means work
	Handler     Handler
	ContextMode ContextMode
	Level       RecoveryLevel // the rung of the ladder that ordered it; 0 for a first attempt
}

// Line is one line of a session's output, redacted.
type Line struct {
	Seq  int64
	At   time.Time
	Text string
	// Dropped is how many lines were not stored and are counted with this one, which says so.
	Dropped int64
}

// Outcome is what a session says at its end, in the structured form.
type Outcome struct {
	SchemaVersion int           `json:"schema_version" report:"required,version"`
	Kind          OutcomeKind   `json:"outcome" report:"required,one=healthy|resolved|escalate|needs_human"`
	Summary       string        `json:"summary" report:"required,text,says"`
	Confidence    *float64      `json:"confidence,omitempty" report:"min=0,max=1"` // how sure the session is of its decision
	CheckResults  []CheckResult `json:"check_results" report:"required,filled"`
	Handoff       *Handoff      `json:"handoff,omitempty" report:"optional"` // present if and only if the kind is escalate
	Actions       []Action      `json:"actions" report:"required"`
	Events        []Remark      `json:"events" report:"required"`
	Memories      []Lesson      `json:"memories" report:"required"`
}

// Action is something an agent says it did.
type Action struct {
	Service string `json:"service" report:"required,text,name"`
	Action  string `json:"action" report:"required,text,says"`
	Success bool   `json:"success" report:"required"`
	Detail  string `json:"detail" report:"required,says,loose"`
}

// Remark is something an agent wants the operator to see.
type Remark struct {
	Level   Level  `json:"level" report:"required,one=info|warning|critical"`
	Service string `json:"service" report:"required,name,loose"`
	Message string `json:"message" report:"required,text,says"`
}

// Lesson is something an agent wants remembered.
type Lesson struct {
	Category    string `json:"category" report:"required,text,says"`
	Service     string `json:"service" report:"required,name,loose"`
	Observation string `json:"observation" report:"required,text,says"`
}

// CheckType is one of the five kinds of check a handoff can report.
type CheckType string

// The check types of a handoff.
const (
	CheckHTTP      CheckType = "http"
	CheckDNS       CheckType = "dns"
	CheckContainer CheckType = "container"
	CheckDatabase  CheckType = "database"
	CheckService   CheckType = "service"
)

// Health is what a check found.
type Health string

// The findings of a check.
const (
	Healthy  Health = "healthy"
	Degraded Health = "degraded"
	Down     Health = "down"
	// Unknown is the finding of a look that could not be made, because the container engine does not answer. It proves nothing, neither
	// that a service fails nor that it works.
	Unknown Health = "unknown"
)

// CheckResult is one check as an agent reports it. The tags report here, and on the other parts of a handoff and an outcome, are the rules
// by which the package report reads them.
type CheckResult struct {
	Service        string    `json:"service" report:"required,text,name"`
	CheckType      CheckType `json:"check_type" report:"required,one=http|dns|container|database|service"`
	Status         Health    `json:"status" report:"required,one=healthy|degraded|down"`
	Error          string    `json:"error" report:"required"`
	ResponseTimeMS *int64    `json:"response_time_ms,omitempty" report:"min=0,max=9007199254740991"`
}

// longestTitle limits the title of an incident.
const longestTitle = 160

// Title names the problem of a service by what its failing check says.
func (c CheckResult) Title() string {
	if what := Prose(c.Error); what != "" {
		return c.Service + ": " + Cut(what, longestTitle)
	}
	return c.Service + " is " + string(c.Status)
}

// Proposal is what a session handed up, as it was validated.
type Proposal struct {
	Handoff  *Handoff // nil when it is not valid
	Problems []string // why it is not
	Warnings []string
}

// Handoff is the facts one tier passes up to the next.
type Handoff struct {
	SchemaVersion         int             `json:"schema_version" report:"required,version"`
	RecommendedTier       Tier            `json:"recommended_tier" report:"required,min=-2147483648,max=2147483647"`
	Target                string          `json:"target,omitempty" report:"optional"`
	Reason                string          `json:"reason,omitempty" report:"says,loose"`
	Confidence            *float64        `json:"confidence,omitempty" report:"min=0,max=1"` // how sure the tier is of its findings
	ServicesAffected      []string        `json:"services_affected" report:"required,filled" each:"text,name"`
	CheckResults          []CheckResult   `json:"check_results" report:"required,filled"`
	InvestigationFindings string          `json:"investigation_findings,omitempty" report:"tier2,says"`
	RemediationAttempted  string          `json:"remediation_attempted,omitempty" report:"tier2,says"`
	CooldownState         json.RawMessage `json:"cooldown_state" report:"required"`
	// Plan is what the tier proposes that the supervisor does before the next tier starts, for a human to approve.
	Plan []PlanStep `json:"plan,omitempty" report:"max=20"`
}

// Why is why an agent hands over, in its own words, or else the checks that made it do so.
func (h Handoff) Why() string {
	if strings.TrimSpace(h.Reason) != "" {
		return h.Reason
	}
	var bad []string
	for _, c := range h.CheckResults {
		if c.Status != Healthy {
			bad = append(bad, strings.TrimSpace(fmt.Sprintf("%s is %s %s", c.Service, c.Status, c.Error)))
		}
	}
	return strings.TrimSpace(strings.Join(bad, "; ") + " (no reason given)")
}
