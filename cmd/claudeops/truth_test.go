package main_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/store"
	"claudeops/test/agenttest"
)

// breakable is a service that answers 502 while a file exists.
func breakable(t *testing.T) (url, broken string) {
	t.Helper()
	broken = filepath.Join(t.TempDir(), "broken")
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if _, err := os.Stat(broken); err == nil {
			w.WriteHeader(http.StatusBadGateway)
		}
	}))
	t.Cleanup(service.Close)
	return service.URL, broken
}

func breakIt(t *testing.T, broken string) {
	t.Helper()
	must(t, os.WriteFile(broken, nil, 0o600))
}

// repairing is a play that repairs the service before it says so.
func repairing(broken string) agenttest.Play {
	p := agenttest.Claims(0.1, "web")
	p.Steps = append([]agenttest.Step{{Run: "rm -f " + broken}}, p.Steps...)
	return p
}

func watchedWeb(url, more string) string {
	return quickly + fmt.Sprintf("services: [{name: web, probes: [{type: http, url: %q, interval: 1s, timeout: 2s}]}]\n%s", url, more)
}

func (b *box) asked() bool {
	c, ok := b.newest()
	return ok && c.Cycle.Status == ops.CycleWaitingHuman
}

func (b *box) told(kind ops.NoticeKind, text string) bool {
	return slices.ContainsFunc(b.notices(), func(n ops.Notice) bool { return n.Kind == kind && strings.Contains(n.Title+n.Body, text) })
}

// A probe watches the service while a human is asked about it: the answer counts all the same.
func TestTruth_AnApprovalIsNotSwallowedWhereAProbeWatches(t *testing.T) {
	t.Parallel()
	url, broken := breakable(t)
	plays := slices.Concat(agenttest.InOrder(1, finds(1)), agenttest.InOrder(2, finds(2)), agenttest.InOrder(3, repairing(broken)))
	b := climbing(t, plays, "CLAUDEOPS_APPROVAL_TIER=3").configured(watchedWeb(url, ""))
	d := b.ready()
	d.until("the first cycle ends", func() bool { return b.ended(1) })
	breakIt(t, broken)
	d.until("the question is asked", b.asked)
	asked, _ := b.newest()
	if got := asked.Journal.Approvals[0].Reason; got != "web is down connection refused (no reason given)" || !b.told(ops.NoticeApproval, "The database refuses connections.") {
		t.Errorf("the question says %q, and people are told %+v", got, b.notices())
	}
	// The watch has noted by now that a human is asked.
	d.until("the watch holds it back", func() (held bool) {
		b.read(func(s *store.Store) {
			rows, err := s.Withheld(t.Context(), "default")
			held = err == nil && slices.ContainsFunc(rows, func(w ops.Withheld) bool { return w.Service == "web" && w.Why == ops.HoldPerson })
		})
		return held
	})
	id := asked.Cycle.ID
	if status, answer := d.post("/api/v1/approvals/1/approve", map[string]any{"reason": "go"}); status != http.StatusOK {
		t.Fatalf("approve answers %d: %v", status, answer)
	}
	d.until("the cycle ends", func() bool { return b.load(id).Cycle.Status.Ended() })
	c := b.load(id)
	if c.Cycle.Status != ops.CycleResolved || c.Cycle.Verified == nil || !*c.Cycle.Verified || c.Journal.Last().Tier != ops.Tier3 {
		t.Errorf("the cycle is %s with %d sessions: %s", c.Cycle.Status, len(c.Journal.Sessions), c.Cycle.Reason)
	}
}

