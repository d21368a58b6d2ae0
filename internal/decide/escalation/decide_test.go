package escalation_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"claudeops/internal/decide/escalation"
	"claudeops/internal/ops"
)

func policy(change ...func(*ops.Policy)) ops.Policy {
	p := ops.Policy{
		MaxTier: 3, MaxDepth: 2, Entry: "tier1", BudgetChainUSD: 5, BudgetDayUSD: 25,
		Handlers: []ops.Handler{
			{ID: "tier1", Tier: 1, Family: "claude", HandsTo: []string{"tier2"}},
			{ID: "tier2", Tier: 2, Family: "claude", HandsTo: []string{"tier3"}},
			{ID: "tier3", Tier: 3, Family: "claude"},
		},
	}
	for _, c := range change {
		c(&p)
	}
	return p
}

func proposal(from ops.Tier, change ...func(*ops.Handoff)) escalation.Proposal {
	h := ops.Handoff{
		Reason:        "it answers 502",
		SchemaVersion: 1, RecommendedTier: from + 1, ServicesAffected: []string{"web"},
		CheckResults:  []ops.CheckResult{{Service: "web", CheckType: ops.CheckHTTP, Status: ops.Down, Error: "HTTP 502"}},
		CooldownState: json.RawMessage(`{}`),
	}
	for _, c := range change {
		c(&h)
	}
	return escalation.Proposal{
		Session: ops.Session{ID: ops.SessionID(from), CycleID: 7, Tier: from, Handler: "tier" + string(rune('0'+from))},
		Handoff: &h,
	}
}

func pathTo(from ops.Tier) []string { return []string{"tier1", "tier2", "tier3"}[:from] }

