package store_test

import (
	"fmt"
	"testing"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/store/db"
	"claudeops/test/pgtest"
	"claudeops/test/storetest"
)

// Most round trips of a hop are waited for, one after the other, while no agent runs.
func TestAHopTakesFewRoundTrips(t *testing.T) {
	address := pgtest.URL(t)
	proxy, err := pgtest.NewProxy(t.Context(), address, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = proxy.Close() })
	f := storetest.NewFixture(t, openServer(t, proxy.Address(address)))
	trips := func(call func()) int64 {
		before := proxy.Trips()
		call()
		return proxy.Trips() - before
	}
	var commit, start, note int64
	for n := range 6 { // the first ones prepare the statements
		session := f.RunningSession(t, fmt.Sprintf("env-%d", n))
		commit = trips(func() {
			next := f.Commit(t, f.Escalation(session, 1)).Journal.Last()
			start = trips(func() {
				_, err := f.Store.StartSession(t.Context(), f.Owner, next.ID, "planned", f.At, ops.BudgetAsk{Want: 1, DayLimit: 10})
				if err != nil {
					t.Fatal(err)
				}
			})
			note = trips(func() {
				if err := f.Store.NoteProcess(t.Context(), f.Owner, next.ID, 7, "then"); err != nil {
					t.Fatal(err)
				}
			})
		}) - start - note
	}
	t.Logf("a commit takes %d round trips, a start %d, a process %d", commit, start, note)
	if commit > 3 || start > 3 || note > 2 {
		t.Errorf("a commit takes %d round trips, a start %d, a process %d; want at most 3, 3 and 2", commit, start, note)
	}
}

func TestEnvironmentsDoNotWaitForEachOther(t *testing.T) {
	address := pgtest.URL(t)
	f := storetest.NewFixture(t, openServer(t, address))
	holder := connect(t, address)
	for _, statement := range []string{
		`BEGIN`, fmt.Sprintf(`SELECT pg_advisory_xact_lock_shared(%d), pg_advisory_xact_lock(hashtextextended('home', %d))`, db.WriteLock, db.WriteLock),
	} {
		if _, err := holder.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	f.RunningSession(t, "office") // it does not wait
	started, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		close(started)
		_, err := f.Store.SubmitCycle(t.Context(), ops.NewCycle{Environment: "home"})
		ended <- err
	}()
	<-started
	select {
	case err := <-ended:
		t.Fatalf("it did not wait for its environment (%v)", err)
	case <-time.After(300 * time.Millisecond):
	}
	if _, err := holder.Exec(t.Context(), `COMMIT`); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
}