// The service recovers while a human is asked, and silence would mean yes: nothing runs, and who was asked is told.
func TestTruth_AQuestionEndsWithItsProblem(t *testing.T) {
	t.Parallel()
	url, broken := breakable(t)
	plays := slices.Concat(agenttest.InOrder(1, finds(1)), agenttest.InOrder(2, finds(2)), agenttest.InOrder(3, repairing(broken)))
	b := climbing(t, plays, "CLAUDEOPS_APPROVAL_TIER=3").configured(watchedWeb(url, "escalation: {approval: {expiry: 10m, on_expiry: approve}}\n"))
	d := b.ready()
	d.until("the first cycle ends", func() bool { return b.ended(1) })
	breakIt(t, broken)
	d.until("the question is asked", b.asked)
	asked, _ := b.newest()
	must(t, os.Remove(broken))
	id := asked.Cycle.ID
	d.until("the cycle ends", func() bool { return b.load(id).Cycle.Status.Ended() })
	c := b.load(id)
	if c.Cycle.Status != ops.CycleResolved || c.Journal.Last().Tier == ops.Tier3 || c.Journal.Approvals[0].Status != ops.ApprovalWithdrawn {
		t.Errorf("the cycle is %s, its question %s: %s", c.Cycle.Status, c.Journal.Approvals[0].Status, c.Cycle.Reason)
	}
	if !b.told(ops.NoticeResolved, "No answer needed") {
		t.Errorf("nobody was told: %+v", b.notices())
	}
}

// After a start nothing has judged the service yet: the cycle's own probe obeys maintenance and silences all the same.
func TestTruth_AScheduledCheckObeysWhatTheOperatorSaid(t *testing.T) {
	t.Parallel()
	url, broken := breakable(t)
	breakIt(t, broken)
	now := time.Now().UTC()
	maintenance := fmt.Sprintf("maintenance: [{name: disk, service: web, from: %s, until: %s}]\n",
		now.Add(-time.Hour).Format(time.RFC3339), now.Add(time.Hour).Format(time.RFC3339))
	b := climbing(t, agenttest.InOrder(1, finds(1))).configured(watchedWeb(url, maintenance))
	b.ready().until("the first cycle ends", func() bool { return b.ended(1) })
	if c := b.load(1); c.Cycle.Status != ops.CycleSuppressed || len(b.calls()) != 0 || !strings.Contains(c.Cycle.Reason, "maintenance") {
		t.Errorf("in maintenance the cycle is %s after %d calls: %s", c.Cycle.Status, len(b.calls()), c.Cycle.Reason)
	}
	b = climbing(t, agenttest.InOrder(1, finds(1))).configured(watchedWeb(url, ""))
	if r := b.run("silences", "add", "--service", "web", "--for", "1h", "--reason", "new disk"); r.code != 0 {
		t.Fatalf("silences add exits %d: %s", r.code, r.stderr)
	}
	b.ready().until("the first cycle ends", func() bool { return b.ended(1) })
	if c := b.load(1); c.Cycle.Status != ops.CycleSuppressed || len(b.calls()) != 0 {
		t.Errorf("under a silence the cycle is %s after %d calls: %s", c.Cycle.Status, len(b.calls()), c.Cycle.Reason)
	}
}

// A service that answers once and fails again is not repaired.
func TestTruth_OneGreenAnswerIsNotARepair(t *testing.T) {
	t.Parallel()
	var answered atomic.Int64
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if answered.Add(1)%3 != 0 { // a crash loop: every third request finds it up
			w.WriteHeader(http.StatusBadGateway)
		}
	}))
	defer service.Close()
	plays := slices.Concat(agenttest.InOrder(1, finds(1)), agenttest.InOrder(2, agenttest.Claims(0.1, "web")))
	b := climbing(t, plays, "CLAUDEOPS_RECOVERY=off", "CLAUDEOPS_MAX_TIER=2").configured(fmt.Sprintf(
		"observe: agent\nservices: [{name: web, probes: [{type: http, url: %q, interval: 1s, timeout: 2s, recover_after: 3}]}]\n", service.URL))
	b.once(6)
	if c := b.cycle(); c.Cycle.Status != ops.CycleNeedsHuman {
		t.Errorf("the cycle is %s: %s", c.Cycle.Status, c.Cycle.Reason)
	}
}

func TestTruth_ARepairNobodyConfirmedIsUnverified(t *testing.T) {
	t.Parallel()
	b := climbing(t, slices.Concat(agenttest.InOrder(1, finds(1)), agenttest.InOrder(2, agenttest.Claims(0.1, "web"))))
	r := b.once(0)
	if !strings.Contains(r.stdout+r.stderr, "unverified") {
		t.Errorf("once says %s%s", r.stdout, r.stderr)
	}
	if c := b.cycle(); c.Cycle.Verified == nil || *c.Cycle.Verified {
		t.Errorf("verified is %v", c.Cycle.Verified)
	}
	if list := b.run("cycles", "list"); !strings.Contains(list.stdout, "resolved, unverified") {
		t.Errorf("cycles list says %s", list.stdout)
	}
	if list := b.run("cycles", "list", "-o", "json"); !strings.Contains(list.stdout, `"verified": false`) {
		t.Errorf("cycles list -o json says %s", list.stdout)
	}
}

