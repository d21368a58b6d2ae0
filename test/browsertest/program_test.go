package browsertest

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"claudeops/test/agenttest"
	"claudeops/test/loopback"
	"claudeops/test/testtoken"
)

// program is the real binary, built when the first test needs it.
var program struct {
	once sync.Once
	dir  string
	path string
	err  error
}

func buildProgram(t testing.TB) string {
	t.Helper()
	program.once.Do(func() {
		//nolint:usetesting // it outlives the test that builds it
		if program.dir, program.err = os.MkdirTemp("", "claudeops-browsertest-"); program.err != nil {
			return
		}
		program.path = filepath.Join(program.dir, "claudeops")
		if out, err := exec.Command("go", "build", "-ldflags", "-s -w", "-o", program.path, "claudeops/cmd/claudeops").CombinedOutput(); err != nil {
			program.err = fmt.Errorf("build claudeops: %w\n%s", err, out)
		}
	})
	if program.err != nil {
		t.Fatal(program.err)
	}
	return program.path
}

func removeProgram() {
	if program.dir != "" {
		_ = os.RemoveAll(program.dir) // it is in the temporary folder
	}
}

// daemon is the real program with a fake agent.
type daemon struct {
	t     testing.TB
	bin   string // the fake agent
	gates string // a folder of files that the agent waits for
	base  string
	env   []string
	log   *loopback.Output
	ended chan struct{}
}

func startDaemon(t testing.TB, gates string, plays []agenttest.Play, env ...string) *daemon {
	t.Helper()
	binary := buildProgram(t)
	address := loopback.FreeAddress(t)
	d := &daemon{
		t: t, bin: agenttest.Fake(t, agenttest.Scenario{Plays: plays}), gates: gates, base: "http://" + address,
		log: &loopback.Output{}, ended: make(chan struct{}),
	}
	c := exec.Command(binary, "serve")
	c.Dir = t.TempDir()
	path := os.Getenv("PATH") //nolint:forbidigo // the program finds its tools where the tests do
	c.Env = append([]string{
		"PATH=" + path, "HOME=" + t.TempDir(), "TMPDIR=" + os.TempDir(), "CLAUDEOPS_STATE_DIR=" + filepath.Join(t.TempDir(), "state"), testtoken.Env,
		"CLAUDEOPS_CLAUDE_BIN=" + d.bin, "CLAUDEOPS_LISTEN=" + address, "CLAUDEOPS_ESCALATION_MODE=handoff", "CLAUDEOPS_RECOVERY=off",
		"CLAUDEOPS_SANDBOX_AGENT_FOLDERS=" + filepath.Dir(d.bin) + "," + gates,
	}, env...)
	d.env = c.Env
	c.Stdout, c.Stderr = d.log, d.log
	must(t, c.Start())
	go func() {
		_ = c.Wait() // it is ended by a signal
		close(d.ended)
	}()
	t.Cleanup(func() {
		_ = c.Process.Signal(os.Interrupt)
		select {
		case <-d.ended:
		case <-time.After(deadline):
			_ = c.Process.Kill()
			<-d.ended
		}
		if t.Failed() {
			t.Logf("the daemon said\n%s", d.log)
		}
	})
	d.ready()
	return d
}

// ready waits until the daemon is ready, for the first time or after it has read its configuration again.
func (d *daemon) ready() {
	d.t.Helper()
	d.until("the daemon is ready", func() bool {
		r, err := http.Get(d.base + "/readyz")
		if err != nil {
			return false
		}
		return r.Body.Close() == nil && r.StatusCode == http.StatusOK
	})
}

// open makes a tab that is signed in by a link, as a person does it.
func (d *daemon) open(t *testing.T) *tab {
	t.Helper()
	c := exec.Command(buildProgram(t), "open")
	c.Env = d.env
	link, err := c.Output()
	if err != nil {
		t.Fatalf("claudeops open: %v", err)
	}
	b := open(t, d.base)
	if status := b.visit(strings.TrimPrefix(strings.TrimSpace(string(link)), d.base)); status != http.StatusOK {
		t.Fatalf("the link %s answers %d", link, status)
	}
	return b
}

func (d *daemon) until(what string, holds func() bool) {
	d.t.Helper()
	for end := time.Now().Add(2 * deadline); !holds(); <-time.After(20 * time.Millisecond) {
		select {
		case <-d.ended:
			d.t.Fatalf("the daemon ended before: %s", what)
		default:
		}
		if time.Now().After(end) {
			d.t.Fatalf("did not come true: %s", what)
		}
	}
}

// pass lets the agent go on behind a gate.
func (d *daemon) pass(gate string) {
	d.t.Helper()
	must(d.t, os.WriteFile(filepath.Join(d.gates, gate), nil, 0o600))
}

// gate is a step in which the agent waits for pass.
func gate(dir, name string) agenttest.Step {
	return agenttest.Step{Run: fmt.Sprintf("n=0; until [ -e '%s' ] || [ $n -gt 1200 ]; do sleep 0.05; n=$((n+1)); done",
		filepath.Join(dir, name))}
}
