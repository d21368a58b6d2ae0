package db

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"claudeops/internal/ops"
)

// Errors of opening a database. Their messages name the database and what to do.
var (
	ErrNewer    = errors.New("the database was written by a newer version of claudeops")
	ErrOlder    = errors.New("the database was written by an older version of claudeops")
	ErrForeign  = errors.New("the database belongs to another program: give claudeops one of its own")
	ErrUnmarked = errors.New("this database is from before 0.1.0: move it away or start with an empty one")
	ErrCorrupt  = errors.New("the database is damaged or does not belong to claudeops")
	errReadOnly = errors.New("the database was opened for reading only")
)

const (
	readers      = 4
	closeTimeout = 5 * time.Second
	stateTable   = "store_state" // name and value of what is stored about the database itself
	openFlag     = "open"        // set in stateTable while a process that must stop cleanly uses the database
)

// Schema describes what the database holds. One of its tables is store_state (name, value), and its first migration sets applicationID.
type Schema struct {
	Files  fs.FS   // migrations/NNNNN_name.sql, written for SQLite
	Tables []Table // all tables; a table comes after those that it refers to
}

// Table describes how to copy the rows of a table.
type Table struct {
	Name string
	Key  []string // the primary key; with "id" alone the database numbers the rows
	// SelfReference names a column that may refer to a later row of the same table.
	SelfReference string
}

// Options say which database to open: a file by its path, or one on a PostgreSQL server by its address.
type Options struct {
	Path   string
	URL    string // postgres://user:password@host:5432/name; then Path is empty
	Schema Schema
	Clock  ops.Clock // this machine's
	Logger *slog.Logger
	// Version is that of this program. It is stored, so that an older program can say which one it needs.
	Version string
}

// DB is an open database.
type DB struct {
	dialect dialect
	name    string // the path, or the address without its password
	schema  Schema
	version string
	clock   ops.Clock
	log     *slog.Logger
	writer  *pool // nil when opened for reading only
	reader  *pool
	unclean bool
	pace    Pace // of GiveBack

	mu     sync.Mutex // guards what follows
	marked bool
	closed bool
}

// Open opens the database for writing, creates a missing file and migrates an older schema. On a server the database must exist:
// empty, or with the schema in it.
func Open(ctx context.Context, o Options) (*DB, error) {
	d, err := newDB(o)
	if err != nil {
		return nil, err
	}
	if d.writer, d.reader, err = d.dialect.open(ctx); err != nil {
		return nil, d.dialect.advise(err)
	}
	if err := d.migrate(ctx); err != nil {
		return nil, d.abandon(err)
	}
	if d.unclean, err = d.openFlagSet(ctx); err != nil {
		return nil, d.abandon(err)
	}
	if f, ok := d.dialect.(*sqliteFile); ok {
		if err := f.remember(ctx); err != nil {
			return nil, d.abandon(err)
		}
	}
	return d, nil
}

// OpenReadOnly opens an existing database for reading, also while a daemon uses it. Without the schema in it the error is
// ops.ErrNotFound.
func OpenReadOnly(ctx context.Context, o Options) (*DB, error) {
	d, err := newDB(o)
	if err != nil {
		return nil, err
	}
	if d.reader, err = d.dialect.openReader(ctx); err != nil {
		return nil, d.dialect.advise(err)
	}
	if err := d.requireCurrent(ctx); err != nil {
		return nil, d.abandon(err)
	}
	return d, nil
}

func newDB(o Options) (*DB, error) {
	d := &DB{schema: o.Schema, version: o.Version, clock: o.Clock, log: o.Logger}
	switch {
	case o.URL != "" && o.Path != "":
		return nil, errors.New("open database: both a path and an address are given: give only one of them")
	case o.URL != "":
		p, err := newPostgres(o)
		if err != nil {
			return nil, err
		}
		d.dialect, d.name = p, p.name
	case o.Path != "":
		path, err := filepath.Abs(o.Path)
		if err != nil {
			return nil, fmt.Errorf("open database: %w", err)
		}
		d.dialect, d.name = newSQLite(path, o.Schema, o.Clock, o.Logger), path
	default:
		return nil, errors.New("open database: no path given")
	}
	return d, nil
}

// Name is the path of the file, or the server's address without the password.
func (d *DB) Name() string { return d.name }

// Reader runs single queries that only read.
func (d *DB) Reader() Querier { return d.reader }

