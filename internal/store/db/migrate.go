package db

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"strconv"
	"strings"

	"github.com/pressly/goose/v3"

	"claudeops/internal/ops"
)

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
	if err := d.refuseForeign(ctx, d.writer, have); err != nil {
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
	if have == 0 && d.dialect.recordsOpen {
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

func (d *DB) refuseForeign(ctx context.Context, q Querier, version int64) error {
	foreign, err := d.dialect.foreign(ctx, q, version)
	if err == nil && foreign {
		err = fmt.Errorf("%w: it holds the tables of another program", ErrCorrupt)
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
	if err == nil && have != 0 {
		err = d.refuseForeign(ctx, d.reader, have)
	}
	switch {
	case err != nil:
		return err
	case have == 0:
		return fmt.Errorf("it has no tables yet: %w: start claudeops once to create them", ops.ErrNotFound)
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
