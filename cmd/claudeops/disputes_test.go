package main_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/store"
	"claudeops/test/agenttest"
)

// earlier moves the time at which people were first told of alerts into the past.
func (b *box) earlier(d time.Duration) {
	b.t.Helper()
	db, err := sql.Open("sqlite", filepath.Join(b.state, "claudeops.db"))
	must(b.t, err)
	defer func() { _ = db.Close() }()
	var told string
	must(b.t, db.QueryRow(`SELECT disputed_at FROM alerts`).Scan(&told))
	at, err := time.Parse("2006-01-02T15:04:05.000000Z", told)
	if err == nil {
		_, err = db.Exec(`UPDATE alerts SET disputed_at = ?`, at.Add(-d).Format("2006-01-02T15:04:05.000000Z"))
	}
	must(b.t, err)
}

// kill ends the daemon without a word.
func (d *daemon) kill() {
	d.t.Helper()
	must(d.t, d.cmd.Process.Signal(syscall.SIGKILL))
	err := <-d.done
	d.done <- err
}

func (b *box) toldOf(kind ops.NoticeKind) (out []ops.Notice) {
	return slices.DeleteFunc(b.notices(), func(n ops.Notice) bool { return n.Kind != kind })
}

func (b *box) openIncidents() (out []ops.Incident) {
	b.read(func(s *store.Store) {
		var err error
		if out, err = s.Incidents(context.Background(), store.IncidentFilter{Open: true}); err != nil {
			b.t.Error(err)
		}
	})
	return out
}

// cyclesBy counts the cycles that a trigger started.
func (b *box) cyclesBy(trigger ops.Trigger) (n int) {
	b.read(func(s *store.Store) {
		all, err := s.Cycles(context.Background(), store.CycleFilter{Limit: 100})
		if err != nil {
			b.t.Error(err)
		}
		for _, c := range all {
			if c.Trigger == trigger && c.Status.Ended() {
				n++
			}
		}
	})
	return n
}

// settled waits until the watch has handled what it was told.
func (d *daemon) settled(b *box) {
	d.t.Helper()
	if code := d.told("generic", `{"name":"Watchdog","service":"other","severity":"none"}`); code != http.StatusAccepted {
		d.t.Fatalf("answered %d", code)
	}
	d.until("alerts are handled", func() bool {
		left := -1
		b.read(func(s *store.Store) { left, _ = s.CountPendingAlerts(context.Background(), 10) })
		return left == 0
	})
}

