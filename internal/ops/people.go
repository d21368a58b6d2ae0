package ops

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// ApprovalPolicy is what happens to a question nobody answers. When it expires a human is called: silence is never a yes.
type ApprovalPolicy struct {
	Expiry  time.Duration `json:"expiry,omitempty"`  // 0: no limit
	Remind  time.Duration `json:"remind,omitempty"`  // between reminders
	Reminds int           `json:"reminds,omitempty"` // at most so many, then the second target
}

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
	ApprovalReflex ApprovalKind = "reflex" // may the supervisor do this without an agent? It has no session.
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

// Detail is what its events tell of the question.
func (a Approval) Detail() ApprovalDetail {
	return ApprovalDetail{Kind: a.Kind, Tier: a.Tier, Handler: a.Handler, Status: a.Status, Until: a.DeniedUntil, Facts: a.Facts}
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
	CostUSD        *float64        // of all cycles that worked on it; nil: sessions ran, and none told its cost
	OpenedAt       time.Time
	UpdatedAt      time.Time
	CalledAt       *time.Time // when a human was first called; nil: the supervisor has worked on it alone
	UnverifiedAt   *time.Time // since when a repair is claimed that nothing confirms; people who were called were told then
	ProbeFailedAt  *time.Time // when a probe of its service last failed, at its opening or after it
	ProbationUntil *time.Time // closed: until then the same check reopens it when it fails
	ReopenedAt     *time.Time // when it was last opened again, because a repair did not hold
	Handled        bool       // a cycle works on it, and nobody was called or whoever was called said yes
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
	Findings       []IncidentFinding // each must be over before the incident is
	Note           string            // what a person leaves behind who has just resolved it; it is not stored
}

// Holds reports whether nobody but a human touches the incident's service now.
func (i Incident) Holds(now time.Time) bool {
	snoozed := i.Status == IncidentSnoozed && i.SnoozedUntil != nil && now.Before(*i.SnoozedUntil)
	return snoozed || i.Status == IncidentAcknowledged
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
	Reflex    *Earned    // the one that it asks about; nil: none
	Incidents []Incident // the unresolved ones that it is about and that a human was called about
}

// The classes of incidents that are not about one service.
const (
	// ClassAgent is about the agent itself: its program, key or provider. It is over when the agent works again, and holds nothing back.
	ClassAgent = "agent"
	// ClassJudge is about the judge, in the same way.
	ClassJudge = "judge"
	// ClassEnvironment is about what is named in no inventory. Only a person or a report about the same names closes it.
	ClassEnvironment = "environment"
	// ClassAttack is about an attack on the supervisor. Only a person closes it.
	ClassAttack = "attack"
)

// OfAgent reports whether the incident is about the supervisor's own agents and not about what they look after.
func (i Incident) OfAgent() bool { return i.Class == ClassAgent || i.Class == ClassJudge }

// ClassAlert is the class of an incident about an alert that fires on although its cycle has ended. It is over when the alert is: that
// somebody finds the service healthy is what it is about.
const ClassAlert = "alert"

// ClassUpdate is the class of an incident about an update that could not be taken back.
const ClassUpdate = "update"

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
	ProblemTrust      ProblemKind = "trust"      // no agent may work on it
	ProblemAttack     ProblemKind = "attack"     // an agent attacked the supervisor
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
	Findings       string            `json:"findings,omitempty"` // what the agent says
	Seen           string            `json:"seen,omitempty"`     // what the supervisor itself saw
	Found          []IncidentFinding `json:"found,omitempty"`    // what each of the services is called bad for
	Tried          string            `json:"tried,omitempty"`
	CostUSD        float64           `json:"cost_usd"`
	Recommendation string            `json:"recommendation"`
	Waits          bool              `json:"waits,omitempty"`   // the cycle waits for the answer
	Handled        bool              `json:"handled,omitempty"` // nobody is called: a tier takes it over, or whoever asked sees it
	DryRun         bool              `json:"dry_run,omitempty"` // nobody works on it, because of a dry run
	Reflex         bool              `json:"reflex,omitempty"`  // the question is about a reflex: no agent has looked yet
}

