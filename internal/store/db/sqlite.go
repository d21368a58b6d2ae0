package db

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/pressly/goose/v3"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"claudeops/internal/ops"
)

// sqliteFile is a database in a file.
type sqliteFile struct {
	path           string
	schema         Schema
	host           ops.Clock
	log            *slog.Logger
	checkpoints    *checkpoints
	sound          soundness
	writer, reader *pool
	opened         []openFile  // to notice when they are replaced
	refused        atomic.Bool // the file system refused the last write
}

// openFile is a file of the database as it was when it was opened.
type openFile struct {
	path string
	info os.FileInfo
}

func newSQLite(path string, schema Schema, clock ops.Clock, log *slog.Logger) *sqliteFile {
	return &sqliteFile{
		path: path, schema: schema, host: clock, log: log, checkpoints: &checkpoints{path: path},
	}
}

func (f *sqliteFile) open(ctx context.Context) (writer, reader *pool, err error) {
	// The file is created here because SQLite would let every user read it; its side files get the same mode.
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
	f.writer = &pool{DB: db, note: f.sound.note}
	if f.reader, err = openReaders(f.path); err != nil {
		return nil, nil, errors.Join(err, db.Close())
	}
	f.reader.note = f.sound.note
	return f.writer, f.reader, nil
}

func (f *sqliteFile) openReader(ctx context.Context) (reader *pool, err error) {
	if _, err := os.Stat(f.path); errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: 'claudeops serve' creates it; if it is elsewhere, name your configuration with --config", ops.ErrNotFound)
	} else if err != nil {
		return nil, err
	}
	if f.reader, err = openReaders(f.path); err != nil {
		return nil, err
	}
	if err := requireOurFile(ctx, f.reader); err != nil {
		return nil, errors.Join(err, f.reader.Close())
	}
	return f.reader, nil
}

func (f *sqliteFile) close() error { return errors.Join(f.checkpoints.close(), f.sound.close()) }

func (f *sqliteFile) begin(ctx context.Context) (transaction, error) {
	tx, err := f.writer.BeginTx(ctx, nil)
	if err != nil {
		return transaction{}, err
	}
	commit := func() error { //nolint:contextcheck // a checkpoint goes on when the caller is gone
		err := tx.Commit()
		f.refused.Store(sqliteRefused(err))
		if err == nil {
			f.checkpoints.committed()
		}
		return err
	}
	return transaction{sqlTx{tx, false}, commit, tx.Rollback, nil}, nil
}

// A file has one writer, so all write transactions are the same.
func (f *sqliteFile) beginUnordered(ctx context.Context) (transaction, error) { return f.begin(ctx) }

func (f *sqliteFile) beginIn(ctx context.Context, _ Scope) (transaction, error) { return f.begin(ctx) }

func (f *sqliteFile) beginUrgent(ctx context.Context) (transaction, error) { return f.begin(ctx) }

func (f *sqliteFile) beginLong(ctx context.Context, readOnly bool) (transaction, error) {
	if readOnly {
		return f.snapshot(ctx)
	}
	return f.begin(ctx)
}

func (f *sqliteFile) snapshot(ctx context.Context) (transaction, error) {
	tx, err := f.reader.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return transaction{}, err
	}
	return transaction{sqlTx{tx, false}, tx.Commit, tx.Rollback, nil}, nil
}

// now is the time of this machine: all processes that use the file run on it.
func (f *sqliteFile) now(context.Context, Querier) (time.Time, error) { return f.host().UTC(), nil }

func (f *sqliteFile) clock() time.Time { return f.host() }

func (f *sqliteFile) skew() (time.Duration, bool) { return 0, false }

// remember notes which files are open. The write-ahead log exists from the first use of the writer until it is closed.
func (f *sqliteFile) remember(ctx context.Context) error {
	// After an unclean stop the log does not say how much of it a checkpoint has copied: this one does.
	if _, _, err := checkpoint(ctx, f.writer.DB, "PASSIVE"); err != nil {
		return err
	}
	if err := f.sound.open(ctx, f.path); err != nil {
		return fmt.Errorf("remember the open file: %w", err)
	}
	for _, path := range []string{f.path, f.path + "-wal"} {
		info, err := os.Stat(path)
		if err != nil {
			return fmt.Errorf("remember the open file: %w", err)
		}
		f.opened = append(f.opened, openFile{path, info})
	}
	return nil
}

func (f *sqliteFile) present() error {
	for _, o := range f.opened {
		info, err := os.Stat(o.path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return fmt.Errorf("%w: %s does not exist any more", ErrReplaced, o.path)
		case err != nil:
			return fmt.Errorf("look for the database file: %w", err)
		case !os.SameFile(info, o.info):
			return fmt.Errorf("%w: %s is another file now", ErrReplaced, o.path)
		}
	}
	if err := f.sound.damage(f.check); err != nil {
		return fmt.Errorf("%s: %w", f.path, err)
	}
	return f.writable()
}

func (f *sqliteFile) note(err error) error { return f.sound.note(err) }

// writable tries the file system after a write to the database failed. A kernel that has found an error in a file system refuses every
// write from then on, and may still call it writable.
func (f *sqliteFile) writable() error {
	if !f.refused.Load() {
		return nil
	}
	file, err := os.CreateTemp(filepath.Dir(f.path), ".claudeops-write-")
	if err == nil {
		err = errors.Join(file.Sync(), file.Close(), os.Remove(file.Name()))
	}
	if err == nil {
		f.refused.Store(false)
	}
	return unwritable(err)
}

