package main_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"claudeops/internal/ops"
	"claudeops/internal/store"
	"claudeops/test/agenttest"
)

// answering is a service whose HTTP status a test sets.
func answering(t *testing.T) (url string, status *atomic.Int64) {
	t.Helper()
	status = &atomic.Int64{}
	status.Store(http.StatusOK)
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(int(status.Load())) }))
	t.Cleanup(service.Close)
	return service.URL, status
}

// often lets the schedule and the watch look every few seconds.
func often(services string) string {
	return "grouping: {window: 1s, pause: 1s}\ninterval: 2s\nservices:\n" + services
}

func probedService(name, url string) string {
	return fmt.Sprintf("  - {name: %s, probes: [{type: http, url: %q, interval: 1s, timeout: 2s}]}\n", name, url)
}

// refusable is a box in which Tier 1 always hands web up, and Tier 2 needs a human.
func refusable(t *testing.T, env ...string) *box {
	return climbing(t, slices.Concat(agenttest.InOrder(1, finds(1)), agenttest.InOrder(2, agenttest.Claims(0.1, "web"))), append([]string{"CLAUDEOPS_APPROVAL_TIER=2"}, env...)...)
}

// asks waits until a number of questions were asked, and returns the last one.
func (d *daemon) asks(n int64) (out ops.Approval) {
	d.t.Helper()
	d.until(fmt.Sprintf("question %d is asked", n), func() (asked bool) {
		d.read(func(s *store.Store) {
			a, err := s.People.Approval(d.t.Context(), n)
			out, asked = a, err == nil
		})
		return asked
	})
	return out
}

// over reports whether a cycle has ended; others may follow it.
func (b *box) over(id ops.CycleID) bool {
	b.t.Helper()
	c, ok := b.newest()
	return ok && c.Cycle.ID >= id && b.load(id).Cycle.Status.Ended()
}

// more waits until that many further cycles have ended, and returns the last one.
func (d *daemon) more(cycles int) ops.Claimed {
	d.t.Helper()
	c, _ := d.newest()
	next := c.Cycle.ID + ops.CycleID(cycles)
	d.until(fmt.Sprintf("%d more cycles end", cycles), func() bool { return d.over(next) })
	return d.load(next)
}

// calledFor counts the notices of some kinds.
func (b *box) calledFor(kinds ...ops.NoticeKind) (n int) {
	for _, one := range b.notices() {
		if slices.Contains(kinds, one.Kind) {
			n++
		}
	}
	return n
}

// A human says no: while the same thing is wrong, the schedule and the probes start no agent and call nobody.
// Who runs a cycle himself gets the look of Tier 1. What fails in another way is asked about again.
func TestDenial_ANoLastsUntilTheFactsChange(t *testing.T) {
	t.Parallel()
	url, status := answering(t)
	b := refusable(t).configured(often(probedService("web", url)))
	d := b.ready()
	d.until("the first cycle ends", func() bool { return b.over(1) })
	status.Store(http.StatusBadGateway)
	asked := d.asks(1)
	r := b.run("approvals", "deny", "1", "--reason", "not now")
	if r.code != 0 || !strings.Contains(r.stderr, "No agent works on web (http 5xx) until 20") || !strings.Contains(r.stderr, "or until the facts change. Probes keep looking.") {
		t.Errorf("deny exits %d: %s", r.code, r.stderr)
	}
	d.until("the cycle ends", func() bool { return b.over(asked.CycleID) })
	if c := b.load(asked.CycleID).Cycle; c.Status != ops.CycleBlocked || !strings.Contains(c.Reason, "not now. No agent works on web") {
		t.Errorf("the cycle is %s: %s", c.Status, c.Reason)
	}
	calls, called := len(b.calls()), b.calledFor(ops.NoticeApproval, ops.NoticeNeedsHuman, ops.NoticeOpened, ops.NoticeReminder)
	last := d.more(4)
	if last.Cycle.Status != ops.CycleSuppressed || !strings.Contains(last.Cycle.Reason, "said no to tier2 on ") || len(last.Journal.Sessions) > 0 {
		t.Errorf("a later cycle is %s after %d sessions: %s", last.Cycle.Status, len(last.Journal.Sessions), last.Cycle.Reason)
	}
	if len(b.calls()) != calls || b.calledFor(ops.NoticeApproval, ops.NoticeNeedsHuman, ops.NoticeOpened, ops.NoticeReminder) != called {
		t.Errorf("%d agents were started and people called: %+v", len(b.calls())-calls, b.notices())
	}
	contains(t, "status", b.run("status").stdout, "Needs you   nothing", "web is down: somebody said no, agents stopped until ")
	_, page := d.get("/incidents?tab=needs")
	if !strings.Contains(page, "Nothing needs you.") {
		t.Error("the incident is among what needs a person")
	}
	// A person looks.
	_, answer := d.post("/api/v1/cycles", map[string]any{"prompt": "look at web"})
	id, _ := answer["id"].(float64)
	d.until("the manual cycle ends", func() bool { return b.over(ops.CycleID(id)) })
	c := b.load(ops.CycleID(id))
	if c.Cycle.Status != ops.CycleSuppressed || len(c.Journal.Sessions) != 1 || !strings.Contains(c.Cycle.Reason, "said no to tier2") || len(c.Journal.Approvals) != 0 {
		t.Errorf("the manual cycle is %s after %d sessions: %s", c.Cycle.Status, len(c.Journal.Sessions), c.Cycle.Reason)
	}
	// The facts change.
	status.Store(http.StatusNotFound)
	if again := d.asks(2); again.Status != ops.ApprovalPending || len(again.Facts) != 1 || again.Facts[0].Class != "4xx" {
		t.Errorf("asked again: %+v", again)
	}
}

// The daemon is killed while the question is open, and the no is given while none runs: the next start ends the cycle, and the no lasts.
func TestDenial_ANoSurvivesAKill(t *testing.T) {
	t.Parallel()
	url, status := answering(t)
	b := refusable(t).configured(often(probedService("web", url)))
	d := b.ready()
	d.until("the first cycle ends", func() bool { return b.over(1) })
	status.Store(http.StatusBadGateway)
	asked := d.asks(1)
	must(t, d.cmd.Process.Kill())
	<-d.done
	if r := b.run("approvals", "deny", "1"); r.code != 0 || !strings.Contains(r.stderr, "No agent works on web") {
		t.Fatalf("deny exits %d: %s", r.code, r.stderr)
	}
	before, _ := b.newest() // one that was started before the no may still end with its agent
	agents := func(until ops.CycleID) (n int) {
		for id := before.Cycle.ID + 1; id <= until; id++ {
			n += len(b.load(id).Journal.Sessions)
		}
		return n
	}
	d = b.ready()
	d.until("the cycle ends", func() bool { return b.over(asked.CycleID) })
	last := d.more(3).Cycle.ID
	if c := b.load(asked.CycleID).Cycle; c.Status != ops.CycleBlocked || agents(last) > 0 {
		t.Errorf("the cycle is %s, and %d agents were started: %s", c.Status, agents(last), c.Reason)
	}
	// Nor does a dry run look again at what was decided.
	d.stop()
	d = b.ready("CLAUDEOPS_DRY_RUN=true")
	if c := d.more(2).Cycle; c.Status != ops.CycleSuppressed || !strings.Contains(c.Reason, "said no to tier2") || agents(c.ID) > 0 {
		t.Errorf("in a dry run the cycle is %s, and %d agents were started: %s", c.Status, agents(c.ID), c.Reason)
	}
}
