package main_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"claudeops/internal/ops"
	"claudeops/test/agenttest"
)

// reflexBox watches web, whose reflex counts its runs in a file and then runs a command.
func reflexBox(t *testing.T, command, more string) (b *box, runs func() int, broken string) {
	t.Helper()
	url, broken := breakable(t)
	count := filepath.Join(t.TempDir(), "count")
	b = newBox(t, plays(agenttest.Healthy(0.01)), "CLAUDEOPS_FAULT_WAITS=settle=200ms").configured(quickly + fmt.Sprintf(`%s
services:
  - name: web
    probes: [{type: http, url: %q, interval: 1s, timeout: 2s}]
    actions: [{name: fix, run: [sh, -c, "echo x >> %s; %s"]}]
    reflexes: [{on: http, status: down, for: 1s, do: [fix], tries: 2, per: 6h}]
`, more, url, count, strings.ReplaceAll(command, "BROKEN", broken)))
	return b, func() int {
		text, err := os.ReadFile(count) //nolint:gosec // a file of this test
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		return strings.Count(string(text), "x")
	}, broken
}

// probeEnded waits for the end of the cycle that the probe started.
func (d *daemon) probeEnded(b *box) (out ops.Claimed) {
	d.until("the probe's cycle ends", func() bool {
		c, ok := b.by(ops.TriggerProbe)
		out = c
		return ok && c.Cycle.Status.Ended()
	})
	return out
}

func TestAReflexRepairsWithoutAnAgent(t *testing.T) {
	t.Parallel()
	b, runs, broken := reflexBox(t, "rm BROKEN", "")
	d := b.ready()
	d.until("the first cycle ends", func() bool { return b.ended(1) })
	before := len(b.calls())
	breakIt(t, broken)
	c := d.probeEnded(b)
	if c.Cycle.Status != ops.CycleResolved || c.Cycle.VerifiedBy != ops.ProofReflex || len(c.Journal.Sessions) != 0 || len(b.calls()) != before || runs() != 1 {
		t.Fatalf("%s by %q: %s; %d sessions, %d runs", c.Cycle.Status, c.Cycle.VerifiedBy, c.Cycle.Reason, len(c.Journal.Sessions), runs())
	}
	id := fmt.Sprint(c.Cycle.ID)
	contains(t, "cycles show", b.run("cycles", "show", id).stdout, "resolved by reflex, without an agent: fix of web")
	_, answer := d.get("/api/v1/cycles/" + id)
	contains(t, "the API", answer, `"verified_by":"reflex"`)
	_, page := d.get("/cycles/" + id)
	contains(t, "the page", page, "resolved by reflex, without an agent")
	d.until("people hear how it ended", func() bool {
		for _, n := range b.notices() {
			if n.Kind == ops.NoticeResolved && strings.Contains(n.Body, "A reflex ") && strings.Contains(n.Body, "(fix of web)") {
				return true
			}
		}
		return false
	})
}

func TestTier1HearsOfAReflexThatDidNotHelp(t *testing.T) {
	t.Parallel()
	b, runs, broken := reflexBox(t, "true", "")
	d := b.ready()
	d.until("the first cycle ends", func() bool { return b.ended(1) })
	before := len(b.calls())
	breakIt(t, broken)
	d.until("Tier 1 starts", func() bool { return len(b.calls()) > before })
	contains(t, "the prompt", strings.Join(b.calls()[before].Args, "\n"), "The supervisor has a reflex for this", "fix of web (sh -c", "was done; afterwards it was down")
	if runs() != 1 {
		t.Errorf("it ran %d times", runs())
	}
}

func TestADryRunHasNoReflex(t *testing.T) {
	t.Parallel()
	b, runs, broken := reflexBox(t, "rm BROKEN", "dry_run: true")
	d := b.ready()
	d.until("the first cycle ends", func() bool { return b.ended(1) })
	breakIt(t, broken)
	if c := d.probeEnded(b); runs() != 0 || len(c.Journal.Sessions) == 0 {
		t.Errorf("%d runs, %+v", runs(), c.Journal.Sessions)
	}
}

// Wherever the supervisor is killed, the reflex is done at most once, and the cycle comes to its end.
func TestAReflexIsNeverRepeatedAfterACrash(t *testing.T) {
	t.Parallel()
	for _, point := range []string{"action.begin.before", "action.begin.after", "action.run.after", "action.end.before", "action.end.after", "record.act.after", "probe.reflex.after"} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			b, runs, broken := reflexBox(t, "rm BROKEN", "")
			breakIt(t, broken)
			d := b.ready("CLAUDEOPS_FAILPOINT=" + point + ":1")
			select {
			case <-d.done:
			case <-time.After(patience):
				t.Fatalf("it lives on\n%s", d.log)
			}
			d.done <- nil
			d = b.ready()
			d.until("all cycles end", func() bool { c, ok := b.newest(); return ok && c.Cycle.Status.Ended() })
			for _, r := range b.actionRuns() {
				if r.Status == ops.ActionStarted {
					t.Errorf("action %d is still running", r.ID)
				}
			}
			if runs() > 1 {
				t.Errorf("it ran %d times", runs())
			}
		})
	}
}
