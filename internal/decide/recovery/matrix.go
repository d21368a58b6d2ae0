package recovery

import "claudeops/internal/ops"

// ErrorType names a class of failure, as it is stored with a transition.
type ErrorType string

// The error types of the matrix.
const (
	TypeCancelled    ErrorType = "cancelled"
	TypeResume       ErrorType = "resume_refused"
	TypeConditional  ErrorType = "judge_conditional"
	TypeInvariant    ErrorType = "invariant"
	TypeJournal      ErrorType = "journal"
	TypeLayer        ErrorType = "guard_layer"
	TypeUnavailable  ErrorType = "agent_unavailable"
	TypeInterrupted  ErrorType = "interrupted"
	TypeLoop         ErrorType = "loop"
	TypeBudget       ErrorType = "budget"
	TypeLevelTimeout ErrorType = "level_timeout"
	TypeTimeout      ErrorType = "time_limit"
	TypeIdle         ErrorType = "idle"
	TypeCredentials  ErrorType = "credentials"
	TypeRateLimit    ErrorType = "rate_limit"
	TypeContext      ErrorType = "context_limit"
	TypeCapability   ErrorType = "capability"
	TypeServer       ErrorType = "api_unavailable"
	TypeOutputLimit  ErrorType = "output_limit"
	TypeNetwork      ErrorType = "network"
	TypeProbe        ErrorType = "claim_refuted"
	TypeGoal         ErrorType = "judge_goal"
	TypeEvidence     ErrorType = "judge_evidence"
	TypeJudge        ErrorType = "judge_fail"
	TypeKilled       ErrorType = "killed"
	TypePermission   ErrorType = "permission_denied"
	TypeNotFound     ErrorType = "resource_not_found"
	TypeFormat       ErrorType = "output_format"
	TypeInconclusive ErrorType = "inconclusive"
	TypeUnknown      ErrorType = "unknown_exit"
)

// row is one line of the matrix. One of its evidences is enough.
type row struct {
	id         string
	typ        ErrorType
	level      Level
	why        string
	when       []evidence
	probeFirst bool
}

func on(id string, typ ErrorType, level Level, why string, when ...evidence) row {
	return row{id: id, typ: typ, level: level, why: why, when: when}
}

func probedFirst(r row) row {
	r.probeFirst = true
	return r
}

// recognized are the rows that know what they see, top to bottom: the first that matches decides.
func recognized() []row {
	return append(append(stops(), provider()...), claims()...)
}

// unknown are the last rows: an operator's rules stand before them.
func unknown() []row {
	return []row{
		on("exit-zero", TypeInconclusive, Nudge, "the CLI ended without an error, yet nothing usable came of it",
			evidence{also: exitedZero}),
		on("unknown-exit", TypeUnknown, ForceDone, "nobody knows what this failure means, so nothing is repeated and the next scheduled cycle starts afresh",
			evidence{}),
	}
}

// stops are the rows about sessions that somebody or something ended.
func stops() []row {
	return []row{
		on("cancelled", TypeCancelled, None, "somebody stopped it on purpose",
			evidence{stopCauses: []ops.StopCause{ops.StopUser}}),
		on("invariant", TypeInvariant, ForceDone, "a tool ran that no gate had allowed: nothing may go on before a human has looked",
			evidence{stopCauses: []ops.StopCause{ops.StopInvariant}},
			evidence{classes: []string{classInvariant}},
		),
		on("journal", TypeJournal, ForceDone, "its output could not be stored, and no other agent changes that",
			evidence{stopCauses: []ops.StopCause{ops.StopJournal}},
			evidence{classes: []string{classJournal}},
		),
		on("interrupted-tier-1", TypeInterrupted, Retry, "the supervisor ended, not the agent; Tier 1 only looks",
			evidence{tiers: []int{1}, also: interrupted}),
		probedFirst(on("interrupted-repair", TypeInterrupted, Nudge, "the supervisor ended during a repair, so what was started is checked and named first",
			evidence{also: interrupted})),
		on("loop-8", TypeLoop, ForceDone, "the agent repeats itself and nothing has helped",
			evidence{loop: ForceDone}),
		on("loop-5", TypeLoop, Fallback, "the agent repeats itself; another model may see another way",
			evidence{loop: Fallback}),
		on("loop-3", TypeLoop, Replan, "the agent repeats itself; it needs another approach",
			evidence{loop: Replan}),
		on("budget", TypeBudget, ForceDone, "the money or the time is spent; more attempts would spend more",
			evidence{stopCauses: []ops.StopCause{ops.StopBudget}},
			evidence{classes: []string{ops.FailureMaxBudget, ops.FailureUnpaid}},
			evidence{subtypes: []string{"error_max_budget_usd"}},
		),
		on("time-limit", TypeTimeout, Replan, "the approach takes longer than allowed",
			evidence{stopCauses: []ops.StopCause{ops.StopWall, ops.StopTool}}),
		on("idle", TypeIdle, Retry, "the connection stalled and nothing had been changed",
			evidence{stopCauses: []ops.StopCause{ops.StopIdle}, also: harmless}),
		on("idle-mutating", TypeIdle, Nudge, "the connection stalled after something had been started",
			evidence{stopCauses: []ops.StopCause{ops.StopIdle}}),
		on("deadline", TypeLevelTimeout, Nudge, "the time of the recovery level is over",
			evidence{stopCauses: []ops.StopCause{ops.StopDeadline}}),
		on("resume-refused", TypeResume, None, "the conversation could not be continued: the handoff context takes its place",
			evidence{classes: []string{ops.FailureResumeRefused}}),
		on("layer", TypeLayer, ForceDone, "a wall around the agent could not be set up, and none runs without it",
			evidence{classes: []string{classLayer}}),
		on("agent-unavailable", TypeUnavailable, Fallback, "this CLI cannot be started here; another one may be",
			evidence{classes: []string{classNotFound, classTooOld, classStart}}),
	}
}

