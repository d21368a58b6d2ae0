package recovery

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"claudeops/internal/ops"
)

// Result is what level 5 emits: the contract, field by field.
type Result struct {
	Status         string              `json:"status" report:"required,one=partial"`
	CompletedSteps []string            `json:"completedSteps" report:"required" each:"text"`
	FailedAt       string              `json:"failedAt" report:"required,text"`
	FailureReason  string              `json:"failureReason" report:"required,text"`
	EscalationPath []ops.RecoveryLevel `json:"escalationPath" report:"required,filled" each:"min=1,max=5"`
	Recommendation string              `json:"recommendation" report:"required,text"`
}

// Metadata stands beside the result.
type Metadata struct {
	Partial         bool              `json:"partial,omitempty" report:"one=true"`
	EscalationLevel ops.RecoveryLevel `json:"escalationLevel,omitempty" report:"one=5"`
	Summary         string            `json:"summary,omitempty" report:"text"`
}

// Ending is a result with its metadata, as it is stored and printed.
type Ending struct {
	Result
	Metadata
}

// Facts are what a force-done result is made from.
type Facts struct {
	Failure   Failure
	Class     Class
	Move      Move
	History   []ops.Recovery // of the cycle, without the last move
	Completed []string       // from recorded checks and actions
	Budget    ops.Budget     // the limit that the session reached, where that ended it
	Down      []string       // services that are still down
	StillBad  string         // what probes found after a claimed repair, such as "web down and db degraded"; empty: no probe refutes it
}

// Finish builds the result of level 5. It needs no model and no network, and no field of it is ever empty but the steps.
func Finish(in Facts) Ending {
	path := append(entered(in.History, in.Failure.Tier, ops.RecoveryForceDone), ops.RecoveryForceDone)
	e := Ending{
		Result: Result{
			Status:         "partial",
			CompletedSteps: visible(in.Completed),
			FailedAt:       plain(fmt.Sprintf("%s (%s)", in.Failure.Tier, cmp.Or(in.Failure.Handler, "no handler"))),
			FailureReason:  plain(in.cause()),
			EscalationPath: path,
			Recommendation: plain(in.recommendation()),
		},
		Metadata: Metadata{Partial: true, EscalationLevel: ops.RecoveryForceDone},
	}
	e.Summary = fmt.Sprintf("Partial result after %s: %s", levels(path), e.FailureReason)
	return e
}

// cause is the specific error, in one sentence.
func (in Facts) cause() string {
	f := in.Failure
	what := fmt.Sprintf("session %d (%s)", f.Session, ops.Spaced(in.Class.ErrorType))
	if in.Class.ErrorType == TypeUnavailable {
		what = "no agent could be started"
	}
	switch {
	case in.StillBad != "":
		what += ": probes still find " + in.StillBad
	case f.loopLevel() != ops.RecoveryNone:
		what += fmt.Sprintf(": %d similar actions without progress: %s", f.Loop.Count, cmp.Or(f.Loop.Call, "the call is not known"))
	case strings.TrimSpace(f.Error) != "":
		what += ": " + strings.TrimSpace(f.Error)
	case len(f.OutcomeProblems) > 0:
		what += ": the outcome is not valid: " + f.OutcomeProblems[0]
	case len(f.Denials) > 0:
		what += fmt.Sprintf(": %s was refused: %s", f.Denials[0].Tool, f.Denials[0].Reason)
	case f.Judge != nil:
		what += fmt.Sprintf(": the judge gave %d of 100", f.Judge.TotalScore)
	default:
		what += ": " + cmp.Or(in.Class.Why, "no cause is known")
	}
	if in.Move.Because != "" {
		what += "; " + in.Move.Because
	}
	return what
}

// Level 5 always emits, so nothing in its texts may be able to keep it from being written.
const (
	longestText = 4000
	mostSteps   = 50
)

// visible drops empty steps; the list itself is never null.
func visible(steps []string) []string {
	out := []string{}
	for _, s := range steps {
		if s = plain(s); s != "" && len(out) < mostSteps {
			out = append(out, s)
		}
	}
	return out
}

// plain makes one printable line of a text; it is empty when nothing in it can be seen.
func plain(s string) string { return ops.OneLine(s, longestText) }

func levels(path []ops.RecoveryLevel) string {
	if len(path) == 1 {
		return "no attempt to recover"
	}
	names := make([]string, 0, len(path))
	for _, l := range slices.DeleteFunc(slices.Clone(path), func(l ops.RecoveryLevel) bool { return l == ops.RecoveryForceDone }) {
		names = append(names, string(l.Action()))
	}
	return strings.Join(names, ", ")
}