// TitleOf names the problem of one service.
func (r IncidentReport) TitleOf(service string) string {
	return cmp.Or(r.Titles[service], r.Title)
}

// FindingKind is who saw a finding, and so who can see that it is over. A person always can.
type FindingKind string

// The kinds of findings.
const (
	FoundByProbe FindingKind = "probe" // a probe of ours, or an alert
	FoundByLook  FindingKind = "look"  // our look at the container or unit that a service runs in, after a repair
	FoundByAgent FindingKind = "agent" // an agent, and no probe can
)

// Finder says who found it.
func (k FindingKind) Finder() string {
	return cmp.Or(map[FindingKind]string{FoundByProbe: "a probe", FoundByLook: "our look at what runs it"}[k], "an agent")
}

// IncidentFinding is one thing that a human is called for. An incident is over when all of its findings are.
type IncidentFinding struct {
	Service string      `json:"service,omitempty"`
	By      FindingKind `json:"by"`
	Type    CheckType   `json:"type,omitempty"`
	What    string      `json:"what"`
	OverAt  *time.Time  `json:"over_at,omitempty"`
	How     string      `json:"how,omitempty"` // how it ended
}

// Recovered ends an incident, or those of its findings that it can. Without a proof (ProofNone) it becomes unverified instead.
type Recovered struct {
	Incident int64
	By       Proof
	How      string
	Ends     []FindingKind // nil: all
	Types    []CheckType   // what an agent's look found well
}

// Over reports whether a finding is over by what has recovered. What an agent found, another look at the same thing ends.
func (r Recovered) Over(f IncidentFinding) bool {
	same := f.By != FoundByAgent || f.Service != "" && slices.Contains(r.Types, f.Type)
	return r.Ends == nil || slices.Contains(r.Ends, f.By) && same
}

// Fact is something that is wrong, as far as it can be compared later: no part of it is free text.
type Fact struct {
	Service string    `json:"service"`
	Probe   string    `json:"probe,omitempty"` // the probe or alert that found it; empty: an agent reported it
	Type    CheckType `json:"type,omitempty"`
	Class   string    `json:"class"` // see Check.Class
}

// AlertProbe begins the name of a check that is an alert.
const AlertProbe = "alert "

// FactOf is what a check found.
func FactOf(c Check) Fact {
	return Fact{Service: c.Service, Probe: c.Probe, Type: c.Type, Class: c.Class()}
}

// SortedFacts returns the facts in order, each once.
func SortedFacts(all []Fact) []Fact {
	slices.SortFunc(all, func(a, b Fact) int {
		return cmp.Or(strings.Compare(a.Service, b.Service), strings.Compare(a.Probe, b.Probe), strings.Compare(string(a.Type), string(b.Type)),
			strings.Compare(a.Class, b.Class))
	})
	return slices.Compact(all)
}

// Class is the kind of failure that a check found: the class of an HTTP status such as 5xx, refused, timeout, exit, else down or
// degraded. What probes write before any answer of the service decides; an alert is told by somebody else, and only its level counts.
func (c Check) Class() string {
	begins := func(all ...string) bool {
		return slices.ContainsFunc(all, func(text string) bool { return strings.HasPrefix(c.Error, text) })
	}
	status, http := strings.CutPrefix(c.Error, "HTTP ")
	switch {
	case c.Purpose == ProbeAlert:
	case c.Type == CheckHTTP && http && len(status) >= 3 && status[0] >= '1' && status[0] <= '5':
		return status[:1] + "xx"
	case begins("connection refused"):
		return "refused"
	case begins("no answer within", "no answer in time"):
		return "timeout"
	case begins("exit status", "ended by signal", "the container does not run", "the container ended", "the container is restarting"):
		return "exit"
	}
	return string(c.Status)
}

// NoLasts is how long a no lasts unless whoever gives it says otherwise.
const NoLasts = 24 * time.Hour

