package main_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"claudeops/test/agenttest"
	"claudeops/test/testtoken"
)

// What the program may take, in MB: a tenth more than the goal of 28 at rest, and a little more than the file has now. The goal for the file
// is 30, which it misses; docs/benchmarks.md says why.
const (
	largestProgram = 47.5
	largestIdle    = 30.8
)

// TestTheProgramStaysSmall builds the program as it is delivered and looks at it when it has nothing to do.
func TestTheProgramStaysSmall(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "claudeops")
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", path, "claudeops/cmd/claudeops")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	info, err := os.Stat(path)
	must(t, err)
	if size := float64(info.Size()) / 1e6; size > largestProgram {
		t.Errorf("the program has %.1f MB; the limit is %.1f MB", size, largestProgram)
	}

	idle := idleMemory(t, path)
	t.Logf("program %.1f MB, at rest %.1f MB", float64(info.Size())/1e6, idle)
	if idle > largestIdle {
		t.Errorf("at rest it holds %.1f MB; the limit is %.1f MB", idle, largestIdle)
	}
}

// idleMemory starts the daemon with a history in which nothing is to do, and returns the memory that it holds as soon as that is within
// the limit, or after a time in which it should be.
func idleMemory(t *testing.T, program string) float64 {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	must(t, err)
	address := l.Addr().String()
	_ = l.Close()
	agent := agenttest.Fake(t, agenttest.Scenario{Plays: []agenttest.Play{agenttest.Healthy(0)}})
	run := func(args ...string) *exec.Cmd {
		c := exec.Command(program, args...)
		c.Dir = t.TempDir()
		c.Env = []string{
			"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=" + filepath.Dir(program), "CLAUDEOPS_STATE_DIR=" + filepath.Join(filepath.Dir(program), "state"), testtoken.Env,
			"CLAUDEOPS_ESCALATION_MODE=handoff", "CLAUDEOPS_CLAUDE_BIN=" + agent, "CLAUDEOPS_LISTEN=" + address, "CLAUDEOPS_SANDBOX_AGENT_FOLDERS=" + filepath.Dir(agent),
		}
		return c
	}
	if out, err := run("once", "-q").CombinedOutput(); err != nil {
		t.Fatalf("first cycle: %v\n%s", err, out)
	}
	c := run("serve", "-q")
	must(t, c.Start())
	defer func() {
		_ = c.Process.Signal(syscall.SIGTERM)
		_ = c.Wait()
	}()
	awaitReady(t, "http://"+address+"/readyz")
	// It gives memory back some time after it is ready.
	held := residentMB(t, c.Process.Pid)
	for end := time.Now().Add(30 * time.Second); held > largestIdle && time.Now().Before(end); held = residentMB(t, c.Process.Pid) {
		<-time.After(20 * time.Millisecond)
	}
	return held
}

func awaitReady(t *testing.T, url string) {
	t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); {
		if r, err := http.Get(url); err == nil {
			_, _ = io.Copy(io.Discard, r.Body)
			_ = r.Body.Close()
			if r.StatusCode == http.StatusOK {
				return
			}
		}
		<-time.After(10 * time.Millisecond)
	}
	t.Fatal("the daemon does not become ready")
}

func residentMB(t *testing.T, pid int) float64 {
	t.Helper()
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	must(t, err)
	for line := range strings.Lines(string(raw)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kb, err := strconv.Atoi(strings.Fields(rest)[0])
			must(t, err)
			return float64(kb) * 1024 / 1e6
		}
	}
	t.Fatal("no VmRSS")
	return 0
}
