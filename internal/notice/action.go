package notice

import (
	"fmt"

	"claudeops/internal/ops"
)

func actionFacts(r ops.ActionRun) []fact {
	return []fact{
		{"Service", r.Service},
		{"Reason", r.Why},
		{"Details", fmt.Sprintf("claudeops actions show %d", r.ID)},
	}
}

func actionName(r ops.ActionRun) string {
	if r.UndoOf != 0 {
		return fmt.Sprintf("the undo of %s of %s (action %d)", r.Action, r.Service, r.UndoOf)
	}
	return fmt.Sprintf("%s of %s (action %d)", r.Action, r.Service, r.ID)
}

// ActionUndone tells that an action was undone because it had made things worse.
func ActionUndone(r ops.ActionRun) Text {
	return Text{title("An action was undone"), body(
		fmt.Sprintf("%s of %s had made things worse and was undone. Check %s.", capital(r.Action), r.Service, r.Service), actionFacts(r)...)}
}

// ActionNotUndone tells that an undo failed.
func ActionNotUndone(r ops.ActionRun, status ops.ActionStatus, problem string) Text {
	return Text{title("An action could not be undone"), body(
		fmt.Sprintf("%s %s: %s Undo it by hand.", capital(actionName(r)), status, sentence(line(problem, longestFact))), actionFacts(r)...)}
}

// ActionWorse tells that an action without a way back made things worse.
func ActionWorse(r ops.ActionRun, worse []string) Text {
	return Text{title("An action made things worse"), body(
		fmt.Sprintf("%s made things worse and cannot be undone. Repair %s by hand.", capital(actionName(r)), ops.Listed(worse)),
		append([]fact{{"Worse than before", ops.Listed(worse)}}, actionFacts(r)...)...)}
}

// ActionInterrupted tells that the supervisor ended while an action was running.
func ActionInterrupted(r ops.ActionRun) Text {
	return Text{title("An action was interrupted"), body(
		fmt.Sprintf("%s was running when the supervisor ended; it is not repeated. Check %s before you repeat it.",
			capital(actionName(r)), r.Service), actionFacts(r)...)}
}
