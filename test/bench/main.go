// Command bench measures the built program from outside, with an agent that costs nothing, and prints a table.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	_ "modernc.org/sqlite" // to count what was stored

	"claudeops/test/agenttest"
	"claudeops/test/testtoken"
)

// trialName is this program where it plays an agent in the trial of its gates.
const trialName = "trial"

func main() {
	if filepath.Base(os.Args[0]) == trialName {
		if err := agenttest.Trial(os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, "trial:", err)
			os.Exit(1)
		}
		return
	}
	binary := flag.String("binary", "bin/claudeops", "the program to measure")
	chains := flag.Int("chains", 50, "how many three-tier chains PostgreSQL is measured with")
	only := flag.String("only", "", "measure this alone: bare, many, idle, probes, postgres, scaling or hosts")
	probes := flag.Duration("probes", time.Minute, "how long probes are watched")
	gatus := flag.String("gatus", "", "a Gatus program that watches the same targets as the probes")
	flag.Parse()
	if err := run(*binary, *only, *chains, *probes, *gatus, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// hostChains is how much three hosts are given to do.
const hostChains = 200

// figure is one line of the report.
type figure struct{ what, measured, target string }

func run(binary, only string, chains int, probes time.Duration, gatus string, out io.Writer) error {
	binary, err := filepath.Abs(binary)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "claudeops-bench-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	b := &bench{binary: binary, dir: dir, config: filepath.Join(dir, "claudeops.yaml")}
	if err := os.WriteFile(b.config, nil, 0o600); err != nil {
		return err
	}
	if err := b.copySelf(); err != nil {
		return err
	}
	fmt.Fprintf(out, "%d cores, %s, %s/%s\n\n| what | measured | target |\n|---|---|---|\n", runtime.NumCPU(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
	for _, m := range []struct {
		name    string
		measure func() ([]figure, error)
	}{
		{"bare", b.bare},
		{"many", func() ([]figure, error) { return b.weightOfMany(must(b.agent(result + "\n"))) }},
		{"idle", func() ([]figure, error) { return b.idle(probes) }},
		{"postgres", func() ([]figure, error) { return b.shared(chains) }},
		{"scaling", b.scaling},
		{"hosts", func() ([]figure, error) { return b.hosts(hostChains) }},
		{"probes", func() ([]figure, error) { return b.probes(probes, gatus) }},
	} {
		if only != "" && only != m.name {
			continue
		}
		figures, err := measured(m.measure)
		if err != nil {
			return err
		}
		for _, f := range figures {
			fmt.Fprintf(out, "| %s | %s | %s |\n", f.what, f.measured, f.target)
		}
	}
	return nil
}

// failure ends a measurement at once.
type failure struct{ err error }

// check ends the measurement if something went wrong.
func check(err error) {
	if err != nil {
		panic(failure{err})
	}
}

func must[T any](v T, err error) T {
	check(err)
	return v
}

func measured(measure func() ([]figure, error)) (_ []figure, err error) {
	defer func() {
		if r := recover(); r != nil {
			f, ok := r.(failure)
			if !ok {
				panic(r)
			}
			err = f.err
		}
	}()
	return measure()
}

type bench struct {
	binary, dir string
	config      string // empty, so that the one of the machine is not used
	n           int
}

// copySelf puts this program where agents see it.
func (b *bench) copySelf() error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	raw, err := os.ReadFile(self)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(b.dir, trialName), raw, 0o700) //nolint:gosec // it is run
}

// agent writes a fake agent: a script that plays body and answers like Claude Code.
func (b *bench) agent(body string) (string, error) {
	b.n++
	path := filepath.Join(b.dir, fmt.Sprintf("agent-%d", b.n))
	script := "#!/bin/bash\n[ \"$1\" = --version ] && { echo '2.1.325 (Claude Code)'; exit 0; }\n" +
		"[ \"$CLAUDEOPS_ROLE\" = trial ] && exec " + filepath.Join(b.dir, trialName) + " \"$@\"\n" + body
	return path, os.WriteFile(path, []byte(script), 0o700) //nolint:gosec // it is run
}

func (b *bench) command(agent, state string, args ...string) *exec.Cmd {
	c := exec.Command(b.binary, args...) //nolint:gosec,noctx // the program under measure
	c.Dir = b.dir
	c.Env = []string{
		"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=" + b.dir, "CLAUDEOPS_CONFIG=" + b.config, "CLAUDEOPS_STATE_DIR=" + state, "CLAUDEOPS_CLAUDE_BIN=" + agent,
		testtoken.Env, "CLAUDEOPS_ESCALATION_MODE=handoff", "CLAUDEOPS_SANDBOX_AGENT_FOLDERS=" + b.dir, // the fakes note there what they saw
	}
	return c
}

const result = `echo '{"type":"result","subtype":"success","is_error":false,"num_turns":1,"duration_ms":1,"total_cost_usd":0.001,"result":"ok","session_id":"s"}'`

// daemon is a running serve.
type daemon struct {
	cmd   *exec.Cmd
	addr  string
	begun time.Time
}

func (d *daemon) stop() {
	_ = d.cmd.Process.Signal(syscall.SIGTERM)
	_ = d.cmd.Wait()
}

// start starts a daemon and waits until it is ready.
func (b *bench) start(agent, state string, env ...string) (*daemon, error) {
	l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	d := &daemon{addr: l.Addr().String(), cmd: b.command(agent, state, "serve", "-q")}
	if err := l.Close(); err != nil {
		return nil, err
	}
	d.cmd.Env = append(append(d.cmd.Env, "CLAUDEOPS_LISTEN="+d.addr), env...)
	d.begun = time.Now()
	if err := d.cmd.Start(); err != nil {
		return nil, err
	}
	for {
		r, err := http.Get("http://" + d.addr + "/readyz") //nolint:noctx // loopback, bounded by the loop
		if err == nil {
			_ = r.Body.Close()
			if r.StatusCode == http.StatusOK {
				return d, nil
			}
		}
		if time.Since(d.begun) > time.Minute {
			d.stop()
			return nil, errors.New("the daemon does not become ready")
		}
		<-time.After(time.Millisecond)
	}
}

func residentMB(pid int) (int, error) { return memoryMB(pid, "VmRSS:") }

// memoryMB is one of the figures that the kernel keeps of a process.
func memoryMB(pid int, name string) (int, error) {
	raw := must(os.ReadFile(fmt.Sprintf("/proc/%d/status", pid)))
	for line := range strings.Lines(string(raw)) {
		if rest, ok := strings.CutPrefix(line, name); ok {
			kb, err := strconv.Atoi(strings.Fields(rest)[0])
			return kb >> 10, err
		}
	}
	return 0, errors.New("no " + name)
}
