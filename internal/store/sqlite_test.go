package store_test

import (
	"bytes"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/store"
	"claudeops/test/storetest"
)

// raw opens the file beside the store, as another program would.
func raw(t *testing.T, path string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", path+"?_pragma=busy_timeout(5000)&_pragma=foreign_keys(1)")
	succeeds(t, err)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func run(t *testing.T, db *sql.DB, query string, args ...any) {
	t.Helper()
	if _, err := db.ExecContext(t.Context(), query, args...); err != nil {
		t.Fatal(err)
	}
}

func text(t *testing.T, db *sql.DB, query string, args ...any) string {
	t.Helper()
	var v string
	if err := db.QueryRowContext(t.Context(), query, args...).Scan(&v); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return v
}

// refuses checks that the file cannot be opened, and that the message names it and says what to do.
func refuses(t *testing.T, path string, want error, advice string) {
	t.Helper()
	_, err := store.Open(t.Context(), storetest.With(store.Options{Path: path}))
	if !errors.Is(err, want) {
		t.Fatalf("error is %v, want %v", err, want)
	}
	for _, part := range []string{path, advice} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q does not say %q", err, part)
		}
	}
}

func TestOlderSchemaIsNotReadAsItIs(t *testing.T) {
	path := newFile(t)
	// Below the first migration there is none; 0 would be a database without tables.
	run(t, raw(t, path), `UPDATE goose_db_version SET version_id = -1`)
	_, err := store.OpenReadOnly(t.Context(), storetest.With(store.Options{Path: path}))
	if !errors.Is(err, store.ErrOlder) || !strings.Contains(err.Error(), "migrate") {
		t.Errorf("error is %v, want %v", err, store.ErrOlder)
	}
}

func TestDamagedFileIsRefused(t *testing.T) {
	t.Run("no database", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "claudeops.db")
		succeeds(t, os.WriteFile(path, []byte(strings.Repeat("this is a text file\n", 500)), 0o600))
		refuses(t, path, store.ErrCorrupt, "restore a backup")
	})
	t.Run("header overwritten", func(t *testing.T) {
		path := newFile(t)
		overwrite(t, path, 0, 64)
		refuses(t, path, store.ErrCorrupt, "restore a backup")
	})
	t.Run("schema overwritten", func(t *testing.T) {
		path := newFile(t)
		overwrite(t, path, 100, 3000)
		refuses(t, path, store.ErrCorrupt, "restore a backup")
	})
	t.Run("another program's", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "claudeops.db")
		run(t, raw(t, path), `CREATE TABLE sessions (id INTEGER PRIMARY KEY); PRAGMA application_id = 252006673`)
		refuses(t, path, store.ErrForeign, "give claudeops one of its own")
	})
	t.Run("folder missing", func(t *testing.T) {
		refuses(t, filepath.Join(t.TempDir(), "missing", "claudeops.db"), os.ErrNotExist, "folder")
	})
}

// A file with tables and without our mark is left exactly as it is.
func TestADatabaseFileFromBeforeTheFirstReleaseIsRefused(t *testing.T) {
	for name, tables := range map[string]string{
		"ours":              `CREATE TABLE cycles (id INTEGER); CREATE TABLE store_state (name TEXT, value TEXT)`,
		"another program's": `CREATE TABLE customers (id INTEGER)`,
		"its migrations":    `CREATE TABLE goose_db_version (version_id INTEGER); INSERT INTO goose_db_version VALUES (5)`,
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "claudeops.db")
			other := raw(t, path)
			run(t, other, tables)
			succeeds(t, other.Close())
			before, err := os.ReadFile(path)
			succeeds(t, err)
			o := storetest.With(store.Options{Path: path})
			for how, use := range map[string]func() error{
				"open":      func() error { _, err := store.Open(t.Context(), o); return err },
				"read-only": func() error { _, err := store.OpenReadOnly(t.Context(), o); return err },
				"examine":   func() error { _, err := store.Examine(t.Context(), path); return err },
				"back up":   func() error { _, err := store.BackUp(t.Context(), path, path+".backup", false); return err },
				"restore":   func() error { _, err := store.Restore(t.Context(), path, path+".restored"); return err },
			} {
				err := use()
				want := path + ": this database is from before 0.1.0: move it away or start with an empty one"
				if !errors.Is(err, store.ErrUnmarked) || !strings.HasSuffix(err.Error(), want) {
					t.Errorf("%s: error is %v, want %q", how, err, want)
				}
			}
			if after, err := os.ReadFile(path); err != nil || !bytes.Equal(before, after) {
				t.Errorf("it was changed (%v)", err)
			}
			if left, err := filepath.Glob(path + "?*"); err != nil || len(left) > 0 {
				t.Errorf("left %v, %v", left, err)
			}
		})
	}
}

