package main_test

import (
	"testing"

	"claudeops/internal/ops"
	"claudeops/test/agenttest"
)

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
