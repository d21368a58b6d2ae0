package main_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"claudeops/internal/ops"
	"claudeops/test/agenttest"
)

func TestTrust_SuggestProposesAndChangesNothing(t *testing.T) {
	t.Parallel()
	address, rings := phone(t)
	b := newBox(t, agenttest.Scenario{Plays: agenttest.InOrder(1, agenttest.Escalates(1, 0.03, "jellyfin"), agenttest.Escalates(1, 0.03, "jellyfin"))}, address).
		configured("trust: suggest\nservices:\n  - name: jellyfin\n")
	for cycle := 1; cycle <= 2; cycle++ {
		b.once(6)
		c := b.cycle()
		if c.Cycle.Status != ops.CycleNeedsHuman || len(c.Journal.Sessions) != 1 || !strings.Contains(c.Cycle.Reason, "its trust is suggest") {
			t.Fatalf("cycle %d is %s with %d sessions: %s", cycle, c.Cycle.Status, len(c.Journal.Sessions), c.Cycle.Reason)
		}
		if open := b.openIncidents(); len(open) != 1 || open[0].Occurrences != cycle || rings.Load() != 1 {
			t.Fatalf("after cycle %d people were told %d times of %+v", cycle, rings.Load(), open)
		}
	}
	contains(t, "the notice", b.notices()[0].Body, "claudeops trust jellyfin ask")
	refused := b.run("trust", "jellyfin", "ask")
	if refused.code == 0 {
		t.Errorf("it is raised above the configuration: %s", refused.stdout)
	}
	contains(t, "the refusal", refused.stderr, "`trust: ask` below `- name: jellyfin`")
	contains(t, "the list", b.run("trust").stdout, "jellyfin", "suggest")
}

func TestTrust_WatchStartsNoAgent(t *testing.T) {
	t.Parallel()
	down := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) }))
	defer down.Close()
	address, rings := phone(t)
	b := newBox(t, agenttest.Scenario{}, address).configured(fmt.Sprintf(
		"services:\n  - name: web\n    trust: watch\n    probes: [{type: http, url: %q, timeout: 2s, fail_after: 1}]\n", down.URL))
	b.once(6)
	c := b.cycle()
	if open := b.openIncidents(); c.Cycle.Status != ops.CycleNeedsHuman || len(b.calls()) != 0 || len(open) != 1 || open[0].Service != "web" || rings.Load() != 1 {
		t.Fatalf("%s: %s; %d agents, %d notices, %+v", c.Cycle.Status, c.Cycle.Reason, len(b.calls()), rings.Load(), open)
	}
}

// A lower level in the database holds: a person is asked before Tier 2, and after a yes it starts.
func TestTrust_LoweredToAskAsksFirst(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"handoff", "resume"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			b := newBox(t, agenttest.Scenario{Plays: []agenttest.Play{agenttest.Escalates(1, 0.03, "jellyfin"), agenttest.Claims(0.01, "jellyfin").At(2, 0)}}, "CLAUDEOPS_ESCALATION_MODE="+mode).
				configured("services:\n  - name: jellyfin\n")
			if r := b.run("trust", "jellyfin", "ask", "--reason", "it is new"); r.code != 0 {
				t.Fatal(r.stderr)
			}
			b.once(6)
			if c := b.cycle(); c.Cycle.Status != ops.CycleWaitingHuman || len(c.Journal.Approvals) != 1 {
				t.Fatalf("%s: %s", c.Cycle.Status, c.Cycle.Reason)
			}
			if r := b.run("approvals", "approve", "1"); r.code != 0 {
				t.Fatal(r.stderr)
			}
			b.once(6) // the next cycle asks again
			if got := b.firstCycle(); len(got.Journal.Sessions) != 2 || got.Journal.Sessions[1].Tier != ops.Tier2 || got.Cycle.Status != ops.CycleResolved {
				t.Errorf("%d sessions, %s: %s", len(got.Journal.Sessions), got.Cycle.Status, got.Cycle.Reason)
			}
			contains(t, "the events", b.run("events", "--kind", "trust").stdout, "changed the trust in jellyfin from full to ask", "it is new")
		})
	}
}