func TestDecide(t *testing.T) {
	unwalled := func(p *ops.Policy) {
		for i := range p.Handlers {
			p.Handlers[i].Unwalled = "sandbox.network is open"
		}
	}
	until := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	empty := []ops.Cooldown{{Service: "web", Action: "restart", Until: until}, {Service: "web", Action: "redeployment", Until: until.Add(time.Hour)}}
	tests := []struct {
		name     string
		policy   ops.Policy
		proposal escalation.Proposal
		facts    escalation.Facts
		verdict  ops.Verdict
		check    ops.Objection
		target   string
		says     string
	}{
		{name: "tier 1 hands to tier 2", policy: policy(), proposal: proposal(1), verdict: ops.VerdictEscalate, check: "all", target: "tier2", says: "tier2"},
		{name: "tier 2 hands to tier 3", policy: policy(), proposal: proposal(2), verdict: ops.VerdictEscalate, check: "all", target: "tier3"},
		{name: "tier 3 is the end", policy: policy(), proposal: proposal(3), verdict: ops.VerdictNeedsHuman, check: "end of chain", says: "human"},
		{
			name: "tier 3 is the end, valid or not, dry run or not", policy: policy(func(p *ops.Policy) { p.DryRun = true }),
			proposal: escalation.Proposal{Session: ops.Session{Tier: 3, Handler: "tier3"}, Problems: []string{"broken"}},
			verdict:  ops.VerdictNeedsHuman, check: "end of chain",
		},
		{
			name: "an invalid handoff is refused with its errors", policy: policy(),
			proposal: escalation.Proposal{Session: ops.Session{Tier: 1, Handler: "tier1"}, Problems: []string{"/recommended_tier: is missing"}},
			verdict:  ops.VerdictRefused, check: "validity", says: "/recommended_tier: is missing",
		},
		{
			name: "validity comes before dry run", policy: policy(func(p *ops.Policy) { p.DryRun = true }),
			proposal: escalation.Proposal{Session: ops.Session{Tier: 1, Handler: "tier1"}, Problems: []string{"x"}}, verdict: ops.VerdictRefused, check: "validity",
		},
		{name: "a tier is not skipped", policy: policy(), proposal: proposal(1, func(h *ops.Handoff) { h.RecommendedTier = 3 }), verdict: ops.VerdictRefused, check: "route", target: "tier3", says: "may not hand to tier3"},
		{name: "a lower tier is refused", policy: policy(), proposal: proposal(2, func(h *ops.Handoff) { h.RecommendedTier = 1 }), verdict: ops.VerdictRefused, check: "route", target: "tier1"},
		{name: "the own tier is refused", policy: policy(), proposal: proposal(2, func(h *ops.Handoff) { h.RecommendedTier = 2 }), verdict: ops.VerdictRefused, check: "route", target: "tier2", says: "retry, not an escalation"},
		{name: "an unknown tier is refused", policy: policy(), proposal: proposal(1, func(h *ops.Handoff) { h.RecommendedTier = 7 }), verdict: ops.VerdictRefused, check: "route", says: "recommended_tier 7"},
		{name: "a negative tier is refused", policy: policy(), proposal: proposal(1, func(h *ops.Handoff) { h.RecommendedTier = -1 }), verdict: ops.VerdictRefused, check: "route"},
		{name: "an unknown target is refused", policy: policy(), proposal: proposal(1, func(h *ops.Handoff) { h.Target = "boss" }), verdict: ops.VerdictRefused, check: "route", target: "boss", says: `"boss"`},
		{name: "a target that contradicts the tier is refused", policy: policy(), proposal: proposal(1, func(h *ops.Handoff) { h.Target = "tier3" }), verdict: ops.VerdictRefused, check: "route", target: "tier3", says: "two owners"},
		{name: "a named target is taken", policy: policy(), proposal: proposal(1, func(h *ops.Handoff) { h.Target = "tier2" }), verdict: ops.VerdictEscalate, check: "all", target: "tier2"},
		{name: "too deep", policy: policy(func(p *ops.Policy) { p.MaxDepth = 1 }), proposal: proposal(2), verdict: ops.VerdictRefused, check: "route", target: "tier3", says: "depth 2"},
		{name: "dry run suppresses", policy: policy(func(p *ops.Policy) { p.DryRun = true }), proposal: proposal(1), verdict: ops.VerdictSuppressed, check: "dry run", target: "tier2", says: "dry run"},
		{name: "maximum tier asks a human", policy: policy(func(p *ops.Policy) { p.MaxTier = 2 }), proposal: proposal(2), verdict: ops.VerdictNeedsHuman, check: "maximum tier", target: "tier3", says: "tier limit"},
		{name: "dry run comes before maximum tier", policy: policy(func(p *ops.Policy) { p.DryRun, p.MaxTier = true, 1 }), proposal: proposal(1), verdict: ops.VerdictSuppressed, check: "dry run", target: "tier2"},
		{name: "nothing left to do is blocked", policy: policy(), proposal: proposal(2), facts: escalation.Facts{Cooldowns: empty}, verdict: ops.VerdictBlocked, check: "cooldown", target: "tier3", says: "2026-01-02T03:04:05Z"},
		{name: "an alias has the cooldown of its service", policy: policy(func(p *ops.Policy) {
			p.Inventory = ops.Inventory{Services: []ops.Service{{Name: "web", Aliases: []string{"web-1"}}}}
		}), proposal: proposal(1, func(h *ops.Handoff) { h.ServicesAffected = []string{"web-1"} }), facts: escalation.Facts{Cooldowns: empty}, verdict: ops.VerdictBlocked, check: "cooldown", target: "tier2"},
		{name: "something left lets it pass", policy: policy(), proposal: proposal(2), facts: escalation.Facts{Cooldowns: []ops.Cooldown{empty[0], {Service: "web", Action: "redeployment", Left: 1}}}, verdict: ops.VerdictEscalate, check: "all", target: "tier3"},
		{name: "another service free lets it pass", policy: policy(), proposal: proposal(1, func(h *ops.Handoff) { h.ServicesAffected = []string{"web", "db"} }), facts: escalation.Facts{Cooldowns: empty}, verdict: ops.VerdictEscalate, check: "all", target: "tier2"},
		{name: "the chain's money is spent", policy: policy(), proposal: proposal(1), facts: escalation.Facts{ChainUSD: 5}, verdict: ops.VerdictBlocked, check: "budget", target: "tier2", says: "$5.00 of $5.00"},
		{name: "the day's money is spent", policy: policy(), proposal: proposal(1), facts: escalation.Facts{ChainUSD: 1, DayUSD: 24}, verdict: ops.VerdictBlocked, check: "budget", target: "tier2", says: "today"},
		{name: "no budget means no limit", policy: policy(func(p *ops.Policy) { p.BudgetChainUSD, p.BudgetDayUSD = 0, 0 }), proposal: proposal(1), facts: escalation.Facts{ChainUSD: 500, DayUSD: 500}, verdict: ops.VerdictEscalate, check: "all", target: "tier2"},
		{name: "a human has to agree first", policy: policy(func(p *ops.Policy) { p.ApprovalTier = 3 }), proposal: proposal(2), verdict: ops.VerdictApproval, check: "approval", target: "tier3", says: "approval"},
		{name: "a human has to agree where a wall is missing, whatever the trust", policy: policy(unwalled, func(p *ops.Policy) { p.Trust = ops.TrustFull }), proposal: proposal(1), verdict: ops.VerdictApproval, check: "approval", target: "tier2", says: "a wall is missing: sandbox.network is open"},
		{name: "who may only look needs no such wall", policy: policy(unwalled, func(p *ops.Policy) { p.Handlers[1].Permissions = ops.Tier1 }), proposal: proposal(1), verdict: ops.VerdictEscalate, check: "all", target: "tier2"},
		{name: "after a yes it starts without the wall", policy: policy(unwalled), proposal: proposal(1), facts: escalation.Facts{Approved: "tier2"}, verdict: ops.VerdictEscalate, check: "all", target: "tier2"},
		{name: "below the approval tier nobody is asked", policy: policy(func(p *ops.Policy) { p.ApprovalTier = 3 }), proposal: proposal(1), verdict: ops.VerdictEscalate, check: "all", target: "tier2"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := escalation.Decide(tt.policy, pathTo(tt.proposal.Session.Tier), tt.proposal, tt.facts)
			if d.Verdict != tt.verdict || d.Check != tt.check || d.TargetHandler != tt.target {
				t.Errorf("got %s by %q to %q (%s), want %s by %q to %q", d.Verdict, d.Check, d.TargetHandler, d.Reason, tt.verdict, tt.check, tt.target)
			}
			if d.Reason == "" || !strings.Contains(d.Reason, tt.says) {
				t.Errorf("reason %q does not say %q", d.Reason, tt.says)
			}
			if len(d.Inputs) < 10 {
				t.Errorf("the inputs of the decision are not kept: %s", d.Inputs)
			}
		})
	}
}

