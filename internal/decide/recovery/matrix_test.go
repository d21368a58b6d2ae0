package recovery

import (
	"slices"
	"testing"

	"claudeops/internal/decide/judge"
	"claudeops/internal/ops"
)

// failed is a report of a session that exited with an error the CLI told of.
func failed(edit func(*Failure)) Failure {
	f := Failure{Session: 7, Tier: 2, Handler: "tier2", Family: "claude", Model: "sonnet", ExitCode: ops.Ptr(1), Class: "api_error"}
	edit(&f)
	return f
}

// ended is a report of a session that exited 0.
func ended(edit func(*Failure)) Failure {
	f := Failure{Session: 7, Tier: 2, Handler: "tier2", Family: "claude", Model: "sonnet", ExitCode: ops.Ptr(0)}
	edit(&f)
	return f
}

// stopped is a report of a session the supervisor ended.
func stopped(cause ops.StopCause, edit func(*Failure)) Failure {
	f := failed(func(f *Failure) { f.StopCause, f.Class = cause, ops.FailureClass(cause) })
	edit(&f)
	return f
}

func same(*Failure) {}

type matrixCase struct {
	name  string
	f     Failure
	rule  string
	typ   ops.ErrorType
	entry ops.RecoveryLevel
}

func matrixCases() []matrixCase {
	return slices.Concat(providerCases(), claimCases(), stopCases())
}

func providerCases() []matrixCase {
	status := func(n int, text string) Failure {
		return failed(func(f *Failure) { f.APIStatus, f.Error = ops.Ptr(n), text })
	}
	return []matrixCase{
		{"network error", failed(func(f *Failure) { f.Error = "claude reported an error: API Error: Connection error. (ECONNRESET)" }), "network", TypeNetwork, ops.RecoveryRetry},
		{"API timeout", failed(func(f *Failure) { f.Error = "Request timed out." }), "network", TypeNetwork, ops.RecoveryRetry},
		{"status 408", status(408, "timeout"), "network", TypeNetwork, ops.RecoveryRetry},
		{"rate limit", status(429, "rate limit"), "rate-limit", TypeRateLimit, ops.RecoveryRetry},
		{"API 500", status(500, "internal"), "api-unavailable", TypeServer, ops.RecoveryRetry},
		{"API 503", status(503, "unavailable"), "api-unavailable", TypeServer, ops.RecoveryRetry},
		{"529 has no status", failed(func(f *Failure) { f.Error = "API Error: Repeated 529 Overloaded errors" }), "api-unavailable", TypeServer, ops.RecoveryRetry},
		{"output limit by text", failed(func(f *Failure) { f.Error = "response exceeded the 32000 output token maximum" }), "output-limit", TypeOutputLimit, ops.RecoveryNudge},
		{"turn limit", failed(func(f *Failure) { f.Class = "max_turns" }), "context-limit", TypeContext, ops.RecoveryReplan},
		{"prompt too long class", failed(func(f *Failure) { f.Class = "prompt_too_long" }), "context-limit", TypeContext, ops.RecoveryReplan},
		{"model not found by the runner", failed(func(f *Failure) { f.Class = "model_not_found" }), "capability", TypeCapability, ops.RecoveryFallback},
		{"refusal", failed(func(f *Failure) { f.Class = "refusal" }), "capability", TypeCapability, ops.RecoveryFallback},
		{"output limit", failed(func(f *Failure) { f.Class = "output_limit" }), "output-limit", TypeOutputLimit, ops.RecoveryNudge},
		{"billing by the runner", failed(func(f *Failure) { f.Class = "billing" }), "credentials", TypeCredentials, ops.RecoveryForceDone},
		{"budget of the CLI", failed(func(f *Failure) { f.Class = "max_budget" }), "budget", TypeBudget, ops.RecoveryForceDone},
		{"nothing left to spend", failed(func(f *Failure) { f.Class = "unpaid" }), "budget", TypeBudget, ops.RecoveryForceDone},
		{"structured output given up", failed(func(f *Failure) { f.Class = "structured_output" }), "output-format", TypeFormat, ops.RecoveryNudge},
		{"connection dropped, as the CLI tells it", failed(func(f *Failure) {
			f.Error = "the API failed with server_error: API Error: Unable to connect to API (ECONNRESET)"
		}), "network", TypeNetwork, ops.RecoveryRetry},
		{"server error told in words", failed(func(f *Failure) { f.Error = "the API failed with server_error" }), "api-unavailable", TypeServer, ops.RecoveryRetry},
		{"rate limit told in words", failed(func(f *Failure) { f.Error = "the API failed with rate_limit" }), "rate-limit", TypeRateLimit, ops.RecoveryRetry},
		{"another error of the CLI that quotes a service", failed(func(f *Failure) {
			f.Class, f.Error = "agent_error", "claude reported an error: connect ECONNREFUSED web:80, 529 overloaded"
		}), "unknown-exit", TypeUnknown, ops.RecoveryForceDone},
		{"prompt too long", status(400, "Prompt is too long"), "context-limit", TypeContext, ops.RecoveryReplan},
		{"request too large", status(413, "too large"), "context-limit", TypeContext, ops.RecoveryReplan},
		{"model not found", status(404, "model: nope"), "capability", TypeCapability, ops.RecoveryFallback},
		{"missing credentials", status(401, "invalid x-api-key"), "credentials", TypeCredentials, ops.RecoveryForceDone},
		{"refused credentials", status(403, "forbidden"), "credentials", TypeCredentials, ops.RecoveryForceDone},
		{"no credit", status(400, "Credit balance is too low"), "credentials", TypeCredentials, ops.RecoveryForceDone},
		{"not logged in", failed(func(f *Failure) { f.Error = "Invalid API key · Please run /login" }), "credentials", TypeCredentials, ops.RecoveryForceDone},
	}
}