// Refuses reports whether the answer was a no that lasts at a time.
func (a Approval) Refuses(now time.Time) bool {
	return a.Status == ApprovalDenied && a.DeniedUntil != nil && now.Before(*a.DeniedUntil)
}

// Knew reports whether all that is wrong was wrong when the question was asked.
func (a Approval) Knew(wrong []Fact) bool {
	return len(wrong) > 0 && !slices.ContainsFunc(wrong, func(f Fact) bool { return !slices.Contains(a.Facts, f) })
}

// PlanState is what became of a step of a plan.
type PlanState string

// The states of a step.
const (
	PlanPending     PlanState = "pending"      // nobody has answered yet
	PlanApproved    PlanState = "approved"     // it will run
	PlanNotApproved PlanState = "not_approved" // it will not
	PlanRunning     PlanState = "running"
	PlanDone        PlanState = "done"
	PlanFailed      PlanState = "failed"
	PlanRefused     PlanState = "refused" // a rule kept it from running
	PlanSkipped     PlanState = "skipped" // it was approved, and did not run
)

// PlanProgress is what became of one step of a plan.
type PlanProgress struct {
	State PlanState
	Why   string // of a step that failed, was refused or was skipped
	Run   int64  // its run; 0: none
}

// Progress says what became of each step of the plan, given the runs of its cycle.
func (a Approval) Progress(runs []ActionRun) []PlanProgress {
	out := make([]PlanProgress, len(a.Plan))
	for i := range a.Plan {
		out[i] = a.waiting(i + 1)
		for _, r := range runs {
			if r.ApprovalID == a.ID && r.Step == i+1 && r.UndoOf == 0 {
				out[i] = r.progress()
			}
		}
	}
	return out
}

// waiting is the state of a step that has not run.
func (a Approval) waiting(step int) PlanProgress {
	switch {
	case a.Status == ApprovalPending:
		return PlanProgress{State: PlanPending}
	case !slices.Contains(a.Steps, step):
		return PlanProgress{State: PlanNotApproved}
	case a.Skipped != "":
		return PlanProgress{State: PlanSkipped, Why: a.Skipped}
	}
	return PlanProgress{State: PlanApproved}
}

func (r ActionRun) progress() PlanProgress {
	p := PlanProgress{State: PlanFailed, Why: r.Error, Run: r.ID}
	switch r.Status {
	case ActionRequested, ActionStarted:
		p.State = PlanRunning
	case ActionDone:
		p.State = PlanDone
	case ActionRefused:
		p.State = PlanRefused
	case ActionUndone:
		p.Why = fmt.Sprintf("it was undone (action %d)", r.UndoneBy)
	case ActionFailed, ActionInterrupted:
	}
	return p
}

// Probation is how long a resolved cycle has to hold: until then the check that found a problem opens its incident again.
const Probation = 10 * time.Minute

// Claim is an incident that a cycle closed, as long as it is on probation.
type Claim struct {
	Incident    int64
	Environment string
	Service     string
	Check       string // what found it; empty: any check
	Cycle       CycleID
	At          time.Time // when the cycle ended
	Until       time.Time
}

// Proven is a probe that a cycle found healthy.
type Proven struct {
	Service, Probe string
	At             time.Time
}

// About reports whether a check is the one that the claim is about.
func (c Claim) About(k Check) bool {
	return k.Service == c.Service && (c.Check == "" || k.Type == "" || string(k.Type) == c.Check) && k.Purpose != ProbeAlert
}

// Relapse is a check that fails again while the claim about it is on probation.
type Relapse struct {
	Claim Claim
	Found Check
	At    time.Time
	Cycle CycleID   // the cycle that works on it; 0: none does yet
	Next  time.Time // when the next cycle may start; zero: that is not known
	Held  string    // what keeps it from starting
}

// After is the relapse of a service that is held back.
func (r Relapse) After(h Withheld) Relapse {
	if timed := h.Why == HoldRecent || h.Why == HoldWaiting || h.Why == HoldCovered; timed && !h.Until.IsZero() {
		r.Next = h.Until
	} else {
		r.Held = h.Reason
	}
	return r
}
