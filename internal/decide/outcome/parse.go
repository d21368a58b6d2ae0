package outcome

import (
	"maps"
	"slices"

	"claudeops/internal/decide/handoff"
	"claudeops/internal/ops"
)

// Parse reads the outcome that a session of tier from gave. The outcome is empty unless the report is OK.
func Parse(raw []byte, from ops.Tier) (ops.Outcome, handoff.Report) {
	o, report := read(raw, from)
	report.Finish("outcome")
	if !report.OK() {
		return ops.Outcome{}, report
	}
	return o, report
}

// read goes on after an error, so that a model is told all of them at once.
func read(raw []byte, from ops.Tier) (ops.Outcome, handoff.Report) {
	tree, problems := handoff.Decode(raw)
	if len(problems) > 0 {
		return ops.Outcome{}, handoff.Report{Errors: problems}
	}
	object, ok := tree.(map[string]any)
	if !ok {
		return ops.Outcome{}, handoff.Validate(compiled(), tree)
	}
	report := validate(object)
	refusePlaceholders(object, nil, outcomeTexts(), &report)
	refuseContradictions(object, &report)
	passedOn := readHandoff(object, from, &report)
	if !report.OK() {
		return ops.Outcome{}, report
	}
	o := build(object, passedOn)
	if from >= ops.Tier2 && o.Kind == ops.OutcomeHealthy {
		o.Kind = ops.OutcomeResolved // it was called to a problem: that all is well is its claim, whichever word it uses
	}
	warnUnfounded(o, &report)
	return o, report
}

// validate checks everything but the handoff, whose rules depend on the tier that wrote it.
func validate(object map[string]any) handoff.Report {
	rest := maps.Clone(object)
	delete(rest, "handoff")
	report := handoff.Validate(compiled(), rest)
	report.Errors = slices.DeleteFunc(report.Errors, func(p handoff.Problem) bool { return p.Pointer == "/handoff" })
	return report
}

// readHandoff returns the handoff of an escalation. With any other decision a handoff would be a second one.
func readHandoff(object map[string]any, from ops.Tier, report *handoff.Report) *ops.Handoff {
	path := []string{"handoff"}
	tree, present := object["handoff"]
	kind := kindOf(object)
	switch {
	case !present && kind == ops.OutcomeEscalate:
		report.Refuse(path, "is missing: the outcome escalate needs the facts for the next tier")
	case !present:
	case kind == ops.OutcomeHealthy, kind == ops.OutcomeResolved, kind == ops.OutcomeNeedsHuman:
		report.Refuse(path, "must be left out when the outcome is %s: a session ends in one decision", kind)
	default:
		h, found := handoff.ParseTree(tree, from)
		report.Include(path, found)
		refusePlaceholders(tree, path, handoffTexts(from), report)
		return &h
	}
	return nil
}

func kindOf(object map[string]any) ops.OutcomeKind { return ops.OutcomeKind(text(object["outcome"])) }

// build makes the typed outcome from a tree that satisfies the schema. It reads fields by their exact names, which
// encoding/json would not.
func build(tree map[string]any, passedOn *ops.Handoff) ops.Outcome {
	return ops.Outcome{
		SchemaVersion: Version,
		Kind:          kindOf(tree),
		Summary:       text(tree["summary"]),
		Confidence:    handoff.Confidence(tree["confidence"]),
		CheckResults:  handoff.CheckResults(tree["check_results"]),
		Handoff:       passedOn,
		Actions: list(tree["actions"], func(m map[string]any) ops.Action {
			success, _ := m["success"].(bool)
			return ops.Action{Service: text(m["service"]), Action: text(m["action"]), Success: success, Detail: text(m["detail"])}
		}),
		Events: list(tree["events"], func(m map[string]any) ops.Remark {
			return ops.Remark{Level: ops.Level(text(m["level"])), Service: text(m["service"]), Message: text(m["message"])}
		}),
		Memories: list(tree["memories"], func(m map[string]any) ops.Lesson {
			return ops.Lesson{Category: text(m["category"]), Service: text(m["service"]), Observation: text(m["observation"])}
		}),
	}
}

// list is never nil, so that it is written as an empty list and not as null.
func list[T any](tree any, item func(map[string]any) T) []T {
	items, _ := tree.([]any)
	out := make([]T, len(items))
	for i := range items {
		object, _ := items[i].(map[string]any)
		out[i] = item(object)
	}
	return out
}

func text(value any) string {
	s, _ := value.(string)
	return s
}