func TestAnAlertThatFiresOnIsNotForgotten(t *testing.T) {
	t.Parallel()
	b := climbing(t, []agenttest.Play{looks()}).configured(quickly + "services: [{name: web}]\n")
	d := b.ready()
	d.until("the first cycle ends", func() bool { return b.ended(1) })
	const fires = `{"id":"a","name":"HighLatency","service":"web","severity":"critical","summary":"p99 over 2 s","url":"http://grafana/d/7","values":{"p99":2}}`
	if code := d.told("generic", fires); code != http.StatusAccepted {
		t.Fatalf("answered %d", code)
	}
	d.until("people hear of the disagreement", func() bool { return len(b.toldOf(ops.NoticeAlert)) == 1 })
	n := b.toldOf(ops.NoticeAlert)[0]
	contains(t, "the notice", n.Title+"\n"+n.Body, "Alert HighLatency still fires, but Tier 1 found web healthy", "p99 over 2 s", "http://grafana/d/7",
		"web http healthy; all well", "claudeops run", "silence the alert")
	contains(t, "status", b.run("status").stdout, "Needs you   nothing", "C-2 ended healthy, and an alert still fires")
	if open := b.openIncidents(); len(open) != 0 {
		t.Errorf("after the first time incidents are open: %+v", open)
	}

	d.kill()
	b.earlier(61 * time.Minute)
	d = b.ready()
	d.until("people hear of it again", func() bool { return len(b.toldOf(ops.NoticeAlert)) == 2 })
	open := b.openIncidents()
	if len(open) != 1 || open[0].Service != "web" || open[0].Class != ops.ClassAlert || open[0].CalledAt == nil {
		t.Fatalf("incidents are %+v", open)
	}
	contains(t, "status", b.run("status").stdout, "Needs you   1 incident\n", "Alert HighLatency still fires")
	if _, body := d.get("/api/v1/stats"); !strings.Contains(body, `"needs_you":1`) {
		t.Errorf("the figures are %s", body)
	}

	// Neither a restart nor a sender that repeats itself tells anybody anything, or starts a cycle.
	d.kill()
	d = b.ready()
	if code := d.told("generic", fires); code != http.StatusAccepted {
		t.Fatalf("answered %d", code)
	}
	d.settled(b)
	if told, cycles := len(b.toldOf(ops.NoticeAlert)), b.cyclesBy(ops.TriggerAlert); told != 2 || cycles != 1 {
		t.Errorf("after a restart %d were told, %d cycles ran", told, cycles)
	}

	// Other values are news.
	if code := d.told("generic", strings.Replace(fires, `{"p99":2}`, `{"p99":9}`, 1)); code != http.StatusAccepted {
		t.Fatalf("answered %d", code)
	}
	d.until("another cycle looks", func() bool { return b.cyclesBy(ops.TriggerAlert) == 2 })
	if told := len(b.toldOf(ops.NoticeAlert)); told != 2 || len(b.openIncidents()) != 1 {
		t.Errorf("a second look that finds nothing tells again: %d", told)
	}
	if code := d.told("generic", `{"id":"a","name":"HighLatency","service":"web","status":"resolved"}`); code != http.StatusAccepted {
		t.Fatalf("answered %d", code)
	}
	d.until("the end of the alert closes the incident", func() bool { return len(b.openIncidents()) == 0 })
	contains(t, "status", b.run("status").stdout, "Needs you   nothing")
}

func TestARedServiceWhoseIncidentIsResolvedIsNotForgotten(t *testing.T) {
	t.Parallel()
	url, broken := breakable(t)
	b := climbing(t, agenttest.InOrder(1, looks(), agenttest.Answers(0.01, needsHuman))).configured(watchedWeb(url, ""))
	d := b.ready()
	d.until("the first cycle ends", func() bool { return b.ended(1) })
	breakIt(t, broken)
	d.until("a human is called", func() bool { return len(b.openIncidents()) == 1 })
	first := b.openIncidents()[0]
	d.until("the cycle ends", func() bool { return b.cyclesBy(ops.TriggerProbe) == 1 })
	r := b.run("incidents", "resolve", fmt.Sprint(first.ID), "--reason", "looks fine to me")
	if r.code != 0 {
		t.Fatalf("resolve exits %d: %s", r.code, r.stderr)
	}
	contains(t, "the answer", r.stderr, "is resolved; web is still down by its own probes: the next cycle looks at it, and opens a new incident", "silence the service")
	d.until("another cycle finds it", func() bool { return b.cyclesBy(ops.TriggerProbe) == 2 })
	d.until("a new incident is open", func() bool { open := b.openIncidents(); return len(open) == 1 && open[0].ID != first.ID })

	// The page and the API say the same.
	second := b.openIncidents()[0]
	if status, answer := d.post(fmt.Sprintf("/api/v1/incidents/%d/resolve", second.ID), map[string]any{}); status != http.StatusOK ||
		!strings.Contains(fmt.Sprint(answer["note"]), "web is still down by its own probes") {
		t.Errorf("the API answers %d: %v", status, answer)
	}
	if _, page := d.get(fmt.Sprintf("/incidents/%d?done=resolve", second.ID)); !strings.Contains(page, "web is still down by its own probes") {
		t.Error("the page does not say that the service is still down")
	}
}

