package db

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"

	"claudeops/internal/ops"
)

// Backup is a copy of a database in one file.
type Backup struct {
	Path   string
	Bytes  int64
	Schema int64 // the version of its tables
}

// backupPattern is the name of a backup that is being written.
const backupPattern = ".claudeops-backup-*"

// BackUp writes a complete and checked copy of a database file, also while a daemon uses it, without blocking it. The target
// appears only when it is complete and safe on disk. An existing target is ops.ErrConflict unless it may be replaced.
func (s Schema) BackUp(ctx context.Context, database, target string, replace bool) (Backup, error) {
	b, err := s.backUp(ctx, database, target, replace)
	return ops.Returning(b, err, "back up %s to %s", database, target)
}

func (s Schema) backUp(ctx context.Context, database, target string, replace bool) (_ Backup, err error) {
	if err := mayWrite(database, target, replace); err != nil {
		return Backup{}, err
	}
	db, err := openPool(database, url.Values{"_pragma": {busyPragma()}, "mode": {"rw"}})
	if err != nil {
		return Backup{}, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if err := requireOurFile(ctx, &pool{DB: db}); err != nil {
		return Backup{}, fmt.Errorf("%s: %w", database, asDamage(err))
	}
	// The file is created first, so that no other user can ever read it.
	part, err := os.CreateTemp(filepath.Dir(target), backupPattern)
	if err != nil {
		return Backup{}, fmt.Errorf("%w: check that the folder exists and that this user may write there", err)
	}
	defer func() {
		err = errors.Join(err, ignoreMissing(os.Remove(part.Name())), ignoreMissing(os.Remove(part.Name()+"-journal")))
	}()
	if err := part.Close(); err != nil {
		return Backup{}, err
	}
	if _, err := db.ExecContext(ctx, `VACUUM INTO ?`, part.Name()); err != nil {
		return Backup{}, asDamage(err)
	}
	b, err := s.examine(ctx, part.Name())
	if err != nil {
		return Backup{}, fmt.Errorf("check the copy: %w", err)
	}
	if err := install(part.Name(), target); err != nil {
		return Backup{}, err
	}
	b.Path = target
	return b, nil
}

// mayWrite refuses to overwrite the database itself, a folder or, unless replace is set, a file.
func mayWrite(database, target string, replace bool) error {
	source, err := os.Stat(database)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("there is no database: %w: 'claudeops serve' creates it", ops.ErrNotFound)
	}
	if err != nil {
		return err
	}
	there, err := os.Stat(target)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case there.IsDir():
		return ops.NewConflict(ops.ConflictTaken, "it is a folder: name a file in it")
	case os.SameFile(source, there):
		return ops.NewConflict(ops.ConflictTaken, "it is the database itself")
	case !replace:
		return ops.NewConflict(ops.ConflictTaken, "the file exists: choose another name, or replace it with --force")
	}
	return nil
}

// Examine reads a whole database file that is not in use, and reports damage and its schema version.
func (s Schema) Examine(ctx context.Context, path string) (Backup, error) {
	b, err := s.examine(ctx, path)
	return ops.Returning(b, err, "check %s", path)
}

func (s Schema) examine(ctx context.Context, path string) (_ Backup, err error) {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return Backup{}, fmt.Errorf("there is no such file: %w", ops.ErrNotFound)
	}
	if err != nil {
		return Backup{}, err
	}
	if log, err := os.Stat(path + "-wal"); err == nil && log.Size() > 0 {
		return Backup{}, ops.NewConflict(ops.ConflictState, "there is a write-ahead log next to it, so the file alone is incomplete: "+
			"make backups with claudeops db backup")
	}
	db, err := openUntouched(path)
	if err != nil {
		return Backup{}, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	b := Backup{Path: path, Bytes: info.Size()}
	if err = requireOurFile(ctx, &pool{DB: db}); err == nil {
		b.Schema, err = schemaVersion(ctx, &pool{DB: db})
	}
	if err == nil && b.Schema == 0 {
		err = fmt.Errorf("%w: it has none of the tables", ErrCorrupt)
	}
	if err == nil {
		var newest int64
		if newest, err = s.newest(); err == nil && b.Schema > newest {
			err = newerError(b.Schema, newest, "", "")
		}
	}
	if err != nil {
		return Backup{}, asDamage(err)
	}
	flaws, err := fileFlaws(ctx, &pool{DB: db}, true)
	if err == nil && len(flaws) > 0 {
		err = fmt.Errorf("%w: %s", ErrCorrupt, flaws[0].Detail)
	}
	return b, err
}

// openUntouched opens a file without creating or reading side files.
func openUntouched(path string) (*sql.DB, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	db, err := openPool(path, url.Values{"_pragma": {"query_only(1)"}, "mode": {"ro"}, "immutable": {"1"}})
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	return db, nil
}

// Restore replaces a database that is not in use by a backup. It checks the backup first, and changes nothing if that fails. It
// returns the path to which the former database was renamed; "" where there was none.
func (s Schema) Restore(ctx context.Context, backup, database string) (kept string, err error) {
	kept, err = s.restore(ctx, backup, database)
	return ops.Returning(kept, err, "restore %s from %s", database, backup)
}

func (s Schema) restore(ctx context.Context, backup, database string) (kept string, err error) {
	if _, err := s.examine(ctx, backup); err != nil {
		return "", err
	}
	if a, err := os.Stat(database); err == nil {
		if b, err := os.Stat(backup); err == nil && os.SameFile(a, b) {
			return "", ops.NewConflict(ops.ConflictTaken, "it is the database itself")
		}
	}
	part, err := copyOf(backup, filepath.Dir(database))
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, ignoreMissing(os.Remove(part))) }()
	if kept, err = putAside(database); err != nil {
		return "", err
	}
	return kept, install(part, database)
}

// copyOf copies a file into a folder, for its owner only.
func copyOf(path, dir string) (_ string, err error) {
	from, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	to, err := os.CreateTemp(dir, ".claudeops-restore-*")
	if err != nil {
		return "", err
	}
	if _, err := io.Copy(to, from); err != nil {
		return "", errors.Join(err, to.Close(), os.Remove(to.Name()))
	}
	return to.Name(), to.Close()
}

// putAside renames a database together with its side files.
func putAside(database string) (string, error) {
	if _, err := os.Stat(database); errors.Is(err, fs.ErrNotExist) {
		// SQLite would take leftover side files for those of the new database.
		return "", errors.Join(ignoreMissing(os.Remove(database+"-wal")), ignoreMissing(os.Remove(database+"-shm")))
	} else if err != nil {
		return "", err
	}
	kept := database + ".before-restore"
	for n := 2; ; n++ {
		if _, err := os.Lstat(kept); errors.Is(err, fs.ErrNotExist) {
			break
		}
		kept = fmt.Sprintf("%s.before-restore-%d", database, n)
	}
	// The log first: if this is interrupted, the database never has the log of another one.
	for _, side := range []string{"-wal", "-shm", ""} {
		if err := ignoreMissing(os.Rename(database+side, kept+side)); err != nil {
			return "", err
		}
	}
	return kept, nil
}

// install gives a complete file its final name, so that it survives a power failure.
func install(part, target string) error {
	for _, step := range []func() error{
		func() error { return flush(part) },
		func() error { return os.Rename(part, target) },
		func() error { return flush(filepath.Dir(target)) },
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

func flush(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// ignoreMissing drops the error about a file that does not exist.
func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
