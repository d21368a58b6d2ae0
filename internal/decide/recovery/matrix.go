package recovery

import (
	"slices"

	"claudeops/internal/decide/judge"
	"claudeops/internal/ops"
)

// The error types of the matrix.
const (
	TypeCancelled    ops.ErrorType = "cancelled"
	TypeResume       ops.ErrorType = "resume_refused"
	TypeConditional  ops.ErrorType = "judge_conditional"
	TypeInvariant    ops.ErrorType = "invariant"
	TypeJournal      ops.ErrorType = "journal"
	TypeLayer        ops.ErrorType = "guard_layer"
	TypeUnavailable  ops.ErrorType = "agent_unavailable"
	TypeInterrupted  ops.ErrorType = "interrupted"
	TypeLoop         ops.ErrorType = "loop"
	TypeBudget       ops.ErrorType = "budget"
	TypeLevelTimeout ops.ErrorType = "level_timeout"
	TypeTimeout      ops.ErrorType = "time_limit"
	TypeIdle         ops.ErrorType = "idle"
	TypeCredentials  ops.ErrorType = "credentials"
	TypeRateLimit    ops.ErrorType = "rate_limit"
	TypeContext      ops.ErrorType = "context_limit"
	TypeCapability   ops.ErrorType = "capability"
	TypeServer       ops.ErrorType = "api_unavailable"
	TypeOutputLimit  ops.ErrorType = "output_limit"
	TypeNetwork      ops.ErrorType = "network"
	TypeProbe        ops.ErrorType = "claim_refuted"
	TypeGoal         ops.ErrorType = "judge_goal"
	TypeEvidence     ops.ErrorType = "judge_evidence"
	TypeJudge        ops.ErrorType = "judge_fail"
	TypeKilled       ops.ErrorType = "killed"
	TypePermission   ops.ErrorType = "permission_denied"
	TypeFormat       ops.ErrorType = "output_format"
	TypeInconclusive ops.ErrorType = "inconclusive"
	TypeUnknown      ops.ErrorType = "unknown_exit"
)

// AgentFailure reports whether a failure is one of the agent or its provider, which says nothing about a service.
func AgentFailure(t ops.ErrorType) bool {
	return !slices.Contains([]ops.ErrorType{TypeProbe, TypeGoal, TypeEvidence, TypeJudge, TypeLoop, TypePermission}, t)
}

// row is one line of the matrix. One of its evidences is enough.
type row struct {
	id    string
	typ   ops.ErrorType
	level ops.RecoveryLevel
	why   string
	when  []evidence
}

func on(id string, typ ops.ErrorType, level ops.RecoveryLevel, why string, when ...evidence) row {
	return row{id: id, typ: typ, level: level, why: why, when: when}
}

// matrix are all rows, top to bottom: the first that matches decides.
func matrix() []row { return slices.Concat(stops(), provider(), claims(), unknown()) }

// unknown are the last rows.
func unknown() []row {
	return []row{
		on("exit-zero", TypeInconclusive, ops.RecoveryNudge, "the CLI ended without an error, yet nothing usable came of it",
			evidence{also: exitedZero}),
		on("unknown-exit", TypeUnknown, ops.RecoveryForceDone,
			"nobody knows what this failure means, so nothing is repeated and the next scheduled cycle starts afresh",
			evidence{}),
	}
}

