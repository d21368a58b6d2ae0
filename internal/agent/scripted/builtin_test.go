package scripted

import (
	"bytes"
	"encoding/json"
	"slices"
	"testing"

	"claudeops/internal/ops"
)

func TestTheDemoScenarioIsCompleteAndEscalatesOneTierAtATime(t *testing.T) {
	data, err := Builtin(DemoScenario)
	if err != nil {
		t.Fatal(err)
	}
	s, err := Parse(data, "demo.yaml")
	if err != nil {
		t.Fatal(err)
	}
	costs := map[ops.Tier]float64{1: 0.02, 2: 0.31, 3: 1.20}
	for tier, cost := range costs {
		script, ok := s.Tiers[tier]
		if !ok || script.CostUSD != cost || script.Ending.Outcome == nil || script.Ending.Result == "" {
			t.Errorf("%s is incomplete: %+v", tier, script.Ending)
		}
		if tier == ops.LastTier {
			if script.Ending.Handoff != nil {
				t.Error("the last tier hands off")
			}
			continue
		}
		var h ops.Handoff
		dec := json.NewDecoder(bytes.NewReader(script.Ending.Handoff))
		dec.DisallowUnknownFields()
		if err := dec.Decode(&h); err != nil {
			t.Fatalf("%s: %v", tier, err)
		}
		if h.SchemaVersion != 1 || h.RecommendedTier != tier+1 || !slices.Equal(h.ServicesAffected, []string{"mediabox"}) ||
			len(h.CheckResults) == 0 || string(h.CooldownState) == "" {
			t.Errorf("%s: handoff %+v", tier, h)
		}
		if tier == ops.Tier2 && (h.InvestigationFindings == "" || h.RemediationAttempted == "") {
			t.Error("Tier 2 must say what it found and tried")
		}
	}
}

func TestAnUnknownBuiltinScenarioNamesTheKnownOnes(t *testing.T) {
	_, err := Builtin("../demo")
	if err == nil || err.Error() != `find built-in scenario "../demo": there is none, only: demo` {
		t.Errorf("got %v", err)
	}
}
