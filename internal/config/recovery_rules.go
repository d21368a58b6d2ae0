package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"claudeops/internal/ops"
)

// shortestPhrase keeps a rule from matching by accident.
const shortestPhrase = 3

func ruleFields(r *ops.RecoveryRule) []field {
	phrase := checked("text", fmt.Sprintf("give at least %d characters of the error", shortestPhrase), "found in too many texts", true,
		func(text string) bool { return len(text) >= shortestPhrase })
	causes := choiceKind("a cause of a stop", ops.StopUser, ops.StopShutdown, ops.StopWall, ops.StopIdle, ops.StopTool, ops.StopCrash,
		ops.StopLease, ops.StopJournal, ops.StopInvariant, ops.StopLoop, ops.StopBudget, ops.StopDeadline)
	return []field{
		value("id", &r.ID, nameKind("rule id", "an id of a rule"), "Name of the rule.").must(),
		value("level", &r.Level, levelKind(), "Recovery level at which the failure starts.").must(),
		value("failure", &r.Failure, as[ops.FailureClass](tokenKind()),
			"Class of the failure as the session records it, such as `exit` or `api_error`."),
		value("api_status", &r.APIStatus, intKind(100, 599), "HTTP status of the model's API."),
		value("exit_code", &r.ExitCode, optional(intKind(0, 255)), "Exit code of the agent CLI."),
		value("stop_cause", &r.StopCause, causes, "Why the supervisor stopped the session."),
		value("contains", &r.Contains, phrase, "A text in the error of the agent CLI, in upper or lower case."),
		value("why", &r.Why, textKind(), "Your reason, shown whenever the rule is used.").orElse("the id"),
	}
}

func levelKind() kind[ops.RecoveryLevel] {
	levels := map[string]ops.RecoveryLevel{}
	var words []string
	var enum []any
	for l := ops.RecoveryRetry; l <= ops.RecoveryForceDone; l++ {
		levels[string(l.Action())], levels[fmt.Sprint(int(l))] = l, l
		words = append(words, string(l.Action()))
		enum = append(enum, string(l.Action()), int(l))
	}
	name := "`" + strings.Join(words, "`, `") + "`, or 1 to 5"
	schema := map[string]any{"enum": enum}
	return kind[ops.RecoveryLevel]{name: name, schema: schema, parse: func(_ places, v raw) (ops.RecoveryLevel, []fault) {
		if l, ok := levels[v.text]; ok {
			return l, nil
		}
		return 0, wrong(v, suggestOr(v.text, words, "give "+strings.Join(words, ", ")+", or 1 to 5"), "%q is not a recovery level", v.text)
	}}
}

func (c *Config) finishRule(e *entry, r *ops.RecoveryRule) {
	r.ErrorType, r.Why = ops.ErrorType(r.ID), cmp.Or(r.Why, r.ID)
	given, conditions := e.hasAny(&r.Failure, &r.APIStatus, &r.ExitCode, &r.StopCause, &r.Contains)
	switch {
	case !given:
		e.refuseAll("add one of "+strings.Join(conditions, ", "), "the rule would match every failure")
	case slices.ContainsFunc(c.shared.Recovery.Rules, func(o ops.RecoveryRule) bool { return o.ID == r.ID }):
		e.refuse(&r.ID, "give every rule its own id", "the rule %q is listed twice", r.ID)
	}
}
