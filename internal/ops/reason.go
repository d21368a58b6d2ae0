package ops

import "time"

// Reason is why something is decided, or what a person should do about it: a kind, and the facts that kinds like it speak of. Package
// notice has the words.
type Reason struct {
	Kind      ReasonKind
	Session   *Session
	Handler   Handler // who starts, or takes over
	Approval  *Approval
	Run       *ActionRun
	Reflex    Reflex
	Guard     GuardRecord
	Silence   Silence
	Budget    Budget
	Decision  Decision
	Problem   ProblemKind
	Incident  Incident
	Incidents []Incident
	Checks    []Check
	Health    Health // what an agent or a probe says of a service
	Plan      []ApprovedStep
	Services  []string
	Rest      []string // the other services; else what is enumerated
	Cycle     CycleID
	Tier      Tier
	MaxTier   Tier
	Trust     Trust
	Level     RecoveryLevel
	Step      int // of a plan or a reflex, from 1
	Count     int
	Most      int
	Share     float64
	At        time.Time
	Lasts     time.Duration
	Again     bool
	Text      string // the words of somebody else: of an agent, a person, an error or another reason
}

// ReasonKind is what a reason says.
type ReasonKind string

// Why a cycle goes on, waits or ends.
const (
	WhyLeftRunning    ReasonKind = "left_running"
	WhyCancelled      ReasonKind = "cancelled"
	WhyObserves       ReasonKind = "observes"
	WhyWithheld       ReasonKind = "withheld"
	WhyNothingFor     ReasonKind = "nothing_for"
	WhyAllHealthy     ReasonKind = "all_healthy"
	WhyUnknown        ReasonKind = "unknown"
	WhyFoundByProbes  ReasonKind = "found_by_probes"
	WhyFoundByCycle   ReasonKind = "found_by_cycle"
	WhyInCycle        ReasonKind = "in_cycle"
	WhyNoEntry        ReasonKind = "no_entry"
	WhyStarts         ReasonKind = "starts"
	WhyDue            ReasonKind = "due"
	WhyWaits          ReasonKind = "waits"
	WhyUnpaid         ReasonKind = "unpaid"
	WhyOtherAgent     ReasonKind = "other_agent"
	WhyOtherHost      ReasonKind = "other_host"
	WhyNoConversation ReasonKind = "no_conversation"
	WhyContextFull    ReasonKind = "context_full"
	WhyResumeRefused  ReasonKind = "resume_refused"
	WhyAsksForHuman   ReasonKind = "asks_for_human"
	WhyBlind          ReasonKind = "blind"
	WhyBlindVerified  ReasonKind = "blind_verified"
	WhyVerifies       ReasonKind = "verifies"
	WhyLooksAgain     ReasonKind = "looks_again"
	WhyNothingFound   ReasonKind = "nothing_found"
	WhyDisagrees      ReasonKind = "disagrees"
	WhyNotAgain       ReasonKind = "not_again"
	WhyAttacked       ReasonKind = "attacked"
)

// Why a repair counts as one, or not yet.
const (
	WhyRepairedByProbes  ReasonKind = "repaired_by_probes"
	WhyRepairedByReview  ReasonKind = "repaired_by_review"
	WhyRepairedByJudge   ReasonKind = "repaired_by_judge"
	WhyUnverified        ReasonKind = "unverified"
	WhyPartlyVerified    ReasonKind = "partly_verified"
	WhyRecoveredByItself ReasonKind = "recovered_by_itself"
	WhyNotCalmYet        ReasonKind = "not_calm_yet"
	WhyWellAgain         ReasonKind = "well_again"
	WhyRecoveredUnseen   ReasonKind = "recovered_unseen"
	WhyAgentWorks        ReasonKind = "agent_works"
)

// What people said, and what holds a service.
const (
	WhyWithdrawn    ReasonKind = "withdrawn"
	WhyClosed       ReasonKind = "closed"
	WhyNotAnswered  ReasonKind = "not_answered"
	WhyUnanswered   ReasonKind = "unanswered"
	WhyDenied       ReasonKind = "denied"
	WhySaidNo       ReasonKind = "said_no"
	WhyUnconfigured ReasonKind = "unconfigured"
	WhyAcknowledged ReasonKind = "acknowledged"
	WhySnoozed      ReasonKind = "snoozed"
	WhyAwaitsHuman  ReasonKind = "awaits_human"
	WhyWasCalled    ReasonKind = "was_called"
	WhySilenced     ReasonKind = "silenced"
	WhyRefutedClaim ReasonKind = "refuted_claim"
)

// What becomes of an approved plan.
const (
	WhyNoPlan              ReasonKind = "no_plan"
	WhyPlanInterrupted     ReasonKind = "plan_interrupted"
	WhyPlanStep            ReasonKind = "plan_step"
	WhyPlanVerifies        ReasonKind = "plan_verifies"
	WhyRepairedByPlan      ReasonKind = "repaired_by_plan"
	WhyRecoveredBesidePlan ReasonKind = "recovered_beside_plan"
	WhyStepsNotNeeded      ReasonKind = "steps_not_needed"
	WhyStepsTooLate        ReasonKind = "steps_too_late"
	WhyStepsAfter          ReasonKind = "steps_after"
	WhyStepsLeft           ReasonKind = "steps_left"
	WhyStepsSkipped        ReasonKind = "steps_skipped"
)

