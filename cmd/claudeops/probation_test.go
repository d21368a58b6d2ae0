package main_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
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

func (b *box) incidents() (out []ops.Incident) {
	b.t.Helper()
	b.read(func(s *store.Store) {
		var err error
		if out, err = s.Incidents(context.Background(), store.IncidentFilter{}); err != nil {
			b.t.Fatal(err)
		}
	})
	return out
}

func (b *box) held(service string, why ops.HoldReason) (held bool) {
	b.t.Helper()
	b.read(func(s *store.Store) {
		rows, err := s.Withheld(context.Background(), "default")
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

// With a short pause the next cycle starts at once: it works on the same incident, and its start is not told again.
func TestProbation_TheNextCycleIsNotToldAgain(t *testing.T) {
	t.Parallel()
	b, d, broken := onProbation(t, "1s", "")
	breakIt(t, broken)
	d.until("the next repair is there", func() bool { return b.ended(3) })
	if c := b.load(3).Cycle; c.Status != ops.CycleResolved || b.load(2).Cycle.RefutedAt == nil || c.RefutedAt != nil {
		t.Errorf("the next cycle is %s", c.Status)
	}
	i := b.incidents()
	if len(i) != 1 || i[0].ResolvedAt == nil || i[0].LastCycle != 3 || i[0].ProbationUntil == nil {
		t.Errorf("incidents are %+v", i)
	}
	if b.count(ops.NoticeOpened) != 1 || b.count(ops.NoticeNeedsHuman) != 1 {
		t.Errorf("told are %+v", b.notices())
	}
}

// What is silenced meanwhile tells nobody, and is not held against the repair.
func TestProbation_WhatIsSilencedMeanwhileIsQuiet(t *testing.T) {
	t.Parallel()
	b, d, broken := onProbation(t, "1s", "")
	if r := b.run("silences", "add", "--service", "web", "--for", "1h", "--reason", "moving"); r.code != 0 {
		t.Fatalf("silences add exits %d: %s", r.code, r.stderr)
	}
	breakIt(t, broken)
	d.until("it is held back", func() bool { return b.held("web", ops.HoldSilenced) })
	d.until("it has settled", func() bool {
		return slices.ContainsFunc(b.events(ops.LevelWarning), func(e ops.Event) bool {
			return e.Kind == ops.EventWatch && e.At.After(*b.load(2).Cycle.EndedAt) && strings.Contains(e.Message, "web is down")
		})
	})
	if i := b.incidents(); len(i) != 1 || i[0].ResolvedAt == nil || b.load(2).Cycle.RefutedAt != nil || b.count(ops.NoticeNeedsHuman) != 0 {
		t.Errorf("incidents are %+v, told %+v", i, b.notices())
	}
}

// Who acknowledges what did not hold has it: nothing starts, and nobody is reminded.
func TestProbation_WhoAcknowledgesItHasIt(t *testing.T) {
	t.Parallel()
	b, d, broken := onProbation(t, "8s", "")
	breakIt(t, broken)
	d.until("people are told", func() bool { return b.told(ops.NoticeNeedsHuman, "The repair did not hold") })
	if r := b.run("incidents", "ack", "1", "--reason", "mine"); r.code != 0 {
		t.Fatalf("ack exits %d: %s", r.code, r.stderr)
	}
	d.until("it is held by a person", func() bool { return b.held("web", ops.HoldPerson) })
	last, _ := b.newest() // on a slow machine the pause was over before the answer
	end := last.Cycle.CreatedAt.Add(9 * time.Second)
	d.until("the pause is over", func() bool { return time.Now().After(end) && b.held("web", ops.HoldPerson) && b.over(last.Cycle.ID) })
	if i := b.incidents(); len(i) != 1 || i[0].Status != ops.IncidentAcknowledged || i[0].RemindAt != nil || !b.ended(last.Cycle.ID) {
		t.Errorf("incidents are %+v", i)
	}
}

// Another check of the same service is another problem, as always.
func TestProbation_AnotherCheckIsAnotherProblem(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer func() { _ = listener.Close() }()
	other := agenttest.Answers(0.01, `{"schema_version":1,"outcome":"escalate","summary":"the port of web is closed","check_results":[{"service":"web","check_type":"service","status":"down","error":"refused"}],"handoff":`+
		strings.ReplaceAll(agenttest.Handoff(2, "web"), `"http"`, `"service"`)+`,"actions":[],"events":[],"memories":[]}`)
	b, d, _ := onProbation(t, "1s", fmt.Sprintf(", {type: tcp, address: %q, interval: 1s, timeout: 2s}", listener.Addr()), other)
	must(t, listener.Close())
	d.until("its own incident is open", func() bool { return len(b.incidents()) == 2 })
	i := b.incidents()
	if i[0].Check != "service" || i[1].ResolvedAt == nil || i[1].ReopenedAt != nil || b.load(2).Cycle.RefutedAt != nil {
		t.Errorf("incidents are %+v", i)
	}
	if b.told(ops.NoticeNeedsHuman, "The repair did not hold") || b.count(ops.NoticeOpened) != 2 {
		t.Errorf("told are %+v", b.notices())
	}
}

// exitedEngine plays the API of an engine in which a container runs or has exited.
func exitedEngine(t *testing.T, runs *atomic.Bool) string {
	t.Helper()
	socket := filepath.Join(shortTemp(t), "engine.sock")
	listener, err := net.Listen("unix", socket)
	must(t, err)
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path != "/containers/web/json":
			w.WriteHeader(http.StatusNotFound)
		case runs.Load():
			fmt.Fprint(w, `{"Id":"1","State":{"Status":"running","Running":true}}`)
		default:
			fmt.Fprint(w, `{"Id":"1","State":{"Status":"exited","ExitCode":137},"HostConfig":{"RestartPolicy":{"Name":"no"}}}`)
		}
	})}
	ended := make(chan struct{})
	go func() { defer close(ended); _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close(); <-ended })
	return socket
}

// A maintenance page pleases the probe while the container of the service has exited: the repair is not proven.
func TestProbation_GreenProbesDoNotProveWhatDoesNotRun(t *testing.T) {
	t.Parallel()
	for _, up := range []bool{true, false} {
		t.Run(fmt.Sprint("running ", up), func(t *testing.T) {
			t.Parallel()
			var runs atomic.Bool
			runs.Store(up)
			url, broken := breakable(t)
			b := climbing(t, slices.Concat(agenttest.InOrder(1, finds(1)), agenttest.InOrder(2, repairing(broken)))).configured(fmt.Sprintf(
				"docker: {broker: off, socket: %s}\nservices: [{name: web, container: web, probes: [{type: http, url: %q, timeout: 2s}]}]\n", exitedEngine(t, &runs), url))
			breakIt(t, broken)
			b.once(0)
			c, i := b.cycle().Cycle, b.incidents()
			if c.Status != ops.CycleResolved || c.Verified == nil || *c.Verified != up || len(i) != 1 || (i[0].ResolvedAt != nil) != up {
				t.Fatalf("the cycle is %s, verified %v: %s; incidents are %+v", c.Status, c.Verified, c.Reason, i)
			}
			if !up {
				contains(t, "the reason", c.Reason, "but its container web has exited with 137; unverified")
				contains(t, "the list", b.run("cycles", "list").stdout, "resolved, unverified")
				contains(t, "the events", b.run("events").stdout, "web answers its probes, but its container web has exited with 137")
				if got := b.run("services", "list").stdout; strings.Contains(got, "down") {
					t.Errorf("the service is shown as down, which no probe says:\n%s", got)
				}
			}
		})
	}
}
