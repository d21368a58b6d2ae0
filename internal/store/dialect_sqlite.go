package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/pressly/goose/v3"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"claudeops/internal/ops"
)

// What only SQLite says or needs stands in this file.

// sqliteFile is a database in a file.
type sqliteFile struct {
	path           string
	clock          ops.Clock
	statements     *statements
	writer, reader *pool
}

func newSQLite(path string, clock ops.Clock) *sqliteFile {
	return &sqliteFile{path: path, clock: clock, statements: newStatements()}
}

func (f *sqliteFile) open(ctx context.Context) (writer, reader *pool, err error) {
	// The file is made here because the database would let everybody read it; its side files take over its mode.
	file, err := os.OpenFile(f.path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: check that its folder exists and that this user may write there", err)
	}
	info, err := file.Stat()
	if err := errors.Join(err, file.Close()); err != nil {
		return nil, nil, err
	}
	db, err := openWriter(ctx, f.path, info.Size() == 0)
	if err != nil {
		return nil, nil, err
	}
	f.writer = &pool{DB: db}
	if f.reader, err = openReaders(f.path); err != nil {
		return nil, nil, errors.Join(err, db.Close())
	}
	return f.writer, f.reader, nil
}

func (f *sqliteFile) look(context.Context) (reader *pool, err error) {
	if _, err := os.Stat(f.path); errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: start claudeops once to create it", ops.ErrNotFound)
	} else if err != nil {
		return nil, err
	}
	f.reader, err = openReaders(f.path)
	return f.reader, err
}

func (f *sqliteFile) close() error { return f.statements.close() }

func (f *sqliteFile) begin(ctx context.Context) (transaction, error) {
	f.statements.prepare(ctx, f.writer.DB)
	tx, err := f.writer.BeginTx(ctx, nil)
	if err != nil {
		return transaction{}, err
	}
	return transaction{newCachedTx(tx, f.statements), tx.Commit, tx.Rollback, nil}, nil
}

// beside and quiet are no different: the file has one writer.
func (f *sqliteFile) beside(ctx context.Context) (transaction, error) { return f.begin(ctx) }
func (f *sqliteFile) quiet(ctx context.Context) (transaction, error)  { return f.begin(ctx) }

func (f *sqliteFile) snapshot(ctx context.Context) (transaction, error) {
	tx, err := f.reader.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return transaction{}, err
	}
	return transaction{tx, tx.Commit, tx.Rollback, nil}, nil
}

// now is the machine's own time: all processes of the file are on it.
func (f *sqliteFile) now(context.Context, querier) (time.Time, error) { return f.clock().UTC(), nil }

func (f *sqliteFile) tell(context.Context) {}

// listen has nobody to listen to: one daemon owns the file, and it knows what it writes.
func (f *sqliteFile) listen(ctx context.Context, _ func()) error {
	<-ctx.Done()
	return nil
}

func (f *sqliteFile) migrate(ctx context.Context, log *slog.Logger) error {
	files, err := fs.Sub(migrationFiles, "migrations")
	if err != nil {
		return err
	}
	return applyMigrations(ctx, goose.DialectSQLite3, f.writer.DB, files, log)
}

// advise names the file and, for a damaged one, the way out.
func (f *sqliteFile) advise(err error) error {
	if isCorrupt(err) {
		err = fmt.Errorf("%w (%w)", ErrCorrupt, err)
	}
	if errors.Is(err, ErrCorrupt) {
		return fmt.Errorf("open database %s: %w: move the file away or restore a backup, then start again", f.path, err)
	}
	return fmt.Errorf("open database %s: %w", f.path, err)
}

func (f *sqliteFile) marked() bool { return true }

func (f *sqliteFile) rest(ctx context.Context) error { return checkpoint(ctx, f.writer.DB) }

func (f *sqliteFile) check(ctx context.Context) error {
	found, err := list(ctx, f.reader, scanString, `PRAGMA quick_check(10)`)
	switch {
	case isCorrupt(err):
		return fmt.Errorf("%w (%w)", ErrCorrupt, err)
	case err != nil:
		return err
	case len(found) != 1 || found[0] != "ok":
		return fmt.Errorf("%w: %s", ErrCorrupt, strings.Join(found, "; "))
	}
	return nil
}

// foreign looks for anything but the tables that the migration itself makes first.
func (f *sqliteFile) foreign(ctx context.Context, q querier, version int64) (bool, error) {
	if version != 0 {
		return false, nil
	}
	var n int
	err := q.QueryRowContext(ctx, `SELECT COUNT(*) FROM sqlite_master
		WHERE type = 'table' AND name <> 'goose_db_version' AND name NOT LIKE 'sqlite!_%' ESCAPE '!'`).Scan(&n)
	return n > 0, err
}

// busyTimeout is how long one process waits for another.
const busyTimeout = 5 * time.Second

func busyPragma() string { return fmt.Sprintf("busy_timeout(%d)", busyTimeout.Milliseconds()) }

// openWriter opens the one connection that writes. Its transactions take the write lock at their start: one that read
// first and wrote later could be refused in the middle.
func openWriter(ctx context.Context, path string, fresh bool) (*sql.DB, error) {
	pragmas := []string{busyPragma(), "journal_mode(WAL)", "synchronous(FULL)", "foreign_keys(1)"}
	if fresh { // an older one would be written to each time, and changes only with Vacuum
		pragmas = slices.Insert(pragmas, 1, "auto_vacuum(incremental)")
	}
	db, err := openPool(path, url.Values{
		"_pragma": pragmas,
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

func openReaders(path string) (*pool, error) {
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
	return &pool{DB: db}, nil
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

func sqliteMissingTable(err error) bool {
	return code(err) == sqlite3.SQLITE_ERROR && strings.Contains(err.Error(), "no such table")
}

func sqliteUnique(err error) bool {
	switch code(err) {
	case sqlite3.SQLITE_CONSTRAINT_UNIQUE, sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY:
		return true
	}
	return false
}

func sqliteCorrupt(err error) bool {
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
