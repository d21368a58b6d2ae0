package recovery

import (
	"slices"

	"claudeops/internal/ops"
)

// Class is what the matrix says about a failure.
type Class struct {
	ErrorType ops.ErrorType     `json:"error_type"`
	Entry     ops.RecoveryLevel `json:"entry"`
	Rule      string            `json:"rule"` // id of the row that matched
	Why       string            `json:"why"`
	// ProbeFirst: the services are looked at before the agent is, because a repair may have taken effect.
	ProbeFirst bool `json:"probe_first,omitempty"`
}

// Classify says what a failure is and at which level it enters the ladder. Extra are an operator's rules, already checked.
func Classify(f Failure, extra []Rule) Class {
	for _, r := range matrix(extra) {
		if slices.ContainsFunc(r.when, func(e evidence) bool { return e.holds(f) }) {
			return Class{ErrorType: r.typ, Entry: r.level, Rule: r.id, Why: r.why, ProbeFirst: r.probeFirst}
		}
	}
	return Class{ErrorType: TypeUnknown, Entry: ops.RecoveryForceDone, Rule: "none", Why: "no row matches"}
}

func matrix(extra []Rule) []row {
	rows := recognized()
	for _, r := range extra {
		if r.When.Empty() { // it would swallow everything
			continue
		}
		rows = append(rows, row{id: r.ID, typ: r.ErrorType, level: r.Level, why: r.Why, when: []evidence{r.When.evidence()}})
	}
	return append(rows, unknown()...)
}
