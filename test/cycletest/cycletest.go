// Package cycletest holds the policies and handoffs that the tests of the decision and of its effects share.
package cycletest

import (
	"encoding/json"

	"claudeops/internal/ops"
)

// Policy is the built-in registry in handoff mode.
func Policy(change ...func(*ops.Policy)) ops.Policy {
	p := ops.Policy{
		MaxTier: 3, MaxDepth: 2, Entry: "tier1", Mode: ops.ContextHandoff,
		Handlers: []ops.Handler{
			{ID: "tier1", Tier: 1, Agent: "claude", Model: "haiku", HandsTo: []string{"tier2"}},
			{ID: "tier2", Tier: 2, Agent: "claude", Model: "sonnet", HandsTo: []string{"tier3"}},
			{ID: "tier3", Tier: 3, Agent: "claude", Model: "opus"},
		},
	}
	for _, c := range change {
		c(&p)
	}
	return p
}

// HandoffJSON is a valid handoff about web.
func HandoffJSON(recommended ops.Tier) []byte {
	raw, err := json.Marshal(ops.Handoff{
		SchemaVersion: 1, RecommendedTier: recommended, Reason: "web answers 502", ServicesAffected: []string{"web"},
		CheckResults:          []ops.CheckResult{{Service: "web", CheckType: ops.CheckHTTP, Status: ops.Down, Error: "HTTP 502"}},
		InvestigationFindings: "wrong upstream", RemediationAttempted: "restarted it, no change", CooldownState: json.RawMessage(`{}`),
	})
	if err != nil {
		panic(err)
	}
	return raw
}

// WithPeople is a registry with a manager, a judge of another family and a person at its end.
func WithPeople(p *ops.Policy) {
	p.Handlers = []ops.Handler{
		{ID: "tier1", Tier: 1, Family: "claude", Agent: "claude", HandsTo: []string{"tier2", "other2"}},
		{ID: "tier2", Tier: 2, Family: "claude", Agent: "claude", HandsTo: []string{"tier3", "oncall"}},
		{ID: "other2", Tier: 2, Family: "gpt", Agent: "codex", HandsTo: []string{"tier3"}},
		{ID: "tier3", Tier: 3, Family: "claude", Agent: "claude", HandsTo: []string{"oncall"}},
		{ID: "oncall", Tier: ops.HumanTier, Family: "human", Agent: ops.AgentHuman},
		{ID: "boss", Tier: 1, Family: "claude", Agent: "claude"},
		{ID: "judge", Tier: 1, Family: "gpt", Agent: "codex"},
	}
	p.MaxDepth = 3
}

// Managed lets a manager choose.
func Managed(p *ops.Policy) { p.Process, p.Manager = ops.ProcessManager, "boss" }

// Probed is an inventory whose one service has a probe.
func Probed(p *ops.Policy) {
	p.Inventory = ops.Inventory{Services: []ops.Service{{Name: "web", Aliases: []string{"web-1"}, Probed: true}}}
}

// ProbesFirst looks with probes before an agent.
func ProbesFirst(p *ops.Policy) { p.Observe = ops.ObserveProbes }
