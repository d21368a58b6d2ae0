//go:build failpoint

package store_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"claudeops/internal/store"
)

func TestKillBetweenBackupAndMigrationLeavesBoth(t *testing.T) {
	if path := os.Getenv("CRASH_TEST_DB"); path != "" { //nolint:forbidigo // tells the child process what to do
		openFile(t, path)
		return
	}
	path := installation(t, 13)
	before := tableCounts(t, raw(t, path))
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^TestKillBetweenBackupAndMigrationLeavesBoth$")
	cmd.Env = append(cmd.Environ(), "CRASH_TEST_DB="+path, "CLAUDEOPS_FAILPOINT=migrate.backup.after:1")
	out, err := cmd.CombinedOutput()
	exit, ok := errors.AsType[*exec.ExitError](err)
	if !ok || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Fatalf("%v\n%s", err, out)
	}
	unmigrated(t, path, 13)
	backup := filepath.Join(filepath.Dir(path), "backups", "claudeops-schema-00013.db")
	if b, err := store.Examine(t.Context(), backup); err != nil || b.Schema != 13 {
		t.Fatalf("backup %+v, %v", b, err)
	}
	// The next start writes the backup again and migrates.
	sound(t, openFile(t, path))
	after := tableCounts(t, raw(t, path))
	for table, n := range before {
		if table != "goose_db_version" && table != "store_state" && after[table] != n {
			t.Errorf("%s had %d rows and has %d", table, n, after[table])
		}
	}
	if got := strings.Join(backups(t, path), " "); got != "claudeops-schema-00013.db" {
		t.Errorf("backups: %s", got)
	}
}
