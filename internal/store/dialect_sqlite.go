package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

// What only SQLite says or needs stands in this file.

// busyTimeout is how long one process waits for another.
const busyTimeout = 5 * time.Second

func busyPragma() string { return fmt.Sprintf("busy_timeout(%d)", busyTimeout.Milliseconds()) }

// openWriter opens the one connection that writes. Its transactions take the write lock at their start: one that read
// first and wrote later could be refused in the middle.
func openWriter(ctx context.Context, path string) (*sql.DB, error) {
	db, err := openPool(path, url.Values{
		"_pragma": {busyPragma(), "journal_mode(WAL)", "synchronous(FULL)", "foreign_keys(1)"},
		"_txlock": {"immediate"},
		"_dqs":    {"0"},
	})
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	if err := connect(ctx, db); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}

// connect makes the first connection. Two processes that both turn a new file to write-ahead logging get in each other's
// way, and busy_timeout does not cover that, so it is tried again for as long.
func connect(ctx context.Context, db *sql.DB) error {
	ctx, cancel := context.WithTimeoutCause(ctx, busyTimeout, errors.New("another process keeps the database locked"))
	defer cancel()
	for {
		err := db.PingContext(ctx)
		if !isBusy(err) {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", context.Cause(ctx), err)
		case <-time.After(busyTimeout / 500):
		}
	}
}

func openReaders(path string) (*sql.DB, error) {
	db, err := openPool(path, url.Values{
		"_pragma": {busyPragma(), "query_only(1)"},
		"_dqs":    {"0"},
		// Never creates a file, and never writes to it.
		"mode": {"ro"},
	})
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(readers)
	db.SetMaxIdleConns(readers)
	return db, nil
}

func openPool(path string, query url.Values) (*sql.DB, error) {
	// A URL, so that a blank, '?' or '%' in the path stays part of the path.
	dsn := url.URL{Scheme: "file", OmitHost: true, Path: path, RawQuery: query.Encode()}
	return sql.Open("sqlite", dsn.String())
}

// checkpoint moves the write-ahead log into the database file. Somebody else still reading is no error: everything
// committed is safe in the log as well.
func checkpoint(ctx context.Context, db *sql.DB) error {
	if _, err := db.ExecContext(ctx, `PRAGMA busy_timeout = 500`); err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	if _, err := db.ExecContext(ctx, `PRAGMA wal_checkpoint(TRUNCATE)`); err != nil && !isBusy(err) {
		return fmt.Errorf("checkpoint: %w", err)
	}
	return nil
}

func quickCheck(ctx context.Context, db *sql.DB) error {
	found, err := list(ctx, db, scanString, `PRAGMA quick_check(10)`)
	if err != nil {
		return err
	}
	if len(found) != 1 || found[0] != "ok" {
		return fmt.Errorf("%w: %s", ErrCorrupt, strings.Join(found, "; "))
	}
	return nil
}

// hasTables reports whether the database holds anything but the tables that the migration itself makes first.
func hasTables(ctx context.Context, q querier) (bool, error) {
	var n int
	err := q.QueryRowContext(ctx, `SELECT COUNT(*) FROM sqlite_master
		WHERE type = 'table' AND name <> 'goose_db_version' AND name NOT LIKE 'sqlite!_%' ESCAPE '!'`).Scan(&n)
	return n > 0, err
}

func isMissingTable(err error) bool {
	return code(err) == sqlite3.SQLITE_ERROR && strings.Contains(err.Error(), "no such table")
}

func isUnique(err error) bool {
	switch code(err) {
	case sqlite3.SQLITE_CONSTRAINT_UNIQUE, sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY:
		return true
	}
	return false
}

func isCorrupt(err error) bool {
	switch code(err) & 0xff {
	case sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT:
		return true
	}
	return false
}

func isBusy(err error) bool { return code(err)&0xff == sqlite3.SQLITE_BUSY }

// code is SQLite's extended result code, 0 for any other error.
func code(err error) int {
	if e, ok := errors.AsType[*sqlite.Error](err); ok {
		return e.Code()
	}
	return 0
}
