package main_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/store"
	"claudeops/test/agenttest"
	"claudeops/test/pgtest"
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
			a, err := s.Approval(d.t.Context(), n)
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

// A human says no: while the same thing is wrong, the schedule and the probes start no agent and call nobody, in both modes and with
// both databases. Who runs a cycle himself gets the look of Tier 1. What fails in another way is asked about again.
func TestDenial_ANoLastsUntilTheFactsChange(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"resume", "handoff", "PostgreSQL"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, status := answering(t)
			b := refusable(t).configured(often(probedService("web", url)))
			switch name {
			case "handoff":
				b.env = append(b.env, "CLAUDEOPS_ESCALATION_MODE=handoff")
			case "PostgreSQL":
				b.url = pgtest.URL(t)
				b.env = append(b.env, "CLAUDEOPS_DATABASE_URL="+b.url)
			}
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
		})
	}
}

// The time of a no is over, or it is taken back, or it was for one question only: somebody is asked again.
func TestDenial_ANoEnds(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		deny []string
		then []string
	}{
		"its time is over":   {[]string{"--for", "5s"}, nil},
		"it is taken back":   {nil, []string{"--for", "0"}},
		"this question only": {[]string{"--for", "0"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, status := answering(t)
			b := refusable(t).configured(often(probedService("web", url)))
			d := b.ready()
			d.until("the first cycle ends", func() bool { return b.over(1) })
			status.Store(http.StatusBadGateway)
			d.asks(1)
			r := b.run(append([]string{"approvals", "deny", "1"}, tt.deny...)...)
			if r.code != 0 {
				t.Fatalf("deny exits %d: %s", r.code, r.stderr)
			}
			if slices.Contains(tt.deny, "0") {
				contains(t, "deny", r.stderr, "Only this question is answered: the next cycle may ask again.")
			}
			if tt.then != nil {
				d.more(2)
				if r := b.run("approvals", "deny", "1"); r.code != 5 {
					t.Errorf("the same answer again exits %d: %s", r.code, r.stderr)
				}
				if r := b.run(append([]string{"approvals", "deny", "1"}, tt.then...)...); r.code != 0 {
					t.Fatalf("it cannot be taken back: %s", r.stderr)
				}
			}
			if again := d.asks(2); again.Facts[0].Class != "5xx" {
				t.Errorf("asked again about %+v", again.Facts)
			}
		})
	}
}

// Another service fails: an agent starts for it, and only it is asked about.
func TestDenial_ANoIsAboutItsService(t *testing.T) {
	t.Parallel()
	web, broken := answering(t)
	db, other := answering(t)
	both := agenttest.Answers(0.01, strings.ReplaceAll(`{"schema_version":1,"outcome":"escalate","summary":"down","check_results":[{"service":"web","check_type":"http","status":"down","error":"502"}],"handoff":HANDOFF,"actions":[],"events":[],"memories":[]}`,
		"HANDOFF", agenttest.Handoff(2, "web", "db")))
	b := climbing(t, agenttest.InOrder(1, finds(1), both), "CLAUDEOPS_APPROVAL_TIER=2").configured(often(probedService("web", web) + probedService("db", db)))
	d := b.ready()
	d.until("the first cycle ends", func() bool { return b.over(1) })
	broken.Store(http.StatusBadGateway)
	d.asks(1)
	if status, answer := d.post("/api/v1/approvals/1/deny", map[string]any{"reason": "mine", "for": "3600"}); status != http.StatusOK || !strings.Contains(fmt.Sprint(answer["effect"]), "No agent works on web (http 5xx) until ") {
		t.Fatalf("deny answers %d: %v", status, answer)
	}
	if status, answer := d.post("/api/v1/approvals/1/deny", map[string]any{"for": "soon"}); status != http.StatusUnprocessableEntity {
		t.Errorf("a time that is none answers %d: %v", status, answer)
	}
	d.more(2)
	other.Store(http.StatusInternalServerError)
	again := d.asks(2)
	c := b.load(again.CycleID)
	if got := c.Journal.Decisions[len(c.Journal.Decisions)-1].Services; !slices.Equal(got, []string{"db"}) || len(again.Facts) != 1 || again.Facts[0].Service != "db" {
		t.Errorf("asked about %v: %+v", got, again.Facts)
	}
}

// An alert about what somebody said no to starts no agent, however often it is sent.
func TestDenial_ANoLastsForAnAlert(t *testing.T) {
	t.Parallel()
	b := refusable(t, "CLAUDEOPS_INTERVAL=24h").configured(quickly + "services: [{name: web}]\n")
	d := b.ready()
	d.asks(1) // the first look
	b.run("approvals", "deny", "1", "--for", "0")
	d.until("the first cycle ends", func() bool { return b.over(1) })
	const alert = `{"name":"Down","service":"web","severity":"critical","message":"it is %s","status":%q}`
	d.told("generic", fmt.Sprintf(alert, "down", "firing"))
	asked := d.asks(2)
	if asked.Facts[0].Probe == "" || asked.Facts[0].Class != "down" {
		t.Errorf("the facts are %+v", asked.Facts)
	}
	b.run("approvals", "deny", "2")
	d.until("its cycle ends", func() bool { return b.over(asked.CycleID) })
	calls := len(b.calls())
	d.told("generic", fmt.Sprintf(alert, "well", "resolved"))
	d.until("the alert is over", func() bool { return b.told(ops.NoticeResolved, "web") })
	d.told("generic", fmt.Sprintf(alert, "down once more, in other words", "firing"))
	d.until("the alert's cycle ends", func() bool { c, ok := b.by(ops.TriggerAlert); return ok && c.Cycle.ID > asked.CycleID })
	c, _ := b.by(ops.TriggerAlert)
	if c.Cycle.Status != ops.CycleSuppressed || len(c.Journal.Sessions) > 0 || len(b.calls()) != calls {
		t.Errorf("the alert's cycle is %s after %d sessions: %s", c.Cycle.Status, len(c.Journal.Sessions), c.Cycle.Reason)
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

// After a recovery the same failure is another outage: people hear of it once, and still no agent starts.
func TestDenial_ANewOutageIsToldOnce(t *testing.T) {
	t.Parallel()
	url, status := answering(t)
	b := refusable(t).configured(often(probedService("web", url)))
	d := b.ready()
	d.until("the first cycle ends", func() bool { return b.over(1) })
	status.Store(http.StatusBadGateway)
	d.asks(1)
	b.run("approvals", "deny", "1")
	d.more(1)
	calls, opened := len(b.calls()), b.calledFor(ops.NoticeOpened)
	status.Store(http.StatusOK)
	d.until("it is over", func() (over bool) {
		b.read(func(s *store.Store) {
			causes, err := s.Causes(t.Context(), "default", time.Time{})
			open, err2 := s.Unresolved(t.Context(), "default")
			over = err == nil && err2 == nil && len(open) == 0 && !slices.ContainsFunc(causes, func(c ops.Cause) bool { return c.ResolvedAt == nil })
		})
		return over
	})
	status.Store(http.StatusServiceUnavailable)
	d.until("people hear of the new outage", func() bool { return b.calledFor(ops.NoticeOpened) == opened+1 })
	d.more(3)
	if len(b.calls()) != calls || b.calledFor(ops.NoticeOpened) != opened+1 || b.calledFor(ops.NoticeApproval) != 1 {
		t.Errorf("%d agents were started; notices %+v", len(b.calls())-calls, b.notices())
	}
}
