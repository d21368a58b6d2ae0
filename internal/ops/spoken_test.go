package ops_test

import (
	"testing"

	"claudeops/internal/ops"
)

func TestHandlersAreSpokenOfAsTiers(t *testing.T) {
	for text, want := range map[string]string{
		"the cycle starts with tier1":                         "the cycle starts with Tier 1",
		"tier1 hands web to tier2 tier3":                      "Tier 1 hands web to Tier 2 Tier 3",
		"Falling back to tier1-fallback: it cannot start":     "Falling back to the stand-in of Tier 1: it cannot start",
		"tier2-codex, then tier3.":                            "Tier 2 with Codex, then Tier 3.",
		"Tier 1 (tier1)":                                      "Tier 1",
		"1 services have probes; 11 services have none":       "1 service has probes; 11 services have none",
		"probes find all 1 services healthy":                  "probes find 1 service healthy",
		"mytier1 and tier12 and 'tier1' and a/tier1-x stay":   "mytier1 and tier12 and 'tier1' and a/tier1-x stay",
		"CLAUDEOPS_TIER1_MODEL, --tier=tier1 and tier1=x too": "CLAUDEOPS_TIER1_MODEL, --tier=tier1 and tier1=x too",
	} {
		if got := ops.Spoken(text); got != want {
			t.Errorf("%q is spoken as %q", text, got)
		}
	}
}
