package ops

import (
	"encoding/json"
	"slices"
	"time"
)

// ApprovalPolicy is what happens to a question nobody answers.
type ApprovalPolicy struct {
	Expiry   time.Duration `json:"expiry,omitempty"`    // 0: it waits for ever
	OnExpiry string        `json:"on_expiry,omitempty"` // needs_human (default), deny or approve
	Remind   time.Duration `json:"remind,omitempty"`    // between reminders
	Reminds  int           `json:"reminds,omitempty"`   // at most so many, then the second target
}

// What an operator can have done with a question that nobody answers, beside calling a human.
const (
	OnExpiryApprove = "approve" // all of it, with all steps of its plan
	OnExpiryDeny    = "deny"
)

// ApprovalStatus is where a question to a human stands.
type ApprovalStatus string

// The statuses of an approval. Only the first answer counts.
const (
	ApprovalPending  ApprovalStatus = "pending"
	ApprovalApproved ApprovalStatus = "approved"
	ApprovalDenied   ApprovalStatus = "denied"
	ApprovalExpired  ApprovalStatus = "expired"
	// ApprovalWithdrawn needs no answer any more: the cycle ended, or its problem did.
	ApprovalWithdrawn ApprovalStatus = "withdrawn"
)

// ApprovalKind is what a human is asked.
type ApprovalKind string

// The kinds of question.
const (
	ApprovalTier   ApprovalKind = "tier"   // may this tier start?
	ApprovalReview ApprovalKind = "review" // is this repair good enough?
)

// Approval is one question to a human about one step of one cycle.
type Approval struct {
	ID          int64
	CycleID     CycleID
	SessionID   SessionID // whose proposal or claim it is
	Environment string
	Kind        ApprovalKind
	Tier        Tier
	Handler     string
	Status      ApprovalStatus
	Reason      string // why it is asked
	RequestedAt time.Time
	ExpiresAt   *time.Time
	AnsweredAt  *time.Time
	AnsweredBy  string
	Answer      string // the reason given with the answer
	// Plan is what the supervisor does after an approval, before it starts the tier; PlanHash identifies what was shown of it.
	Plan     []ApprovedStep
	PlanHash string
	// Steps are those that were approved, counted from 1. Skipped is why those of them that have not run will not.
	Steps   []int
	Skipped string
	// Facts are what was wrong when it was asked. After a no, no agent starts for them until DeniedUntil; nil: the no does not last.
	Facts       []Fact
	DeniedUntil *time.Time
	// States are what became of the steps of the plan. They are made from the runs for those who look at it, and not stored.
	States []PlanProgress
}

// AllSteps are the steps of the plan, counted from 1.
func (a Approval) AllSteps() []int {
	var steps []int
	for n := range a.Plan {
		steps = append(steps, n+1)
	}
	return steps
}

// Supervisor is the name under which the program answers questions and closes incidents by itself.
const Supervisor = "claudeops"

// IncidentStatus is where an incident stands.
type IncidentStatus string

// The statuses of an incident.
const (
	IncidentOpen         IncidentStatus = "open"
	IncidentAcknowledged IncidentStatus = "acknowledged"
	IncidentSnoozed      IncidentStatus = "snoozed"
	IncidentUnverified   IncidentStatus = "unverified" // a repair is claimed, and nothing can confirm it
	IncidentResolved     IncidentStatus = "resolved"
)

// Incident is one problem of a service, from the moment a tier is to repair it, or of the agent itself. There is one open incident
// per fingerprint.
type Incident struct {
	ID             int64
	Environment    string
	Service        string
	Check          string // what finds it: http, dns, …
	Class          string // what kind of failure it is
	Fingerprint    string
	Title          string
	Level          Level
	Status         IncidentStatus
	Occurrences    int
	FirstCycle     CycleID
	LastCycle      CycleID
	Waiting        *CycleID        // the cycle that goes on when this is answered
	Report         json.RawMessage // what is known: an IncidentReport
	CostUSD        float64         // of all cycles that worked on it
	OpenedAt       time.Time
	UpdatedAt      time.Time
	CalledAt       *time.Time // when a human was first called; nil: the supervisor has worked on it alone
	UnverifiedAt   *time.Time // since when a repair is claimed that nothing confirms; people who were called were told then
	ProbeFailedAt  *time.Time // when a probe of its service last failed, at its opening or after it
	ProbationUntil *time.Time // closed: until then the same check reopens it when it fails
	ReopenedAt     *time.Time // when it was last opened again, because a repair did not hold
	Handled        bool       // a cycle works on it, and nobody was called
	Own            bool       // in the journal of a cycle: that cycle works on it or reported it
	DeniedUntil    *time.Time // somebody said no to the cycle that reported it: until then no agent works on it as it is
	AcknowledgedAt *time.Time
	AcknowledgedBy string
	SnoozedUntil   *time.Time
	ResolvedAt     *time.Time
	ResolvedBy     string
	Resolution     string
	Reminders      int
	RemindAt       *time.Time
	Note           string // what a person leaves behind who has just resolved it; it is not stored
}

