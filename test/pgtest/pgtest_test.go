package pgtest_test

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"claudeops/test/pgtest"
)

func TestAClusterStopsAndResumesOnItsData(t *testing.T) {
	c := pgtest.New(t)
	url := c.Database(t)
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(t.Context(), `CREATE TABLE kept (n INT); INSERT INTO kept VALUES (7)`); err != nil {
		t.Fatal(err)
	}
	if err := c.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := pgx.Connect(t.Context(), url); err == nil {
		t.Error("a stopped server answered")
	}
	if err := c.Resume(t.Context()); err != nil {
		t.Fatal(err)
	}
	conn, err = pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	var n int
	if err := conn.QueryRow(t.Context(), `SELECT n FROM kept`).Scan(&n); err != nil || n != 7 {
		t.Errorf("kept %d, %v", n, err)
	}
	_ = conn.Close(t.Context())
}
