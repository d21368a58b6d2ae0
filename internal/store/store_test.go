package store_test

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"claudeops/internal/store"
	"claudeops/internal/store/storetest"
)

func TestConformanceOnSQLite(t *testing.T) {
	storetest.Run(t, func(t *testing.T) storetest.Database {
		t.Helper()
		path := newFile(t)
		return func(t *testing.T) *store.Store {
			t.Helper()
			return openFile(t, path)
		}
	})
}

// migrated is an empty database, made once: copying it is much faster than making another.
var migrated = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "claudeops-store-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	path := filepath.Join(dir, "claudeops.db")
	s, err := store.Open(context.Background(), store.Options{Path: path})
	if err != nil {
		return nil, err
	}
	if err := s.Close(); err != nil {
		return nil, err
	}
	return os.ReadFile(path)
})

// newFile returns the path of an empty, migrated database.
func newFile(tb testing.TB) string {
	tb.Helper()
	b, err := migrated()
	if err != nil {
		tb.Fatal(err)
	}
	path := filepath.Join(tb.TempDir(), "claudeops.db")
	if err := os.WriteFile(path, b, 0o600); err != nil {
		tb.Fatal(err)
	}
	return path
}

// openFile opens a store that is closed with the test.
func openFile(tb testing.TB, path string) *store.Store {
	tb.Helper()
	s, err := store.Open(tb.Context(), store.Options{
		Path: path, Clock: func() time.Time { return storetest.Start },
		Uptime: func() (string, time.Duration) { return "", 0 }, // the time that a test gives is the time
	})
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
