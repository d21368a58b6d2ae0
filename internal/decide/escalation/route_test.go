package escalation_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"claudeops/internal/decide/escalation"
	"claudeops/internal/ops"
)

// families is a registry with two families, two ways up and a person at the end.
func families(change ...func(*ops.Policy)) ops.Policy {
	p := ops.Policy{
		MaxTier: 3, MaxDepth: 3, Entry: "writer", Independence: ops.IndependenceHandler,
		Handlers: []ops.Handler{
			{ID: "writer", Tier: 1, Family: "claude", Agent: "claude", HandsTo: []string{"sibling", "reviewer"}},
			{ID: "sibling", Tier: 2, Family: "claude", Agent: "claude", HandsTo: []string{"human"}},
			{ID: "reviewer", Tier: 2, Family: "gpt", Agent: "codex", HandsTo: []string{"human"}},
			{ID: "human", Tier: ops.HumanTier, Family: "human", Agent: ops.AgentHuman},
		},
	}
	for _, c := range change {
		c(&p)
	}
	return p
}

func from(handler string, tier ops.Tier, target string, to ops.Tier) escalation.Proposal {
	p := proposal(tier, func(h *ops.Handoff) { h.Target, h.RecommendedTier = target, to })
	p.Session.Handler = handler
	return p
}

func TestRouting(t *testing.T) {
	crossed := func(p *ops.Policy) {
		p.Routes = []ops.Route{{From: "writer", To: "sibling", Independence: ops.IndependenceFamily}}
	}
	gated := func(p *ops.Policy) { p.Routes = []ops.Route{{From: "writer", To: "reviewer", Approval: true}} }
	tests := []struct {
		name     string
		policy   ops.Policy
		proposal escalation.Proposal
		path     []string
		facts    escalation.Facts
		verdict  ops.Verdict
		check    ops.Objection
		target   string
		says     string
	}{
		{name: "another family where one is demanded", policy: families(crossed), proposal: from("writer", 1, "sibling", 2), verdict: ops.VerdictRefused, check: "independence", target: "sibling", says: "demands another family"},
		{name: "the same family where none is demanded", policy: families(), proposal: from("writer", 1, "sibling", 2), verdict: ops.VerdictEscalate, check: "all", target: "sibling"},
		{name: "a stand-in of another family counts as that family", policy: families(crossed), proposal: func() escalation.Proposal {
			p := from("writer", 1, "sibling", 2)
			p.Session.Family = "gpt"
			return p
		}(), verdict: ops.VerdictEscalate, check: "all", target: "sibling"},
		{name: "nobody gets it twice", policy: families(), proposal: from("writer", 1, "sibling", 2), path: []string{"sibling", "writer"}, verdict: ops.VerdictRefused, check: "independence", target: "sibling", says: "already worked"},
		{name: "unless the operator says so", policy: families(func(p *ops.Policy) { p.Independence = ops.IndependenceNone }), proposal: from("writer", 1, "sibling", 2), path: []string{"sibling", "writer"}, verdict: ops.VerdictEscalate, check: "all", target: "sibling"},
		{name: "a human is a target", policy: families(), proposal: from("reviewer", 2, "human", ops.HumanTier), path: []string{"writer", "reviewer"}, verdict: ops.VerdictEscalate, check: "all", target: "human", says: "a human"},
		{name: "a human is above every maximum tier, cooldown and budget", policy: families(func(p *ops.Policy) { p.MaxTier, p.BudgetChainUSD = 1, 1 }), proposal: from("reviewer", 2, "human", ops.HumanTier), path: []string{"writer", "reviewer"}, facts: escalation.Facts{ChainUSD: 9}, verdict: ops.VerdictEscalate, check: "all", target: "human"},
		{name: "a route can demand approval", policy: families(gated), proposal: from("writer", 1, "reviewer", 2), verdict: ops.VerdictApproval, check: "approval", target: "reviewer", says: "the route from writer"},
		{name: "and gets it", policy: families(gated), proposal: from("writer", 1, "reviewer", 2), facts: escalation.Facts{Approved: "reviewer"}, verdict: ops.VerdictEscalate, check: "all", target: "reviewer"},
		{name: "what a human holds is left to him", policy: families(), proposal: from("writer", 1, "reviewer", 2), facts: escalation.Facts{Held: []ops.Hold{{Service: "web", From: ops.Tier1, Why: "incident 3"}}}, verdict: ops.VerdictSuppressed, check: "held", target: "reviewer", says: "incident 3"},
		{name: "what he does not hold goes on", policy: families(), proposal: from("writer", 1, "reviewer", 2), facts: escalation.Facts{Held: []ops.Hold{{Service: "db", From: ops.Tier1, Why: "incident 3"}}}, verdict: ops.VerdictEscalate, check: "all", target: "reviewer"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := tt.path
			if path == nil {
				path = []string{"writer"}
			}
			d := escalation.Decide(tt.policy, path, tt.proposal, tt.facts)
			if d.Verdict != tt.verdict || d.Check != tt.check || d.TargetHandler != tt.target || !strings.Contains(d.Reason, tt.says) {
				t.Errorf("got %s by %q to %q (%s), want %s by %q to %q", d.Verdict, d.Check, d.TargetHandler, d.Reason, tt.verdict, tt.check, tt.target)
			}
		})
	}
}

