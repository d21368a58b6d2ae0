package main_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"claudeops/internal/ops"
	"claudeops/test/agenttest"
)

// interruptedRepair is a box whose daemon was killed while Tier 2 worked. The service is well while the file exists.
func interruptedRepair(t *testing.T, recovery string, next ...agenttest.Play) (b *box, file string) {
	t.Helper()
	gate := gateFile(t)
	file = filepath.Join(t.TempDir(), "web-is-up")
	b = climbing(t, slices.Concat(agenttest.InOrder(1, finds(1)), agenttest.InOrder(2, append([]agenttest.Play{held(agenttest.Claims(0.1, "web"), gate)}, next...)...)),
		"CLAUDEOPS_RECOVERY="+recovery)
	b.configured(fmt.Sprintf("services:\n  - name: web\n    probes: [{type: command, command: [test, -e, %s], fail_after: 1, recover_after: 1, interval: 1s}]\n", file))
	d := b.ready()
	d.until("Tier 2 works", func() bool {
		c, ok := b.newest()
		return ok && len(c.Journal.Sessions) == 2 && c.Journal.Last().Status == ops.SessionRunning && len(b.calls()) == 2
	})
	must(t, d.cmd.Process.Kill())
	<-d.done
	d.done <- nil
	return b, file
}

// goOn starts the daemon again and returns how the interrupted cycle ended.
func goOn(b *box, id ops.CycleID) ops.Claimed {
	b.t.Helper()
	d := b.ready()
	d.until("the cycle is finished", func() bool { return b.load(id).Cycle.Status.Ended() })
	c := b.load(id)
	if s := c.Journal.Sessions[1]; s.Status != ops.SessionInterrupted || s.StopCause != ops.StopCrash || s.Tier != ops.Tier2 {
		b.t.Errorf("the interrupted session is %s by %s", s.Status, s.StopCause)
	}
	b.nothingLeft()
	return c
}

// A repair that took effect before the supervisor was killed is not repeated: the probes run first.
func TestInterruptedRepair_ThatWorkedIsNotRepeated(t *testing.T) {
	t.Parallel()
	b, file := interruptedRepair(t, "on")
	must(t, os.WriteFile(file, nil, 0o600))
	c := goOn(b, b.cycle().Cycle.ID)
	if c.Cycle.Status != ops.CycleResolved || len(c.Journal.Sessions) != 2 || len(b.calls()) != 2 {
		t.Errorf("the cycle is %s with %d sessions: %s", c.Cycle.Status, len(c.Journal.Sessions), c.Cycle.Reason)
	}
}

// A repair that did not take effect is asked for again at the same tier, by a session that is told about the first.
func TestInterruptedRepair_ThatDidNotWorkIsAskedForAgain(t *testing.T) {
	t.Parallel()
	gate := gateFile(t)
	b, file := interruptedRepair(t, "on", held(agenttest.Claims(0.1, "web"), gate))
	d := b.ready()
	id := b.cycle().Cycle.ID
	d.until("Tier 2 is asked again", func() bool { return len(b.calls()) > 2 })
	for _, name := range []string{file, gate} { // it repairs the service now
		must(t, os.WriteFile(name, nil, 0o600))
	}
	d.until("the cycle is finished", func() bool { return b.load(id).Cycle.Status.Ended() })
	c := b.load(id)
	third := c.Journal.Sessions[2]
	if c.Cycle.Status != ops.CycleResolved || third.Tier != ops.Tier2 || third.RetryOf == nil || *third.RetryOf != c.Journal.Sessions[1].ID {
		t.Errorf("the cycle is %s (%s), the next session %+v", c.Cycle.Status, c.Cycle.Reason, third)
	}
	if got := c.Journal.Recoveries; len(got) != 1 || got[0].Level != ops.RecoveryReplan { // what it had said is gone with the supervisor
		t.Errorf("recoveries %+v", got)
	}
	if said := strings.Join(b.calls()[2].Args, "\n"); !strings.Contains(said, "interrupted") {
		t.Errorf("it is not told:\n%s", said)
	}
}

// Without the ladder a repair is never repeated: people are told.
func TestInterruptedRepair_WithoutRecoveryEndsTheCycle(t *testing.T) {
	t.Parallel()
	b, _ := interruptedRepair(t, "off")
	c := goOn(b, b.cycle().Cycle.ID)
	if c.Cycle.Status != ops.CycleFailed || len(c.Journal.Sessions) != 2 || len(b.events(ops.LevelCritical)) == 0 || len(b.notices()) == 0 {
		t.Errorf("the cycle is %s with %d sessions (%s), %d critical events, %d notices", c.Cycle.Status, len(c.Journal.Sessions), c.Cycle.Reason,
			len(b.events(ops.LevelCritical)), len(b.notices()))
	}
}
