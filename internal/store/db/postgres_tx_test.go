package db

import (
	"log/slog"
	"testing"
	"testing/fstest"
	"time"

	"claudeops/test/pgtest"
)

// A transaction may be committed although the answer is lost. Doing it again would do it twice.
func TestACommitWhoseAnswerIsLostIsNotSentAgain(t *testing.T) {
	address := pgtest.URL(t)
	proxy, err := pgtest.NewProxy(t.Context(), address, 0)
	must(t, err)
	t.Cleanup(func() { _ = proxy.Close() })
	d, err := Open(t.Context(), Options{
		URL: proxy.Address(address), Clock: time.Now, Logger: slog.New(slog.DiscardHandler),
		Schema: Schema{
			Files:  fstest.MapFS{"migrations/00001_test.sql": {Data: []byte(testTables)}},
			Tables: []Table{{Name: stateTable, Key: []string{"name"}}, {Name: "items", Key: []string{"id"}}},
		},
	})
	must(t, err)
	t.Cleanup(func() { _ = d.Close() })
	add := func(last func()) error {
		return d.WriteUnordered(t.Context(), "test", func(tx Querier) error {
			defer last()
			return Exec(t.Context(), tx, `INSERT INTO items (name) VALUES (?)`, "new")
		})
	}
	if err := add(func() {}); err != nil { // prepares the statements of the connection
		t.Fatal(err)
	}
	if err := add(proxy.LoseAnswer); err == nil {
		t.Error("nobody was told that the answer is lost")
	}
	count := func(r Row) (n int, err error) {
		err = r.Scan(&n)
		return n, err
	}
	n, err := One(t.Context(), d.reader, count, `SELECT count(*) FROM items`)
	if err != nil || n != 2 {
		t.Errorf("there are %d items, %v", n, err)
	}
}