// Holds reports whether nobody but a human touches the incident's service now.
func (i Incident) Holds(now time.Time) bool {
	switch i.Status {
	case IncidentAcknowledged:
		return true
	case IncidentSnoozed:
		return i.SnoozedUntil != nil && now.Before(*i.SnoozedUntil)
	case IncidentOpen, IncidentUnverified, IncidentResolved:
		return false
	}
	return false
}

// Denied reports whether somebody has said no to agents, and the no still lasts.
func (i Incident) Denied(now time.Time) bool {
	return i.ResolvedAt == nil && i.DeniedUntil != nil && now.Before(*i.DeniedUntil)
}

// Known is what was reported with the incident.
func (i Incident) Known() (IncidentReport, error) {
	var r IncidentReport
	err := json.Unmarshal(i.Report, &r)
	r.Recommendation = i.ToDo(r.Recommendation)
	return r, err
}

// ToDo is what is left to do about the incident of what was recommended when it was reported.
func (i Incident) ToDo(recommended string) string {
	switch {
	case i.ResolvedAt != nil:
		return ""
	case i.Status == IncidentUnverified:
		return "nothing: a repair is claimed, and the next report about the service closes or reopens it"
	}
	return recommended
}

// NoticeSubject is what a person can still answer about a notice.
type NoticeSubject struct {
	Approval  *Approval  // the pending question of its cycle; nil: none
	Incidents []Incident // the unresolved ones that it is about and that a human was called about
}

// Unanswered reports whether nobody has answered yet.
func (s NoticeSubject) Unanswered() bool {
	return s.Approval != nil || slices.ContainsFunc(s.Incidents, func(i Incident) bool {
		return i.Status == IncidentOpen && i.DeniedUntil == nil
	})
}

// The classes of incidents that are not about one service.
const (
	// ClassAgent is about the agent itself: its program, key or provider. It is over when the agent works again, and holds nothing back.
	ClassAgent = "agent"
	// ClassJudge is about the judge, in the same way.
	ClassJudge = "judge"
	// ClassEnvironment is about what is named in no inventory. Only a person or a report about the same names closes it.
	ClassEnvironment = "environment"
)

// OfAgent reports whether the incident is about the supervisor's own agents and not about what they look after.
func (i Incident) OfAgent() bool { return i.Class == ClassAgent || i.Class == ClassJudge }

// ClassAlert is the class of an incident about an alert that fires on although its cycle has ended. It is over when the alert is: that
// somebody finds the service healthy is what it is about.
const ClassAlert = "alert"

// ProblemKind is what a human is told about: it names an incident and says what to do.
type ProblemKind string

// The kinds of problem.
const (
	ProblemHuman      ProblemKind = "human"      // an agent or a rule calls a human
	ProblemTakeOver   ProblemKind = "take_over"  // a human is the next handler
	ProblemRefused    ProblemKind = "refused"    // a proposal that could not be accepted
	ProblemBlocked    ProblemKind = "blocked"    // a rule stopped the escalation
	ProblemBudget     ProblemKind = "budget"     // the escalation costs more than is left
	ProblemUnpaid     ProblemKind = "unpaid"     // a session could not be paid
	ProblemFlapping   ProblemKind = "flapping"   // a service that changes too often to be worked on
	ProblemApproval   ProblemKind = "approval"   // a tier waits for a yes
	ProblemReview     ProblemKind = "review"     // a repair waits for a look
	ProblemUnfinished ProblemKind = "unfinished" // a repair came to no end
	ProblemRefuted    ProblemKind = "refuted"    // a claimed repair does not hold
	ProblemJudge      ProblemKind = "judge"      // the judge gives no usable answer
	ProblemHandled    ProblemKind = "handled"    // a tier works on it; nobody is called
	ProblemDryRun     ProblemKind = "dry_run"    // nobody works on it, because of a dry run
)

// IncidentReport is what is known of a problem when a tier takes it over or a human is called. Each service gets its own incident.
type IncidentReport struct {
	Title    string   `json:"title"`
	Level    Level    `json:"level"`
	Class    string   `json:"class"`
	Services []string `json:"services"`
	// Unlisted are names that are not in the inventory. They belong to one incident of the environment.
	Unlisted []string `json:"unlisted,omitempty"`
	// Titles name the problem of each service where it is known; Title is for the others.
	Titles         map[string]string `json:"titles,omitempty"`
	Reason         string            `json:"reason,omitempty"` // why the agent asks, in its own words
	Checks         []CheckResult     `json:"checks,omitempty"`
	Findings       string            `json:"findings,omitempty"`
	Tried          string            `json:"tried,omitempty"`
	CostUSD        float64           `json:"cost_usd"`
	Recommendation string            `json:"recommendation"`
	Waits          bool              `json:"waits,omitempty"`   // the cycle waits for the answer
	Handled        bool              `json:"handled,omitempty"` // nobody is called: a tier takes it over, or whoever asked sees it
	DryRun         bool              `json:"dry_run,omitempty"` // nobody works on it, because of a dry run
}

// TitleOf names the problem of one service.
func (r IncidentReport) TitleOf(service string) string {
	if title := r.Titles[service]; title != "" {
		return title
	}
	return r.Title
}

// Recovered ends an incident. Without a proof (ProofNone) it becomes unverified instead.
type Recovered struct {
	Incident int64
	By       Proof
	How      string
}
