package main_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"

	"claudeops/test/agenttest"
	"claudeops/test/pgtest"
)

// eventReceiver notes the ids of the events that it gets.
type eventReceiver struct {
	*httptest.Server
	mu     sync.Mutex
	ids    []string
	bodies map[string][]string
}

func newEventReceiver(t *testing.T) *eventReceiver {
	t.Helper()
	r := &eventReceiver{bodies: map[string][]string{}}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		body, err := io.ReadAll(q.Body)
		var e struct {
			ID string `json:"id"`
		}
		if err != nil || json.Unmarshal(body, &e) != nil || q.Header.Get("Webhook-Id") != e.ID || !strings.HasPrefix(q.Header.Get("Webhook-Signature"), "v1,") {
			t.Errorf("%v: %s %v", err, body, q.Header)
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		r.ids = append(r.ids, e.ID)
		r.bodies[e.ID] = append(r.bodies[e.ID], string(body))
		w.WriteHeader(http.StatusAccepted)
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *eventReceiver) seen() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.ids)
}

// The daemon is killed between the delivery of an event and its record. The next start sends the same event again, and nothing is lost.
func TestAKilledDaemonSendsItsEventAgainWithTheSameID(t *testing.T) {
	t.Parallel()
	r := newEventReceiver(t)
	b := newBox(t, chain()).configured(fmt.Sprintf("events: {targets: [{name: a, url: %q, secret: a-secret-of-the-events-test}]}\n", r.URL))
	// The third delivery is not recorded.
	d := b.serve("CLAUDEOPS_FAILPOINT=events.send.after:3")
	err := <-d.done
	d.done <- err
	if exit, ok := err.(*exec.ExitError); !ok || exit.ExitCode() != -1 { //nolint:errorlint // Wait returns it unwrapped
		t.Fatalf("the daemon was not killed: %v\n%s", err, d.log)
	}
	before := r.seen()
	if len(before) != 3 {
		t.Fatalf("before the crash: %v", before)
	}
	d = b.ready()
	d.until("the end of the cycle is told", func() bool { return slices.Contains(r.seen(), "cycle-1-ended") })
	all := r.seen()
	if all[3] != before[2] {
		t.Errorf("after the restart %s is sent, not %s again: %v", all[3], before[2], all)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if twice := r.bodies[before[2]]; len(twice) != 2 || twice[0] != twice[1] {
		t.Errorf("the event that was sent twice: %v", twice)
	}
	for id, bodies := range r.bodies {
		if id != before[2] && len(bodies) != 1 {
			t.Errorf("%s was sent %d times", id, len(bodies))
		}
	}
	if i, j := slices.Index(all, "cycle-1-created"), slices.Index(all, "cycle-1-ended"); i != 0 || j < 2 {
		t.Errorf("the order: %v", all)
	}
}

// Both hosts are told of every change, one of them sends: each event once, and those of one cycle in their order.
func TestOneOfTwoHostsSendsTheEvents(t *testing.T) {
	t.Parallel()
	r := newEventReceiver(t)
	boxes := hosts(t, pgtest.URL(t), plays(agenttest.Escalates(1, 0.03, "jellyfin"), tier(2, agenttest.Healthy(0.3))), "a", "b")
	var daemons []*daemon
	for _, b := range boxes {
		b.configured(fmt.Sprintf("events: {targets: [{name: a, url: %q, secret: a-secret-of-the-events-test}]}\n", r.URL))
		daemons = append(daemons, b.ready())
	}
	for _, d := range daemons {
		d.until("the end of the first cycle is told", func() bool { return slices.Contains(r.seen(), "cycle-1-ended") })
	}
	all := r.seen()
	if sorted := slices.Sorted(slices.Values(all)); len(slices.Compact(sorted)) != len(all) {
		t.Errorf("an event was sent twice: %v", all)
	}
	created, started, ended := slices.Index(all, "cycle-1-created"), slices.Index(all, "cycle-1-started"), slices.Index(all, "cycle-1-ended")
	if created < 0 || started < created || ended < started {
		t.Errorf("the order: %v", all)
	}
}
