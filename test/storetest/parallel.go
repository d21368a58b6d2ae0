package storetest

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"claudeops/internal/ops"
	"claudeops/internal/store"
)

func parallelCases() []testCase {
	return []testCase{
		{"fifty reservations at once take exactly what is free", fiftyReservations},
		{"who follows a feed misses nothing and sees nothing twice", feedIsFollowed},
		{"one of many hosts gets a cycle", oneHostGetsTheCycle},
		{"one of many hosts gets the slot", oneHostGetsTheSlot},
		{"no output is stored after a takeover", noOutputAfterTakeover},
	}
}

// processes opens the database again, n times.
func (f *Fixture) processes(t *testing.T, n int) []*store.Store {
	t.Helper()
	out := make([]*store.Store, n)
	for i := range out {
		out[i] = f.database(t)
	}
	return out
}

func fiftyReservations(t *testing.T, f *Fixture) {
	session := f.RunningSession(t, "home")
	processes := f.processes(t, 8)
	const each = 50
	services := []string{"web", "db", "mail", "dns"}
	for _, service := range services {
		var allowed, refused atomic.Int64
		var wg sync.WaitGroup
		for i := range each {
			wg.Go(func() {
				judged := f.judged(session, fmt.Sprintf("%s_%d", service, i))
				got, err := processes[i%len(processes)].RecordGuard(t.Context(), f.Owner, judged, restart(service), limits())
				for tries := 0; waitedTooLong(err) && tries < 20; tries++ {
					got, err = processes[i%len(processes)].RecordGuard(t.Context(), f.Owner, judged, restart(service), limits())
				}
				switch {
				case err != nil:
					t.Error(err)
				case got.Allowed:
					allowed.Add(1)
				default:
					refused.Add(1)
				}
			})
		}
		wg.Wait()
		equal(t, service+" allowed", allowed.Load(), 2)
		equal(t, service+" refused", refused.Load(), each-2)
	}
	judged, err := f.Store.GuardDecisions(t.Context(), session.ID)
	must(t, err)
	equal(t, "judgements", len(judged), each*len(services))
}

// waitedTooLong reports whether PostgreSQL gave up because others came first for too long, as on a very busy machine. Nothing was written.
func waitedTooLong(err error) bool {
	e, ok := errors.AsType[*pgconn.PgError](err)
	return ok && e.Code == "55P03"
}

func feedIsFollowed(t *testing.T, f *Fixture) {
	first, err := f.Store.AddEvent(t.Context(), ops.Event{Level: ops.LevelInfo, Kind: "test", Message: "first"})
	must(t, err)
	const writers, each = 8, 25
	processes := f.processes(t, 4)
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for n := range each {
				_, err := processes[w%len(processes)].AddEvent(t.Context(), ops.Event{
					Level: ops.LevelInfo, Kind: "test",
					Message: fmt.Sprintf("%d/%d", w, n),
				})
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	done := make(chan struct{})
	go func() { wg.Wait(); close(done) }()

	seen := map[string]int{}
	after := first
	follow := func() {
		page, err := f.Store.Events(t.Context(), store.EventFilter{After: after, Limit: 7})
		must(t, err)
		for _, e := range page {
			if e.ID <= after {
				t.Errorf("event %d comes after %d", e.ID, after)
			}
			after = e.ID
			seen[e.Message]++
		}
	}
	for writing := true; writing; {
		select {
		case <-done:
			writing = false
		default:
			follow()
		}
	}
	for before := int64(-1); before != after; {
		before = after
		follow()
	}
	equal(t, "events seen", len(seen), writers*each)
	for message, n := range seen {
		if n != 1 {
			t.Errorf("%s was seen %d times", message, n)
		}
	}
}

// hosts registers n hosts, each with a process of its own.
func (f *Fixture) hosts(t *testing.T, n int) []*Fixture {
	t.Helper()
	out := make([]*Fixture, n)
	for i, s := range f.processes(t, n) {
		owner, err := s.RegisterHost(t.Context(), fmt.Sprintf("host-%d", i))
		must(t, err)
		out[i] = &Fixture{Store: s, Owner: owner, At: f.At}
	}
	return out
}

func oneHostGetsTheCycle(t *testing.T, f *Fixture) {
	hosts := f.hosts(t, 4)
	for range 5 {
		id := f.Submit(t, "home")
		won := race(t, len(hosts), ops.ErrConflict, func(i int) error {
			_, err := hosts[i].Store.Claim(t.Context(), hosts[i].Owner, id, Policy(), Start)
			return err
		})
		equal(t, "winners", won, 1)
		cycle, err := f.Store.Cycle(t.Context(), id)
		must(t, err)
		for _, h := range hosts {
			if h.Owner == cycle.Owner {
				h.EndCycle(t, id)
			}
		}
	}
}

func oneHostGetsTheSlot(t *testing.T, f *Fixture) {
	hosts := f.hosts(t, 4)
	var queued []ops.CycleID
	for range 8 {
		queued = append(queued, f.Submit(t, "home"))
	}
	won := race(t, len(queued), ops.ErrSlotBusy, func(i int) error {
		h := hosts[i%len(hosts)]
		_, err := h.Store.Claim(t.Context(), h.Owner, queued[i], Policy(), Start)
		return err
	})
	equal(t, "winners", won, 1)
}

func noOutputAfterTakeover(t *testing.T, f *Fixture) {
	elsewhere := f.database(t)
	const batch = 5000 // storing it takes longer than a takeover
	for round := range 3 {
		session := f.RunningSession(t, fmt.Sprintf("home-%d", round))
		started := make(chan struct{})
		refused := make(chan error, 1)
		stored := int64(0)
		go func() {
			for n := 1; ; n += batch {
				if err := f.Store.AppendTranscript(t.Context(), f.Owner, session.ID, lines(n, batch)); err != nil {
					refused <- err
					return
				}
				stored += batch
				if n == 1 {
					close(started)
				}
			}
		}()
		<-started
		successor := NewFixture(t, elsewhere)
		_, err := elsewhere.Claim(t.Context(), successor.Owner, session.CycleID, Policy(), Start.Add(time.Hour))
		must(t, err)
		found, err := elsewhere.TranscriptCount(t.Context(), session.ID)
		must(t, err)
		wantErr(t, <-refused, ops.ErrFenced)
		left, err := elsewhere.TranscriptCount(t.Context(), session.ID)
		must(t, err)
		equal(t, "lines after the takeover", left, found)
		equal(t, "lines stored", left, stored)
		f.Owner = successor.Owner
	}
}