// Pool returns the connections to the PostgreSQL server, for other users of the same database; nil on SQLite. They must be done
// with it before Close.
func (d *DB) Pool() *pgxpool.Pool {
	if p, ok := d.dialect.(*postgres); ok {
		return p.pool
	}
	return nil
}

// Listen calls changed after other processes wrote to the database, and once after each connect, because a change may have been
// missed before. It returns when ctx ends.
func (d *DB) Listen(ctx context.Context, changed func(ops.Reach)) error {
	return d.dialect.listen(ctx, changed)
}

// Now is the time by which hosts compare what each of them wrote: the server's, or on SQLite this process's.
func (d *DB) Now(ctx context.Context, tx Querier) (time.Time, error) {
	t, err := d.dialect.now(ctx, tx)
	return ops.Returning(t, err, "read the database's time")
}

// Clock tells that time without asking the database each time. On a server it follows the last answer to Now and does not run backwards
// by small corrections.
func (d *DB) Clock() time.Time { return d.dialect.clock() }

// Skew is how far this machine's clock is ahead of the server's. It is not known for a file.
func (d *DB) Skew() (ahead time.Duration, known bool) { return d.dialect.skew() }

// Present is ErrReplaced when the open file was removed or replaced: nothing that is written reaches the path any more. It is ErrCorrupt
// from when the file was seen to be damaged, until the next start, and ErrUnwritable when the last write
// failed and the file system takes none.
func (d *DB) Present() error { return d.dialect.present() }

// Rescue writes what an open database file holds into a new file, also when its path leads to it no longer.
func (d *DB) Rescue(ctx context.Context, target string) error {
	if d.writer == nil {
		return errReadOnly
	}
	file, err := os.OpenFile(target, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600) // SQLite would let every user read it
	if err == nil {
		err = file.Close()
	}
	if err == nil {
		_, err = d.writer.ExecContext(ctx, `VACUUM INTO ?`, target)
	}
	return ops.Wrapped(err, "rescue database into %s", target)
}

// abandon closes what was opened before err.
func (d *DB) abandon(err error) error {
	return d.dialect.advise(errors.Join(err, d.closePools()))
}

func (d *DB) closePools() error {
	var errs []error
	for _, db := range []*pool{d.reader, d.writer} {
		if db != nil {
			errs = append(errs, db.Close())
		}
	}
	return errors.Join(append(errs, d.dialect.close())...)
}

// Close ends all use of the database. After MarkOpen it also records the clean stop and empties the write-ahead log.
func (d *DB) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil
	}
	d.closed = true
	var errs []error
	if gone := d.dialect.present(); gone != nil {
		errs = append(errs, gone)
	} else if d.marked {
		ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
		defer cancel()
		// Readers first: the log cannot be emptied while one of them still reads from it.
		errs = append(errs, d.reader.Close(), d.clearOpenFlag(ctx), d.dialect.checkpoint(ctx))
	}
	return ops.Wrapped(errors.Join(append(errs, d.closePools())...), "close database %s", d.name)
}

// UncleanStop reports whether the last process that called MarkOpen ended without Close. For a database on a server it is always
// false.
func (d *DB) UncleanStop() bool { return d.unclean }

// recordsOpen reports whether the database itself records that a process uses it. On a server the lease of each host shows that, and the
// server recovers from its own stops.
func (d *DB) recordsOpen() bool { return d.Pool() == nil }

// MarkOpen records that this process uses the database until Close. Commands that only add a row next to a running daemon do not
// call it.
func (d *DB) MarkOpen(ctx context.Context) error {
	if !d.recordsOpen() {
		return nil
	}
	err := d.Write(ctx, "mark_open", func(tx Querier) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO `+stateTable+` (name, value) VALUES (?, ?)
			ON CONFLICT (name) DO UPDATE SET value = excluded.value`, openFlag, Time(d.clock()))
		if err == nil && d.version != "" {
			err = d.putVersion(ctx, tx)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("mark database open: %w", err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.marked = true
	return nil
}

func (d *DB) clearOpenFlag(ctx context.Context) error {
	return d.Write(ctx, "mark_closed", func(tx Querier) error {
		_, err := tx.ExecContext(ctx, `DELETE FROM `+stateTable+` WHERE name = ?`, openFlag)
		return err
	})
}

func (d *DB) openFlagSet(ctx context.Context) (bool, error) {
	if !d.recordsOpen() {
		return false, nil
	}
	var n int
	err := d.writer.QueryRowContext(ctx, `SELECT COUNT(*) FROM `+stateTable+` WHERE name = ?`, openFlag).Scan(&n)
	return n > 0, err
}
