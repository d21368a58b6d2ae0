//go:build linux

package client_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"claudeops/internal/agent/keeper"
	"claudeops/internal/agent/keeper/client"
	"claudeops/internal/agent/process"
	"claudeops/internal/ops"
)

func start(t testing.TB, lease time.Duration) *client.Client {
	t.Helper()
	self, err := os.Executable()
	must(t, err)
	c := client.Start(t.Context(), client.Options{Path: self, Lease: lease, Logger: slog.New(slog.DiscardHandler)})
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	must(t, c.Check(t.Context()))
	return c
}

// keeperOf returns the keeper that this process started, or 0.
func keeperOf(t testing.TB) int {
	t.Helper()
	entries, err := filepath.Glob("/proc/[0-9]*/cmdline")
	must(t, err)
	for _, e := range entries {
		line, err := os.ReadFile(e)
		if err != nil || !bytes.Contains(line, []byte("\x00"+keeper.Word+"\x00")) {
			continue
		}
		raw, err := os.ReadFile(filepath.Join(filepath.Dir(e), "stat"))
		if err != nil {
			continue
		}
		_, after, _ := strings.Cut(string(raw), ") ")
		if f := strings.Fields(after); len(f) > 1 && f[0] != "Z" && f[1] == strconv.Itoa(os.Getpid()) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(e)))
			return pid
		}
	}
	return 0
}

func signalTo(t *testing.T, pid int, s syscall.Signal) {
	t.Helper()
	must(t, syscall.Kill(pid, s))
}

func TestAStoppedKeeperEndsSessionsAndStartsNone(t *testing.T) {
	c := start(t, 3*time.Second)
	bound, free := c.Bound(t.Context())
	defer free()
	if _, err := c.Register(t.Context(), "runs", ""); err != nil {
		t.Fatal(err)
	}
	pid := keeperOf(t)
	signalTo(t, pid, syscall.SIGSTOP)
	if err := c.Check(t.Context()); err == nil || c.Trouble() == nil {
		t.Errorf("a stopped keeper is in order: %v", err)
	}
	<-bound.Done()
	if stop := (*ops.StopError)(nil); !errors.As(context.Cause(bound), &stop) || stop.Cause != ops.StopLease {
		t.Errorf("the session ends with %v", context.Cause(bound))
	}
	if _, err := c.Register(t.Context(), "new", ""); err == nil {
		t.Error("a session may start")
	}
	c.Release("runs")
	signalTo(t, pid, syscall.SIGCONT)
	for c.Trouble() != nil {
		<-time.After(time.Millisecond)
	}
	if _, err := c.Register(t.Context(), "new", ""); err != nil {
		t.Errorf("afterwards: %v", err)
	}
	c.Release("new")
}

func TestAnotherKeeperKnowsTheSessions(t *testing.T) {
	c := start(t, time.Minute)
	agent := exec.Command("sleep", "600")
	agent.Env = []string{process.KeyName + "=kept-" + strconv.Itoa(os.Getpid())}
	started, err := c.Register(t.Context(), "kept-"+strconv.Itoa(os.Getpid()), "")
	must(t, err)
	must(t, agent.Start())
	stat, err := process.ReadStat(agent.Process.Pid)
	must(t, err)
	started(stat.Ident)
	signalTo(t, keeperOf(t), syscall.SIGKILL)
	if err := c.Check(t.Context()); err != nil {
		t.Errorf("after a kill: %v", err)
	}
	// It kills what was not released.
	must(t, c.Close())
	_ = agent.Wait()
	if ws, ok := agent.ProcessState.Sys().(syscall.WaitStatus); !ok || ws.Signal() != syscall.SIGKILL {
		t.Errorf("the session ended with %v", agent.ProcessState)
	}
}

func TestAKeeperThatCannotStartIsTrouble(t *testing.T) {
	for _, path := range []string{"/does/not/exist", "/bin/true"} {
		c := client.Start(t.Context(), client.Options{Path: path, Lease: time.Minute, Logger: slog.New(slog.DiscardHandler)})
		if err := c.Check(t.Context()); err == nil || !strings.Contains(err.Error(), "no session starts") {
			t.Errorf("%s: %v", path, err)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}
