package store_test

import (
	"testing"
	"time"

	"claudeops/internal/store"
	"claudeops/test/storetest"
)

func TestConformanceOnSQLite(t *testing.T) { storetest.Run(t, freshFile) }

// TestHostsAtOnceOnSQLite is where goroutines meet: the race detector watches it in every run, and the rest in `make test-all`.
func TestHostsAtOnceOnSQLite(t *testing.T) { storetest.Run(t, freshFile, "hosts at once") }

func freshFile(t *testing.T) storetest.Database {
	t.Helper()
	path := newFile(t)
	return func(t *testing.T) *store.Store {
		t.Helper()
		return openFile(t, path)
	}
}

func newFile(tb testing.TB) string { tb.Helper(); return storetest.NewFile(tb) }

// openFile opens a store that is closed with the test.
func openFile(tb testing.TB, path string) *store.Store {
	tb.Helper()
	s, err := store.Open(tb.Context(), storetest.With(store.Options{
		Path: path, Clock: func() time.Time { return storetest.Start },
		Uptime: func() (string, time.Duration) { return "", 0 }, // the time that a test gives is the time
	}))
	succeeds(tb, err)
	tb.Cleanup(func() { closeStore(tb, s) })
	return s
}

func closeStore(tb testing.TB, s *store.Store) {
	tb.Helper()
	if err := s.Close(); err != nil {
		tb.Error(err)
	}
}
