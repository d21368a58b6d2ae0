package store_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"
	"time"

	"claudeops/internal/store"
	"claudeops/internal/store/db"
	"claudeops/test/pgtest"
	"claudeops/test/storetest"
)

// What the next version might change: a column that is filled from others. There is no second migration yet, so this one is made up.
const nextMigration = `-- +goose Up
ALTER TABLE events ADD COLUMN colour TEXT NOT NULL DEFAULT '';
UPDATE events SET colour = kind || '.' || level;
`

// nextVersion opens databases as the version with that migration would.
func nextVersion(t *testing.T, path, address, migration string) db.Options {
	t.Helper()
	baseline, err := os.ReadFile("migrations/00001_baseline.sql")
	succeeds(t, err)
	return db.Options{
		Path: path, URL: address, Version: "9.8.7", Clock: time.Now, Logger: slog.New(slog.DiscardHandler),
		Schema: db.Schema{Files: fstest.MapFS{
			"migrations/00001_baseline.sql": {Data: baseline}, "migrations/00002_colours.sql": {Data: []byte(migration)},
		}},
	}
}

// upgrade opens a database with the next version and returns how many events that version has filled.
func upgrade(t *testing.T, o db.Options) int64 {
	t.Helper()
	next, err := db.Open(t.Context(), o)
	succeeds(t, err)
	n, err := db.One(t.Context(), next.Reader(), db.ScanInt, `SELECT COUNT(*) FROM events WHERE colour = 'escalation.warning'`)
	succeeds(t, errors.Join(err, next.Close()))
	return n
}

func sameRows(t *testing.T, before, after map[string]int64) {
	t.Helper()
	for table, n := range before {
		if table != "goose_db_version" && table != "store_state" && after[table] != n {
			t.Errorf("%s had %d rows and has %d", table, n, after[table])
		}
	}
}

func TestAnUpgradeKeepsEveryRow(t *testing.T) {
	path := filled(t)
	before := tableCounts(t, raw(t, path))
	o := nextVersion(t, path, "", nextMigration)
	backup := filepath.Join(filepath.Dir(path), "backups", "claudeops-schema-00001.db")
	if _, err := db.OpenReadOnly(t.Context(), o); !errors.Is(err, db.ErrOlder) {
		t.Errorf("read-only before: error is %v, want %v", err, db.ErrOlder)
	}
	if got := backups(t, path); len(got) != 0 {
		t.Errorf("looking wrote %v", got)
	}
	if n := upgrade(t, o); n != 1 {
		t.Errorf("%d events were filled", n)
	}
	sameRows(t, before, tableCounts(t, raw(t, path)))
	refusesNewer(t, storetest.With(store.Options{Path: path}), path)

	// The backup is the database before the upgrade: this version reads it and goes on.
	if b, err := store.Examine(t.Context(), backup); err != nil || b.Schema != 1 {
		t.Fatalf("backup %+v, %v", b, err)
	}
	for name, mode := range map[string]os.FileMode{backup: 0o600, filepath.Dir(backup): 0o700} {
		if info, err := os.Stat(name); err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}
	if _, err := store.Restore(t.Context(), backup, path); err != nil {
		t.Fatal(err)
	}
	sameRows(t, before, tableCounts(t, raw(t, path)))
	s := openFile(t, path)
	sound(t, s)
	readEverything(t, s)
}

func TestAnUpgradeOnAServerKeepsEveryRow(t *testing.T) {
	address := pgtest.URL(t)
	first := openServer(t, address)
	copied := copyAll(t, openFile(t, filled(t)), first)
	closeStore(t, first)
	if n := upgrade(t, nextVersion(t, "", address, nextMigration)); n != 1 {
		t.Errorf("%d events were filled", n)
	}
	conn := connect(t, address)
	for _, c := range copied {
		var n int64
		if err := conn.QueryRow(t.Context(), `SELECT COUNT(*) FROM `+c.Table).Scan(&n); err != nil || n != c.Rows && c.Table != "store_state" {
			t.Errorf("%s had %d rows and has %d (%v)", c.Table, c.Rows, n, err)
		}
	}
	refusesNewer(t, storetest.With(store.Options{URL: address}), "127.0.0.1")
}

