package main_test

import (
	"encoding/json"
	"fmt"
	"strings"

	"claudeops/internal/ops"
	"claudeops/test/messagesapi"
)

// tutorialStory is what Claude says where a document lets it work: all is well, unless Tier 1 is told about the shop of the tutorial. Then
// Tier 2 asks for the action that repairs it.
func tutorialStory(r messagesapi.Request) messagesapi.Answer {
	used := messagesapi.Usage{Input: 2000, Output: 100}
	switch n := tierOf(r); {
	case n == 1 && !strings.Contains(r.Prompt(), "shop"):
		return messagesapi.Structured("toolu_well", says(1, ops.OutcomeHealthy)).Took(used)
	case n == 1:
		return messagesapi.Structured("toolu_down", shopReport("escalate", "down", "its page has no greeting")).Took(used)
	case r.Turn() == 0:
		return messagesapi.Call("toolu_act", "mcp__claudeops__action_run",
			map[string]any{"service": "shop", "action": "restore", "why": "its page was overwritten"}).Took(used)
	}
	return messagesapi.Structured("toolu_done", shopReport("resolved", "healthy", "")).Took(used)
}

// shopReport is an outcome about the shop.
func shopReport(kind, status, problem string) (out any) {
	checks := fmt.Sprintf(`[{"service": "shop", "check_type": "http", "status": %q, "error": %q}]`, status, problem)
	text := fmt.Sprintf(`{"schema_version": 1, "outcome": %q, "summary": "The shop is %s.", "check_results": %s,
		"actions": [], "events": [], "memories": []`, kind, status, checks)
	if kind == "escalate" {
		text += fmt.Sprintf(`, "handoff": {"schema_version": 1, "recommended_tier": 2, "reason": "its page was overwritten",
			"services_affected": ["shop"], "check_results": %s, "cooldown_state": {}}`, checks)
	}
	if err := json.Unmarshal([]byte(text+"}"), &out); err != nil {
		panic(err)
	}
	return out
}
