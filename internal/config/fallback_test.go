package config

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"claudeops/internal/decide/escalation"
	"claudeops/internal/ops"
)

func TestTheBuiltInTiersHaveAFallbackWithAnotherModel(t *testing.T) {
	c, _ := mustLoad(t, setup{})
	p := c.Environments()[0].Policy
	for id, model := range map[string]string{"tier1": "sonnet", "tier2": "opus", "tier3": "sonnet"} {
		h, _ := p.Handler(id)
		if !slices.Equal(h.Fallback, []string{id + "-fallback"}) {
			t.Errorf("%s falls back to %q", id, h.Fallback)
			continue
		}
		f, ok := p.Handler(h.Fallback[0])
		if !ok || f.Model != model || f.May() != h.May() || f.Family != h.Family || !slices.Equal(f.HandsTo, h.HandsTo) {
			t.Errorf("the fallback of %s is %+v", id, f)
		}
	}
	for _, h := range p.Handlers {
		if slices.ContainsFunc(h.HandsTo, func(id string) bool { return strings.Contains(id, "fallback") }) {
			t.Errorf("%s hands over to a fallback: %q", h.ID, h.HandsTo)
		}
	}
	if p.Entry != "tier1" || p.MaxDepth != 2 {
		t.Errorf("entry is %s, depth %d", p.Entry, p.MaxDepth)
	}
	if flaws := escalation.Flaws(p); len(flaws) > 0 {
		t.Errorf("flaws: %v", flaws)
	}
}

func TestWithOneModelThereIsNoFallbackInTheFamily(t *testing.T) {
	c, _ := mustLoad(t, setup{env: []string{"CLAUDEOPS_TIER1_MODEL=m", "CLAUDEOPS_TIER2_MODEL=m", "CLAUDEOPS_TIER3_MODEL=m"}})
	if got := shown(c, "handlers").Value; got != "tier1,tier2,tier3" {
		t.Errorf("handlers are %s", got)
	}
	c, _ = mustLoad(t, setup{env: []string{"CLAUDEOPS_TIER2_MODEL=haiku"}})
	if h, _ := c.Environments()[0].Policy.Handler("tier1-fallback"); h.Model != "opus" {
		t.Errorf("the fallback of tier1 has the model %s", h.Model)
	}
}

func TestCodexIsAFallbackWhereItCanRun(t *testing.T) {
	bin := t.TempDir()
	must(t, os.WriteFile(filepath.Join(bin, "codex"), []byte("#!/bin/sh\n"), 0o755))
	path, key := "PATH="+bin, "OPENAI_API_KEY=sk-0123456789abcdef"
	for _, tc := range []struct {
		name string
		s    setup
		want []string // tiers that have it
	}{
		{"program and key", setup{env: []string{path, key}}, []string{"tier1", "tier2", "tier3"}},
		{"without walls", setup{env: []string{path, key}, yaml: "sandbox: {mode: off}\n"}, []string{"tier1"}},
		{"with bubblewrap alone", setup{env: []string{path, key}, yaml: "sandbox: {mode: off, bubblewrap: on}\n"}, []string{"tier1", "tier2", "tier3"}},
		{"no key", setup{env: []string{path}}, nil},
		{"no program", setup{env: []string{"PATH=" + t.TempDir(), key}}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c, _ := mustLoad(t, tc.s)
			p := c.Environments()[0].Policy
			for tier := ops.Tier1; tier <= ops.LastTier; tier++ {
				id := handlerID(tier)
				h, _ := p.Handler(id)
				f, ok := p.Handler(id + "-codex")
				if want := slices.Contains(tc.want, id); ok != want || slices.Contains(h.Fallback, f.ID) != want {
					t.Errorf("%s has %q, and its fallback is %+v", id, h.Fallback, f)
				}
				if ok && (f.Family != "gpt" || f.Agent != "codex" || f.Model == "" || f.May() != tier) {
					t.Errorf("fallback is %+v", f)
				}
				if _, priced := c.Prices.Of(f.Model); ok && !priced {
					t.Errorf("%s has no price", f.Model)
				}
			}
			if flaws := escalation.Flaws(p); len(flaws) > 0 {
				t.Errorf("flaws: %v", flaws)
			}
		})
	}
}

func TestARouteHoldsForTheBuiltInFallbacks(t *testing.T) {
	c, _ := mustLoad(t, setup{yaml: "escalation:\n  routes: [{from: tier2, to: tier3, approval: required, mode: handoff}]\n"})
	p := c.Environments()[0].Policy
	if r := p.RouteOf("tier2-fallback", "tier3"); !r.Approval || r.Mode != ops.ContextHandoff {
		t.Errorf("a fallback goes another way: %+v", r)
	}
	if r := p.RouteOf("tier1-fallback", "tier2"); r.Approval {
		t.Errorf("route is %+v", r)
	}
	if got := shown(c, "escalation.routes").Value; got != "tier2 to tier3" {
		t.Errorf("shown as %q", got)
	}
}