func claimCases() []matrixCase {
	judged := func(goal, evidence int) Failure {
		return ended(func(f *Failure) {
			f.Judge = &judge.Judgement{Verdict: judge.Fail, Dimensions: judge.Score{GoalAlignment: goal, EvidenceOfCompletion: evidence}}
		})
	}
	problems := []string{"/check_results: must not be empty"}
	return []matrixCase{
		{"no outcome", ended(func(f *Failure) { f.Outcome = OutcomeMissing }), "output-format", TypeFormat, ops.RecoveryNudge},
		{"invalid outcome", ended(func(f *Failure) { f.Outcome, f.OutcomeProblems = OutcomeInvalid, problems }), "output-format", TypeFormat, ops.RecoveryNudge},
		{"two decisions", ended(func(f *Failure) {
			f.OutcomeProblems = []string{"/handoff: must be left out when the outcome is healthy"}
		}), "output-format", TypeFormat, ops.RecoveryNudge},
		{"permission denied", ended(func(f *Failure) {
			f.Outcome, f.Denials = OutcomeMissing, []Denial{{"Bash", "never", "it deletes data"}}
		}), "permission-denied", TypePermission, ops.RecoveryNudge},
		{"a denial beside an invalid outcome is a format error", ended(func(f *Failure) {
			f.Outcome, f.OutcomeProblems, f.Denials = OutcomeInvalid, problems, []Denial{{"Bash", "", "no"}}
		}), "output-format", TypeFormat, ops.RecoveryNudge},
		{"exit 0, unknown problem", ended(func(f *Failure) { f.Class = "no_result" }), "exit-zero", TypeInconclusive, ops.RecoveryNudge},
		{"judge finds no evidence", judged(20, 7), "judge-evidence", TypeEvidence, ops.RecoveryNudge},
		{"judge finds the goal missed", judged(14, 20), "judge-goal", TypeGoal, ops.RecoveryReplan},
		{"judge finds both", judged(14, 7), "judge-goal", TypeGoal, ops.RecoveryReplan},
		{"other judge FAIL", judged(20, 12), "judge-fail", TypeJudge, ops.RecoveryReplan},
		{"judge leaves it to a human", ended(func(f *Failure) { f.Judge = &judge.Judgement{Verdict: judge.Conditional} }), "judge-conditional", TypeConditional, ops.RecoveryNone},
		{"claimed fix, probe still red", ended(func(f *Failure) { f.ProbeRed = []string{"web"} }), "probe-red", TypeProbe, ops.RecoveryReplan},
		{"killed by a signal", failed(func(f *Failure) { f.Class, f.ExitCode = "exit", ops.Ptr(137) }), "killed", TypeKilled, ops.RecoveryNudge},
		{"killed, as Go writes it", failed(func(f *Failure) { f.Class, f.ExitCode = "exit", ops.Ptr(-1) }), "killed", TypeKilled, ops.RecoveryNudge},
		{"unrecognised non-zero exit", failed(func(f *Failure) { f.Class, f.ExitCode = "exit", ops.Ptr(77) }), "unknown-exit", TypeUnknown, ops.RecoveryForceDone},
		{"unknown exit with a denial in the log", failed(func(f *Failure) {
			f.Class, f.ExitCode, f.Outcome, f.Denials = "exit", ops.Ptr(77), OutcomeMissing, []Denial{{"Bash", "", "no"}}
		}), "unknown-exit", TypeUnknown, ops.RecoveryForceDone},
		{"network words on the error output of an unknown exit", failed(func(f *Failure) {
			f.Class, f.ExitCode, f.Error = "exit", ops.Ptr(77), "claude exited with code 77: connect ECONNREFUSED 10.0.0.5:5432"
		}), "unknown-exit", TypeUnknown, ops.RecoveryForceDone},
	}
}