// stops are the rows about sessions that somebody or something ended.
func stops() []row {
	return []row{
		on("cancelled", TypeCancelled, ops.RecoveryNone, "somebody stopped it on purpose",
			evidence{stopCauses: []ops.StopCause{ops.StopUser}}),
		on("invariant", TypeInvariant, ops.RecoveryForceDone, "a tool ran that no gate had allowed: nothing may go on before a human has looked",
			evidence{stopCauses: []ops.StopCause{ops.StopInvariant}},
			evidence{classes: []ops.FailureClass{ops.FailureInvariant}},
		),
		on("journal", TypeJournal, ops.RecoveryForceDone, "its output could not be stored, and no other agent changes that",
			evidence{stopCauses: []ops.StopCause{ops.StopJournal}},
			evidence{classes: []ops.FailureClass{ops.FailureJournal}},
		),
		on("interrupted-tier-1", TypeInterrupted, ops.RecoveryRetry, "the supervisor ended, not the agent; Tier 1 only looks",
			evidence{tiers: []ops.Tier{ops.Tier1}, also: interrupted}),
		on("interrupted-repair", TypeInterrupted, ops.RecoveryNudge,
			"the supervisor ended during a repair, so what was started is checked and named first",
			evidence{also: interrupted}),
		on("loop-8", TypeLoop, ops.RecoveryForceDone, "the agent repeats itself and nothing has helped",
			evidence{loop: ops.RecoveryForceDone}),
		on("loop-5", TypeLoop, ops.RecoveryFallback, "the agent repeats itself; another model may see another way",
			evidence{loop: ops.RecoveryFallback}),
		on("loop-3", TypeLoop, ops.RecoveryReplan, "the agent repeats itself; it needs another approach",
			evidence{loop: ops.RecoveryReplan}),
		on("budget", TypeBudget, ops.RecoveryForceDone, "the money or the time is spent; more attempts would spend more",
			evidence{stopCauses: []ops.StopCause{ops.StopBudget}},
			evidence{classes: []ops.FailureClass{ops.FailureMaxBudget, ops.FailureUnpaid}},
		),
		on("time-limit", TypeTimeout, ops.RecoveryReplan, "the approach takes longer than allowed",
			evidence{stopCauses: []ops.StopCause{ops.StopWall, ops.StopTool}}),
		on("idle", TypeIdle, ops.RecoveryRetry, "the connection stalled and nothing had been changed",
			evidence{stopCauses: []ops.StopCause{ops.StopIdle}, also: harmless}),
		on("idle-mutating", TypeIdle, ops.RecoveryNudge, "the connection stalled after something had been started",
			evidence{stopCauses: []ops.StopCause{ops.StopIdle}}),
		on("deadline", TypeLevelTimeout, ops.RecoveryNudge, "the time of the recovery level is over",
			evidence{stopCauses: []ops.StopCause{ops.StopDeadline}}),
		on("resume-refused", TypeResume, ops.RecoveryNone, "the conversation could not be continued: the handoff context takes its place",
			evidence{classes: []ops.FailureClass{ops.FailureResumeRefused}}),
		on("layer", TypeLayer, ops.RecoveryForceDone, "a wall around the agent could not be set up, and none runs without it",
			evidence{classes: []ops.FailureClass{ops.FailureLayer}}),
		on("agent-unavailable", TypeUnavailable, ops.RecoveryFallback, "this CLI cannot be started here; another one may be",
			evidence{classes: []ops.FailureClass{ops.FailureNotFound, ops.FailureTooOld, ops.FailureStart}}),
	}
}

