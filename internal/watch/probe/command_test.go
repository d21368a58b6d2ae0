package probe

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"claudeops/internal/ops"
)

func command(argv ...string) ops.ProbeSpec {
	return ops.ProbeSpec{Type: "command", Command: argv, Timeout: 20 * time.Second}
}

func TestCommandsAreJudgedByTheirExit(t *testing.T) {
	plain := filepath.Join(t.TempDir(), "plain")
	must(t, os.WriteFile(plain, nil, 0o600))
	cases := []struct {
		name    string
		argv    []string
		status  ops.Health
		problem string
	}{
		{"exit 0", []string{"sh", "-c", "echo noise"}, ops.Healthy, ""},
		{"exit 3 with output", []string{"sh", "-c", "echo; echo '  disk is full'; echo more; exit 3"}, ops.Down, "exit status 3: disk is full"},
		{"error output", []string{"sh", "-c", "echo broken >&2; exit 1"}, ops.Down, "exit status 1: broken"},
		{"silent", []string{"false"}, ops.Down, "exit status 1"},
		{"signal", []string{"sh", "-c", "kill -9 $$"}, ops.Down, "ended by signal: killed"},
		{"unknown", []string{"claudeops-no-such-program"}, ops.Down, "start command: not found"},
		{"unknown path", []string{"/nonexistent/program"}, ops.Down, "start command: no such file or directory"},
		{"no program", []string{plain}, ops.Down, "start command: permission denied"},
		{"none", nil, ops.Down, "no command is configured"},
		{"not a shell", []string{"test", "$HOME", "=", "$HOME"}, ops.Healthy, ""},
		{"control characters", []string{"printf", `\033[31mred\007\377`}, ops.Healthy, ""},
		{"control characters in the error", []string{"sh", "-c", `printf '\033[31mred\007\377x'; exit 1`}, ops.Down, "exit status 1: [31mred �x"},
		{
			"long line",
			[]string{"sh", "-c", "head -c 100000 /dev/zero | tr '\\0' a; exit 1"},
			ops.Down,
			"exit status 1: " + strings.Repeat("a", 184) + "…",
		},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got := run(t, command(c.argv...))
			want(t, got, c.status, c.problem)
			if got.Type != ops.CheckService || got.Probe != "command "+strings.Join(c.argv, " ") {
				t.Errorf("got %+v", got)
			}
		})
	}
}

func TestACommandSeesOnlyThePath(t *testing.T) {
	t.Setenv("ANTHROPIC_API_KEY", "secret")
	got := New(Options{Path: "/usr/bin:/bin"}).Run(t.Context(), "home", []ops.ProbeSpec{
		command("sh", "-c", `env | grep -v -e ^PWD= -e ^SHLVL= -e ^_= -e ^OLDPWD= | tr '\n' ' '; exit 1`),
	}, ops.ProbeObserve)[0]
	want(t, got, ops.Down, "exit status 1: PATH=/usr/bin:/bin")
}

// gone waits for a process to end that we are not the parent of.
func gone(t *testing.T, pid int) bool {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
		stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
		if err != nil || strings.Contains(string(stat), ") Z ") {
			return true
		}
		<-time.After(5 * time.Millisecond)
	}
	return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH)
}

func pidIn(t *testing.T, path string) int {
	t.Helper()
	raw, err := os.ReadFile(path)
	must(t, err)
	pid, err := strconv.Atoi(strings.TrimSpace(string(raw)))
	must(t, err)
	return pid
}

func TestACommandThatHangsIsKilledWithItsGroup(t *testing.T) {
	pidFile := filepath.Join(t.TempDir(), "pid")
	spec := command("sh", "-c", "sleep 600 & echo $! > "+pidFile+"; wait")
	spec.Timeout = time.Second
	got := run(t, spec)
	want(t, got, ops.Down, "no answer within 1s")
	if got.ResponseTimeMS > 5000 {
		t.Errorf("took %d ms", got.ResponseTimeMS)
	}
	if pid := pidIn(t, pidFile); !gone(t, pid) {
		t.Errorf("process %d still runs", pid)
	}
}

func TestWhatACommandLeavesBehindIsKilled(t *testing.T) {
	pidFile := filepath.Join(t.TempDir(), "pid")
	got := run(t, command("sh", "-c", "sleep 600 & echo $! > "+pidFile))
	want(t, got, ops.Healthy, "")
	if pid := pidIn(t, pidFile); !gone(t, pid) {
		t.Errorf("process %d still runs", pid)
	}
}

func TestAProcessThatLeftTheGroupCannotHoldTheProbe(t *testing.T) {
	pidFile := filepath.Join(t.TempDir(), "pid")
	got := run(t, command("sh", "-c", "setsid sh -c 'echo $$ > "+pidFile+"; exec sleep 600' & while ! test -s "+pidFile+"; do :; done"))
	pid := pidIn(t, pidFile)
	t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGKILL) })
	want(t, got, ops.Healthy, "")
	if got.ResponseTimeMS > 10_000 {
		t.Errorf("took %d ms", got.ResponseTimeMS)
	}
}
