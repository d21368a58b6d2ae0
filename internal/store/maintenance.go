package store

import (
	"context"
	"log/slog"
	"time"

	"claudeops/internal/store/db"
)

// Backup is a copy of a database in one file.
type Backup = db.Backup

// Copied is a table that was copied and compared.
type Copied = db.Copied

// Flaw is something in a database that is wrong.
type Flaw = db.Flaw

// BackUp writes a complete and checked copy of a database file, also while a daemon uses it. An existing target is
// ops.ErrConflict unless it may be replaced.
func BackUp(ctx context.Context, database, target string, replace bool) (Backup, error) {
	return schema().BackUp(ctx, database, target, replace)
}

// Pending is what an upgrade of a database would do.
type Pending = db.Pending

// FindPending tells what Open would migrate, and changes nothing.
func FindPending(ctx context.Context, o Options) (Pending, error) {
	return db.FindPending(ctx, db.Options{
		Path: o.Path, URL: o.URL, Schema: schema(), Clock: time.Now,
		Logger: slog.New(slog.DiscardHandler), Version: o.Version,
	})
}

// Examine reads a whole database file that is not in use, and reports damage and its schema version.
func Examine(ctx context.Context, path string) (Backup, error) { return schema().Examine(ctx, path) }

// Restore replaces a database that is not in use by a backup, and returns the path to which the former database was renamed; ""
// where there was none.
func Restore(ctx context.Context, backup, database string) (kept string, err error) {
	return schema().Restore(ctx, backup, database)
}

// Copy copies a whole journal into an empty database: everything or nothing. Neither may be in use.
func Copy(ctx context.Context, from, to *Store, progress func(table string, rows int64)) ([]Copied, error) {
	return db.Copy(ctx, from.db, to.db, progress)
}

// Damaged reports whether an error means that the database itself is damaged, and not only that one call failed.
func Damaged(err error) bool { return db.Damaged(err) }

// Unavailable reports whether an error means that the database cannot be used for the moment: it is locked, full, cannot be reached, or
// its file is gone.
func Unavailable(err error) bool { return db.Unavailable(err) }

// ErrReplaced means that the file of an open database was removed or replaced.
var ErrReplaced = db.ErrReplaced

// QuickCheck reads the whole file and reports damage as ErrCorrupt. On a server only the existence of the tables is checked.
func (s *Store) QuickCheck(ctx context.Context) error { return s.db.QuickCheck(ctx) }

// GiveBack returns some of the file's free space to the system and reports how many bytes; 0 means that there is nothing more to
// return.
func (s *Store) GiveBack(ctx context.Context) (int64, error) { return s.db.GiveBack(ctx) }

// Vacuum rewrites the whole database without gaps. Nothing else may use a file meanwhile.
func (s *Store) Vacuum(ctx context.Context) error { return s.db.Vacuum(ctx) }
