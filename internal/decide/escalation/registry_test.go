package escalation_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"claudeops/internal/decide/escalation"
	"claudeops/internal/ops"
)

// registry is a policy with two families, a human at the end, and everybody with a role.
func registry(change ...func(*ops.Policy)) ops.Policy {
	p := ops.Policy{
		MaxTier: 3, MaxDepth: 3, Entry: "watcher", Independence: ops.IndependenceHandler, Mode: ops.ContextResume,
		Process: ops.ProcessManager, Manager: "boss", Planner: "planner", Judge: "judge",
		Handlers: []ops.Handler{
			{ID: "watcher", Tier: 1, Family: "claude", Agent: "claude", HandsTo: []string{"fixer", "second"}},
			{ID: "fixer", Tier: 2, Family: "claude", Agent: "claude", HandsTo: []string{"surgeon"}, Fallback: []string{"spare"}},
			{ID: "second", Tier: 2, Family: "gpt", Agent: "codex", HandsTo: []string{"surgeon"}},
			{ID: "surgeon", Tier: 3, Family: "claude", Agent: "claude", HandsTo: []string{"oncall"}},
			{ID: "oncall", Tier: ops.HumanTier, Family: "human", Agent: ops.AgentHuman},
			{ID: "spare", Tier: 2, Family: "gpt", Agent: "codex"},
			{ID: "boss", Tier: 1, Family: "claude", Agent: "claude"},
			{ID: "planner", Tier: 1, Family: "claude", Agent: "claude"},
			{ID: "judge", Tier: 1, Family: "gpt", Agent: "codex"},
		},
	}
	for _, c := range change {
		c(&p)
	}
	return p
}

func handler(p *ops.Policy, id string) *ops.Handler {
	return &p.Handlers[slices.IndexFunc(p.Handlers, func(h ops.Handler) bool { return h.ID == id })]
}

