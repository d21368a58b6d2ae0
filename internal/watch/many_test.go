package watch_test

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"claudeops/internal/notice"
	"claudeops/internal/ops"
	"claudeops/internal/store"
	"claudeops/internal/watch"
	"claudeops/test/storetest"
)

// crowd is an environment with very many services of one group, and everything that the watch started for it.
type crowd struct {
	store   *store.Store
	watch   *watch.Watch
	now     time.Time
	started []ops.CycleID
	log     strings.Builder
}

func newCrowd(t *testing.T) *crowd {
	t.Helper()
	c := &crowd{now: time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC)}
	clock := func() time.Time { return c.now }
	var err error
	if c.store, err = store.Open(t.Context(), storetest.With(store.Options{Path: filepath.Join(t.TempDir(), "claudeops.db"), Clock: clock})); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.store.Close() })
	env := ops.Environment{Name: "home", Policy: ops.Policy{Observe: ops.ObserveProbes}, Watch: ops.Watch{Grouping: ops.Grouping{Window: 30 * time.Second}}}
	for i := range veryMany {
		name := fmt.Sprintf("service-%05d", i)
		env.Policy.Inventory.Services = append(env.Policy.Inventory.Services, ops.Service{Name: name, Group: "shop"})
		env.Probes = append(env.Probes, ops.ProbeSpec{Name: "http", Service: name, FailAfter: 1, RecoverAfter: 1})
	}
	c.watch, err = watch.New(watch.Options{
		Store: c.store.Watch, Cycles: c.store.Journal, People: c.store.People, Environments: []ops.Environment{env}, Describe: func(s ops.ProbeSpec) string { return s.Name }, Clock: clock,
		Start: func(id ops.CycleID) {
			if id != 0 {
				c.started = append(c.started, id)
			}
		},
		Cancel: func(context.Context, ops.CycleID, string) error { return nil },
		Logger: slog.New(slog.NewTextHandler(&c.log, nil)),
	})
	must(t, err)
	must(t, c.watch.Load(t.Context()))
	return c
}

// pass lets the watch work for so long.
func (c *crowd) pass(t *testing.T, length time.Duration) {
	t.Helper()
	for end := c.now.Add(length); c.now.Before(end); c.now = c.now.Add(10 * time.Second) {
		c.watch.Pass(t.Context())
	}
}

// oneCycle checks that one cycle was started for all, with at least so many services in its cause, and that nothing that was written about it is as long as the list.
func (c *crowd) oneCycle(t *testing.T, services int) {
	t.Helper()
	if len(c.started) != 1 {
		t.Fatalf("%d cycles were started", len(c.started))
	}
	causes, err := c.store.Watch.Causes(t.Context(), "home", c.now.Add(-time.Hour))
	if err != nil || len(causes) != 1 || len(causes[0].Services) < services {
		t.Fatalf("%d causes, %v", len(causes), err)
	}
	cycle, err := c.store.Journal.Cycle(t.Context(), c.started[0])
	if err != nil || len(cycle.Prompt) > 64<<10 {
		t.Errorf("the prompt has %d bytes, %v", len(cycle.Prompt), err)
	}
	for line := range strings.Lines(c.log.String()) {
		if len(line) > 2000 {
			t.Errorf("a log line of %d bytes: %.200s", len(line), line)
		}
	}
	events, err := c.store.Journal.Events(t.Context(), store.EventFilter{Limit: 200})
	must(t, err)
	for _, e := range events {
		if len(notice.Words(e).Words()) > 2000 {
			t.Errorf("an event of %d bytes: %.200s", len(notice.Words(e).Words()), notice.Words(e).Words())
		}
	}
	notices, err := c.store.People.NoticeList(t.Context(), store.NoticeFilter{Limit: 200})
	must(t, err)
	for _, n := range notices {
		if len(n.Body) > 8000 {
			t.Errorf("a notice of %d bytes: %.200s", len(n.Body), n.Body)
		}
	}
}

func TestVeryManyServicesThatFailTogetherStartOneCycle(t *testing.T) {
	t.Parallel()
	c := newCrowd(t)
	results := func(status ops.Health) {
		checks := make([]ops.Check, veryMany)
		for i := range checks {
			checks[i] = ops.Check{
				At: c.now, Environment: "home", Purpose: ops.ProbeWatch, Service: fmt.Sprintf("service-%05d", i), Probe: "http", Type: "http",
				Status: status,
			}
		}
		c.watch.Deliver(t.Context(), checks)
	}
	results(ops.Healthy)
	c.now = c.now.Add(time.Minute)
	results(ops.Down)
	c.pass(t, time.Minute)
	c.oneCycle(t, veryMany)
	results(ops.Healthy)
	c.pass(t, 30*time.Second)
	causes, err := c.store.Watch.Causes(t.Context(), "home", c.now.Add(-time.Hour))
	if err != nil || len(causes) != 1 || causes[0].ResolvedAt == nil {
		t.Errorf("the cause is not over: %d, %v", len(causes), err)
	}
	c.oneCycle(t, veryMany)
}

func TestAStormOfAlertsStartsOneCycle(t *testing.T) {
	t.Parallel()
	c := newCrowd(t)
	for i := 0; i < veryMany; i += 1000 {
		var alerts []ops.Alert
		for n := i; n < i+1000; n++ {
			alerts = append(alerts, ops.Alert{
				Environment: "home", Source: "alertmanager", Fingerprint: fmt.Sprintf("%08x", n), Status: ops.AlertFiring, Level: ops.LevelCritical,
				Name: "Down", Service: fmt.Sprintf("service-%05d", n), Summary: "it does not answer", LastAt: c.now,
			})
		}
		must(t, c.store.Watch.AddAlerts(t.Context(), alerts))
	}
	c.pass(t, 4*time.Minute)
	if left, err := c.store.Watch.PendingAlerts(t.Context(), 1); err != nil || len(left) > 0 {
		t.Fatalf("alerts are left: %d, %v", len(left), err)
	}
	c.oneCycle(t, veryMany/20) // those that came later belong to the same group
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}
