package watch

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"claudeops/internal/ops"
)

// jobs keeps heartbeats in memory, and counts what is asked.
type jobs struct {
	rows    map[string]ops.Heartbeat
	seq     int64
	queries int
	rhythms map[string]map[string]string
	fail    error
}

func (j *jobs) Heartbeats(_ context.Context, environment string, after int64) ([]ops.Heartbeat, error) {
	j.queries++
	var out []ops.Heartbeat
	for seq := after + 1; seq <= j.seq && j.seq-after < 100; seq++ { // few: in order
		for _, h := range j.rows {
			if h.Seq == seq {
				out = append(out, h)
			}
		}
	}
	if len(out) == 0 && j.seq > after {
		for _, h := range j.rows {
			out = append(out, h)
		}
		out[len(out)-1].Seq = j.seq
	}
	return out, j.fail
}

func (j *jobs) AddHeartbeats(_ context.Context, _ string, added []ops.Heartbeat) error {
	for _, h := range added {
		j.set(h)
	}
	return j.fail
}

func (j *jobs) KeepRhythms(_ context.Context, _ string, rhythms map[string]map[string]string, _ time.Time) error {
	j.rhythms = rhythms
	return j.fail
}

func (j *jobs) set(h ops.Heartbeat) {
	j.seq++
	h.Seq, h.Addressed = j.seq, true
	j.rows[h.Service] = h
}

func beatingOf(t *testing.T, n int, clock ops.Clock) (*Heartbeats, *jobs, *[]ops.Check) {
	t.Helper()
	e := ops.Environment{Name: "home", Policy: ops.Policy{Observe: ops.ObserveProbes}}
	for i := range n {
		e.Probes = append(e.Probes, ops.ProbeSpec{
			Service: fmt.Sprintf("job-%d", i), Name: "heartbeat", Type: ops.ProbeHeartbeat, Every: 24 * time.Hour, Grace: time.Hour,
		})
	}
	store, got := &jobs{rows: map[string]ops.Heartbeat{}}, &[]ops.Check{}
	h := &Heartbeats{
		Store: store, Clock: clock, Logger: slog.New(slog.DiscardHandler),
		Deliver: func(_ context.Context, checks []ops.Check) { *got = append(*got, checks...) },
	}
	if some, err := h.Add(e, func(s ops.ProbeSpec) string { return s.Name }); err != nil || some != (n > 0) {
		t.Fatal(some, err)
	}
	return h, store, got
}

func TestHeartbeatsAreDeliveredWhenTheyChange(t *testing.T) {
	now := time.Date(2026, 3, 28, 12, 0, 0, 0, time.UTC)
	h, store, got := beatingOf(t, 2, func() time.Time { return now })
	defer func() {
		if store.rhythms["job-1"]["heartbeat"] != "24h0m0s" {
			t.Errorf("rhythms %v", store.rhythms)
		}
	}()
	step := func(d time.Duration, want ...string) {
		t.Helper()
		now = now.Add(d)
		*got = nil
		h.Pass(t.Context())
		var said []string
		for _, c := range *got {
			said = append(said, fmt.Sprintf("%s %s", c.Service, c.Status))
		}
		if len(said) != len(want) || len(want) == 1 && said[0] != want[0] {
			t.Errorf("at %s: %v, want %v", now, said, want)
		}
	}
	step(0, "both", "new")
	step(time.Minute)
	store.set(ops.Heartbeat{Service: "job-0", Probe: "heartbeat", Since: now, EndedAt: ops.Ptr(now), Failed: true})
	step(time.Second, "job-0 down")
	step(time.Second)
	store.set(ops.Heartbeat{Service: "job-0", Probe: "heartbeat", Since: now, EndedAt: ops.Ptr(now)})
	step(time.Second, "job-0 healthy")
	for range 23 { // every hour all of them are told, so that none counts as unknown
		step(time.Hour, "both", "again")
	}
	h.environments[0].notified = now
	step(59*time.Minute, "job-1 degraded")
	h.environments[0].notified = now
	step(59*time.Minute, "job-0 degraded")
	h.environments[0].notified = now
	step(time.Minute, "job-1 down")
	store.fail = context.DeadlineExceeded
	*got = nil
	if next := h.Pass(t.Context()); len(*got) != 0 || !next.Equal(now.Add(readAgain)) {
		t.Errorf("without a database: %v, next at %s", *got, next)
	}
}

// Ten thousand jobs that call in time cost one query for each wake, and one round of results each hour.
func TestIdleHeartbeatsCostNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 10_000
		h, store, got := beatingOf(t, n, time.Now)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- h.Run(ctx, nil) }()
		<-time.After(30 * time.Minute)
		synctest.Wait()
		if store.queries > 70 || len(*got) != n {
			t.Errorf("half an hour cost %d queries and %d results", store.queries, len(*got))
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	now := time.Now()
	h, _, _ := beatingOf(t, 10_000, func() time.Time { return now })
	h.Pass(t.Context())
	if allocs := testing.AllocsPerRun(100, func() { h.Pass(t.Context()) }); allocs > 5 {
		t.Errorf("a pass over idle jobs makes %v allocations", allocs)
	}
}
