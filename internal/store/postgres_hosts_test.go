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
		_, err := f.Store.Journal.SubmitCycle(t.Context(), ops.NewCycle{Environment: "home"})
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
	succeeds(t, <-ended)
}
