package db

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/database"
)

// place puts the empty file of the schema where there is no file yet: running the migrations takes longer than the rest of a start. The
// file gets its name when all of it is on the disk. If this is not possible, for example because the disk is full, the file is made by the
// migrations, whose errors are reported. SQLite writes the name to the disk with its first commit.
func (f *sqliteFile) place() {
	if _, err := os.Lstat(f.path); f.schema.Empty == nil || !errors.Is(err, fs.ErrNotExist) {
		return
	}
	content, err := f.schema.Empty()
	if err != nil {
		return
	}
	file, err := os.CreateTemp(filepath.Dir(f.path), filepath.Base(f.path)+".new-*") // mode 0600
	if err != nil {
		return
	}
	_, err = file.Write(content)
	if err = errors.Join(err, file.Sync(), file.Close()); err == nil {
		_ = os.Link(file.Name(), f.path) // unlike a rename, it never replaces the file that another process made
	}
	_ = os.Remove(file.Name())
}

// create makes the tables of a new file: all migrations in one transaction, which waits for the disk once. The migration library would
// commit each migration. It reports whether it did so; a file that has tables is left to the migration library.
func (f *sqliteFile) create(ctx context.Context, files fs.FS) (created bool, err error) {
	migrations, err := readMigrations(files)
	if err != nil || migrations == nil {
		return false, err
	}
	tx, err := f.writer.BeginTx(ctx, nil)
	if err != nil {
		return false, err
	}
	// Another process may have created them just now.
	empty, err := isEmpty(ctx, tx)
	if err != nil || !empty {
		return false, errors.Join(err, tx.Rollback())
	}
	if err := applyAll(ctx, tx, migrations); err != nil {
		return false, errors.Join(err, tx.Rollback())
	}
	return true, tx.Commit()
}

// migration is one file.
type migration struct {
	version int64
	script  string
}

const gooseUp = "-- +goose Up\n"

// readMigrations reads the files in order. It returns nil if one of them has other instructions for the migration library than to run
// it as it is.
func readMigrations(files fs.FS) ([]migration, error) {
	names, err := fs.Glob(files, "*.sql")
	if err != nil {
		return nil, err
	}
	out := make([]migration, 0, len(names))
	for _, name := range names {
		raw, err := fs.ReadFile(files, name)
		if err != nil {
			return nil, err
		}
		_, script, found := strings.Cut(string(raw), gooseUp)
		if !found || strings.Count(string(raw), "+goose") != 1 {
			return nil, nil
		}
		number, _, _ := strings.Cut(name, "_")
		version, err := strconv.ParseInt(number, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("read number of migration %s: %w", name, err)
		}
		out = append(out, migration{version, script})
	}
	return out, nil
}

func isEmpty(ctx context.Context, tx *sql.Tx) (bool, error) {
	var n int
	err := tx.QueryRowContext(ctx, `SELECT COUNT(*) FROM sqlite_master`).Scan(&n)
	return n == 0, err
}

// applyAll runs the migrations and records them as the migration library does, which begins with version 0.
func applyAll(ctx context.Context, tx *sql.Tx, migrations []migration) error {
	versions, err := database.NewStore(goose.DialectSQLite3, goose.DefaultTablename)
	if err != nil {
		return err
	}
	if err := versions.CreateVersionTable(ctx, tx); err != nil {
		return err
	}
	if err := versions.Insert(ctx, tx, database.InsertRequest{Version: 0}); err != nil {
		return err
	}
	for _, m := range migrations {
		if _, err := tx.ExecContext(ctx, m.script); err != nil {
			return fmt.Errorf("apply migration %d: %w", m.version, err)
		}
		if err := versions.Insert(ctx, tx, database.InsertRequest{Version: m.version}); err != nil {
			return err
		}
	}
	return nil
}
