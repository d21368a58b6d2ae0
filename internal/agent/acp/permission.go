package acp

import (
	"encoding/json"
	"slices"

	"claudeops/internal/agent"
	"claudeops/internal/ops"
)

// permission decides about one call. It is allowed once, or refused.
func (c *client) permission(raw json.RawMessage) outcomeOf {
	cancelled := outcomeOf{Outcome: "cancelled"}
	var p permissionParams
	if json.Unmarshal(raw, &p) != nil || c.phase != running || p.SessionID != c.session {
		return cancelled
	}
	pick := func(kind string) (outcomeOf, bool) {
		i := slices.IndexFunc(p.Options, func(o option) bool { return o.Kind == kind && o.ID != "" })
		if i < 0 {
			return cancelled, false
		}
		return outcomeOf{Outcome: "selected", Option: p.Options[i].ID}, true
	}
	allow, can := pick(allowOnce)
	reject, _ := pick(rejectOnce)
	call, allowed := c.calls.ask(p.Call, func(q []ops.ToolQuestion) bool { return c.judge(q, can) })
	if allowed && can {
		return allow
	}
	call.allowed = false
	return reject
}

// judge asks the guard. Nothing is allowed where the CLI would take an answer for more than this call.
func (c *client) judge(questions []ops.ToolQuestion, once bool) bool {
	if c.trial != nil {
		c.trial.asked(questions)
		return false
	}
	for _, q := range questions {
		allowed, reason := false, "This call is refused because the agent CLI offers no way to allow it only once."
		if once {
			allowed, reason = c.spec.Gate.Ask(q)
		}
		if !allowed {
			text := agent.Call{Name: q.Tool, Input: string(q.Input)}.String()
			c.refused = append(c.refused, text+"\n  "+reason)
			return false
		}
	}
	return len(questions) > 0
}