// provider are the rows about the model's API. Its text is evidence only where the runner says that the API failed and gave no
// status; any other text of a CLI may quote what the agent has read.
func provider() []row {
	return []row{
		on("credentials", TypeCredentials, ops.RecoveryForceDone, "only a human can set credentials or pay",
			evidence{apiStatus: []int{401, 402, 403}},
			evidence{classes: []ops.FailureClass{ops.FailureBilling}},
			evidence{apiStatus: []int{400}, contains: []string{"credit balance"}},
			apiSaid("authentication_failed", "oauth_org_not_allowed", "billing_error", "credit balance", "invalid api key", "please run /login"),
		),
		on("rate-limit", TypeRateLimit, ops.RecoveryRetry, "it passes; wait and repeat",
			evidence{apiStatus: []int{429}},
			apiSaid("failed with rate_limit"),
		),
		on("capability", TypeCapability, ops.RecoveryFallback, "this model cannot or will not do it",
			evidence{classes: []ops.FailureClass{ops.FailureModelNotFound, ops.FailureRefusal}},
			evidence{apiStatus: []int{404}},
		),
		on("output-limit", TypeOutputLimit, ops.RecoveryNudge, "the answer was too long; it can be asked for in fewer words",
			evidence{classes: []ops.FailureClass{ops.FailureOutputLimit}},
			apiSaid("output token maximum", "max_output_tokens"),
		),
		on("context-limit", TypeContext, ops.RecoveryReplan, "the conversation is full; a fresh one gets the facts only",
			evidence{classes: []ops.FailureClass{ops.FailureMaxTurns, ops.FailurePromptTooLong}},
			evidence{apiStatus: []int{400, 413}},
			apiSaid("prompt is too long", "prompt_too_long"),
		),
		on("network", TypeNetwork, ops.RecoveryRetry, "the connection to the API failed; that passes",
			evidence{apiStatus: []int{408}},
			apiSaid("failed with unknown", "econnreset", "econnrefused", "etimedout", "enotfound", "eai_again", "epipe", "connection reset",
				"connection error", "connection refused", "timed out", "socket hang up", "fetch failed", "network error", "unable to connect"),
		),
		on("api-unavailable", TypeServer, ops.RecoveryRetry, "the API is overloaded or failing; that passes",
			evidence{apiFamily: 5},
			apiSaid("server_error", "529", "overloaded"),
		),
	}
}

// apiSaid is the text of an API failure without a status.
func apiSaid(texts ...string) evidence {
	return evidence{classes: []ops.FailureClass{ops.FailureAPI}, also: noStatus, contains: texts}
}

// claims are the rows about what a session that ended by itself left behind.
func claims() []row {
	return []row{
		on("probe-red", TypeProbe, ops.RecoveryReplan, "our own look still finds it wrong, so the approach did not work",
			evidence{also: probeRed}),
		on("judge-goal", TypeGoal, ops.RecoveryReplan, "the judge finds that the goal was missed",
			evidence{verdict: judge.Fail, also: wrongGoal}),
		on("judge-evidence", TypeEvidence, ops.RecoveryNudge, "the judge finds no evidence; it may exist and only be missing",
			evidence{verdict: judge.Fail, also: noEvidence}),
		on("judge-fail", TypeJudge, ops.RecoveryReplan, "the judge does not accept the claimed success",
			evidence{verdict: judge.Fail}),
		on("judge-conditional", TypeConditional, ops.RecoveryNone, "the judge leaves it to a human",
			evidence{verdict: judge.Conditional}),
		on("killed", TypeKilled, ops.RecoveryNudge, "something outside ended the process; the conversation is still there",
			evidence{classes: []ops.FailureClass{ops.FailureExit, ""}, also: foreignSignal}),
		on("permission-denied", TypePermission, ops.RecoveryNudge, "the agent needs another way that it is allowed to go",
			evidence{also: deniedInVain}),
		on("output-format", TypeFormat, ops.RecoveryNudge, "the work may be done and only the report is wrong",
			evidence{also: unusable},
			evidence{classes: []ops.FailureClass{ops.FailureStructured}},
		),
	}
}

// Class is what the matrix says about a failure.
type Class struct {
	ErrorType ops.ErrorType
	Entry     ops.RecoveryLevel
	Rule      string // id of the row that matched
	Why       string
}

// Classify says what a failure is and at which level it enters the ladder.
func Classify(f Failure) Class {
	for _, r := range matrix() {
		if slices.ContainsFunc(r.when, func(e evidence) bool { return e.holds(f) }) {
			return Class{ErrorType: r.typ, Entry: r.level, Rule: r.id, Why: r.why}
		}
	}
	return Class{ErrorType: TypeUnknown, Entry: ops.RecoveryForceDone, Rule: "none", Why: "no row matches"}
}
