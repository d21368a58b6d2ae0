package store

import (
	"context"
	"database/sql"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/pressly/goose/v3"
)

var update = flag.Bool("update", false, "write empty.db.zst")

// A new file is the one that the migrations make, step by step.
func TestTheEmptyFileIsWhatTheMigrationsMake(t *testing.T) {
	made := filepath.Join(t.TempDir(), "made.db")
	migrated := openRaw(t, made)
	migrate(t, migrated)
	if *update {
		must(t, migrated.Close())
		writeEmpty(t, made)
		migrated = openRaw(t, made)
	}
	content, err := os.ReadFile("empty.db.zst")
	must(t, err)
	decoder, err := zstd.NewReader(nil)
	must(t, err)
	defer decoder.Close()
	raw, err := decoder.DecodeAll(content, nil)
	must(t, err)
	path := filepath.Join(t.TempDir(), "empty.db")
	must(t, os.WriteFile(path, raw, 0o600))
	got, want := dump(t, openRaw(t, path)), dump(t, migrated)
	if !slices.Equal(got, want) {
		t.Errorf("empty.db.zst is not what the migrations make; run: go test ./internal/store -run EmptyFile -update\n%s",
			firstDifference(got, want))
	}
}

func openRaw(t *testing.T, path string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", path+"?_pragma=auto_vacuum(incremental)&_pragma=journal_mode(WAL)&_pragma=foreign_keys(1)")
	must(t, err)
	db.SetMaxOpenConns(1)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func migrate(t *testing.T, db *sql.DB) {
	t.Helper()
	files, err := fs.Sub(migrationFiles, "migrations")
	must(t, err)
	p, err := goose.NewProvider(goose.DialectSQLite3, db, files, goose.WithDisableGlobalRegistry(true))
	must(t, err)
	if _, err := p.Up(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// writeEmpty writes the file that new installations get.
func writeEmpty(t *testing.T, path string) {
	t.Helper()
	db := openRaw(t, path)
	for _, statement := range []string{`VACUUM`, `PRAGMA wal_checkpoint(TRUNCATE)`} {
		if _, err := db.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	must(t, db.Close())
	raw, err := os.ReadFile(path)
	must(t, err)
	encoder, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedBestCompression))
	must(t, err)
	must(t, errors.Join(os.WriteFile("empty.db.zst", encoder.EncodeAll(raw, nil), 0o600), encoder.Close()))
}

// dump is everything that a database file says, except when its migrations were applied.
func dump(t *testing.T, db *sql.DB) []string {
	t.Helper()
	out := query(t, db, `SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY type, name`)
	for _, pragma := range []string{
		"auto_vacuum", "journal_mode", "page_size", "encoding", "user_version", "application_id", "integrity_check", "foreign_key_check",
	} {
		out = append(out, pragma+": "+strings.Join(query(t, db, `PRAGMA `+pragma), " "))
	}
	for _, table := range query(t, db, `SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name`) {
		columns := "*"
		if table == "goose_db_version" {
			columns = "id, version_id, is_applied"
		}
		for _, row := range query(t, db, fmt.Sprintf(`SELECT %s FROM %q`, columns, table)) {
			out = append(out, table+": "+row)
		}
	}
	return out
}

func query(t *testing.T, db *sql.DB, statement string) []string {
	t.Helper()
	rows, err := db.QueryContext(context.Background(), statement)
	must(t, err)
	defer func() { _ = rows.Close() }()
	columns, err := rows.Columns()
	must(t, err)
	var out []string
	for rows.Next() {
		values, at := make([]any, len(columns)), make([]any, len(columns))
		for i := range values {
			at[i] = &values[i]
		}
		must(t, rows.Scan(at...))
		out = append(out, strings.Trim(fmt.Sprint(values), "[]"))
	}
	must(t, rows.Err())
	return out
}

func firstDifference(got, want []string) string {
	for i := range max(len(got), len(want)) {
		switch {
		case i >= len(got):
			return "missing: " + want[i]
		case i >= len(want):
			return "too much: " + got[i]
		case got[i] != want[i]:
			return "got:  " + got[i] + "\nwant: " + want[i]
		}
	}
	return ""
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}
