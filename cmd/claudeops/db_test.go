package main_test

import (
	"os"
	"path/filepath"
	"testing"

	"claudeops/internal/ops"
	"claudeops/test/agenttest"
)

// A backup is made while Tier 2 works, everything else is lost, and the restored database goes on: Tier 1, which had finished,
// is not run again, and Tier 2, which had not, is told that it was interrupted.
func TestARestoredDatabaseGoesOnAndRepeatsNoFinishedTier(t *testing.T) {
	t.Parallel()
	second := tier(2, with(stubborn(true), func(p *agenttest.Play) { p.Attempt = 1 }))
	b := newBox(t, plays(agenttest.Escalates(1, 0.03, "jellyfin"), second, tier(2, agenttest.Healthy(0.4))), "CLAUDEOPS_RECOVERY=on")
	backup := filepath.Join(t.TempDir(), "backup.db")
	d := b.ready()
	d.until("Tier 2 runs", func() bool {
		if len(b.calls()) < 2 {
			return false
		}
		last := b.cycle().Journal.Last()
		return last.Tier == ops.Tier2 && last.Status == ops.SessionRunning
	})
	for _, step := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"db", "backup", backup}, 0, "no damage found"},
		{[]string{"db", "backup", backup}, 5, "--force"},
		{[]string{"db", "backup", "--force", backup}, 0, "no damage found"},
		{[]string{"db", "check"}, 0, "no damage found"},
		{[]string{"db", "check", backup}, 0, "no damage found"},
		{[]string{"db", "restore", backup}, 5, "is in use by"},
		{[]string{"db", "vacuum"}, 5, "is in use by"},
	} {
		r := b.run(step.args...)
		if r.code != step.code {
			t.Errorf("%v exits %d, want %d\n%s%s", step.args, r.code, step.code, r.stdout, r.stderr)
		}
		contains(t, "output", r.stdout+r.stderr, step.says)
	}
	must(t, d.cmd.Process.Kill())
	<-d.done
	d.done <- nil
	damage(t, filepath.Join(b.state, "claudeops.db"))
	if r := b.run("db", "check"); r.code == 0 {
		t.Errorf("a damaged database passes the check: %s", r.stdout)
	}
	if r := b.run("db", "restore", backup); r.code != 0 {
		t.Fatalf("restore exits %d: %s", r.code, r.stderr)
	}
	if _, err := os.Stat(filepath.Join(b.state, "claudeops.db.before-restore")); err != nil {
		t.Error(err)
	}
	d = b.ready()
	d.until("the cycle ends", func() bool { return b.ended(1) })
	c := b.cycle()
	tiers := map[ops.Tier]int{}
	for _, s := range c.Journal.Sessions {
		if s.Status == ops.SessionCompleted {
			tiers[s.Tier]++
		}
	}
	if c.Cycle.Status != ops.CycleResolved || tiers[1] != 1 || tiers[2] != 1 || c.Journal.Sessions[1].Status != ops.SessionInterrupted {
		t.Errorf("cycle %s (%s), sessions %+v", c.Cycle.Status, c.Cycle.Reason, c.Journal.Sessions)
	}
	first := 0
	for _, call := range b.calls() {
		if n, _ := call.Var("CLAUDEOPS_TIER"); n == "1" {
			first++
		}
	}
	if first != 1 {
		t.Errorf("Tier 1 was started %d times", first)
	}
	if r := b.run("db", "check"); r.code != 0 {
		t.Errorf("check exits %d: %s%s", r.code, r.stdout, r.stderr)
	}
	b.nothingLeft()
}

// damage writes over the middle of a file.
func damage(t *testing.T, path string) {
	t.Helper()
	info, err := os.Stat(path)
	must(t, err)
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	must(t, err)
	if _, err := f.WriteAt(make([]byte, info.Size()/2), info.Size()/4); err != nil {
		t.Fatal(err)
	}
	must(t, f.Close())
}
