package cycle

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"claudeops/internal/decide/recovery"
	"claudeops/internal/ops"
)

// log writes one line per step. An event that says the same as the step is that line, with the level of the event.
func (a *Advancer) log(ctx context.Context, id ops.CycleID, done ops.Result, step ops.Step) {
	attrs := []any{"cycle", id, "step", step.Kind, "row", step.Row}
	if done.Session != nil {
		attrs = append(attrs, "session", done.Session.ID, "status", done.Session.Status)
	} else if step.Target != 0 {
		attrs = append(attrs, "session", step.Target)
	}
	level := slog.LevelInfo
	var severity []any
	for _, e := range append(append([]ops.Event{}, done.Events...), step.Events...) {
		switch {
		case e.Level == ops.LevelInfo:
			continue
		case e.Message == step.Reason:
			level, severity = slog.LevelWarn, []any{"kind", e.Kind, "severity", e.Level}
			continue // the line of the step says it
		}
		a.Logger.WarnContext(ctx, "event", append([]any{"message", e.Message, "kind", e.Kind, "severity", e.Level}, attrs...)...)
	}
	if step.Kind == ops.StepFinish {
		if todo := Advice(done.Session, step.Result); todo != "" {
			attrs = append(attrs, "to_do", todo)
		}
	}
	a.Logger.Log(ctx, level, "next step", append(append([]any{"reason", step.Reason}, severity...), attrs...)...)
}

// Advice is what a person should do after a cycle that ended without success, in one sentence, or nothing. An agent program that is
// missing or too old says itself what to install or set.
func Advice(last *ops.Session, result []byte) string {
	switch {
	case last == nil:
	case (last.Failure == ops.FailureNotFound || last.Failure == ops.FailureTooOld) && last.Error != "":
		return last.Error
	case refused(*last):
		return fmt.Sprintf("Set %s to a valid key in the environment of claudeops, and check it with 'claudeops doctor' and 'claudeops once'.",
			keysOf(last.Agent))
	}
	if len(result) == 0 {
		return ""
	}
	ending, report := recovery.ParseForceDone(result)
	if !report.OK() {
		return ""
	}
	return ending.Recommendation
}

// refused reports whether the model's API did not accept the key of a session, or there was none.
func refused(s ops.Session) bool {
	if s.Status == ops.SessionCompleted || s.Failure == ops.FailureNone {
		return false
	}
	said := strings.ToLower(s.Error)
	return slices.ContainsFunc([]string{
		"api answered 401", "invalid api key", "invalid x-api-key", "please run /login", "authentication_failed", "authentication_error",
	}, func(words string) bool { return strings.Contains(said, words) })
}

// keysOf names the variables that hold the key of an agent.
func keysOf(agent string) string {
	switch {
	case agent == "codex", agent == ops.AgentACP+"codex-acp", agent == ops.AgentACP+"qwen-code":
		return "OPENAI_API_KEY"
	case agent == ops.AgentACP+"gemini-cli":
		return "GEMINI_API_KEY"
	case strings.HasPrefix(agent, ops.AgentACP) && agent != ops.AgentACP+"claude-agent-acp":
		return "the key of its model"
	}
	return "ANTHROPIC_API_KEY or CLAUDE_CODE_OAUTH_TOKEN"
}