// provider are the rows about the model's API. Its text is evidence only where the runner says that the API failed and gave no
// status; any other text of a CLI may quote what the agent has read.
func provider() []row {
	return []row{
		on("credentials", TypeCredentials, ForceDone, "only a human can set credentials or pay",
			evidence{apiStatus: []int{401, 402, 403}},
			evidence{classes: []string{ops.FailureBilling}},
			evidence{apiErrors: []string{"authentication_failed", "oauth_org_not_allowed", "billing_error"}},
			evidence{apiStatus: []int{400}, contains: []string{"credit balance"}},
			apiSaid("authentication_failed", "oauth_org_not_allowed", "billing_error", "credit balance", "invalid api key", "please run /login"),
		),
		on("rate-limit", TypeRateLimit, Retry, "it passes; wait and repeat",
			evidence{apiStatus: []int{429}},
			evidence{apiErrors: []string{"rate_limit"}},
			apiSaid("failed with rate_limit"),
		),
		on("capability", TypeCapability, Fallback, "this model cannot or will not do it",
			evidence{classes: []string{ops.FailureModelNotFound, ops.FailureRefusal}},
			evidence{apiStatus: []int{404}},
			evidence{apiErrors: []string{"model_not_found"}},
			evidence{stopReasons: []string{"refusal"}},
		),
		on("output-limit", TypeOutputLimit, Nudge, "the answer was too long; it can be asked for in fewer words",
			evidence{classes: []string{ops.FailureOutputLimit}},
			evidence{apiErrors: []string{"max_output_tokens"}},
			apiSaid("output token maximum", "max_output_tokens"),
		),
		on("context-limit", TypeContext, Replan, "the conversation is full; a fresh one gets the facts only",
			evidence{classes: []string{ops.FailureMaxTurns, ops.FailurePromptTooLong}},
			evidence{subtypes: []string{"error_max_turns"}},
			evidence{apiStatus: []int{400, 413}},
			apiSaid("prompt is too long", "prompt_too_long"),
		),
		on("network", TypeNetwork, Retry, "the connection to the API failed; that passes",
			evidence{apiStatus: []int{408}},
			evidence{classes: []string{ops.FailureAPI}, also: noStatus, apiErrors: []string{"unknown"}},
			apiSaid("failed with unknown", "econnreset", "econnrefused", "etimedout", "enotfound", "eai_again", "epipe", "connection reset",
				"connection error", "connection refused", "timed out", "socket hang up", "fetch failed", "network error", "unable to connect"),
		),
		on("api-unavailable", TypeServer, Retry, "the API is overloaded or failing; that passes",
			evidence{apiFamily: 5},
			evidence{apiErrors: []string{"server_error", "overloaded"}},
			apiSaid("server_error", "529", "overloaded"),
		),
	}
}

// apiSaid is the text of an API failure without a status.
func apiSaid(texts ...string) evidence {
	return evidence{classes: []string{ops.FailureAPI}, also: noStatus, contains: texts}
}

// claims are the rows about what a session that ended by itself left behind.
func claims() []row {
	return []row{
		on("probe-red", TypeProbe, Replan, "a probe still finds the service down, so the approach did not work",
			evidence{also: probeRed}),
		on("judge-goal", TypeGoal, Replan, "the judge finds that the goal was missed",
			evidence{verdict: "FAIL", also: wrongGoal}),
		on("judge-evidence", TypeEvidence, Nudge, "the judge finds no evidence; it may exist and only be missing",
			evidence{verdict: "FAIL", also: noEvidence}),
		on("judge-fail", TypeJudge, Replan, "the judge does not accept the claimed success",
			evidence{verdict: "FAIL"}),
		on("judge-conditional", TypeConditional, None, "the judge leaves it to a human",
			evidence{verdict: "CONDITIONAL"}),
		on("killed", TypeKilled, Nudge, "something outside ended the process; the conversation is still there",
			evidence{classes: []string{classExit, ""}, also: foreignSignal}),
		on("permission-denied", TypePermission, Nudge, "the agent needs another way that it is allowed to go",
			evidence{also: deniedInVain}),
		on("resource-not-found", TypeNotFound, Nudge, "the agent used a wrong name or parameter",
			evidence{also: erredInVain}),
		on("output-format", TypeFormat, Nudge, "the work may be done and only the report is wrong",
			evidence{also: unusable},
			evidence{classes: []string{ops.FailureStructured}},
			evidence{subtypes: []string{"error_max_structured_output_retries"}},
		),
	}
}