// What the supervisor asks agents beside the work, and what a failed session leads to.
const (
	WhyAskAgain          ReasonKind = "ask_again"
	WhyAsksManager       ReasonKind = "asks_manager"
	WhyFollowsPlan       ReasonKind = "follows_plan"
	WhyAsksJudge         ReasonKind = "asks_judge"
	WhyJudgeDoubts       ReasonKind = "judge_doubts"
	WhyJudgeSilent       ReasonKind = "judge_silent"
	WhyJudgeSilentReview ReasonKind = "judge_silent_review"
	WhyDoubtful          ReasonKind = "doubtful"
	WhyUnsure            ReasonKind = "unsure"
	WhyPassed            ReasonKind = "passed"
	WhyInterrupted       ReasonKind = "interrupted"
	WhyFailed            ReasonKind = "failed"
	WhyInconclusive      ReasonKind = "inconclusive"
	WhyRefuted           ReasonKind = "refuted"
	WhyBadSchema         ReasonKind = "bad_schema"
	WhySessionEnded      ReasonKind = "session_ended"
	WhyWasAllowed        ReasonKind = "was_allowed"
	WhyProbeHealthy      ReasonKind = "probe_healthy"
)

// What the supervisor does about a failing probe without an agent, and why it does not.
const (
	WhyReflexDryRun          ReasonKind = "reflex_dry_run"
	WhyReflexUnanswered      ReasonKind = "reflex_unanswered"
	WhyReflexTrust           ReasonKind = "reflex_trust"
	WhyReflexUnknown         ReasonKind = "reflex_unknown"
	WhyReflexTooHigh         ReasonKind = "reflex_too_high"
	WhyReflexChanged         ReasonKind = "reflex_changed"
	WhyReflexSpent           ReasonKind = "reflex_spent"
	WhyReflexInterrupted     ReasonKind = "reflex_interrupted"
	WhyReflexAsks            ReasonKind = "reflex_asks"
	WhyReflexStep            ReasonKind = "reflex_step"
	WhyReflexVerifies        ReasonKind = "reflex_verifies"
	WhyRepairedByReflex      ReasonKind = "repaired_by_reflex"
	WhyRecoveredBesideReflex ReasonKind = "recovered_beside_reflex"
	WhyReflexWaits           ReasonKind = "reflex_waits"
	WhyReflexFailed          ReasonKind = "reflex_failed"
	WhyReflexDid             ReasonKind = "reflex_did"
	WhyReflexNotDone         ReasonKind = "reflex_not_done"
)

// How an incident is headed, and what a person should do about it.
const (
	HeadProblem       ReasonKind = "head_problem"
	TodoProblem       ReasonKind = "todo_problem"
	TodoDecision      ReasonKind = "todo_decision"
	TodoDryRun        ReasonKind = "todo_dry_run"
	TodoWithoutDryRun ReasonKind = "todo_without_dry_run"
	TodoWould         ReasonKind = "todo_would"
	TodoAfterSilence  ReasonKind = "todo_after_silence"
	TodoRaiseTrust    ReasonKind = "todo_raise_trust"
	TodoResume        ReasonKind = "todo_resume"
	TodoPlan          ReasonKind = "todo_plan"
	TodoReflexAnswer  ReasonKind = "todo_reflex_answer"
	TodoReflexWorks   ReasonKind = "todo_reflex_works"
)

// Message is what people are told of a cycle: what it is about, and what they should know. Package notice has the words.
type Message struct {
	Kind        MessageKind
	Services    []string
	What        string   // what is wrong
	Todo        string   // what the person should do
	Found       string   // what the agents say
	Confidence  *float64 // how sure they are; nil: they did not say
	Tried       string
	Why         string // what the supervisor decided, and by which rule
	CostUSD     float64
	Environment string
	Cycle       CycleID
	Handler     string // whose start is asked about, or who takes over
	Tier        Tier   // its tier, or that of the session that did not finish
	Lacks       string // a question: the wall that the handler needs and does not have; empty: none
	Expires     time.Time
	Now         time.Time
	Plan        []ApprovedStep // what is asked for, or what an agent proposes
	Reflex      Reflex
	Budget      Budget
	Would       string   // in a dry run: what would have been done
	Done        []string // of what did not finish
}

// MessageKind is what a message is about.
type MessageKind string

// The kinds of message.
const (
	MessageHuman        MessageKind = "human"
	MessageAttack       MessageKind = "attack"
	MessageBlocked      MessageKind = "blocked"
	MessageNotStarted   MessageKind = "not_started"
	MessageDryRun       MessageKind = "dry_run"
	MessageUnpayable    MessageKind = "unpayable"
	MessageUnfinished   MessageKind = "unfinished"
	MessageRefuted      MessageKind = "refuted"
	MessageTakesOver    MessageKind = "takes_over"
	MessagePartial      MessageKind = "partial"
	MessageCannotCheck  MessageKind = "cannot_check"
	MessageApproval     MessageKind = "approval"
	MessageReview       MessageKind = "review"
	MessageReflex       MessageKind = "reflex"
	MessageNoJudge      MessageKind = "no_judge"
	MessageUnseen       MessageKind = "unseen"
	MessageExpired      MessageKind = "expired"
	MessageNotNeeded    MessageKind = "not_needed"
	MessageLeftToPeople MessageKind = "left_to_people"
)
