package ops

import (
	"cmp"
	"encoding/json"
	"fmt"
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
	return cmp.Or(map[Trigger]string{
		TriggerScheduled: "Scheduled check",
		TriggerManual:    "Manual run",
		TriggerAPI:       "API run",
		TriggerAlert:     "Alert",
		TriggerProbe:     "Failed probe",
	}[t], string(t))
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
	over := CycleStatuses()[3:] // without those that are queued, running or waiting
	return slices.Contains(over, s)
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
	Charge            Charge // of what started it; decisions narrow it
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

// Why is the reason for the state of the cycle. While it works, the last one on record is about what is over.
func (c Cycle) Why() string {
	if c.Status == CycleRunning {
		return ""
	}
	return c.Reason
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
	// Services are what the cycle is about; none: it is a look.
	Services []string
	At       time.Time
	// Key names the turn of the schedule, so that several hosts start one cycle for it; empty for what people and alerts ask for.
	Key string
	// Behind is how many cycles of the environment may be queued before this one; 0 for any number.
	Behind int
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
	// Attacked are the services for which agents attacked the supervisor twice within a day.
	Attacked []Hold
	// Elsewhere are the services that another cycle of the environment, which has not ended, has in its charge.
	Elsewhere []Hold
	// Standstill is that somebody stopped everything; nil if nobody did.
	Standstill *Standstill
	// Lowered are the services of the environment in which the trust was lowered beside the configuration.
	Lowered []Lowered
	// Told are the services that the watch has told people of when it started the cycle. It is read in a dry run and where trust is limited.
	Notified []string
	// Reflexes are the earned ones that are switched on, Reflexed the actions that reflexes began lately, and Failing what the watch finds
	// bad. They are read only where there are reflexes.
	Reflexes []Reflex
	Reflexed []Reflexed
	Failing  []Failing
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
	for i := range slices.Backward(j.Sessions) {
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
		out.Sessions = slices.Clone(j.Sessions)
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
		out.Checks = slices.Concat(j.Checks, r.Checks)
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

// IncidentStory is everything on record about an incident.
type IncidentStory struct {
	Incident Incident
	Cycles   []CycleStory // that worked on it, oldest first
	Notices  []Notice
	Events   []Event // what people did with it
	Changed  WhatChanged
}

// CycleStory is what one cycle did about an incident.
type CycleStory struct {
	Cycle   Cycle
	Began   *time.Time // when that failed for which it was started; nil: it was started for something else
	Journal Journal
	Calls   map[SessionID][]GuardRecord // what its agents asked for, oldest first
}

// Again is the cycle that a person starts for the same problem. The text of the incident comes from outside, so the prompt names only
// the incident and, if its name is plain, the service.
func (i Incident) Again() NewCycle {
	prompt := fmt.Sprintf("A person asks to check again: incident %d.", i.ID)
	if plainName().MatchString(i.Service) {
		prompt = fmt.Sprintf("A person asks to check the service %s again (incident %d).", i.Service, i.ID)
	}
	return NewCycle{Environment: i.Environment, Trigger: TriggerManual, Prompt: prompt, Problem: i.Title}
}

var plainName = Pattern(`^[a-zA-Z0-9_./-]{1,100}\z`)

// BudgetOwner is whose spending a limit is about.
type BudgetOwner string

// The owners of a budget.
const (
	BudgetSession BudgetOwner = "session" // one session
	BudgetChain   BudgetOwner = "chain"   // all sessions of one cycle
	BudgetDay     BudgetOwner = "day"     // all sessions of an environment since midnight UTC
)

// Budget is a limit that was reached.
type Budget struct {
	Whose       BudgetOwner
	LimitUSD    float64
	SpentUSD    float64
	Environment string
	// FreesAt is when the budget of the next day starts. Every session has its own budget, and every chain.
	FreesAt time.Time
}

// Spent is the limit that leaves nothing for one more session, given what its chain has spent, and others today.
func (p Policy) Spent(chainUSD, othersUSD float64) (Budget, bool) {
	switch {
	case p.BudgetChainUSD > 0 && chainUSD >= p.BudgetChainUSD:
		return Budget{Whose: BudgetChain, LimitUSD: p.BudgetChainUSD, SpentUSD: chainUSD}, true
	case p.BudgetDayUSD > 0 && chainUSD+othersUSD >= p.BudgetDayUSD:
		return Budget{Whose: BudgetDay, LimitUSD: p.BudgetDayUSD, SpentUSD: chainUSD + othersUSD}, true
	}
	return Budget{}, false
}

// SpentError is an ErrBudget that says whose budget it is.
type SpentError struct{ Whose BudgetOwner }

func (e *SpentError) Error() string { return "the budget of the " + string(e.Whose) + " is spent" }

// Unwrap makes it an ErrBudget.
func (*SpentError) Unwrap() error { return ErrBudget }

// Retention says how long records are kept, and how much of them. Zero means for ever, or without a limit. The journal itself is
// always kept: cycles, sessions, decisions, recoveries. Nothing of an unfinished cycle or of an open incident is ever removed.
type Retention struct {
	Transcripts     time.Duration // output of sessions, counted from their end
	TranscriptBytes int64         // all transcripts together; the oldest go first
	Checks          time.Duration // results of probes that belong to no cycle; their counts by the hour and the day stay
	Hours           time.Duration // those counts by the hour
	Events          time.Duration // events, and of cycles the results of probes and what their steps were decided from; changes
	Guard           time.Duration // judgements of tool calls
	Notices         time.Duration // notices that were delivered or given up
	Alerts          time.Duration // alerts and causes that are over
	Rows            int64         // the most that is kept of each: results, events, steps, changes, judgements
}

// Record is a kind of record that is removed when it is old.
type Record string

// The kinds, in the order in which they are removed: what is large comes first.
const (
	RecordTranscripts Record = "transcripts"
	RecordChecks      Record = "checks"
	RecordEvents      Record = "events"
	RecordGuard       Record = "guard decisions"
	RecordNotices     Record = "notices"
	RecordAlerts      Record = "alerts"
	RecordHours       Record = "health by the hour"
)

// Records lists the kinds.
func Records() []Record {
	return []Record{
		RecordTranscripts, RecordChecks, RecordEvents, RecordGuard, RecordNotices, RecordAlerts, RecordHours,
	}
}

// Prices are the prices of models by name.
type Prices map[string]Price

// modelDate is the end of a model's name that only says which day's build it is. Compiled once, never changed.
var modelDate = Pattern(`-(latest|20\d{6}|20\d\d-\d\d-\d\d)$`)

// Of returns the price of a model. A dated name has the price of the name without its date; nothing else is guessed.
func (p Prices) Of(model string) (Price, bool) {
	if price, ok := p[model]; ok {
		return price, true
	}
	price, ok := p[modelDate().ReplaceAllString(model, "")]
	return price, ok
}

// Charge is what a chain works on. It is fixed by what starts the cycle, then by each decision that hands work on, and everything that
// follows is about it and nothing else: rights, approval, verification, blame, incidents and notices.
type Charge struct {
	// Services are those of a closed charge, by their own names.
	Services []string `json:"services,omitempty"`
	// Open is the charge of a look: everything that is found in trouble and that nothing holds.
	Open bool `json:"open,omitempty"`
}

// HoldKind is who or what holds a service.
type HoldKind string

// The kinds of holds.
const (
	HoldByNo           HoldKind = "no"           // a person said no to a tier, and the facts are the same
	HoldByTrust        HoldKind = "trust"        // watch holds every tier, suggest those that repair
	HoldByAcknowledged HoldKind = "acknowledged" // a person takes care of its incident
	HoldBySnooze       HoldKind = "snoozed"
	HoldByQuestion     HoldKind = "question" // another cycle asks a person about it
	HoldBySilence      HoldKind = "silence"
	HoldByWatch        HoldKind = "watch"     // maintenance, a failing dependency, flapping: what package health inhibits
	HoldByGone         HoldKind = "gone"      // it was taken out of the configuration
	HoldByCycle        HoldKind = "elsewhere" // another cycle that has not ended has it in its charge
	HoldByCall         HoldKind = "called"    // a person was called for it since this cycle was asked for
	HoldByAttack       HoldKind = "attack"    // agents at work on it attacked the supervisor twice within a day
)

// Hold keeps a service from a tier and those above it.
type Hold struct {
	Service string     `json:"service"`
	From    Tier       `json:"from"`
	By      HoldKind   `json:"by"`
	Why     string     `json:"why"`             // for people
	Until   *time.Time `json:"until,omitempty"` // nil: until somebody or something ends it
}

// Holds reports whether a tier may not work on a service.
func (h Hold) Holds(service string, t Tier) bool { return h.Service == service && t >= h.From }

// Holder is the first hold that keeps a service from a tier, or nil.
func Holder(holds []Hold, service string, t Tier) *Hold {
	if i := slices.IndexFunc(holds, func(h Hold) bool { return h.Holds(service, t) }); i >= 0 {
		return &holds[i]
	}
	return nil
}

// Free are the services that a tier may work on.
func Free(services []string, holds []Hold, t Tier) []string {
	return slices.DeleteFunc(slices.Clone(services), func(s string) bool { return Holder(holds, s, t) != nil })
}
