package db

import (
	"context"
	"log/slog"
	"path/filepath"
	"testing"
	"testing/fstest"
	"time"

	"pgregory.net/rapid"
)

const testTables = `-- +goose Up
PRAGMA application_id = 1668050800;
CREATE TABLE store_state (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE items (id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL DEFAULT '');
`

func openTemp(t *testing.T) *DB {
	t.Helper()
	d, err := Open(t.Context(), Options{
		Path: filepath.Join(t.TempDir(), "test.db"), Clock: time.Now, Logger: slog.New(slog.DiscardHandler),
		Schema: Schema{
			Files:  fstest.MapFS{"migrations/00001_test.sql": {Data: []byte(testTables)}},
			Tables: []Table{{Name: stateTable, Key: []string{"name"}}, {Name: "items", Key: []string{"id"}}},
		},
	})
	must(t, err)
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

func addItem(t *testing.T, d *DB) {
	t.Helper()
	err := d.Write(t.Context(), "test", func(tx Querier) error {
		_, err := tx.ExecContext(t.Context(), `INSERT INTO items (name) VALUES (?)`, "new")
		return err
	})
	must(t, err)
}

func TestConnectionsAreDurableAndReadersReadOnly(t *testing.T) {
	d := openTemp(t)
	for _, tt := range []struct{ pool, pragma, want string }{
		{"writer", "journal_mode", "wal"},
		{"writer", "synchronous", "2"}, // FULL
		{"writer", "foreign_keys", "1"},
		{"writer", "busy_timeout", "5000"},
		{"reader", "query_only", "1"},
		{"reader", "busy_timeout", "5000"},
	} {
		db := d.writer
		if tt.pool == "reader" {
			db = d.reader
		}
		var got string
		must(t, db.QueryRowContext(t.Context(), "PRAGMA "+tt.pragma).Scan(&got))
		if got != tt.want {
			t.Errorf("%s of the %s is %s, want %s", tt.pragma, tt.pool, got, tt.want)
		}
	}
	if got := d.writer.Stats().MaxOpenConnections; got != 1 {
		t.Errorf("the writer has %d connections", got)
	}
	if got := d.reader.Stats().MaxOpenConnections; got != readers {
		t.Errorf("there are %d readers", got)
	}
	if _, err := d.reader.ExecContext(t.Context(), `DELETE FROM items`); err == nil {
		t.Error("a reader wrote")
	}
}

func TestReadersDoNotWaitForTheWriter(t *testing.T) {
	d := openTemp(t)
	addItem(t, d)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	name := func() (string, error) { return One(ctx, d.Reader(), ScanString, `SELECT name FROM items`) }
	err := d.Write(ctx, "test", func(tx Querier) error {
		if _, err := tx.ExecContext(ctx, `UPDATE items SET name = 'half written'`); err != nil {
			return err
		}
		got, err := name()
		if err == nil && got != "new" {
			t.Errorf("a reader sees %q before it is committed", got)
		}
		return err
	})
	must(t, err)
	if got, err := name(); err != nil || got != "half written" {
		t.Errorf("after the commit: %q, %v", got, err)
	}
}

func TestTimesAreStoredInOneWidthAndOrder(t *testing.T) {
	from := time.Date(1000, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro()
	to := time.Date(9999, 12, 31, 23, 59, 59, 999_999_000, time.UTC).UnixMicro()
	rapid.Check(t, func(t *rapid.T) {
		a := time.UnixMicro(rapid.Int64Range(from, to).Draw(t, "a"))
		b := time.UnixMicro(rapid.Int64Range(from, to).Draw(t, "b"))
		if got, want := Time(a), a.UTC().Format(timeLayout); got != want {
			t.Fatalf("%s is stored as %s", want, got)
		}
		if (Time(a) < Time(b)) != a.Before(b) {
			t.Fatalf("%s and %s do not sort", Time(a), Time(b))
		}
		var back time.Time
		if err := ToTime(&back).Scan(Time(a)); err != nil || !back.Equal(a) {
			t.Fatalf("%s reads back as %s (%v)", a, back, err)
		}
	})
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}
