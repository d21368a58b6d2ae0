package config

import (
	"strings"
	"testing"

	"claudeops/internal/ops"
)

func TestRoutesAndModels(t *testing.T) {
	c, _ := mustLoad(t, setup{yaml: "escalation:\n  routes:\n    - {from: tier2, to: tier3, mode: handoff}\nmodels:\n  - {name: haiku, context_window: 400000}\n"})
	p := c.Environments()[0].Policy
	if p.ModeOf("", "tier1") != ops.ContextResume || p.ModeOf("tier1", "tier2") != ops.ContextResume || p.ModeOf("tier2", "tier3") != ops.ContextHandoff {
		t.Errorf("routes are %+v under %s", p.Routes, p.Mode)
	}
	if p.Windows["haiku"] != 400000 {
		t.Errorf("windows are %v", p.Windows)
	}
}

func TestBadRoutesAndModels(t *testing.T) {
	for text, want := range map[string]string{
		"escalation:\n  routes:\n    - {from: tier1, to: tier3, mode: handoff}\n":                     ":3:7: escalation.routes[0]: tier1 never hands over to tier3",
		"escalation:\n  routes:\n    - {from: tier1, to: tier2}\n":                                    "add mode, independence or approval",
		"escalation:\n  routes:\n    - {from: teir1, to: tier2, mode: handoff}\n":                     "did you mean tier1?",
		"escalation:\n  routes:\n    - {from: tier1, to: tier2, mode: resum}\n":                       "did you mean resume?",
		"escalation:\n  routes:\n    - tier1\n":                                                       "begin with from",
		"models:\n  - {name: haiku, context_window: 12}\n":                                            "context_window",
		"models:\n  - {name: haiku, context_window: 2000}\n  - {name: haiku, context_window: 2000}\n": "twice",
		"models:\n  - {name: haiku, window: 2000}\n":                                                  "unknown key",
	} {
		if _, _, err := load(t, setup{yaml: text}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q gives %v, want %q", text, err, want)
		}
	}
}
