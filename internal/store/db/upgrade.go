package db

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/pressly/goose/v3"

	"claudeops/internal/failpoint"
	"claudeops/internal/ops"
)

const (
	backupFolder = "backups" // beside the database
	keptBackups  = 2
	lockPoll     = 50 * time.Millisecond
	versionName  = "version" // in stateTable: the newest program that wrote to the database
)

// beforeMigration writes a backup of the file into the folder beside it and keeps other processes from migrating until done is called.
func (f *sqliteFile) beforeMigration(ctx context.Context, schema int64) (done func() error, err error) {
	dir := filepath.Dir(f.backupPath(schema))
	refuse := func(err error) error {
		return fmt.Errorf("no backup could be written, so nothing was changed: %w: make sure that %s is writable and has %d MB of free space, "+
			"then start again", err, dir, f.size()>>20+1)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, refuse(err)
	}
	lock, err := lockFile(ctx, filepath.Join(dir, ".lock"))
	if err != nil {
		return nil, refuse(err)
	}
	if err := f.backUpInto(ctx, schema); err != nil {
		return nil, errors.Join(refuse(err), lock.Close())
	}
	failpoint.Hit("migrate.backup.after")
	return lock.Close, nil
}

func (f *sqliteFile) backUpInto(ctx context.Context, schema int64) error {
	// Another process may have migrated it while this one waited.
	if now, err := schemaVersion(ctx, f.writer); err != nil || now != schema {
		return err
	}
	target := f.backupPath(schema)
	unfinished, err := filepath.Glob(filepath.Join(filepath.Dir(target), backupPattern))
	if err != nil {
		return err
	}
	for _, part := range unfinished { // of a process that was killed
		if err := ignoreMissing(os.Remove(part)); err != nil {
			return err
		}
	}
	b, err := f.schema.backUp(ctx, f.path, target, true)
	if err != nil {
		return err
	}
	f.log.InfoContext(ctx, "database backed up before its migration", "backup", b.Path, "schema", b.Schema, "bytes", b.Bytes)
	return f.dropOldBackups(target)
}

func (f *sqliteFile) backupPath(schema int64) string {
	name := strings.TrimSuffix(filepath.Base(f.path), ".db")
	return filepath.Join(filepath.Dir(f.path), backupFolder, fmt.Sprintf("%s-schema-%05d.db", name, schema))
}

func (f *sqliteFile) size() int64 {
	info, err := os.Stat(f.path)
	if err != nil {
		return 0
	}
	return info.Size()
}

// dropOldBackups keeps the newest backup, which was just written, and the one before it.
func (f *sqliteFile) dropOldBackups(newest string) error {
	paths, err := filepath.Glob(filepath.Join(filepath.Dir(newest), strings.TrimSuffix(filepath.Base(f.path), ".db")+"-schema-*.db"))
	if err != nil {
		return err
	}
	written := map[string]time.Time{}
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			return err
		}
		written[path] = info.ModTime()
	}
	slices.SortFunc(paths, func(a, b string) int {
		switch newest {
		case a:
			return -1
		case b:
			return 1
		}
		return written[b].Compare(written[a])
	})
	for _, path := range paths[min(keptBackups, len(paths)):] {
		if err := ignoreMissing(os.Remove(path)); err != nil {
			return err
		}
	}
	return nil
}

// lockFile waits until no other process has the lock.
func lockFile(ctx context.Context, path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return file, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, errors.Join(err, file.Close())
		}
		if !ops.Pause(ctx, lockPoll) {
			return nil, errors.Join(context.Cause(ctx), file.Close())
		}
	}
}

// beforeMigration cannot back up a server's database, which may be large and needs the server's own tool.
func (p *postgres) beforeMigration(ctx context.Context, schema int64) (done func() error, err error) {
	p.log.WarnContext(ctx, "the database on the server is migrated without a backup; before an upgrade, make one with pg_dump",
		"database", p.name, "schema", schema)
	return func() error { return nil }, nil
}

// newerError says which program wrote a database that this one cannot use.
func (d *DB) newerError(ctx context.Context, q Querier, have, newest int64) error {
	var by string
	// The table may be another one by then; the numbers of the schema are enough.
	_ = q.QueryRowContext(ctx, `SELECT value FROM `+stateTable+` WHERE name = ?`, versionName).Scan(&by)
	return newerError(have, newest, by, d.version)
}

func newerError(have, newest int64, by, here string) error {
	writer, reader := "", "this one"
	if by != "" {
		writer = "version " + by + ", "
	}
	if here != "" {
		reader = "this version " + here
	}
	return fmt.Errorf("%w (%sschema %d; %s knows up to schema %d): install that version, or restore a backup made before the upgrade "+
		"(claudeops db restore)", ErrNewer, writer, have, reader, newest)
}

