// Command bench measures the built program from outside, with an agent that costs nothing, and prints a table.
package main

import (
	"bufio"
	"context"
	"database/sql"
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
	"slices"
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
	chains := flag.Int("chains", 50, "how many three-tier chains the hop is measured on")
	webhooks := flag.Duration("webhooks", 10*time.Second, "how long alerts are sent")
	only := flag.String("only", "", "measure this alone: bare, queue, weight, many, hops, lines, idle, gates, walls, verdicts, webhooks, probes, crowd, postgres or hosts")
	crowd := flag.Int("crowd", 500, "how many chains are to be done at once")
	probes := flag.Duration("probes", time.Minute, "how long probes are watched")
	gatus := flag.String("gatus", "", "a Gatus program that watches the same targets as the probes")
	flag.Parse()
	if err := run(*binary, *only, *chains, *crowd, *webhooks, *probes, *gatus, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// hostChains is how much three hosts are given to do.
const hostChains = 200

// figure is one line of the report.
type figure struct{ what, measured, target string }

func run(binary, only string, chains, crowd int, webhooks, probes time.Duration, gatus string, out io.Writer) error {
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
		{"queue", b.queue},
		{"weight", b.weight},
		{"many", func() ([]figure, error) { return b.weightOfMany(must(b.agent(result + "\n"))) }},
		{"hops", func() ([]figure, error) { return b.hops(chains) }},
		{"lines", b.lines},
		{"idle", b.idle},
		{"gates", b.gates},
		{"walls", b.walls},
		{"verdicts", b.verdicts},
		{"webhooks", func() ([]figure, error) { return b.webhooks(webhooks) }},
		{"crowd", func() ([]figure, error) { return b.crowd(crowd) }},
		{"postgres", func() ([]figure, error) { return b.shared(chains) }},
		{"hosts", b.scaling},
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

// lines measures one session with 100,000 lines of output.
func (b *bench) lines() ([]figure, error) {
	const count = 100_000
	file := filepath.Join(b.dir, "lines")
	// Written in pieces: what this program holds would count as the measured one's peak.
	out := must(os.Create(file))
	text := bufio.NewWriter(out)
	for i := range count - 1 {
		fmt.Fprintf(text, `{"type":"user","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_%06d","content":"%s"}]}}`+"\n", i, strings.Repeat("log line of a service ", 10))
	}
	check(errors.Join(text.Flush(), out.Close()))
	info := must(os.Stat(file))
	agent := must(b.agent("cat " + file + "\n" + result + "\n"))
	state := filepath.Join(b.dir, "lines-state")
	c := b.command(agent, state, "once", "-q")
	c.Env = append(c.Env, "CLAUDEOPS_GUARD=off") // this agent asks no gate about its hundred thousand results
	begun := time.Now()
	if out, err := c.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("run session: %w\n%s", err, out)
	}
	took := time.Since(begun)
	stored, size, err := countLines(filepath.Join(state, "claudeops.db"))
	if err != nil {
		return nil, err
	}
	cpu := c.ProcessState.UserTime() + c.ProcessState.SystemTime()
	usage, ok := c.ProcessState.SysUsage().(*syscall.Rusage)
	if !ok {
		return nil, errors.New("no resource usage on this system")
	}
	return []figure{
		{fmt.Sprintf("%d lines, %d MB from one session: stored", count, info.Size()>>20), fmt.Sprint(stored), fmt.Sprint(count)},
		{"… CPU, agent included", fmt.Sprintf("%.2f s (wall %.2f s)", cpu.Seconds(), took.Seconds()), "≤ 1.2 s"},
		{"… peak RSS", fmt.Sprintf("%d MB", usage.Maxrss>>10), "≤ 105 MB"},
		{"… stored size", fmt.Sprintf("1/%.0f of the output", float64(info.Size())/float64(max(size, 1))), "≤ 1/5"},
	}, nil
}

// countLines counts the stored lines and their size.
func countLines(path string) (lines int, size int64, err error) {
	db := must(sql.Open("sqlite", path))
	defer func() { _ = db.Close() }()
	err = db.QueryRowContext(context.Background(), `SELECT SUM(n), SUM(size) FROM (
		SELECT COUNT(*) AS n, COALESCE(SUM(OCTET_LENGTH(line)), 0) AS size FROM transcript
		UNION ALL SELECT COALESCE(SUM(lines), 0), COALESCE(SUM(LENGTH(data)), 0) FROM transcript_blocks)`).Scan(&lines, &size)
	return lines, size, err
}

// idle measures the program at rest: how soon it is ready, what it holds when nothing happens, and its file.
func (b *bench) idle() ([]figure, error) {
	agent := must(b.agent(result + "\n"))
	state := filepath.Join(b.dir, "idle")
	if out, err := b.command(agent, state, "once", "-q").CombinedOutput(); err != nil {
		return nil, fmt.Errorf("run first cycle: %w\n%s", err, out)
	}
	var existing, fresh, version []float64
	var rss int
	const starts = 9
	for i := range starts {
		ready, held, err := b.serve(agent, state, i == starts-1)
		if err != nil {
			return nil, err
		}
		existing, rss = append(existing, inMilliseconds(ready)), held
		if ready, _, err = b.serve(agent, filepath.Join(b.dir, fmt.Sprintf("new-%d", i)), false); err != nil {
			return nil, err
		}
		fresh = append(fresh, inMilliseconds(ready))
		begun := time.Now()
		if err := b.command(agent, state, "version").Run(); err != nil {
			return nil, fmt.Errorf("print version: %w", err)
		}
		version = append(version, inMilliseconds(time.Since(begun)))
	}
	info := must(os.Stat(b.binary))
	return []figure{
		{"start to ready, existing state", spread(existing), ""},
		{"start to ready, new state", spread(fresh), ""},
		{"`claudeops version`", spread(version), "≤ 30 ms"},
		{"idle RSS after 5 s", fmt.Sprintf("%d MB", rss), ""},
		{"size of the program", fmt.Sprintf("%.1f MB", float64(info.Size())/1e6), "≤ 42 MB"},
	}, nil
}

func inMilliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// spread is the median and the least of some times; the least is what other work on the machine disturbs least.
func spread(times []float64) string {
	slices.Sort(times)
	return fmt.Sprintf("median %.1f ms, least %.1f ms of %d", times[len(times)/2], times[0], len(times))
}

func (b *bench) serve(agent, state string, settle bool) (time.Duration, int, error) {
	d := must(b.start(agent, state))
	defer d.stop()
	if settle {
		<-time.After(5 * time.Second)
	}
	rss, err := residentMB(d.cmd.Process.Pid)
	return d.ready, rss, err
}

// daemon is a running serve.
type daemon struct {
	cmd   *exec.Cmd
	addr  string
	begun time.Time
	ready time.Duration
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
				d.ready = time.Since(d.begun)
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
