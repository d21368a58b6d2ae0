package ops_test

import (
	"testing"

	"claudeops/internal/ops"
)

// The table of the levels: what each of them lets happen.
func TestWhatTrustAllows(t *testing.T) {
	const no, ask, yes = "no", "ask", "yes"
	for level, want := range map[ops.Trust][3]string{
		ops.TrustWatch:   {no, no, no},
		ops.TrustSuggest: {yes, no, no},
		ops.TrustAsk:     {yes, ask, ask},
		ops.TrustRepair:  {yes, yes, ask},
		ops.TrustFull:    {yes, yes, yes},
		"":               {yes, yes, yes},
	} {
		for tier := ops.Tier1; tier <= ops.LastTier; tier++ {
			got := yes
			switch {
			case level.Forbids(tier):
				got = no
			case level.Asks(tier):
				got = ask
			}
			if got != want[tier-1] {
				t.Errorf("%s, %s: %s, want %s", level, tier, got, want[tier-1])
			}
		}
	}
}

func TestTrustIsReducedByOneStepDownToAsk(t *testing.T) {
	for level, want := range map[ops.Trust]ops.Trust{
		"": ops.TrustRepair, ops.TrustFull: ops.TrustRepair, ops.TrustRepair: ops.TrustAsk, ops.TrustAsk: ops.TrustAsk,
		ops.TrustSuggest: ops.TrustSuggest, ops.TrustWatch: ops.TrustWatch,
	} {
		if got := level.Reduced(); got != want {
			t.Errorf("%q becomes %q, want %q", level, got, want)
		}
	}
}

func TestTheConfigurationIsTheCeilingOfTrust(t *testing.T) {
	p := ops.Policy{Trust: ops.TrustSuggest, Inventory: ops.Inventory{Services: []ops.Service{
		{Name: "web", Aliases: []string{"web-1"}, Trust: ops.TrustRepair}, {Name: "db"},
	}}}
	lowered := []ops.Lowered{{Service: "web", Level: ops.TrustAsk}, {Service: "db", Level: ops.TrustFull}}
	for service, want := range map[string]ops.Trust{"web-1": ops.TrustAsk, "db": ops.TrustSuggest, "unknown": ops.TrustSuggest} {
		if got := p.Trusts(service, lowered); got != want {
			t.Errorf("%s: %s, want %s", service, got, want)
		}
	}
	if got := (ops.Policy{}).Trusts("web", nil); got != "" {
		t.Errorf("without the key: %q", got)
	}
	now := ops.Policy{Trust: ops.TrustFull, Inventory: ops.Inventory{Services: []ops.Service{{Name: "web", Trust: ops.TrustWatch}}}}
	if got := p.Stricter(now); got.TrustOf("web") != ops.TrustWatch || got.TrustOf("db") != ops.TrustSuggest || p.TrustOf("web") != ops.TrustRepair {
		t.Errorf("after a wait: %s and %s", got.TrustOf("web"), got.TrustOf("db"))
	}
}

func TestAWallThatIsGoneStaysKnownToACycle(t *testing.T) {
	stood := ops.Policy{Handlers: []ops.Handler{{ID: "tier1", Tier: ops.Tier1}, {ID: "tier2", Tier: ops.Tier2}}}
	gone := stood.Behind(ops.Policy{Handlers: []ops.Handler{{ID: "tier1", Unwalled: "x"}, {ID: "tier2", Unwalled: "x"}}})
	for name, p := range map[string]ops.Policy{"gone by now": stood.Stricter(gone), "gone at the start": gone.Stricter(stood)} {
		one, _ := p.Handler("tier1")
		two, _ := p.Handler("tier2")
		if one.Lacks() != "" || two.Lacks() != "x" || !p.Asks("tier1", two) || p.Asks("tier1", one) {
			t.Errorf("%s: %+v", name, p.Handlers)
		}
	}
	if two, _ := stood.Handler("tier2"); two.Lacks() != "" || stood.Asks("tier1", two) {
		t.Error("the walls stand, and a person is asked")
	}
}

func TestReadTrust(t *testing.T) {
	if got, err := ops.ParseTrust(" Ask "); err != nil || got != ops.TrustAsk {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := ops.ParseTrust("blind"); err == nil {
		t.Error("any word is a level")
	}
}