// recordVersion stores which program wrote to the database, for an older one that refuses it.
func (d *DB) recordVersion(ctx context.Context) error {
	if d.version == "" {
		return nil
	}
	return d.Write(ctx, "record_version", func(tx Querier) error { return d.putVersion(ctx, tx) })
}

func (d *DB) putVersion(ctx context.Context, tx Querier) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO `+stateTable+` (name, value) VALUES (?, ?)
		ON CONFLICT (name) DO UPDATE SET value = excluded.value`, versionName, d.version)
	return err
}

// migrate brings the schema to the newest version that this program knows. It does not call the migration library when there is
// nothing to do, because that would cost more than the rest of opening.
func (d *DB) migrate(ctx context.Context) (err error) {
	newest, err := d.schema.newest()
	if err != nil {
		return err
	}
	have, err := schemaVersion(ctx, d.writer)
	if err != nil {
		return err
	}
	switch {
	case have == newest:
		return nil
	case have > newest:
		return d.newerError(ctx, d.writer, have, newest)
	}
	if have > 0 {
		done, refused := d.dialect.beforeMigration(ctx, have)
		if refused != nil {
			return fmt.Errorf("migrate from schema %d to %d: %w", have, newest, refused)
		}
		defer func() { err = errors.Join(err, done()) }()
	}
	for at := have; at < newest; {
		err := d.dialect.migrate(ctx)
		if err == nil {
			break
		}
		// Another process may be migrating too: continue from the version that it has reached.
		now, readErr := schemaVersion(ctx, d.writer)
		if readErr != nil || now <= at {
			return fmt.Errorf("migrate from schema %d to %d: %w", have, newest, err)
		}
		at = now
	}
	d.log.InfoContext(ctx, "database migrated", "database", d.name, "from", have, "to", newest)
	if have == 0 && d.recordsOpen() {
		return nil // MarkOpen records it
	}
	return d.recordVersion(ctx)
}

// applyMigrations runs the migrations that the database does not have yet.
func applyMigrations(ctx context.Context, dialect goose.Dialect, db *sql.DB, files fs.FS, log *slog.Logger) error {
	p, err := goose.NewProvider(dialect, db, files, goose.WithDisableGlobalRegistry(true), goose.WithSlog(log))
	if err != nil {
		return err
	}
	_, err = p.Up(ctx)
	return err
}

// applicationID marks a database as ours: "clop" in ASCII. The first migration sets it: in a file as its application_id, which the program
// file(1) shows too, on a server as the row of the table meta. A database with tables and without it was made before there were releases.
const applicationID = 0x636c_6f70

// requireOurs refuses a database with another mark, and one with tables but no mark. The migration library's own table is there before the
// first migration.
func requireOurs(ctx context.Context, q Querier, mark int64, tables bool) error {
	switch {
	case mark == applicationID:
		return nil
	case mark != 0:
		return fmt.Errorf("%w (its application_id is %d)", ErrForeign, mark)
	case tables:
		return ErrUnmarked
	}
	version, err := schemaVersion(ctx, q)
	if err == nil && version != 0 {
		err = ErrUnmarked
	}
	return err
}

// requireCurrent refuses a schema that this program cannot read as it is.
func (d *DB) requireCurrent(ctx context.Context) error {
	newest, err := d.schema.newest()
	if err != nil {
		return err
	}
	have, err := schemaVersion(ctx, d.reader)
	switch {
	case err != nil:
		return err
	case have == 0:
		return fmt.Errorf("it has no tables yet: %w: 'claudeops serve' creates them", ops.ErrNotFound)
	case have > newest:
		return d.newerError(ctx, d.reader, have, newest)
	case have < newest:
		return fmt.Errorf("%w (schema %d, this one reads %d): start claudeops serve or once to migrate it",
			ErrOlder, have, newest)
	}
	return nil
}

// schemaVersion reads what the migration library recorded.
func schemaVersion(ctx context.Context, q Querier) (int64, error) {
	var v *int64
	err := q.QueryRowContext(ctx, `SELECT MAX(version_id) FROM goose_db_version`).Scan(&v)
	if isMissingTable(err) || (err == nil && v == nil) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return *v, nil
}

// newest is the number of the last migration.
func (s Schema) newest() (int64, error) {
	names, err := fs.Glob(s.Files, "migrations/*.sql")
	if err != nil {
		return 0, err
	}
	if len(names) == 0 {
		return 0, errors.New("no migrations are embedded")
	}
	return migrationNumber(names[len(names)-1])
}

func migrationNumber(name string) (int64, error) {
	number, _, _ := strings.Cut(strings.TrimPrefix(name, "migrations/"), "_")
	return strconv.ParseInt(number, 10, 64)
}
