package store_test

import (
	"testing"

	"claudeops/internal/store"
	"claudeops/internal/store/storetest"
	"time"
)

// openFile opens a store that is closed with the test.
func openFile(tb testing.TB, path string) *store.Store {
	tb.Helper()
	s, err := store.Open(tb.Context(), store.Options{Path: path, Clock: func() time.Time { return storetest.Start }})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { closeStore(tb, s) })
	return s
}

func closeStore(tb testing.TB, s *store.Store) {
	tb.Helper()
	if err := s.Close(); err != nil {
		tb.Error(err)
	}
}
