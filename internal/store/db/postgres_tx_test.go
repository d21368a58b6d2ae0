package db

import (
	"log/slog"
	"testing"
	"testing/fstest"
	"time"

	"claudeops/test/pgtest"
)

// What nobody waits for is told with the commit, and nothing is kept.
func TestAStatementThatNobodyWaitsForFailsTheTransaction(t *testing.T) {
	d := openItems(t, pgtest.URL(t))
	err := d.WriteUnordered(t.Context(), "test", func(tx Querier) error {
		if err := Exec(t.Context(), tx, `INSERT INTO items (name) VALUES (?)`, "kept with the other or not at all"); err != nil {
			return err
		}
		return Exec(t.Context(), tx, `INSERT INTO items (id, name) VALUES (1, NULL)`)
	})
	if err == nil {
		t.Error("it was committed")
	}
	if n, err := One(t.Context(), d.reader, ScanInt, `SELECT count(*) FROM items`); err != nil || n != 0 {
		t.Errorf("there are %d items, %v", n, err)
	}
}

// A transaction may be committed although the answer is lost. Doing it again would do it twice. Before that, nothing was done.
func TestACommitWhoseAnswerIsLostIsNotSentAgain(t *testing.T) {
	address := pgtest.URL(t)
	proxy, err := pgtest.NewProxy(t.Context(), address, 0)
	must(t, err)
	t.Cleanup(func() { _ = proxy.Close() })
	d := openItems(t, proxy.Address(address))
	add := func(last func()) error {
		return d.WriteUnordered(t.Context(), "test", func(tx Querier) error {
			defer last()
			_, err := tx.ExecContext(t.Context(), `INSERT INTO items (name) VALUES (?)`, "new")
			return err
		})
	}
	if err := add(func() {}); err != nil { // prepares the statements of the connection
		t.Fatal(err)
	}
	proxy.LoseAnswer()
	if err := add(func() {}); err != nil {
		t.Errorf("the first question of a transaction was not asked again: %v", err)
	}
	if err := add(proxy.LoseAnswer); err == nil {
		t.Error("nobody was told that the answer is lost")
	}
	n, err := One(t.Context(), d.reader, ScanInt, `SELECT count(*) FROM items`)
	if err != nil || n != 3 {
		t.Errorf("there are %d items, %v", n, err)
	}
}

// openItems opens a database with a table of items.
func openItems(t *testing.T, address string) *DB {
	t.Helper()
	d, err := Open(t.Context(), Options{
		URL: address, Clock: time.Now, Logger: slog.New(slog.DiscardHandler),
		Schema: Schema{
			Files:  fstest.MapFS{"migrations/00001_test.sql": {Data: []byte(testTables)}},
			Tables: []Table{{Name: stateTable, Key: []string{"name"}}, {Name: "items", Key: []string{"id"}}},
		},
	})
	must(t, err)
	t.Cleanup(func() { _ = d.Close() })
	return d
}
