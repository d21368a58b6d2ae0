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
		upgrade(t, nextVersion(t, path, "", nextMigration))
		return
	}
	path := filled(t)
	before := tableCounts(t, raw(t, path))
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run", "^TestKillBetweenBackupAndMigrationLeavesBoth$")
	cmd.Env = append(cmd.Environ(), "CRASH_TEST_DB="+path, "CLAUDEOPS_FAILPOINT=migrate.backup.after:1")
	out, err := cmd.CombinedOutput()
	exit, ok := errors.AsType[*exec.ExitError](err)
	if !ok || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Fatalf("%v\n%s", err, out)
	}
	unmigrated(t, path)
	backup := filepath.Join(filepath.Dir(path), "backups", "claudeops-schema-00001.db")
	if b, err := store.Examine(t.Context(), backup); err != nil || b.Schema != 1 {
		t.Fatalf("backup %+v, %v", b, err)
	}
	// The next start writes the backup again and migrates.
	upgrade(t, nextVersion(t, path, "", nextMigration))
	sameRows(t, before, tableCounts(t, raw(t, path)))
	if got := strings.Join(backups(t, path), " "); got != "claudeops-schema-00001.db" {
		t.Errorf("backups: %s", got)
	}
}
