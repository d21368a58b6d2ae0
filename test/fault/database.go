package main

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"claudeops/internal/store"
)

// database is where the journal of a box is kept.
type database interface {
	// environ is what the program under trial is told of it.
	environ() []string
	// open opens it for reading, beside a running program.
	open(ctx context.Context) (*store.Store, error)
	// check reads all of it and reports damage.
	check(ctx context.Context) error
	// drop removes what is kept outside the folder of the box.
	drop() error
}

// sqliteFile is a database in the state folder.
type sqliteFile struct{ state string }

func (d sqliteFile) path() string { return filepath.Join(d.state, "claudeops.db") }

func (sqliteFile) environ() []string { return nil }

func (d sqliteFile) open(ctx context.Context) (*store.Store, error) {
	return store.OpenReadOnly(ctx, store.Options{Path: d.path(), Clock: time.Now, Logger: slog.New(slog.DiscardHandler)})
}

func (d sqliteFile) check(ctx context.Context) (err error) {
	s, err := d.open(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = s.Close() }() // it was read only
	if err := s.QuickCheck(ctx); err != nil {
		return fmt.Errorf("check database: %w", err)
	}
	return nil
}

func (sqliteFile) drop() error { return nil }

// copyOf is a copy of a database, under a name of its own.
type copyOf struct {
	sqliteFile
	file string
}

func (d copyOf) open(ctx context.Context) (*store.Store, error) {
	return store.OpenReadOnly(ctx, store.Options{Path: d.file, Clock: time.Now, Logger: slog.New(slog.DiscardHandler)})
}
