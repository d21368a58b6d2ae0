package store

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
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
	switch {
	case have == newest:
		return nil
	case have > newest:
		return newerError(have, newest)
	case have == 0:
		foreign, err := hasTables(ctx, s.writer)
		if err != nil {
			return err
		}
		if foreign {
			return fmt.Errorf("%w: it holds the tables of another program", ErrCorrupt)
		}
	}
	for at := have; at < newest; {
		err := s.applyMigrations(ctx)
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
	s.log.InfoContext(ctx, "database migrated", "path", s.path, "from", have, "to", newest)
	return nil
}

func (s *Store) applyMigrations(ctx context.Context) error {
	files, err := fs.Sub(migrationFiles, "migrations")
	if err != nil {
		return err
	}
	p, err := goose.NewProvider(goose.DialectSQLite3, s.writer, files,
		goose.WithDisableGlobalRegistry(true), goose.WithSlog(s.log))
	if err != nil {
		return err
	}
	_, err = p.Up(ctx)
	return err
}

// requireCurrent refuses a schema that this program cannot read as it is.
func (s *Store) requireCurrent(ctx context.Context) error {
	newest, err := newestVersion()
	if err != nil {
		return err
	}
	have, err := schemaVersion(ctx, s.reader)
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