// refusesNewer opens what the next version has written with this one.
func refusesNewer(t *testing.T, o store.Options, name string) {
	t.Helper()
	o.Version = "1.2.3"
	for how, open := range map[string]func() error{
		"open":      func() error { _, err := store.Open(t.Context(), o); return err },
		"read-only": func() error { _, err := store.OpenReadOnly(t.Context(), o); return err },
	} {
		err := open()
		if !errors.Is(err, store.ErrNewer) {
			t.Errorf("%s: error is %v, want %v", how, err, store.ErrNewer)
			continue
		}
		for _, part := range []string{name, "version 9.8.7", "schema 2", "version 1.2.3 knows up to schema 1", "install that version"} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%s: %q does not say %q", how, err, part)
			}
		}
	}
}

// A kill in the middle of a migration leaves the database as it was before, and the next start upgrades it.
func TestAKillDuringAnUpgradeLeavesTheOldState(t *testing.T) {
	const slow = nextMigration + `CREATE TABLE slow AS WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000000000)
		SELECT COUNT(*) AS n FROM n;`
	if path := os.Getenv("UPGRADE_TEST_DB"); path != "" { //nolint:forbidigo // tells the child process what to do
		upgrade(t, nextVersion(t, path, "", slow))
		return
	}
	path := filled(t)
	before := tableCounts(t, raw(t, path))
	beside := raw(t, path)
	beside.SetMaxOpenConns(1)
	run(t, beside, `PRAGMA busy_timeout = 0`)
	killUpgrade(t, "UPGRADE_TEST_DB="+path, func() bool {
		if len(backups(t, path)) == 0 {
			return false
		}
		_, err := beside.ExecContext(t.Context(), `INSERT INTO store_state (name, value) VALUES ('beside', '') ON CONFLICT DO NOTHING`)
		return err != nil // the migration has the only place of a writer
	})
	sameRows(t, before, tableCounts(t, raw(t, path)))
	sound(t, openFile(t, path))
	if got := strings.Join(backups(t, path), " "); got != "claudeops-schema-00001.db" {
		t.Errorf("backups: %s", got)
	}
	if n := upgrade(t, nextVersion(t, path, "", nextMigration)); n != 1 {
		t.Errorf("%d events were filled", n)
	}
	sameRows(t, before, tableCounts(t, raw(t, path)))
}

func TestAKillDuringAnUpgradeOnAServerLeavesTheOldState(t *testing.T) {
	const slow = nextMigration + `SELECT pg_sleep(2);`
	if address := os.Getenv("UPGRADE_TEST_URL"); address != "" { //nolint:forbidigo // tells the child process what to do
		upgrade(t, nextVersion(t, "", address, slow))
		return
	}
	address := pgtest.URL(t)
	f := storetest.NewFixture(t, openServer(t, address))
	id := f.Claim(t, "home").Cycle.ID
	conn := connect(t, address)
	killUpgrade(t, "UPGRADE_TEST_URL="+address, func() bool {
		var n int
		succeeds(t, conn.QueryRow(t.Context(), `SELECT COUNT(*) FROM pg_stat_activity
			WHERE datname = current_database() AND pid <> pg_backend_pid() AND query LIKE '%pg_sleep(2)%'`).Scan(&n))
		return n > 0
	})
	if _, err := openServer(t, address).Journal.Cycle(t.Context(), id); err != nil {
		t.Error(err)
	}
	// It waits until the server has noticed that the other one is gone.
	upgrade(t, nextVersion(t, "", address, nextMigration))
	refusesNewer(t, storetest.With(store.Options{URL: address}), "127.0.0.1")
}

// killUpgrade runs the test again in a process that upgrades, and kills it when it is in the middle.
func killUpgrade(t *testing.T, variable string, inside func() bool) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^"+t.Name()+"$")
	cmd.Env = append(cmd.Environ(), variable)
	succeeds(t, cmd.Start())
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for look := time.NewTicker(5 * time.Millisecond); ctx.Err() == nil && !inside(); {
		<-look.C
	}
	if ctx.Err() != nil {
		t.Error("the migration was not seen to begin")
	}
	succeeds(t, cmd.Process.Kill())
	if err := cmd.Wait(); cmd.ProcessState.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Fatalf("it ended by itself: %v", err)
	}
}