// The provider is overloaded longer than retries take: the cycle waits in the queue with its slot free, and goes on.
func TestTruth_AnOutageIsWaitedFor(t *testing.T) {
	t.Parallel()
	plays := agenttest.InOrder(1, agenttest.Overloaded(), agenttest.Overloaded(), agenttest.Overloaded(), agenttest.Overloaded(), looks())
	b := climbing(t, plays).configured("handlers: [{id: solo, tier: 1, agent: claude, model: haiku}]\nescalation: {entry: solo}\n")
	d := b.ready()
	d.until("the cycle waits", func() bool {
		c, ok := b.newest()
		return ok && c.Cycle.Status == ops.CycleQueued && c.Cycle.WakeAt != nil && c.Cycle.WakeAt.After(time.Now())
	})
	if list := b.run("cycles", "list"); !strings.Contains(list.stdout, "waiting") {
		t.Errorf("cycles list says %s", list.stdout)
	}
	d.until("the cycle goes on", func() bool { return b.ended(1) })
	if c := b.load(1); c.Cycle.Status != ops.CycleHealthy || len(c.Journal.Sessions) != 5 {
		t.Errorf("the cycle is %s after %d sessions: %s", c.Cycle.Status, len(c.Journal.Sessions), c.Cycle.Reason)
	}
}

func TestTruth_AnIncidentAboutTheKeyClosesItself(t *testing.T) {
	t.Parallel()
	refused := agenttest.Play{Steps: agenttest.Lines(agenttest.Init(), agenttest.APIError(401, "invalid x-api-key")), Exit: 1}
	b := climbing(t, agenttest.InOrder(1, looks(), refused, looks()))
	b.once(0) // before any cycle has worked, it would be a fault of the set-up and no incident
	b.once(8)
	open := func() (out []ops.Incident) {
		b.read(func(s *store.Store) {
			var err error
			if out, err = s.Unresolved(t.Context(), "default"); err != nil {
				t.Fatal(err)
			}
		})
		return out
	}
	if got := open(); len(got) != 1 || got[0].Class != ops.ClassAgent {
		t.Fatalf("open incidents are %+v", got)
	}
	b.once(0)
	if got := open(); len(got) != 0 {
		t.Errorf("open incidents are %+v", got)
	}
	b.read(func(s *store.Store) {
		memories, err := s.Memories(t.Context(), store.MemoryFilter{})
		must(t, err)
		for _, m := range memories {
			if m.Service != "" || m.Category == "root_cause" || strings.Contains(m.Observation, "session 2") {
				t.Errorf("it remembers %+v", m)
			}
		}
	})
}

// Tier 3 in handoff mode says by its file that it could not repair it.
func TestTruth_TheLastTierCanFail(t *testing.T) {
	t.Parallel()
	leaves := func(tier int) agenttest.Play { return agenttest.Escalates(tier, 0.01, "web") }
	b := newBox(t, agenttest.Scenario{Plays: slices.Concat(
		agenttest.InOrder(1, leaves(1)), agenttest.InOrder(2, leaves(2)), agenttest.InOrder(3, leaves(3)))}, "CLAUDEOPS_ESCALATION_MODE=handoff")
	b.once(6)
	c := b.cycle()
	if c.Cycle.Status != ops.CycleNeedsHuman || len(c.Journal.Sessions) != 3 || !b.told(ops.NoticeNeedsHuman, "web") {
		t.Fatalf("the cycle is %s after %d sessions: %s", c.Cycle.Status, len(c.Journal.Sessions), c.Cycle.Reason)
	}
	calls := b.calls()
	if prompt := strings.Join(calls[2].Args, "\n"); !strings.Contains(prompt, "handoff.json") {
		t.Errorf("Tier 3 is not told of the file:\n%s", prompt)
	}
	b.noHandoff()
}
