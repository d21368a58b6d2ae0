package main_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"claudeops/test/agenttest"
)

// The daemon is killed, and the log of its database is gone when it starts again.
func TestALostLogOfTheDatabaseIsSaidAtTheStart(t *testing.T) {
	t.Parallel()
	b := newBox(t, plays(agenttest.Healthy(0.01)))
	d := b.ready()
	d.until("the first cycle ends", func() bool { return b.ended(1) })
	must(t, d.cmd.Process.Signal(syscall.SIGKILL))
	<-d.done
	d.done <- nil
	for _, ending := range []string{"-wal", "-shm"} {
		must(t, os.Remove(filepath.Join(b.state, "claudeops.db"+ending)))
	}
	b.ready()
	contains(t, "the events", b.run("events").stdout, "the database has lost what was written between", "the end of its log is missing")
}