func TestHeldServicesAreNotHandedOn(t *testing.T) {
	p := from("writer", 1, "reviewer", 2)
	p.Handoff.ServicesAffected = []string{"web", "db"}
	d := escalation.Decide(families(), []string{"writer"}, p, escalation.Facts{Held: []ops.Hold{{Service: "web", From: ops.Tier1, Why: "ack"}}})
	if d.Verdict != ops.VerdictEscalate || !slices.Equal(d.Services, []string{"db"}) {
		t.Errorf("handed on %v: %s", d.Services, d.Reason)
	}
}

func TestAManagerChoosesAmongThePermitted(t *testing.T) {
	p := from("writer", 1, "", 2)
	permitted := escalation.Permitted(families(), []string{"writer"}, p, escalation.Facts{})
	if len(permitted) != 2 || permitted[0].ID != "sibling" || permitted[1].ID != "reviewer" {
		t.Fatalf("permitted are %+v", permitted)
	}
	p.Choice = &escalation.Choice{Manager: "boss", Target: "reviewer", Why: "fresh eyes"}
	d := escalation.Decide(families(), []string{"writer"}, p, escalation.Facts{})
	if d.TargetHandler != "reviewer" || d.ProcessMode != ops.ProcessManager || !d.ManagerPresent || !strings.Contains(d.Reason, "fresh eyes") {
		t.Errorf("got %+v", d)
	}
	p.Choice = &escalation.Choice{Manager: "boss", Why: "it failed"}
	d = escalation.Decide(families(), []string{"writer"}, p, escalation.Facts{})
	if d.TargetHandler != "sibling" || d.ProcessMode != ops.ProcessTyped || !d.ManagerPresent {
		t.Errorf("got %+v", d)
	}
	p.Choice = &escalation.Choice{Manager: "boss", Target: "human"}
	if d = escalation.Decide(families(), []string{"writer"}, p, escalation.Facts{}); d.Verdict != ops.VerdictRefused {
		t.Errorf("a choice outside the registry's routes is %s", d.Verdict)
	}
}

func TestTheChoiceIsAnEnumOfIDs(t *testing.T) {
	var schema struct {
		Properties struct {
			Target struct{ Enum []string }
		}
		AdditionalProperties *bool
	}
	if err := json.Unmarshal([]byte(escalation.ChoiceSchema([]string{"a", "b"})), &schema); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(schema.Properties.Target.Enum, []string{"a", "b"}) || schema.AdditionalProperties == nil || *schema.AdditionalProperties {
		t.Errorf("got %+v", schema)
	}
}

// Whatever is proposed, chosen, held and approved: what escalates is registered, another handler, permitted by the source,
// within depth and tier, independent where that is demanded, and agreed to where that is demanded.
func TestNoRouteLeavesTheRegistry(t *testing.T) {
	ids := []string{"", "writer", "sibling", "reviewer", "human", "nobody"}
	rapid.Check(t, func(r *rapid.T) {
		p := families(func(p *ops.Policy) {
			p.MaxDepth = rapid.IntRange(1, 3).Draw(r, "depth")
			p.MaxTier = ops.Tier(rapid.IntRange(1, 3).Draw(r, "tier"))
			p.ApprovalTier = ops.Tier(rapid.IntRange(0, 3).Draw(r, "gate"))
			p.Independence = rapid.SampledFrom([]ops.Independence{ops.IndependenceNone, ops.IndependenceHandler, ops.IndependenceFamily}).Draw(r, "independence")
		})
		source := rapid.SampledFrom([]string{"writer", "sibling", "reviewer"}).Draw(r, "source")
		handler, _ := p.Handler(source)
		prop := from(source, handler.Tier, rapid.SampledFrom(ids).Draw(r, "target"), ops.Tier(rapid.IntRange(0, 5).Draw(r, "recommended")))
		if rapid.Bool().Draw(r, "managed") {
			prop.Choice = &escalation.Choice{Target: rapid.SampledFrom(ids).Draw(r, "choice")}
		}
		facts := escalation.Facts{Approved: rapid.SampledFrom(ids).Draw(r, "approved")}
		path := append(rapid.SliceOfN(rapid.SampledFrom(ids[1:5]), 0, 2).Draw(r, "path"), source)
		d := escalation.Decide(p, path, prop, facts)
		if d.Reason == "" || d.SourceHandler != source {
			r.Fatalf("got %+v", d)
		}
		if d.Verdict != ops.VerdictEscalate {
			return
		}
		target, ok := p.Handler(d.TargetHandler)
		switch {
		case !ok || target.ID == source || !slices.Contains(handler.HandsTo, target.ID):
			r.Fatalf("went to %q", d.TargetHandler)
		case d.Depth > p.MaxDepth:
			r.Fatalf("went %d deep", d.Depth)
		case !target.Human() && target.Tier > p.MaxTier:
			r.Fatalf("went to %s", target.Tier)
		case p.Independence != ops.IndependenceNone && slices.Contains(path, target.ID):
			r.Fatalf("went back to %s", target.ID)
		case p.Independence == ops.IndependenceFamily && target.Family == handler.Family:
			r.Fatalf("stayed in the family %s", target.Family)
		case !target.Human() && p.ApprovalTier > 0 && target.Tier >= p.ApprovalTier && facts.Approved != target.ID:
			r.Fatal("went without approval")
		}
	})
}