// unwritable names a file system that takes no writes. A full one is told otherwise.
func unwritable(err error) error {
	if errors.Is(err, syscall.EROFS) || errors.Is(err, syscall.EIO) {
		return fmt.Errorf("%w: %w", ErrUnwritable, err)
	}
	return nil
}

// sqliteRefused reports whether the file system refused a write.
func sqliteRefused(err error) bool {
	found := code(err) & 0xff
	return found == sqlite3.SQLITE_IOERR || found == sqlite3.SQLITE_READONLY
}

// listen never calls changed: only one daemon writes to the file.
func (f *sqliteFile) listen(ctx context.Context, _ func(ops.Reach)) error {
	<-ctx.Done()
	return nil
}

func (f *sqliteFile) migrate(ctx context.Context) error {
	files, err := fs.Sub(f.schema.Files, "migrations")
	if err != nil {
		return err
	}
	return applyMigrations(ctx, goose.DialectSQLite3, f.writer.DB, files, f.log)
}

// advise names the file and, for a damaged one, what to do.
func (f *sqliteFile) advise(err error) error {
	err = asDamage(err)
	switch {
	case errors.Is(err, ErrUnmarked):
		return fmt.Errorf("%s: %w", f.path, err)
	case errors.Is(err, ErrCorrupt):
		return fmt.Errorf("open database %s: %w: move the file away or restore a backup, then start again", f.path, err)
	}
	return fmt.Errorf("open database %s: %w", f.path, err)
}

// requireOurFile reads the mark of a file.
func requireOurFile(ctx context.Context, q Querier) error {
	var mark int64
	var tables bool
	err := q.QueryRowContext(ctx, `SELECT application_id, EXISTS (SELECT 1 FROM sqlite_master
		WHERE type = 'table' AND name <> 'goose_db_version' AND name NOT LIKE 'sqlite!_%' ESCAPE '!') FROM pragma_application_id`).
		Scan(&mark, &tables)
	if err != nil {
		return err
	}
	return requireOurs(ctx, q, mark, tables)
}

// busyTimeout is how long one process waits for another.
const busyTimeout = 5 * time.Second

func busyPragma() string { return fmt.Sprintf("busy_timeout(%d)", busyTimeout.Milliseconds()) }

// openWriter opens the one connection that writes. Its transactions take the write lock when they begin: one that reads first and
// writes later could be refused in between.
func openWriter(ctx context.Context, path string, fresh bool) (*sql.DB, error) {
	pragmas := []string{
		busyPragma(), "synchronous(FULL)", "foreign_keys(1)", fmt.Sprintf("wal_autocheckpoint(%d)", ownCheckpoint),
	}
	if fresh { // on an existing file it would cost a write at each start and have no effect until Vacuum
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
	if err := requireOurFile(ctx, &pool{DB: db}); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	if err := logAhead(ctx, db); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}

// logAhead switches the file to write-ahead logging, which it keeps. When two processes do so with a new file, one of them gets "busy" at
// once, whatever busy_timeout is, so this retries for as long as busy_timeout.
func logAhead(ctx context.Context, db *sql.DB) error {
	ctx, cancel := context.WithTimeoutCause(ctx, busyTimeout, errors.New("another process keeps the database locked"))
	defer cancel()
	for {
		_, err := db.ExecContext(ctx, `PRAGMA journal_mode = WAL`)
		if !isBusy(err) {
			return err
		}
		if !ops.Pause(ctx, busyTimeout/500) {
			return fmt.Errorf("%w: %w", context.Cause(ctx), err)
		}
	}
}

func openReaders(path string) (*pool, error) {
	db, err := openPool(path, url.Values{
		"_pragma": {busyPragma(), "query_only(1)"},
		"_dqs":    {"0"},
		// Never creates the file and never writes to it.
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
	// A URL keeps a space, '?' or '%' in the path part of the path.
	dsn := url.URL{Scheme: "file", OmitHost: true, Path: path, RawQuery: query.Encode()}
	return sql.Open("sqlite", dsn.String())
}

// checkpoint moves the write-ahead log into the database file. If another process still reads, the log stays; it is as safe as
// the file.
func (f *sqliteFile) checkpoint(ctx context.Context) error {
	if err := f.checkpoints.close(); err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	if _, err := f.writer.ExecContext(ctx, `PRAGMA busy_timeout = 500`); err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	if _, err := f.writer.ExecContext(ctx, `PRAGMA wal_checkpoint(TRUNCATE)`); err != nil && !isBusy(err) {
		return fmt.Errorf("checkpoint: %w", err)
	}
	return nil
}

func (f *sqliteFile) lastNumber(ctx context.Context, q Querier, table string) (int64, error) {
	return One(ctx, q, ScanInt, `SELECT COALESCE(MAX(seq), 0) FROM sqlite_sequence WHERE name = ?`, table)
}

func (f *sqliteFile) setLastNumber(ctx context.Context, q Querier, table string, last int64) error {
	if _, err := q.ExecContext(ctx, `DELETE FROM sqlite_sequence WHERE name = ?`, table); err != nil {
		return err
	}
	_, err := q.ExecContext(ctx, `INSERT INTO sqlite_sequence (name, seq) VALUES (?, ?)`, table, last)
	return err
}

// sqliteMissingTable reports that a statement which is right does not fit the tables.
func sqliteMissingTable(err error) bool { return code(err) == sqlite3.SQLITE_ERROR }

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

// code is SQLite's extended result code, 0 for other errors.
func code(err error) int {
	if e, ok := errors.AsType[*sqlite.Error](err); ok {
		return e.Code()
	}
	return 0
}
