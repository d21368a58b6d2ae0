package recovery

import (
	"slices"
	"strings"

	"claudeops/internal/ops"
)

// evidence is what a row of the matrix asks for. All that is set must hold; in a list one entry is enough.
type evidence struct {
	classes     []ops.FailureClass
	apiStatus   []int
	apiFamily   int // 5 stands for 500 to 599
	apiErrors   []string
	subtypes    []string
	stopReasons []string
	stopCauses  []ops.StopCause
	exitCodes   []int
	contains    []string // in the error text of the CLI, lower case
	tiers       []int
	loop        ops.RecoveryLevel
	verdict     string
	also        func(Failure) bool // what the fields above cannot say
}

func (e evidence) holds(f Failure) bool {
	return among(e.classes, f.Class) &&
		among(e.apiErrors, f.APIError) &&
		among(e.subtypes, f.ResultSubtype) &&
		among(e.stopReasons, f.StopReason) &&
		among(e.stopCauses, f.StopCause) &&
		among(e.tiers, f.Tier) &&
		amongPtr(e.apiStatus, f.APIStatus) &&
		amongPtr(e.exitCodes, f.ExitCode) &&
		(e.apiFamily == 0 || f.APIStatus != nil && *f.APIStatus/100 == e.apiFamily) &&
		(e.loop == ops.RecoveryNone || f.loopLevel() == e.loop) &&
		(e.verdict == "" || f.Judge != nil && f.Judge.Verdict == e.verdict) &&
		mentions(f.Error, e.contains) &&
		(e.also == nil || e.also(f))
}

func among[T comparable](wanted []T, is T) bool {
	return len(wanted) == 0 || slices.Contains(wanted, is)
}

func amongPtr[T comparable](wanted []T, is *T) bool {
	return len(wanted) == 0 || is != nil && slices.Contains(wanted, *is)
}

func mentions(text string, wanted []string) bool {
	text = strings.ToLower(text)
	return len(wanted) == 0 || slices.ContainsFunc(wanted, func(w string) bool { return strings.Contains(text, w) })
}

// The small predicates below read several fields at once.

func noStatus(f Failure) bool { return f.APIStatus == nil }

func interrupted(f Failure) bool {
	return f.Interrupted || f.StopCause == ops.StopShutdown || f.StopCause == ops.StopCrash ||
		f.StopCause == ops.StopLease
}

func harmless(f Failure) bool { return !f.Mutating }

func exitedZero(f Failure) bool { return f.ExitCode != nil && *f.ExitCode == 0 }

func probeRed(f Failure) bool { return len(f.ProbeRed) > 0 }

func wrongGoal(f Failure) bool { return f.Judge.GoalAlignment < 15 }

func noEvidence(f Failure) bool { return f.Judge.EvidenceOfCompletion < 8 }

// A denied or failed call explains an outcome that is missing, not one that is there and wrong.
func deniedInVain(f Failure) bool {
	return exitedZero(f) && f.Outcome == OutcomeMissing && len(f.Denials) > 0
}

func erredInVain(f Failure) bool {
	return exitedZero(f) && f.Outcome == OutcomeMissing && len(f.ToolErrors) > 0
}

func unusable(f Failure) bool {
	return exitedZero(f) && (f.Outcome == OutcomeMissing || f.Outcome == OutcomeInvalid || len(f.OutcomeProblems) > 0)
}

func foreignSignal(f Failure) bool { return f.StopCause == "" && f.signaled() }
