package cycle_test

import (
	"slices"
	"testing"

	"claudeops/internal/cycle"
	"claudeops/internal/ops"
)

func TestWhoMayFollow(t *testing.T) {
	t.Parallel()
	policy := ops.Policy{
		MaxTier: ops.Tier3,
		Handlers: []ops.Handler{
			{ID: "one", Tier: ops.Tier1, Agent: "claude", HandsTo: []string{"person", "two"}},
			{ID: "two", Tier: ops.Tier2, Agent: "claude", HandsTo: []string{"three"}},
			{ID: "three", Tier: ops.Tier3, Agent: "claude"},
			{ID: "person", Tier: ops.HumanTier, Agent: ops.AgentHuman},
			{ID: "judge", Tier: ops.Tier1, Agent: "codex"},
			{ID: "manager", Tier: ops.Tier1, Agent: "command"},
		},
	}
	for name, tt := range map[string]struct {
		from   string
		role   ops.Role
		change func(*ops.Policy)
		want   string
	}{
		"the next tier":                  {"one", "", nil, "two"},
		"the tier after that":            {"two", "", nil, "three"},
		"nobody":                         {"three", "", nil, ""},
		"a judge":                        {"three", "", func(p *ops.Policy) { p.Judge = "judge" }, "judge"},
		"a manager comes first":          {"one", "", func(p *ops.Policy) { p.Manager = "manager" }, "manager"},
		"a dry run hands to nobody":      {"one", "", func(p *ops.Policy) { p.DryRun = true }, ""},
		"the highest tier":               {"one", "", func(p *ops.Policy) { p.MaxTier = ops.Tier1 }, ""},
		"a human is asked first":         {"one", "", func(p *ops.Policy) { p.ApprovalTier = ops.Tier2 }, ""},
		"a human is asked for the route": {"one", "", func(p *ops.Policy) { p.Routes = []ops.Route{{From: "one", To: "two", Approval: true}} }, ""},
		"after an answer":                {"one", ops.RoleJudge, nil, ""},
		"a handler that is gone":         {"other", "", nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := policy
			if tt.change != nil {
				tt.change(&p)
			}
			h, _ := p.Handler(tt.from)
			got, ok := cycle.After(p, ops.Session{Handler: tt.from, Tier: h.Tier, Role: tt.role})
			if got.ID != tt.want || ok != (tt.want != "") {
				t.Errorf("got %q, %t", got.ID, ok)
			}
		})
	}
}

// Two sessions with one key could not be told apart, and the journal refuses the second.
func TestAKeyIsGivenToOneSession(t *testing.T) {
	h, other := ops.Handler{Tier: ops.Tier2, Agent: "claude"}, ops.Handler{Tier: ops.Tier3, Agent: "claude"}
	if got := cycle.KeysFor(h, other, h, h); !slices.Equal(got, []string{"", "k", ""}) {
		t.Errorf("the keys are %q", got)
	}
}