func TestDecisionReportsTheRoute(t *testing.T) {
	d := escalation.Decide(policy(), []string{"tier1", "tier2"}, proposal(2, func(h *ops.Handoff) { h.Reason = "needs the playbook" }), escalation.Facts{})
	want := ops.Decision{SourceHandler: "tier2", TargetHandler: "tier3", Depth: 2, MaxDepth: 2, ProcessMode: ops.ProcessTyped, Proposed: "needs the playbook"}
	if d.SourceHandler != want.SourceHandler || d.TargetHandler != want.TargetHandler || d.Depth != want.Depth || d.MaxDepth != want.MaxDepth ||
		d.ProcessMode != want.ProcessMode || d.Proposed != want.Proposed || d.ManagerPresent || !d.TargetValidated || !d.SelfEscalationRejected {
		t.Errorf("got %+v", d)
	}
	if got := strings.Join(d.Path, ">"); got != "tier1>tier2>tier3" {
		t.Errorf("path is %s", got)
	}
	self := escalation.Decide(policy(), []string{"tier1"}, proposal(1, func(h *ops.Handoff) { h.RecommendedTier = 1 }), escalation.Facts{})
	if !self.SelfEscalationRejected || self.TargetValidated {
		t.Errorf("self-escalation is reported as %+v", self)
	}
}

func TestEveryRouteStaysWithinThePolicy(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := policy(func(p *ops.Policy) {
			p.DryRun = rapid.Bool().Draw(t, "dry run")
			p.MaxTier = ops.Tier(rapid.IntRange(1, 3).Draw(t, "max tier"))
			p.MaxDepth = rapid.IntRange(1, 3).Draw(t, "max depth")
			p.ApprovalTier = ops.Tier(rapid.IntRange(0, 3).Draw(t, "approval tier"))
		})
		from := ops.Tier(rapid.IntRange(1, 3).Draw(t, "from"))
		prop := proposal(from, func(h *ops.Handoff) {
			h.RecommendedTier = ops.Tier(rapid.IntRange(-1, 5).Draw(t, "recommended"))
			h.Target = rapid.SampledFrom([]string{"", "tier1", "tier2", "tier3", "nobody"}).Draw(t, "target")
		})
		d := escalation.Decide(p, pathTo(from), prop, escalation.Facts{
			ChainUSD: rapid.Float64Range(0, 10).Draw(t, "chain"), DayUSD: rapid.Float64Range(0, 50).Draw(t, "day"),
		})
		if d.Reason == "" {
			t.Fatal("a decision without a reason")
		}
		if d.Verdict != ops.VerdictEscalate {
			return
		}
		target, ok := p.Handler(d.TargetHandler)
		if !ok || target.ID == d.SourceHandler || target.Tier != from+1 || target.Tier > p.MaxTier || d.Depth > p.MaxDepth || p.DryRun {
			t.Fatalf("escalated to %+v under %+v", target, p)
		}
	})
}
