package storetest

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"claudeops/internal/store"
)

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

// NewFile returns the path of an empty SQLite database with today's tables. It goes with the test.
func NewFile(tb testing.TB) string {
	tb.Helper()
	raw, err := migrated()
	if err != nil {
		tb.Fatal(err)
	}
	path := filepath.Join(tb.TempDir(), "claudeops.db")
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		tb.Fatal(err)
	}
	return path
}
