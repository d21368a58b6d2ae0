package main_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
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

func (b *box) told(kind ops.NoticeKind, text string) bool {
	return slices.ContainsFunc(b.notices(), func(n ops.Notice) bool { return n.Kind == kind && strings.Contains(n.Title+n.Body, text) })
}

func (b *box) incidents() (out []ops.Incident) {
	b.t.Helper()
	b.read(func(s *store.Store) {
		var err error
		if out, err = s.People.Incidents(context.Background(), store.IncidentFilter{}); err != nil {
			b.t.Fatal(err)
		}
	})
	return out
}

func (b *box) held(service string, why ops.HoldReason) (held bool) {
	b.t.Helper()
	b.read(func(s *store.Store) {
		rows, err := s.Watch.Withheld(context.Background(), "default")
		held = err == nil && slices.ContainsFunc(rows, func(w ops.Withheld) bool { return w.Service == service && w.Why == why })
	})
	return held
}

func (b *box) count(kind ops.NoticeKind) (n int) {
	for _, x := range b.notices() {
		if x.Kind == kind {
			n++
		}
	}
	return n
}

// onProbation is a daemon whose second cycle has just repaired web, which a probe watches. More are more probes of web.
func onProbation(t *testing.T, pause, more string, plays ...agenttest.Play) (b *box, d *daemon, broken string) {
	t.Helper()
	url, broken := breakable(t)
	all := slices.Concat(agenttest.InOrder(1, append([]agenttest.Play{finds(1)}, plays...)...), agenttest.InOrder(2, repairing(broken)))
	b = climbing(t, all).configured(fmt.Sprintf("grouping: {window: 1s, pause: %s}\nservices: [{name: web, probes: [{type: http, url: %q, interval: 1s, timeout: 2s}%s]}]\n",
		pause, url, more))
	d = b.ready()
	d.until("the first cycle ends", func() bool { return b.ended(1) })
	breakIt(t, broken)
	d.until("the repair is there", func() bool { return b.ended(2) })
	c := b.load(2).Cycle
	if c.Status != ops.CycleResolved || c.Verified == nil || !*c.Verified || c.ProbationUntil == nil || !c.ProbationUntil.Equal(c.EndedAt.Add(ops.Probation)) {
		t.Fatalf("the cycle is %s, on probation until %v: %s", c.Status, c.ProbationUntil, c.Reason)
	}
	if i := b.incidents(); len(i) != 1 || i[0].ResolvedAt == nil || i[0].ProbationUntil == nil || i[0].CalledAt != nil {
		t.Fatalf("incidents are %+v", i)
	}
	contains(t, "the cycle", b.run("cycles", "show", "2").stdout, "On probation until")
	return b, d, broken
}

// A job breaks the page again: the same incident is open, the cycle is refuted, and people are told once, with when the next cycle starts.
func TestProbation_ARepairThatDoesNotHoldIsTold(t *testing.T) {
	t.Parallel()
	b, d, broken := onProbation(t, "10m", "")
	breakIt(t, broken)
	d.until("people are told", func() bool { return b.told(ops.NoticeNeedsHuman, "The repair did not hold") })
	i := b.incidents()
	if len(i) != 1 || i[0].Status != ops.IncidentOpen || i[0].Occurrences != 2 || i[0].ReopenedAt == nil || i[0].CalledAt == nil || i[0].RemindAt == nil {
		t.Errorf("incidents are %+v", i)
	}
	next := b.load(2).Cycle.CreatedAt.Add(10 * time.Minute).UTC().Format("2006-01-02 15:04 UTC")
	for _, n := range b.notices() {
		if n.Kind == ops.NoticeNeedsHuman {
			contains(t, "the notice", n.Body, "web is down again: HTTP 502 Bad Gateway", "Claimed: by cycle 2", "Confirmed: by", "The next cycle may start at "+next)
		}
	}
	if c := b.load(2).Cycle; c.RefutedAt == nil || c.Status != ops.CycleResolved {
		t.Errorf("the cycle is %s, refuted at %v", c.Status, c.RefutedAt)
	}
	d.until("the next cycle has to wait", func() bool { return b.held("web", ops.HoldRecent) })
	contains(t, "the cycle", b.run("cycles", "show", "2").stdout, "Result: resolved, did not hold", "Did not hold: the same check failed again at")
	contains(t, "the incident", b.run("incidents", "show", "1").stdout, "The repair did not hold: opened again at", "To do: the next cycle may start at "+next)
	_, page := d.get("/cycles/2")
	contains(t, "the page", page, "Resolved, did not hold")
	if b.count(ops.NoticeOpened) != 1 || b.count(ops.NoticeNeedsHuman) != 1 || !b.ended(2) {
		t.Errorf("told are %+v", b.notices())
	}
	must(t, os.Remove(broken))
	d.until("it is over", func() bool { return b.incidents()[0].ResolvedAt != nil })
}