func TestFlawsNameThePartTheReasonAndTheFix(t *testing.T) {
	route := func(r ops.Route) func(*ops.Policy) { return func(p *ops.Policy) { p.Routes = append(p.Routes, r) } }
	tests := []struct {
		name   string
		change func(*ops.Policy)
		keys   string // of all flaws, in order
		says   string
	}{
		{"sound", func(*ops.Policy) {}, "", ""},
		{"duplicate id", func(p *ops.Policy) { p.Handlers[5].ID = "second" }, "handlers[5].id handlers[1].fallback[0]", "registered twice"},
		{"tier", func(p *ops.Policy) { handler(p, "spare").Tier = 0 }, "handlers[5].tier", "use 1, 2 or 3"},
		{"an agent above the tiers", func(p *ops.Policy) { handler(p, "spare").Tier = ops.HumanTier }, "handlers[5].tier", "use 1, 2 or 3"},
		{"permissions above the tier", func(p *ops.Policy) { handler(p, "spare").Permissions = 3 }, "handlers[5].permissions", "is Tier 2 and has the permissions of Tier 3"},
		{"permissions below the tier", func(p *ops.Policy) { handler(p, "spare").Permissions = 1 }, "", ""},
		{"a human who hands on", func(p *ops.Policy) { handler(p, "oncall").HandsTo = []string{"judge"} }, "handlers[4].hands_to handlers[4].hands_to[0]", "who ends the chain"},
		{"unknown target", func(p *ops.Policy) { handler(p, "fixer").HandsTo = []string{"surgeon", "nobody"} }, "handlers[1].hands_to[1]", "name one of watcher"},
		{"target twice", func(p *ops.Policy) { handler(p, "fixer").HandsTo = []string{"surgeon", "surgeon"} }, "handlers[1].hands_to[1]", "twice"},
		{"self", func(p *ops.Policy) { handler(p, "fixer").HandsTo = []string{"fixer"} }, "handlers[1].hands_to[0]", "which is a retry"},
		{"cycle", func(p *ops.Policy) { handler(p, "surgeon").HandsTo = []string{"watcher"} }, "handlers[3].hands_to[0]", "a handoff must go to a higher tier"},
		{"same tier", func(p *ops.Policy) { handler(p, "fixer").HandsTo = []string{"second"} }, "handlers[1].hands_to[0]", "must go to a higher tier"},
		{"unknown fallback", func(p *ops.Policy) { handler(p, "fixer").Fallback = []string{"x"} }, "handlers[1].fallback[0]", `falls back to "x"`},
		{"own fallback", func(p *ops.Policy) { handler(p, "fixer").Fallback = []string{"spare", "fixer"} }, "handlers[1].fallback[1]", "itself"},
		{"human as fallback", func(p *ops.Policy) { handler(p, "fixer").Fallback = []string{"spare", "oncall"} }, "handlers[1].fallback[1]", "hands_to"},
		{"unknown entry", func(p *ops.Policy) { p.Entry = "x" }, "entry", `"x"`},
		{"human entry", func(p *ops.Policy) { p.Entry = "oncall" }, "entry", "begins with an agent"},
		{"entry that repairs", func(p *ops.Policy) { p.Entry = "fixer" }, "entry", "dry run"},
		{"no manager", func(p *ops.Policy) { p.Manager = "" }, "process", "escalation.manager"},
		{"unknown manager", func(p *ops.Policy) { p.Manager = "x" }, "manager", `manager "x" is not registered`},
		{"manager who hands on", func(p *ops.Policy) { handler(p, "boss").HandsTo = []string{"fixer"} }, "handlers[6].hands_to", "chooses among"},
		{"manager who gets work", func(p *ops.Policy) { handler(p, "boss").Tier = 3; handler(p, "fixer").HandsTo = []string{"boss"} }, "handlers[1].hands_to[0]", "who never does any"},
		{"manager as fallback", func(p *ops.Policy) { handler(p, "fixer").Fallback = []string{"boss"} }, "handlers[1].fallback[0]", "who never does any"},
		{"manager at the entry", func(p *ops.Policy) { p.Manager = "watcher" }, "manager handlers[0].hands_to", "never does the work"},
		{"human manager", func(p *ops.Policy) { p.Manager = "oncall" }, "manager handlers[3].hands_to[0]", "is a human"},
		{"unknown planner", func(p *ops.Policy) { p.Planner = "x" }, "planner", `planner "x"`},
		{"human judge", func(p *ops.Policy) { p.Judge = "oncall" }, "judge", "is a human"},
		{"judge like all workers", func(p *ops.Policy) {
			for i := range p.Handlers {
				if !p.Handlers[i].Human() {
					p.Handlers[i].Family = "claude"
				}
			}
		}, "judge", "like everybody it would judge"},
		{"depth", func(p *ops.Policy) { p.MaxDepth = 2 }, "max_depth", "max_depth 2 cuts watcher → fixer → surgeon → oncall, which needs 3"},
		{"no depth", func(p *ops.Policy) { p.MaxDepth = 0 }, "max_depth", "at least 1"},
		{"unreachable", func(p *ops.Policy) { p.Judge = "" }, "handlers[8].id", "never reached"},
		{"reached only by fallback", func(p *ops.Policy) { p.Judge, p.Handlers[5].Fallback = "", []string{"judge"} }, "", ""},
		{"unknown route", route(ops.Route{From: "watcher", To: "fixr", Mode: ops.ContextHandoff}), "routes[0].to", `"fixr" is not a handler`},
		{"route nobody takes", route(ops.Route{From: "watcher", To: "surgeon", Mode: ops.ContextHandoff}), "routes[0]", "watcher hands to fixer, second"},
		{"route twice", func(p *ops.Policy) {
			p.Routes = []ops.Route{{From: "watcher", To: "fixer"}, {From: "watcher", To: "fixer", Approval: true}}
		}, "routes[1]", "twice"},
		{"resume across makers", route(ops.Route{From: "watcher", To: "second", Mode: ops.ContextResume}), "routes[0].mode", "gpt by codex and claude"},
		{"resume within a maker", route(ops.Route{From: "watcher", To: "fixer", Mode: ops.ContextResume}), "", ""},
		{"route within a family", route(ops.Route{From: "watcher", To: "fixer", Independence: ops.IndependenceFamily}), "routes[0].independence", "both are claude"},
		{"route to another family", route(ops.Route{From: "watcher", To: "second", Independence: ops.IndependenceFamily}), "", ""},
		{"independence of all", func(p *ops.Policy) { p.Independence = ops.IndependenceFamily }, "independence independence", "the route from watcher to fixer demands another family"},
		{"independence of all but two", func(p *ops.Policy) {
			p.Independence = ops.IndependenceFamily
			p.Routes = []ops.Route{{From: "watcher", To: "fixer", Independence: ops.IndependenceHandler}, {From: "fixer", To: "surgeon", Independence: ops.IndependenceNone}}
		}, "", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := registry(tt.change)
			var keys []string
			for _, f := range escalation.Flaws(p) {
				keys = append(keys, f.Key)
				if f.Message == "" || f.Fix == "" {
					t.Errorf("%+v says not enough", f)
				}
			}
			if got := strings.Join(keys, " "); got != tt.keys {
				t.Errorf("flaws at %q, want %q: %v", got, tt.keys, escalation.Flaws(p))
			}
			err := escalation.Validate(p)
			if (err == nil) != (tt.keys == "") || (err != nil && !strings.Contains(err.Error(), tt.says)) {
				t.Errorf("error %v does not say %q", err, tt.says)
			}
		})
	}
}

func TestUnknownNamesAreToldApart(t *testing.T) {
	flaws := escalation.Flaws(registry(func(p *ops.Policy) { p.Handlers[0].HandsTo[0] = "fixr" }))
	if len(flaws) != 1 || flaws[0].Unknown != "fixr" {
		t.Errorf("got %+v", flaws)
	}
}