func stopCases() []matrixCase {
	loop := func(count int, level ops.RecoveryLevel) Failure {
		return stopped("loop", func(f *Failure) { f.Loop = &Loop{Count: count, Level: level, Call: "Bash curl"} })
	}
	return []matrixCase{
		{"loop of 3", loop(3, ops.RecoveryReplan), "loop-3", TypeLoop, ops.RecoveryReplan},
		{"loop of 5", loop(5, ops.RecoveryFallback), "loop-5", TypeLoop, ops.RecoveryFallback},
		{"loop of 8", loop(8, ops.RecoveryForceDone), "loop-8", TypeLoop, ops.RecoveryForceDone},
		{"other thresholds", loop(4, ops.RecoveryReplan), "loop-3", TypeLoop, ops.RecoveryReplan},
		{"a loop count alone is no loop stop", failed(func(f *Failure) { f.APIStatus, f.Loop = ops.Ptr(401), &Loop{Count: 3} }), "credentials", TypeCredentials, ops.RecoveryForceDone},
		{"budget", stopped("budget", same), "budget", TypeBudget, ops.RecoveryForceDone},
		{"wall limit", stopped("wall_limit", same), "time-limit", TypeTimeout, ops.RecoveryReplan},
		{"tool limit", stopped("tool_limit", same), "time-limit", TypeTimeout, ops.RecoveryReplan},
		{"idle, nothing changed", stopped("idle", same), "idle", TypeIdle, ops.RecoveryRetry},
		{"idle, something changed", stopped("idle", func(f *Failure) { f.Mutating = true }), "idle-mutating", TypeIdle, ops.RecoveryNudge},
		{"deadline of the level", stopped("deadline", same), "deadline", TypeLevelTimeout, ops.RecoveryNudge},
		{"interrupted Tier 1", stopped("crash", func(f *Failure) { f.Tier, f.Interrupted = 1, true }), "interrupted-tier-1", TypeInterrupted, ops.RecoveryRetry},
		{"interrupted repair", stopped("shutdown", same), "interrupted-repair", TypeInterrupted, ops.RecoveryNudge},
		{"cancelled by operator", stopped("user", same), "cancelled", TypeCancelled, ops.RecoveryNone},
		{"gate passed by", stopped("invariant", same), "invariant", TypeInvariant, ops.RecoveryForceDone},
		{"journal", stopped("journal", same), "journal", TypeJournal, ops.RecoveryForceDone},
		{"resume refused", failed(func(f *Failure) { f.Class = "resume_refused" }), "resume-refused", TypeResume, ops.RecoveryNone},
		{"program missing", failed(func(f *Failure) { f.Class, f.ExitCode = "not_found", nil }), "agent-unavailable", TypeUnavailable, ops.RecoveryFallback},
		{"program too old", failed(func(f *Failure) { f.Class, f.ExitCode = "too_old", nil }), "agent-unavailable", TypeUnavailable, ops.RecoveryFallback},
		{"layer missing", failed(func(f *Failure) { f.Class, f.ExitCode = "layer", nil }), "layer", TypeLayer, ops.RecoveryForceDone},
	}
}

func TestClassify_EveryRowOfTheMatrix(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range matrixCases() {
		t.Run(c.name, func(t *testing.T) {
			got := Classify(c.f)
			if got.Rule != c.rule || got.ErrorType != c.typ || got.Entry != c.entry {
				t.Errorf("got %+v, want row %s, %s at %s", got, c.rule, c.typ, c.entry)
			}
			if got.Why == "" {
				t.Error("no rationale")
			}
		})
		seen[c.rule] = true
	}
	for _, r := range matrix() {
		if !seen[r.id] {
			t.Errorf("row %s has no case", r.id)
		}
	}
}