func overwrite(t *testing.T, path string, at int64, n int) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	succeeds(t, err)
	if _, err := f.WriteAt([]byte(strings.Repeat("\xa5", n)), at); err != nil {
		t.Fatal(err)
	}
	succeeds(t, f.Close())
}

func TestQuickCheckFindsDamage(t *testing.T) {
	path := newFile(t)
	s := openFile(t, path)
	f := storetest.NewFixture(t, s)
	session := f.RunningSession(t, "home")
	lines := make([]ops.Line, 2000)
	for i := range lines {
		lines[i] = ops.Line{Seq: int64(i), At: storetest.Start, Text: strings.Repeat("x", 200)}
	}
	succeeds(t, s.Journal.AppendTranscript(t.Context(), f.Owner, session.ID, lines))
	if err := s.QuickCheck(t.Context()); err != nil {
		t.Fatalf("a sound database: %v", err)
	}
	closeStore(t, s)
	info, err := os.Stat(path)
	succeeds(t, err)
	overwrite(t, path, info.Size()-20*4096, 10*4096)
	s, err = store.Open(t.Context(), storetest.With(store.Options{Path: path}))
	succeeds(t, err)
	if err := s.QuickCheck(t.Context()); !errors.Is(err, store.ErrCorrupt) {
		t.Errorf("error is %v, want %v", err, store.ErrCorrupt)
	}
	if err := s.Close(); !errors.Is(err, store.ErrCorrupt) {
		t.Errorf("closing says %v", err)
	}
}

func TestUnfinishedCreationIsCompleted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "claudeops.db")
	succeeds(t, os.WriteFile(path, nil, 0o600))
	if _, err := store.OpenReadOnly(t.Context(), storetest.With(store.Options{Path: path})); !errors.Is(err, ops.ErrNotFound) {
		t.Errorf("read-only: error is %v, want %v", err, ops.ErrNotFound)
	}
	// As it is when the process ends between the migration library's own table and the first migration.
	db := raw(t, path)
	run(t, db, `CREATE TABLE goose_db_version (id INTEGER PRIMARY KEY AUTOINCREMENT, version_id INTEGER NOT NULL,
		is_applied INTEGER NOT NULL, tstamp TIMESTAMP DEFAULT (datetime('now')))`)
	run(t, db, `INSERT INTO goose_db_version (version_id, is_applied) VALUES (0, 1)`)
	storetest.NewFixture(t, openFile(t, path)).Claim(t, "home")
}

func TestManyMayCreateAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "claudeops.db")
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			s, err := store.Open(t.Context(), storetest.With(store.Options{Path: path}))
			if err != nil {
				t.Error(err)
				return
			}
			closeStore(t, s)
		})
	}
	wg.Wait()
	storetest.NewFixture(t, openFile(t, path)).Claim(t, "home")
}

func TestDatabaseFileIsPrivateWhateverItsName(t *testing.T) {
	for _, name := range []string{"claudeops.db", "a b?c%20d#e&f=g.db", "ü'\".db"} {
		path := filepath.Join(t.TempDir(), name)
		storetest.NewFixture(t, openFile(t, path)).Claim(t, "home")
		for _, file := range []string{path, path + "-wal"} {
			info, err := os.Stat(file)
			succeeds(t, err)
			if info.Mode().Perm() != 0o600 {
				t.Errorf("%s has mode %v", file, info.Mode())
			}
		}
	}
}