// A migration that fails changes nothing.
func TestAMigrationThatFailsLeavesTheOldState(t *testing.T) {
	path := filled(t)
	before := tableCounts(t, raw(t, path))
	_, err := db.Open(t.Context(), nextVersion(t, path, "", nextMigration+"UPDATE missing SET x = 1;"))
	if err == nil || !strings.Contains(err.Error(), "migrate from schema 1 to 2") {
		t.Errorf("error is %v", err)
	}
	unmigrated(t, path)
	sameRows(t, before, tableCounts(t, raw(t, path)))
}

// backups lists the backups of a database, without those that are incomplete.
func backups(t *testing.T, database string) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(filepath.Dir(database), "backups", "claudeops-schema-*.db"))
	succeeds(t, err)
	names := make([]string, len(paths))
	for i, path := range paths {
		names[i] = filepath.Base(path)
	}
	return names
}

func TestANewOrCurrentDatabaseIsNotBackedUp(t *testing.T) {
	path := newFile(t)
	openFile(t, path)
	if got := backups(t, path); len(got) != 0 {
		t.Errorf("backups: %v", got)
	}
}

func TestTheLastTwoBackupsAreKept(t *testing.T) {
	path := newFile(t)
	dir := filepath.Join(filepath.Dir(path), "backups")
	succeeds(t, os.Mkdir(dir, 0o700))
	for i, name := range []string{"claudeops-schema-00007.db", "claudeops-schema-00005.db", "claudeops-schema-00006.db", ".claudeops-backup-123"} {
		file := filepath.Join(dir, name)
		succeeds(t, os.WriteFile(file, nil, 0o600))
		at := time.Now().Add(-time.Duration(i+1) * time.Hour)
		succeeds(t, os.Chtimes(file, at, at))
	}
	succeeds(t, os.WriteFile(filepath.Join(dir, "my-own.db"), nil, 0o600))
	upgrade(t, nextVersion(t, path, "", nextMigration))
	if got := strings.Join(backups(t, path), " "); got != "claudeops-schema-00001.db claudeops-schema-00007.db" {
		t.Errorf("backups: %s", got)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, ".claudeops-backup-*")); len(left) != 0 {
		t.Errorf("left over: %v", left)
	}
	if _, err := os.Stat(filepath.Join(dir, "my-own.db")); err != nil {
		t.Error(err)
	}
}

// unmigrated checks that the database was left as it was.
func unmigrated(t *testing.T, path string) {
	t.Helper()
	if _, err := db.OpenReadOnly(t.Context(), nextVersion(t, path, "", nextMigration)); !errors.Is(err, db.ErrOlder) {
		t.Errorf("error is %v, want %v", err, db.ErrOlder)
	}
	sound(t, openFile(t, path))
}

func TestWithoutABackupNothingIsMigrated(t *testing.T) {
	path := newFile(t)
	dir := filepath.Join(filepath.Dir(path), "backups")
	if err := os.WriteFile(dir, nil, 0o600); err != nil { // root may write to every folder, but not into a file
		t.Fatal(err)
	}
	_, err := db.Open(t.Context(), nextVersion(t, path, "", nextMigration))
	if err == nil {
		t.Fatal("it was migrated without a backup")
	}
	for _, part := range []string{"migrate from schema 1", "no backup could be written, so nothing was changed", dir, "free space"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q does not say %q", err, part)
		}
	}
	unmigrated(t, path)
	succeeds(t, os.Remove(dir))
	upgrade(t, nextVersion(t, path, "", nextMigration))
}

func TestAFullDiskStopsTheMigration(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root to mount a small disk")
	}
	path := newFile(t)
	dir := filepath.Join(filepath.Dir(path), "backups")
	succeeds(t, os.Mkdir(dir, 0o700))
	if err := syscall.Mount("small", dir, "tmpfs", 0, "size=64k"); err != nil {
		t.Skipf("no disk can be mounted here: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
	_, err := db.Open(t.Context(), nextVersion(t, path, "", nextMigration))
	if err == nil || !strings.Contains(err.Error(), "no backup could be written") || !strings.Contains(err.Error(), "full") {
		t.Errorf("error is %v", err)
	}
	unmigrated(t, path)
	if got := backups(t, path); len(got) != 0 {
		t.Errorf("an incomplete backup has the name of a complete one: %v", got)
	}
}
