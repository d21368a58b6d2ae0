package store

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"pgregory.net/rapid"

	"claudeops/internal/ops"
)

func openTemp(t *testing.T) *Store {
	t.Helper()
	s, err := Open(t.Context(), Options{Path: filepath.Join(t.TempDir(), "claudeops.db")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func TestConnectionsAreSafeForTheJournal(t *testing.T) {
	s := openTemp(t)
	for _, tt := range []struct{ pool, pragma, want string }{
		{"writer", "journal_mode", "wal"},
		{"writer", "synchronous", "2"}, // FULL
		{"writer", "foreign_keys", "1"},
		{"writer", "busy_timeout", "5000"},
		{"reader", "query_only", "1"},
		{"reader", "busy_timeout", "5000"},
	} {
		db := s.writer
		if tt.pool == "reader" {
			db = s.reader
		}
		var got string
		if err := db.QueryRowContext(t.Context(), "PRAGMA "+tt.pragma).Scan(&got); err != nil {
			t.Fatal(err)
		}
		if got != tt.want {
			t.Errorf("%s of the %s is %s, want %s", tt.pragma, tt.pool, got, tt.want)
		}
	}
	if got := s.writer.Stats().MaxOpenConnections; got != 1 {
		t.Errorf("the writer has %d connections", got)
	}
	if got := s.reader.Stats().MaxOpenConnections; got != readers {
		t.Errorf("there are %d readers", got)
	}
	if _, err := s.reader.ExecContext(t.Context(), `DELETE FROM cycles`); err == nil {
		t.Error("a reader wrote")
	}
}

func TestReadersDoNotWaitForTheWriter(t *testing.T) {
	s := openTemp(t)
	id, err := s.SubmitCycle(t.Context(), ops.NewCycle{Environment: "home"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	err = s.write(ctx, "test", func(tx querier) error {
		if _, err := tx.ExecContext(ctx, `UPDATE cycles SET reason = 'half written'`); err != nil {
			return err
		}
		c, err := s.Cycle(ctx, id)
		if err == nil && c.Reason != "" {
			t.Errorf("a reader sees %q before it is committed", c.Reason)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if c, err := s.Cycle(ctx, id); err != nil || c.Reason != "half written" {
		t.Errorf("after the commit: %+v, %v", c, err)
	}
}

func TestStatementsUsedAgainArePrepared(t *testing.T) {
	s := openTemp(t)
	submit := func() {
		t.Helper()
		if _, err := s.SubmitCycle(t.Context(), ops.NewCycle{Environment: "home"}); err != nil {
			t.Fatal(err)
		}
	}
	statements := s.dialect.(*sqliteFile).statements
	submit()
	submit()
	if n := len(statements.prepared); n != 0 {
		t.Errorf("%d statements are prepared before one was used twice", n)
	}
	submit()
	if n := len(statements.prepared); n != 1 {
		t.Errorf("%d statements are prepared, want 1", n)
	}
	// Texts that never come again do not push the others out.
	for i := range 2 * maxStatements {
		statements.get(string(rune('a' + i)))
	}
	submit()
	if n := len(statements.seen); n > maxStatements {
		t.Errorf("%d statements are remembered", n)
	}
}

func TestTimesAreStoredInOneWidthAndOrder(t *testing.T) {
	from := time.Date(1000, 1, 1, 0, 0, 0, 0, time.UTC).UnixMicro()
	to := time.Date(9999, 12, 31, 23, 59, 59, 999_999_000, time.UTC).UnixMicro()
	rapid.Check(t, func(t *rapid.T) {
		a := time.UnixMicro(rapid.Int64Range(from, to).Draw(t, "a"))
		b := time.UnixMicro(rapid.Int64Range(from, to).Draw(t, "b"))
		if got, want := formatTime(a), a.UTC().Format(timeLayout); got != want {
			t.Fatalf("%s is stored as %s", want, got)
		}
		if (formatTime(a) < formatTime(b)) != a.Before(b) {
			t.Fatalf("%s and %s do not sort", formatTime(a), formatTime(b))
		}
		var back time.Time
		if err := toTime(&back).Scan(formatTime(a)); err != nil || !back.Equal(a) {
			t.Fatalf("%s reads back as %s (%v)", a, back, err)
		}
	})
}
