package main_test

import (
	"slices"
	"strings"
	"testing"

	"claudeops/internal/ops"
	"claudeops/internal/store"
	"claudeops/test/agenttest"
)

// gated is a box whose Tier 3 needs a human.
func gated(t *testing.T, env ...string) *box {
	plays := slices.Concat(agenttest.InOrder(1, finds(1)), agenttest.InOrder(2, finds(2)), agenttest.InOrder(3, agenttest.Claims(0.1, "web")))
	return climbing(t, plays, append([]string{"CLAUDEOPS_APPROVAL_TIER=3"}, env...)...)
}

func TestPeople_ApproveContinuesExactlyThatStep(t *testing.T) {
	t.Parallel()
	b := gated(t)
	b.once(6)
	c := b.cycle()
	if c.Cycle.Status != ops.CycleWaitingHuman || len(c.Journal.Sessions) != 2 || len(c.Journal.Approvals) != 1 {
		t.Fatalf("the cycle is %s with %d sessions: %s", c.Cycle.Status, len(c.Journal.Sessions), c.Cycle.Reason)
	}
	if out := b.run("approvals", "list"); !strings.Contains(out.stdout, "tier3") || !strings.Contains(out.stdout, "pending") {
		t.Errorf("approvals list says: %s", out.stdout)
	}
	if r := b.run("approvals", "approve", "1", "--reason", "go"); r.code != 0 {
		t.Fatalf("approve exits %d: %s", r.code, r.stderr)
	}
	if r := b.run("approvals", "deny", "1"); r.code != 5 || !strings.Contains(r.stderr, "approved") {
		t.Errorf("a late answer exits %d: %s", r.code, r.stderr)
	}
	// The next start goes on from there, and then looks as it always does.
	b.run("once")
	b.read(func(s *store.Store) {
		c, err := s.Journal.Load(t.Context(), 1)
		must(t, err)
		if c.Cycle.Status != ops.CycleResolved || len(c.Journal.Sessions) != 3 || c.Journal.Sessions[2].Tier != 3 {
			t.Errorf("the cycle is %s with %d sessions: %s", c.Cycle.Status, len(c.Journal.Sessions), c.Cycle.Reason)
		}
	})
}