func TestUncleanStopIsNoticed(t *testing.T) {
	path := newFile(t)
	daemon := openFile(t, path)
	if daemon.UncleanStop() {
		t.Error("a new database looks as if it had been left open")
	}
	succeeds(t, daemon.MarkOpen(t.Context()))
	// A command beside it does not take the mark away.
	closeStore(t, openFile(t, path))
	if !openFile(t, path).UncleanStop() {
		t.Error("a database that was left open looks clean")
	}
	closeStore(t, daemon)
	if openFile(t, path).UncleanStop() {
		t.Error("a clean stop is not seen")
	}
	if info, err := os.Stat(path + "-wal"); err == nil && info.Size() > 0 {
		t.Errorf("the log still has %d bytes after a clean stop", info.Size())
	}
	if err := daemon.Close(); err != nil {
		t.Errorf("closing twice: %v", err)
	}
}

// A kill leaves the files as they are at that moment.
func TestCommittedRowsSurviveAKill(t *testing.T) {
	path := newFile(t)
	f := storetest.NewFixture(t, openFile(t, path))
	session := f.RunningSession(t, "home")
	want := f.Commit(t, f.Escalation(session, 1))

	left := filepath.Join(t.TempDir(), "claudeops.db")
	for _, suffix := range []string{"", "-wal"} {
		b, err := os.ReadFile(path + suffix)
		succeeds(t, err)
		succeeds(t, os.WriteFile(left+suffix, b, 0o600))
	}
	got, err := openFile(t, left).Journal.Load(t.Context(), session.CycleID)
	succeeds(t, err)
	if len(got.Journal.Sessions) != len(want.Journal.Sessions) || got.Journal.Last().Key != want.Journal.Last().Key {
		t.Errorf("journal reads %+v, want %+v", got, want)
	}
}

func TestReadOnly(t *testing.T) {
	path := filepath.Join(t.TempDir(), "claudeops.db")
	options := storetest.With(store.Options{Path: path, Clock: func() time.Time { return storetest.Start }})
	if _, err := store.OpenReadOnly(t.Context(), options); !errors.Is(err, ops.ErrNotFound) {
		t.Fatalf("without a file: error is %v, want %v", err, ops.ErrNotFound)
	}
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Error("looking for a database created one")
	}
	writer := openFile(t, path)
	f := storetest.NewFixture(t, writer)
	id := f.Claim(t, "home").Cycle.ID

	beside, err := store.OpenReadOnly(t.Context(), options)
	succeeds(t, err)
	defer closeStore(t, beside)
	f.EndCycle(t, id)
	got, err := beside.Journal.Cycle(t.Context(), id)
	if err != nil || got.Status != ops.CycleHealthy {
		t.Errorf("beside a writer: %+v, %v", got, err)
	}
	if _, err := beside.Journal.SubmitCycle(t.Context(), ops.NewCycle{Environment: "home"}); err == nil {
		t.Error("a read-only store wrote")
	}
	if err := beside.QuickCheck(t.Context()); err != nil {
		t.Error(err)
	}

	closeStore(t, writer)
	alone, err := store.OpenReadOnly(t.Context(), options)
	succeeds(t, err)
	defer closeStore(t, alone)
	if _, err := alone.Journal.Cycle(t.Context(), id); err != nil {
		t.Errorf("after the writer closed: %v", err)
	}
}

// A command writes beside the daemon; neither is refused because the other was faster.
func TestTwoProcessesMayWriteAtOnce(t *testing.T) {
	path := newFile(t)
	daemon, command := openFile(t, path), openFile(t, path)
	id := storetest.NewFixture(t, daemon).Submit(t, "home")
	const each = 50
	var wg sync.WaitGroup
	for _, s := range []*store.Store{daemon, command} {
		wg.Go(func() {
			for range each {
				if _, err := s.Journal.RequestCancel(t.Context(), id, "stop", storetest.Start); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	got, err := daemon.Journal.Cycle(t.Context(), id)
	if err != nil || got.WakeSeq != 2*each {
		t.Errorf("wake number is %d, want %d (%v)", got.WakeSeq, 2*each, err)
	}
}
