package river_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"claudeops/internal/engine/river"
	"claudeops/internal/ops"
	"claudeops/test/enginetest"
	"claudeops/test/pgtest"
)

// shipped are the options of a host in service.
func shipped(b *testing.B, url string, h *enginetest.Host) river.Options {
	b.Helper()
	o := options(b, url, h)
	o.Sweep, o.Poll, o.FetchCooldown, o.Pause = 0, 0, 0, 0
	return o
}

// BenchmarkWake measures the time from Submit to Advance on a server that keeps what it acknowledges: on the host that
// was told, and on another one.
func BenchmarkWake(b *testing.B) {
	cluster, err := pgtest.Start(b.Context(), pgtest.Durable)
	must(b, err)
	b.Cleanup(func() { _ = cluster.Close() })
	for _, where := range []string{"here", "elsewhere"} {
		b.Run(where, func(b *testing.B) {
			url := cluster.Database(b)
			names := make([]string, 5)
			for i := range names {
				names[i] = fmt.Sprintf("env-%d", i)
			}
			worker := enginetest.NewHost(names...)
			began := make(chan time.Time)
			worker.Work = func(context.Context, ops.CycleID) error { began <- time.Now(); return nil }
			e := running(b, shipped(b, url, worker))
			if where == "elsewhere" {
				e = running(b, shipped(b, url, worker.Beside("two")))
			}
			var took []time.Duration
			for id := ops.CycleID(1); b.Loop(); id++ {
				worker.Add(ops.Cycle{ID: id, Environment: names[int(id)%len(names)]})
				at := time.Now()
				e.Submit(id)
				took = append(took, (<-began).Sub(at))
				<-time.After(30 * time.Millisecond) // wake-ups come now and then
			}
			slices.Sort(took)
			ms := func(p int) float64 { return float64(took[(len(took)-1)*p/100].Microseconds()) / 1000 }
			b.ReportMetric(ms(50), "p50-ms")
			b.ReportMetric(ms(99), "p99-ms")
			b.ReportMetric(ms(100), "max-ms")
		})
	}
}