func TestRunSaysWhatIsHeldBackBeforeItPays(t *testing.T) {
	t.Parallel()
	b := climbing(t, []agenttest.Play{looks()}).configured("services: [{name: web}]\n")
	if r := b.run("silences", "add", "--service", "web", "--for", "1h", "--reason", "new disk"); r.code != 0 {
		t.Fatalf("silences add exits %d: %s", r.code, r.stderr)
	}
	check := func(what string, r ran) {
		t.Helper()
		if r.code != 0 {
			t.Fatalf("%s exits %d: %s", what, r.code, r.stderr)
		}
		contains(t, what, r.stderr, "held back: service web: silenced by", "new disk", "the cycle runs all the same")
	}
	check("run without a daemon", b.run("run", "look at web"))
	d := b.ready()
	r := b.run("run", "look at web")
	check("run at a daemon", r)
	if strings.Index(r.stderr, "held back") > strings.Index(r.stderr, "is queued") {
		t.Errorf("it says so only after the cycle was queued: %s", r.stderr)
	}
	if status, answer := d.post("/api/v1/cycles", map[string]any{"prompt": "look"}); status != http.StatusAccepted ||
		!strings.Contains(fmt.Sprint(answer["held"]), "new disk") {
		t.Errorf("the API answers %d: %v", status, answer)
	}
	if _, page := d.get("/?queued=1"); !strings.Contains(page, "Agents change nothing where this holds: service web: silenced by") {
		t.Error("the page does not say what is held back")
	}
}

func TestStatusListsWhatItCounts(t *testing.T) {
	t.Parallel()
	b := gated(t)
	b.once(6)
	out := b.run("status").stdout
	contains(t, "status", out, "Needs you   1 approval\n", "approval 1")
	if strings.Contains(out, "incident 1") {
		t.Errorf("it counts none and lists one:\n%s", out)
	}
	same := func(want int) {
		t.Helper()
		var o struct {
			Stats struct {
				Open int `json:"incidents_open"`
			}
			Incidents []struct{ ID int64 }
		}
		must(t, json.Unmarshal([]byte(b.run("status", "-o", "json").stdout), &o))
		if len(o.Incidents) != want || o.Stats.Open != want {
			t.Errorf("%d are counted and %d listed, want %d", o.Stats.Open, len(o.Incidents), want)
		}
	}
	same(0)
	if r := b.run("approvals", "deny", "1", "--reason", "no"); r.code != 0 {
		t.Fatalf("deny exits %d: %s", r.code, r.stderr)
	}
	same(0) // somebody has looked at it, and the no lasts
	if r := b.run("approvals", "deny", "1", "--for", "0"); r.code != 0 {
		t.Fatalf("deny --for 0 exits %d: %s", r.code, r.stderr)
	}
	same(1)
	if r := b.run("incidents", "ack", "1"); r.code != 0 {
		t.Fatalf("ack exits %d: %s", r.code, r.stderr)
	}
	same(0)
}

func TestASpentBudgetSaysWhoseAndWhenItFrees(t *testing.T) {
	t.Parallel()
	tomorrow := func() string {
		return time.Now().UTC().Truncate(24 * time.Hour).Add(24 * time.Hour).Format(time.RFC3339)
	}
	t.Run("of the day", func(t *testing.T) {
		b := climbing(t, []agenttest.Play{looks()}, "CLAUDEOPS_BUDGET_DAY_USD=0.01")
		b.once(0)
		before := tomorrow()
		b.once(7)
		if after := tomorrow(); after != before {
			t.Fatalf("the day has ended meanwhile: %s", after)
		}
		contains(t, "the reason", b.cycle().Cycle.Reason, "today $0.01 of $0.01 are spent or reserved in environment default", "budget starts at "+before)
		if !b.told(ops.NoticeBudget, "The budget of the day is spent") || !b.told(ops.NoticeBudget, "raise budget.day_usd") && !b.told(ops.NoticeBudget, "Raise budget.day_usd") {
			t.Errorf("told are %+v", b.notices())
		}
	})
	t.Run("of the chain", func(t *testing.T) {
		b := climbing(t, []agenttest.Play{finds(1)}, "CLAUDEOPS_BUDGET_CHAIN_USD=0.01")
		b.once(7)
		contains(t, "the reason", b.cycle().Cycle.Reason, "this chain spent $0.01 of $0.01; the next cycle has a budget of its own")
		if !b.told(ops.NoticeBudget, "The budget of a chain is spent") || b.told(ops.NoticeBudget, "next day") {
			t.Errorf("told are %+v", b.notices())
		}
	})
}
