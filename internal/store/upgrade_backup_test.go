package store_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"claudeops/internal/store"
)

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

func TestAMigrationBacksTheDatabaseUpFirst(t *testing.T) {
	path := installation(t, 13)
	before := tableCounts(t, raw(t, path))
	openFile(t, path)
	if got := strings.Join(backups(t, path), " "); got != "claudeops-schema-00013.db" {
		t.Fatalf("backups: %s", got)
	}
	backup := filepath.Join(filepath.Dir(path), "backups", "claudeops-schema-00013.db")
	b, err := store.Examine(t.Context(), backup)
	if err != nil || b.Schema != 13 {
		t.Fatalf("backup %+v, %v", b, err)
	}
	after := tableCounts(t, raw(t, backup))
	for table, n := range before {
		if after[table] != n {
			t.Errorf("%s had %d rows, its backup has %d", table, n, after[table])
		}
	}
	for name, mode := range map[string]os.FileMode{backup: 0o600, filepath.Dir(backup): 0o700} {
		if info, err := os.Stat(name); err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}
	// A restored backup is the database before the upgrade, and can be upgraded again.
	restored := filepath.Join(t.TempDir(), "claudeops.db")
	if _, err := store.Restore(t.Context(), backup, restored); err != nil {
		t.Fatal(err)
	}
	sound(t, openFile(t, restored))
}

func TestANewOrCurrentDatabaseIsNotBackedUp(t *testing.T) {
	path := newFile(t)
	openFile(t, path)
	if got := backups(t, path); len(got) != 0 {
		t.Errorf("backups: %v", got)
	}
}

func TestTheLastTwoBackupsAreKept(t *testing.T) {
	path := installation(t, 5)
	dir := filepath.Join(filepath.Dir(path), "backups")
	succeeds(t, os.Mkdir(dir, 0o700))
	for i, name := range []string{"claudeops-schema-00003.db", "claudeops-schema-00001.db", "claudeops-schema-00002.db", ".claudeops-backup-123"} {
		file := filepath.Join(dir, name)
		succeeds(t, os.WriteFile(file, nil, 0o600))
		at := time.Now().Add(-time.Duration(i+1) * time.Hour)
		succeeds(t, os.Chtimes(file, at, at))
	}
	succeeds(t, os.WriteFile(filepath.Join(dir, "my-own.db"), nil, 0o600))
	openFile(t, path)
	if got := strings.Join(backups(t, path), " "); got != "claudeops-schema-00003.db claudeops-schema-00005.db" {
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
func unmigrated(t *testing.T, path string, schema int64) {
	t.Helper()
	if _, err := store.OpenReadOnly(t.Context(), store.Options{Path: path}); !errors.Is(err, store.ErrOlder) {
		t.Errorf("error is %v, want %v", err, store.ErrOlder)
	}
	p, err := store.FindPending(t.Context(), store.Options{Path: path})
	if err != nil || p.Schema != schema {
		t.Errorf("pending %+v, %v", p, err)
	}
}

func TestWithoutABackupNothingIsMigrated(t *testing.T) {
	path := installation(t, 13)
	dir := filepath.Join(filepath.Dir(path), "backups")
	if err := os.WriteFile(dir, nil, 0o600); err != nil { // root may write to every folder, but not into a file
		t.Fatal(err)
	}
	_, err := store.Open(t.Context(), store.Options{Path: path})
	if err == nil {
		t.Fatal("it was migrated without a backup")
	}
	for _, part := range []string{"migrate from schema 13", "no backup could be written, so nothing was changed", dir, "free space"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q does not say %q", err, part)
		}
	}
	unmigrated(t, path, 13)
	succeeds(t, os.Remove(dir))
	sound(t, openFile(t, path))
}

func TestAFullDiskStopsTheMigration(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root to mount a small disk")
	}
	path := installation(t, 13)
	dir := filepath.Join(filepath.Dir(path), "backups")
	succeeds(t, os.Mkdir(dir, 0o700))
	if err := syscall.Mount("small", dir, "tmpfs", 0, "size=64k"); err != nil {
		t.Skipf("no disk can be mounted here: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
	_, err := store.Open(t.Context(), store.Options{Path: path})
	if err == nil || !strings.Contains(err.Error(), "no backup could be written") || !strings.Contains(err.Error(), "full") {
		t.Errorf("error is %v", err)
	}
	unmigrated(t, path, 13)
	if got := backups(t, path); len(got) != 0 {
		t.Errorf("an incomplete backup has the name of a complete one: %v", got)
	}
}

func TestPendingMigrationsAreListed(t *testing.T) {
	path := installation(t, 16)
	p, err := store.FindPending(t.Context(), store.Options{Path: path})
	if err != nil || p.Schema != 16 || len(p.Migrations) == 0 || p.Migrations[0] != "00019_costs" ||
		p.Backup != filepath.Join(filepath.Dir(path), "backups", "claudeops-schema-00016.db") {
		t.Errorf("pending %+v, %v", p, err)
	}
	if got := backups(t, path); len(got) != 0 {
		t.Errorf("a check wrote %v", got)
	}
	openFile(t, path)
	if p, err := store.FindPending(t.Context(), store.Options{Path: path}); err != nil || len(p.Migrations) != 0 {
		t.Errorf("pending %+v, %v", p, err)
	}
}

func TestAnOlderProgramNamesTheVersionThatWroteTheDatabase(t *testing.T) {
	path := newFile(t)
	s, err := store.Open(t.Context(), store.Options{Path: path, Version: "9.8.7"})
	succeeds(t, err)
	succeeds(t, errors.Join(s.MarkOpen(t.Context()), s.Close()))
	run(t, raw(t, path), `INSERT INTO goose_db_version (version_id, is_applied) VALUES (99999, 1)`)
	for name, open := range map[string]func() error{
		"open": func() error {
			_, err := store.Open(t.Context(), store.Options{Path: path, Version: "1.2.3"})
			return err
		},
		"read-only": func() error {
			_, err := store.OpenReadOnly(t.Context(), store.Options{Path: path, Version: "1.2.3"})
			return err
		},
		"check": func() error {
			_, err := store.FindPending(t.Context(), store.Options{Path: path, Version: "1.2.3"})
			return err
		},
	} {
		err := open()
		if !errors.Is(err, store.ErrNewer) {
			t.Errorf("%s: error is %v", name, err)
			continue
		}
		for _, part := range []string{path, "version 9.8.7", "schema 99999", "version 1.2.3", "install that version"} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%s: %q does not say %q", name, err, part)
			}
		}
	}
}
