package config

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"claudeops/internal/ops"
)

func recoverySettings() []setting {
	return []setting{
		{
			key: "recovery.enabled", env: "CLAUDEOPS_RECOVERY", def: "on", kind: boolKind(),
			doc: "`off` ends a cycle at its first failure and leaves the next try to the next cycle.",
		},
		{
			key: "recovery.limits.retries", def: "3", kind: wholeKind(1, 10),
			doc: "Most retries of one step: the same call again.",
		},
		{
			key: "recovery.limits.retry_time", def: "30s", kind: durationKind(4 * time.Second),
			doc: "Most waiting before retries, all of them together.",
		},
		{
			key: "recovery.limits.nudges", def: "3", kind: wholeKind(1, 3),
			doc: "Most nudges of one step: the same conversation goes on with the concrete errors.",
		},
		{
			key: "recovery.limits.nudge_time", def: "5m", kind: durationKind(0),
			doc: "Time for all nudges of one step.",
		},
		{
			key: "recovery.limits.replan_time", def: "15m", kind: durationKind(0),
			doc: "Time for a new plan and its first execution.",
		},
		{
			key: "recovery.limits.fallback_time", def: "20m", kind: durationKind(0),
			doc: "Time for all fallback handlers of one step.",
		},
		{
			key: "recovery.limits.total_time", def: "1h", kind: durationKind(0),
			doc: "Time for all recovery in one cycle.",
		},
		{
			key: "recovery.limits.total_usd", def: "0", kind: dollarsKind(),
			doc: "Most that all recovery in one cycle may cost; 0 means no limit of its own.",
		},
		{
			key: "recovery.rules", structured: true, kind: kind{name: "list"},
			doc: "Your own classes of failure. See [Recovery rules](#recovery-rules).",
		},
	}
}

func ruleFields() []field {
	return []field{
		{name: "id", doc: "Name of the rule. Required."},
		{name: "level", doc: "Where the failure enters the ladder: `retry`, `nudge`, `replan`, `fallback`, `force-done`, or 1 to 5. Required."},
		{name: "failure", doc: "Class of the failure as the session records it, such as `exit` or `api_error`."},
		{name: "api_status", doc: "HTTP status with which the model's API answered."},
		{name: "exit_code", doc: "Exit code of the agent CLI."},
		{name: "stop_cause", doc: "Why the supervisor stopped the session, such as `wall_limit` or `idle`."},
		{name: "contains", doc: "A text in the error of the agent CLI, upper and lower case alike."},
		{name: "error_type", def: "the id", doc: "Name under which the failure is recorded."},
		{name: "why", def: "the id", doc: "Your reason, shown with every use of the rule."},
	}
}

// conditions are the fields of a rule that say which failures it is about.
func conditions() []string {
	return []string{"failure", "api_status", "exit_code", "stop_cause", "contains"}
}

func levelKind() kind {
	levels := map[string]ops.RecoveryLevel{}
	var words []string
	for l := ops.RecoveryRetry; l <= ops.RecoveryForceDone; l++ {
		levels[string(l.Action())], levels[strconv.Itoa(int(l))] = l, l
		words = append(words, string(l.Action()))
	}
	return kind{name: "a level", parse: func(_ places, v raw) (any, []fault) {
		if l, ok := levels[v.text]; ok {
			return l, nil
		}
		fix := "give " + strings.Join(words, ", ") + ", or 1 to 5"
		if s := suggest(v.text, words); s != "" {
			fix = "did you mean " + s + "?"
		}
		return nil, wrong(v, fix, "%q is not a level of the ladder", v.text)
	}}
}

func stopCauses() []string {
	return []string{
		string(ops.StopUser), string(ops.StopShutdown), string(ops.StopWall), string(ops.StopIdle), string(ops.StopTool), string(ops.StopCrash), string(ops.StopLease),
		string(ops.StopJournal), string(ops.StopInvariant), string(ops.StopLoop), string(ops.StopBudget), string(ops.StopDeadline),
	}
}

// shortestPhrase keeps a rule from matching by accident.
const shortestPhrase = 3

func phraseKind() kind {
	return kind{name: "text", parse: func(_ places, v raw) (any, []fault) {
		if len(v.text) < shortestPhrase {
			return nil, wrong(v, fmt.Sprintf("give at least %d characters of the error", shortestPhrase), "%q stands in too many texts", v.text)
		}
		return v.text, nil
	}}
}

func ruleKinds() map[string]kind {
	return map[string]kind{
		"id": nameKind("rule id", "an id of a rule"), "level": levelKind(), "failure": tokenKind(), "api_status": wholeKind(100, 599), "exit_code": wholeKind(0, 255),
		"stop_cause": choiceKind("a cause of a stop", stopCauses()...), "contains": phraseKind(), "error_type": nameKind("name", "a name for an error"), "why": textKind(),
	}
}

// rules reads the operator's own rows of the matrix.
func (l *loader) rules() []ops.RecoveryRule {
	const section = "recovery.rules"
	n := l.sections[section]
	if n == nil {
		return nil
	}
	var out []ops.RecoveryRule
	for i, item := range l.file.items(n, section) {
		key := fmt.Sprintf("%s[%d]", section, i)
		e := l.entry(item, key, ruleFields(), ruleKinds(), []string{"id", "level"}, nil)
		if e == nil {
			continue
		}
		r := ops.RecoveryRule{ID: text(e, "id"), Failure: ops.FailureClass(text(e, "failure")), StopCause: ops.StopCause(text(e, "stop_cause")), Contains: text(e, "contains")}
		r.Level, _ = e["level"].(ops.RecoveryLevel)
		r.APIStatus, _ = e["api_status"].(int)
		if code, ok := e["exit_code"].(int); ok {
			r.ExitCode = &code
		}
		r.ErrorType, r.Why = ops.ErrorType(cmp.Or(text(e, "error_type"), r.ID)), cmp.Or(text(e, "why"), r.ID)
		switch {
		case !slices.ContainsFunc(conditions(), func(c string) bool { _, ok := e[c]; return ok }):
			l.problems.add(l.file.at(item), key, "the rule would hold for every failure", "add one of "+strings.Join(conditions(), ", "))
		case slices.ContainsFunc(out, func(o ops.RecoveryRule) bool { return o.ID == r.ID }):
			l.problems.add(l.marked(join(key, "id"), item), join(key, "id"), fmt.Sprintf("the rule %q stands here twice", r.ID), "give every rule its own id")
		default:
			out = append(out, r)
		}
	}
	return out
}

func (c *Config) recovery(rules []ops.RecoveryRule) ops.RecoveryPolicy {
	k := c.values
	limit := func(name string) time.Duration { return get[time.Duration](k, "recovery.limits."+name) }
	return ops.RecoveryPolicy{
		Enabled: get[bool](k, "recovery.enabled"), Rules: rules,
		Limits: ops.RecoveryLimits{
			Retries: get[int](k, "recovery.limits.retries"), RetryTime: limit("retry_time"),
			Nudges: get[int](k, "recovery.limits.nudges"), NudgeTime: limit("nudge_time"),
			ReplanTime: limit("replan_time"), FallbackTime: limit("fallback_time"),
			TotalTime: limit("total_time"), TotalUSD: get[float64](k, "recovery.limits.total_usd"),
		},
	}
}