func TestAPersonIsMeantWhereNoAgentHasTheTier(t *testing.T) {
	p := registry(func(p *ops.Policy) { handler(p, "second").HandsTo = []string{"oncall"}; handler(p, "surgeon").Tier = 2 })
	for _, tt := range []struct {
		name   string
		change func(*ops.Handoff)
		check  ops.Objection // empty: it goes to the person
	}{
		{"next tier", func(h *ops.Handoff) { h.RecommendedTier = 3 }, ""},
		{"human tier", func(h *ops.Handoff) { h.RecommendedTier = ops.HumanTier }, ""},
		{"by name", func(h *ops.Handoff) { h.Target, h.RecommendedTier = "oncall", 2 }, ""},
		{"far above", func(h *ops.Handoff) { h.RecommendedTier = 7 }, "route"},
		{"own tier", func(h *ops.Handoff) { h.RecommendedTier = 2 }, "route"},
		{"nowhere", func(h *ops.Handoff) { h.RecommendedTier = 0 }, "route"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			from := proposal(2, tt.change)
			from.Session.Handler = "second"
			d := escalation.Decide(p, []string{"watcher", "second"}, from, escalation.Facts{})
			if tt.check != "" {
				if d.Verdict != ops.VerdictRefused || d.Check != tt.check {
					t.Errorf("got %s by %s to %q (%s)", d.Verdict, d.Check, d.TargetHandler, d.Reason)
				}
				return
			}
			if d.TargetHandler != "oncall" || d.Verdict == ops.VerdictRefused {
				t.Errorf("got %s by %s to %q (%s)", d.Verdict, d.Check, d.TargetHandler, d.Reason)
			}
		})
	}
}

// drawn makes any registry: first one in which everybody has somebody below, then with slips drawn into it.
func drawn(t *rapid.T) ops.Policy {
	p := ops.Policy{
		MaxDepth: rapid.IntRange(1, 4).Draw(t, "max depth"), Entry: "h0",
		Independence: rapid.SampledFrom([]ops.Independence{ops.IndependenceNone, ops.IndependenceHandler, ops.IndependenceFamily}).Draw(t, "independence"),
	}
	n := rapid.IntRange(1, 6).Draw(t, "handlers")
	name := rapid.Custom(func(t *rapid.T) string { return fmt.Sprintf("h%d", rapid.IntRange(0, n).Draw(t, "id")) })
	for i := range n {
		h := ops.Handler{ID: fmt.Sprintf("h%d", i), Tier: ops.Tier1, Agent: "claude", Family: rapid.SampledFrom([]string{"claude", "gpt"}).Draw(t, "family")}
		if i > 0 {
			below := &p.Handlers[rapid.IntRange(0, i-1).Draw(t, "below")]
			if h.Tier = below.Tier + 1; h.Tier > ops.LastTier {
				below, h.Tier = &p.Handlers[0], ops.Tier2
			}
			below.HandsTo = append(below.HandsTo, h.ID)
			if rapid.Bool().Draw(t, "human") {
				h.Tier, h.Agent, h.Family = ops.HumanTier, ops.AgentHuman, "human"
			}
		}
		p.Handlers = append(p.Handlers, h)
	}
	for range rapid.IntRange(0, 2).Draw(t, "slips") {
		h := &p.Handlers[rapid.IntRange(0, n-1).Draw(t, "of")]
		switch rapid.IntRange(0, 3).Draw(t, "slip") {
		case 0:
			h.HandsTo = append(h.HandsTo, name.Draw(t, "target"))
		case 1:
			h.Fallback = append(h.Fallback, name.Draw(t, "fallback"))
		case 2:
			h.Tier = ops.Tier(rapid.IntRange(0, 4).Draw(t, "tier"))
		case 3:
			h.HandsTo = nil
		}
	}
	return p
}

func TestAValidRegistryIsBoundedAndKnowsEveryTarget(t *testing.T) {
	valid := 0
	rapid.Check(t, func(t *rapid.T) {
		p := drawn(t)
		if escalation.Validate(p) != nil {
			return
		}
		valid++
		reached := map[string]bool{}
		var walk func(id string, path []string)
		walk = func(id string, path []string) {
			h, ok := p.Handler(id)
			if !ok {
				t.Fatalf("%s is reached by %v and not registered", id, path)
			}
			if slices.Contains(path, id) {
				t.Fatalf("a cycle: %v, %s", path, id)
			}
			if len(path) > p.MaxDepth {
				t.Fatalf("%v and %s are deeper than %d", path, id, p.MaxDepth)
			}
			reached[id] = true
			for _, next := range h.HandsTo {
				if target, _ := p.Handler(next); p.Independence == ops.IndependenceFamily && target.Family == h.Family {
					t.Fatalf("%s and %s are both %s", id, next, h.Family)
				}
				walk(next, append(slices.Clone(path), id))
			}
		}
		walk(p.Entry, nil)
		for _, h := range p.Handlers {
			for _, id := range h.Fallback {
				if _, ok := p.Handler(id); !ok || id == h.ID {
					t.Fatalf("%s falls back to %s", h.ID, id)
				}
				reached[id] = true
			}
		}
		for _, h := range p.Handlers {
			for _, id := range h.HandsTo {
				reached[id] = true
			}
		}
		for _, h := range p.Handlers {
			if !reached[h.ID] {
				t.Fatalf("%s is never reached", h.ID)
			}
		}
	})
	if valid == 0 {
		t.Error("no registry was valid, so nothing was looked at")
	}
}
