package db

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/fstest"
	"time"

	"github.com/pressly/goose/v3"
)

func open(t *testing.T, name string) *sqliteFile {
	t.Helper()
	f := newSQLite(filepath.Join(t.TempDir(), name), Schema{Files: os.DirFS("..")}, time.Now, slog.New(slog.DiscardHandler))
	writer, reader, err := f.open(t.Context())
	must(t, err)
	t.Cleanup(func() {
		if err := writer.Close(); err != nil {
			t.Error(err)
		}
		if err := reader.Close(); err != nil {
			t.Error(err)
		}
	})
	return f
}

func (f *sqliteFile) rows(t *testing.T, query string) []string {
	t.Helper()
	rows, err := f.writer.QueryContext(t.Context(), query)
	must(t, err)
	defer func() { _ = rows.Close() }()
	var out []string
	for rows.Next() {
		var text string
		must(t, rows.Scan(&text))
		out = append(out, text)
	}
	must(t, rows.Err())
	return out
}

// A file that is created in one transaction is the same as one that the migration library made step by step.
func TestANewFileHasTheTablesOfTheMigrationLibrary(t *testing.T) {
	at := open(t, "at-once.db")
	created, err := at.create(t.Context(), os.DirFS("../migrations"))
	if err != nil || !created {
		t.Fatalf("created %v, %v", created, err)
	}
	steps := open(t, "steps.db")
	must(t, applyMigrations(t.Context(), goose.DialectSQLite3, steps.writer.DB, os.DirFS("../migrations"), steps.log))
	for _, query := range []string{
		`SELECT type || ' ' || name || ' ' || tbl_name || ' ' || COALESCE(sql, '') FROM sqlite_master ORDER BY type, name`,
		`SELECT id || ' ' || version_id || ' ' || is_applied FROM goose_db_version ORDER BY id`,
		`SELECT name || ' ' || seq FROM sqlite_sequence ORDER BY name`,
	} {
		if got, want := at.rows(t, query), steps.rows(t, query); !slices.Equal(got, want) || len(got) == 0 {
			t.Errorf("%s:\n got %q\nwant %q", query, got, want)
		}
	}
}

func TestANewFileIsCreatedInOneDurableTransaction(t *testing.T) {
	f := open(t, "new.db")
	if _, err := f.writer.ExecContext(t.Context(), `PRAGMA wal_autocheckpoint = 0`); err != nil {
		t.Fatal(err)
	}
	must(t, f.migrate(t.Context()))
	if got := f.rows(t, `PRAGMA synchronous`); !slices.Equal(got, []string{"2"}) {
		t.Errorf("synchronous is %v, want 2 (FULL)", got)
	}
	// The last page of a transaction names the size of the file in its header of 24 bytes; the others have 0 there.
	raw, err := os.ReadFile(f.path + "-wal")
	must(t, err)
	const header, frame, page = 32, 24, 4096
	commits := 0
	for at := header; at+frame+page <= len(raw); at += frame + page {
		if !slices.Equal(raw[at+4:at+8], make([]byte, 4)) {
			commits++
		}
	}
	if commits != 1 {
		t.Errorf("%d commits, want 1", commits)
	}
	// The file has tables now, so nothing is created again.
	if created, err := f.create(t.Context(), os.DirFS("../migrations")); err != nil || created {
		t.Errorf("created again: %v, %v", created, err)
	}
}

func TestAMigrationWithInstructionsIsLeftToTheLibrary(t *testing.T) {
	files := fstest.MapFS{
		"00001_a.sql": {Data: []byte("-- +goose Up\nCREATE TABLE a (n INTEGER) STRICT;\n")},
		"00002_b.sql": {Data: []byte("-- +goose NO TRANSACTION\n-- +goose Up\nCREATE TABLE b (n INTEGER) STRICT;\n")},
	}
	f := open(t, "new.db")
	if created, err := f.create(t.Context(), files); err != nil || created {
		t.Errorf("created %v, %v", created, err)
	}
}

func TestANewFileIsPlacedWholeAndOnlyWhereThereIsNone(t *testing.T) {
	calls := 0
	schema := Schema{Files: os.DirFS(".."), Empty: func() ([]byte, error) { calls++; return []byte("the content"), nil }}
	dir := t.TempDir()
	path := filepath.Join(dir, "new.db")
	f := newSQLite(path, schema, time.Now, slog.New(slog.DiscardHandler))
	f.place()
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 || info.Size() != int64(len("the content")) {
		t.Fatalf("%v, %v", info, err)
	}
	must(t, os.WriteFile(path, nil, 0o600))
	f.place()
	if info, err := os.Stat(path); err != nil || info.Size() != 0 || calls != 1 {
		t.Errorf("an existing file was replaced: %v, %v, %d calls", info, err, calls)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("files left: %v, %v", left, err)
	}
	// A file that another process makes between the look and the link stays.
	schema.Empty = func() ([]byte, error) {
		return []byte("mine"), os.WriteFile(filepath.Join(dir, "raced.db"), []byte("theirs"), 0o600)
	}
	newSQLite(filepath.Join(dir, "raced.db"), schema, time.Now, slog.New(slog.DiscardHandler)).place()
	if raw, err := os.ReadFile(filepath.Join(dir, "raced.db")); err != nil || string(raw) != "theirs" {
		t.Errorf("the file of the other process became %q, %v", raw, err)
	}
}

func TestWithoutTheEmptyFileTheMigrationsMakeTheTables(t *testing.T) {
	schema := Schema{Files: os.DirFS(".."), Empty: func() ([]byte, error) { return nil, errors.New("damaged") }}
	d, err := Open(t.Context(), Options{
		Path: filepath.Join(t.TempDir(), "new.db"), Schema: schema, Clock: time.Now, Logger: slog.New(slog.DiscardHandler),
	})
	must(t, err)
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}
