package main

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"claudeops/internal/store"
	"claudeops/test/storetest"
)

// database opens the journal of the box.
func (b *box) database(ctx context.Context) (*store.Store, error) {
	path := filepath.Join(b.state, "claudeops.db")
	return store.OpenReadOnly(ctx, storetest.With(store.Options{Path: path, Clock: time.Now, Logger: slog.New(slog.DiscardHandler)}))
}

// checkDatabase looks for damage.
func (b *box) checkDatabase(ctx context.Context) error {
	s, err := b.database(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = s.Close() }() // it was read only
	if err := s.QuickCheck(ctx); err != nil {
		return fmt.Errorf("check database: %w", err)
	}
	return nil
}
