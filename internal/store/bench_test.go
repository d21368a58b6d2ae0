package store_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/store"
	"claudeops/test/pgtest"
	"claudeops/test/storetest"
)

// BenchmarkAppendTranscript stores 100,000 lines of 320 bytes in batches of 500 and reports the processor time of all.
func BenchmarkAppendTranscript(b *testing.B) {
	benchmarkAppend(b, storetest.NewFixture(b, openFile(b, filepath.Join(b.TempDir(), "claudeops.db"))))
}

// BenchmarkAppendTranscriptOnServer is BenchmarkAppendTranscript on a server that keeps what it has acknowledged.
func BenchmarkAppendTranscriptOnServer(b *testing.B) {
	benchmarkAppend(b, storetest.NewFixture(b, openServer(b, durableServer(b))))
}

func benchmarkAppend(b *testing.B, f *storetest.Fixture) {
	b.Helper()
	const total, batch = 100_000, 500
	text := strings.Repeat("x", 320)
	lines := make([]ops.Line, batch)
	var cpu time.Duration
	for b.Loop() {
		session := f.RunningSession(b, "home")
		before := cpuTime(b)
		for first := range total / batch {
			for i := range lines {
				lines[i] = ops.Line{Seq: int64(first*batch + i + 1), At: storetest.Start, Text: text}
			}
			succeeds(b, f.Store.AppendTranscript(b.Context(), f.Owner, session.ID, lines))
		}
		cpu += cpuTime(b) - before
		f.EndCycle(b, session.CycleID)
	}
	b.ReportMetric(cpu.Seconds()/float64(b.N), "cpu-s/op")
}

// BenchmarkCommit ends one tier and queues the next, with decision, events and notice.
func BenchmarkCommit(b *testing.B) {
	benchmarkCommit(b, storetest.NewFixture(b, openFile(b, filepath.Join(b.TempDir(), "claudeops.db"))))
}

// BenchmarkCommitOnServer is BenchmarkCommit on a server that keeps what it has acknowledged.
func BenchmarkCommitOnServer(b *testing.B) {
	benchmarkCommit(b, storetest.NewFixture(b, openServer(b, durableServer(b))))
}

// durableServer is a new database on a server of its own.
func durableServer(b *testing.B) string {
	b.Helper()
	c, err := pgtest.Start(b.Context(), pgtest.Durable)
	succeeds(b, err)
	b.Cleanup(func() { _ = c.Close() })
	return c.Database(b)
}

func benchmarkCommit(b *testing.B, f *storetest.Fixture) {
	b.Helper()
	cycle := f.Claim(b, "home").Cycle.ID
	claimed := f.Queue(b, cycle, nil, 1)
	facts := fmt.Appendf(nil, `{"at":%q,"step":%q}`, storetest.Start.Format(time.RFC3339), strings.Repeat("x", 2<<10))
	// A journal of three sessions, like that of a full chain.
	attempt := 1
	for b.Loop() {
		last := claimed.Journal.Last()
		attempt++
		t := f.Escalation(*last, attempt)
		t.Facts = facts
		var err error
		if claimed, err = f.Store.Commit(b.Context(), f.Owner, t); err != nil {
			b.Fatal(err)
		}
		if len(claimed.Journal.Sessions) == 3 {
			b.StopTimer()
			f.EndCycle(b, cycle)
			f.At = f.At.Add(time.Hour)
			cycle = f.Claim(b, "home").Cycle.ID
			claimed, attempt = f.Queue(b, cycle, nil, 1), 1
			b.StartTimer()
		}
	}
}

// BenchmarkOpen opens a database that needs no migration.
func BenchmarkOpen(b *testing.B) {
	path := filepath.Join(b.TempDir(), "claudeops.db")
	closeStore(b, openFile(b, path))
	for b.Loop() {
		s, err := store.Open(b.Context(), store.Options{Path: path})
		succeeds(b, err)
		closeStore(b, s)
	}
}

// BenchmarkLatestChecks reads 40 probes out of 200,000 results.
func BenchmarkLatestChecks(b *testing.B) {
	s := openFile(b, filepath.Join(b.TempDir(), "claudeops.db"))
	var checks []ops.Check
	for round := range 5_000 {
		for i := range 40 {
			checks = append(checks, ops.Check{
				At: storetest.Start.Add(time.Duration(round) * time.Minute), Environment: "home", Purpose: ops.ProbeWatch,
				Service: fmt.Sprintf("service-%d", i), Probe: "GET http://127.0.0.1/", Type: ops.CheckHTTP, Status: ops.Healthy,
			})
		}
	}
	succeeds(b, s.AddChecks(b.Context(), checks))
	for b.Loop() {
		got, err := s.LatestChecks(b.Context(), "")
		if err != nil || len(got) != 40 {
			b.Fatal(len(got), err)
		}
	}
}

func cpuTime(tb testing.TB) time.Duration {
	tb.Helper()
	var u syscall.Rusage
	succeeds(tb, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
