package store

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"strconv"
	"strings"

	"github.com/pressly/goose/v3"

	"claudeops/internal/ops"
)

//go:embed migrations/*.sql
var migrationFiles embed.FS

// migrate brings the schema up to the newest version this program knows. The migration library is left out when there
// is nothing to do: looking twice costs more than the rest of opening.
func (s *Store) migrate(ctx context.Context) error {
	newest, err := newestVersion()
	if err != nil {
		return err
	}
	have, err := schemaVersion(ctx, s.writer)
	if err != nil {
		return err
	}
	if err := s.refuseForeign(ctx, s.writer, have); err != nil {
		return err
	}
	switch {
	case have == newest:
		return nil
	case have > newest:
		return newerError(have, newest)
	}
	for at := have; at < newest; {
		err := s.dialect.migrate(ctx, s.log)
		if err == nil {
			break
		}
		// Another process may be doing the same at the same time: go on from where it has come to.
		now, readErr := schemaVersion(ctx, s.writer)
		if readErr != nil || now <= at {
			return fmt.Errorf("migrate from schema %d to %d: %w", have, newest, err)
		}
		at = now
	}
	s.log.InfoContext(ctx, "database migrated", "database", s.name, "from", have, "to", newest)
	return nil
}

// applyMigrations runs what the database has not had yet.
func applyMigrations(ctx context.Context, dialect goose.Dialect, db *sql.DB, files fs.FS, log *slog.Logger) error {
	p, err := goose.NewProvider(dialect, db, files, goose.WithDisableGlobalRegistry(true), goose.WithSlog(log))
	if err != nil {
		return err
	}
	_, err = p.Up(ctx)
	return err
}

func (s *Store) refuseForeign(ctx context.Context, q querier, version int64) error {
	foreign, err := s.dialect.foreign(ctx, q, version)
	if err == nil && foreign {
		err = fmt.Errorf("%w: it holds the tables of another program", ErrCorrupt)
	}
	return err
}

// requireCurrent refuses a schema that this program cannot read as it is.
func (s *Store) requireCurrent(ctx context.Context) error {
	newest, err := newestVersion()
	if err != nil {
		return err
	}
	have, err := schemaVersion(ctx, s.reader)
	if err == nil && have != 0 {
		err = s.refuseForeign(ctx, s.reader, have)
	}
	switch {
	case err != nil:
		return err
	case have == 0:
		return fmt.Errorf("no journal in it yet: %w: start claudeops once to create it", ops.ErrNotFound)
	case have > newest:
		return newerError(have, newest)
	case have < newest:
		return fmt.Errorf("%w (schema %d, this one reads %d): start claudeops serve or once to migrate it",
			ErrOlder, have, newest)
	}
	return nil
}

func newerError(have, newest int64) error {
	return fmt.Errorf("%w (schema %d, this one knows up to %d): install that version, or restore a backup made before the upgrade",
		ErrNewer, have, newest)
}

// schemaVersion reads what the migration library recorded, without loading it.
func schemaVersion(ctx context.Context, q querier) (int64, error) {
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

// newestVersion is the number of the last embedded migration.
func newestVersion() (int64, error) {
	names, err := fs.Glob(migrationFiles, "migrations/*.sql")
	if err != nil {
		return 0, err
	}
	if len(names) == 0 {
		return 0, errors.New("no migrations are embedded")
	}
	number, _, _ := strings.Cut(strings.TrimPrefix(names[len(names)-1], "migrations/"), "_")
	return strconv.ParseInt(number, 10, 64)
}
