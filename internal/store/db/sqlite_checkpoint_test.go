package db

import (
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
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

// writePages makes the log longer by at least n pages, in one commit.
func (f *sqliteFile) writePages(t *testing.T, n int) {
	t.Helper()
	tx, err := f.begin(t.Context())
	must(t, err)
	const page = 4096
	_, err = tx.ExecContext(t.Context(), `INSERT INTO filler (text) VALUES (?)`, strings.Repeat("x", n*page))
	must(t, err)
	must(t, tx.commit())
}

func (f *sqliteFile) pending(t *testing.T) int64 {
	t.Helper()
	long, copied, err := checkpoint(t.Context(), f.writer.DB, "NOOP")
	must(t, err)
	return long - copied
}

func TestTheLogIsCopiedBesideTheCommits(t *testing.T) {
	f := open(t, "log.db")
	t.Cleanup(func() {
		if err := f.close(); err != nil {
			t.Error(err)
		}
	})
	if got := f.rows(t, `PRAGMA wal_autocheckpoint`); !slices.Equal(got, []string{"4000"}) {
		t.Errorf("a commit copies the log itself at %s pages, want 4000", got)
	}
	if _, err := f.writer.ExecContext(t.Context(), `CREATE TABLE filler (text TEXT NOT NULL) STRICT`); err != nil {
		t.Fatal(err)
	}
	f.writePages(t, checkpointPages/2)
	must(t, f.checkpoints.look(t.Context()))
	if got := f.pending(t); got < checkpointPages/2 {
		t.Errorf("a short log was copied: %d pages are left", got)
	}
	f.writePages(t, 2*checkpointPages) // more than a commit copies itself by default
	if got := f.pending(t); got < 2*checkpointPages {
		t.Errorf("the commit copied the log itself: %d pages are left", got)
	}
	for f.checkpoints.commits.Load()%checkpointCommits != 0 {
		f.writePages(t, 1)
	}
	f.checkpoints.running.Wait()
	if got := f.pending(t); got != 0 {
		t.Errorf("%d pages of the log are not in the file", got)
	}
	// The next commit begins a new log.
	f.writePages(t, 1)
	if long, _, err := checkpoint(t.Context(), f.writer.DB, "NOOP"); err != nil || long > checkpointPages {
		t.Errorf("the log has %d pages, %v", long, err)
	}
}

func TestNothingIsCopiedAfterTheEnd(t *testing.T) {
	f := open(t, "log.db")
	must(t, f.checkpoints.close())
	for range checkpointCommits {
		f.checkpoints.committed()
	}
	if err := f.checkpoints.look(t.Context()); err == nil || f.checkpoints.db != nil {
		t.Errorf("a connection was made: %v", err)
	}
	if err := f.close(); err != nil {
		t.Error(err)
	}
}
