package main_test

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"claudeops/internal/ops"
	"claudeops/test/agenttest"
)

// manager takes what a daemon tells systemd.
type manager struct {
	t    *testing.T
	conn *net.UnixConn
	path string
}

func newManager(t *testing.T) *manager {
	t.Helper()
	m := &manager{t: t, path: filepath.Join(t.TempDir(), "notify")}
	var err error
	if m.conn, err = net.ListenUnixgram("unixgram", &net.UnixAddr{Name: m.path, Net: "unixgram"}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.conn.Close() })
	return m
}

// next is the next message that begins with the word; signs of life are passed over unless they are asked for.
func (m *manager) next(word string) string {
	m.t.Helper()
	buffer := make([]byte, 4096)
	for {
		must(m.t, m.conn.SetReadDeadline(time.Now().Add(60*time.Second)))
		n, err := m.conn.Read(buffer)
		if err != nil {
			m.t.Fatalf("wait for %s: %v", word, err)
		}
		switch text := string(buffer[:n]); {
		case strings.HasPrefix(text, word):
			return text
		case text != "WATCHDOG=1":
			m.t.Fatalf("told %q, want %s", text, word)
		}
	}
}

func TestSystemdIsToldWhatTheDaemonDoes(t *testing.T) {
	t.Parallel()
	m := newManager(t)
	file := filepath.Join(privateFolder(t), "claudeops.yaml")
	write := func(text string) {
		t.Helper()
		must(t, os.WriteFile(file, []byte(text), 0o600))
	}
	write("interval: 10h\n")
	goOn := gateFile(t)
	b := newBox(t, plays(tier(1, held(agenttest.Healthy(0.1), goOn))), "CLAUDEOPS_CONFIG="+file)
	d := b.serve("NOTIFY_SOCKET="+m.path, "WATCHDOG_USEC=120000000")
	m.next("READY=1")
	if status, _ := d.get("/readyz"); status != 200 {
		t.Errorf("ready was told before it was true: %d", status)
	}
	m.next("WATCHDOG=1")
	d.until("Tier 1 runs", func() bool { return len(b.calls()) == 1 })
	for _, call := range b.calls() {
		if _, ok := call.Var("NOTIFY_SOCKET"); ok {
			t.Error("an agent could speak for the daemon")
		}
	}
	hangup := func() string {
		t.Helper()
		must(t, d.cmd.Process.Signal(syscall.SIGHUP))
		text := m.next("RELOADING=1")
		if !regexp.MustCompile(`(?m)^MONOTONIC_USEC=[1-9][0-9]+$`).MatchString(text) {
			t.Errorf("told %q", text)
		}
		return m.next("READY=1")
	}

	// A wrong configuration changes nothing.
	write("intervall: 5h\n")
	contains(t, "status", hangup(), "the new configuration is not used")
	d.until("the log says so", func() bool { return strings.Contains(d.log.String(), "the daemon continues with the old one") })
	if got := b.cycle().Journal.Last(); got.Status != ops.SessionRunning {
		t.Errorf("session is %s", got.Status)
	}

	// A valid one is used, and the session goes on.
	write("interval: 5h\n")
	hangup()
	_, page := d.get("/config")
	contains(t, "configuration page", page, "5h")
	open(t, goOn)
	d.until("the cycle ends", func() bool { return b.ended(1) })
	if c := b.cycle(); len(b.calls()) != 1 || c.Journal.Sessions[0].Status != ops.SessionCompleted || c.Cycle.Status != ops.CycleHealthy {
		t.Errorf("cycle %s, sessions %+v", c.Cycle.Status, c.Journal.Sessions)
	}
	if code := d.stop(); code != 0 {
		t.Errorf("exit %d", code)
	}
	m.next("STOPPING=1")
	b.nothingLeft()
}

// Commands find the daemon while it reads its configuration again: they wait for it, and none takes its state folder.
func TestCommandsWaitForADaemonThatReloads(t *testing.T) {
	t.Parallel()
	m := newManager(t)
	b := newBox(t, plays(agenttest.Healthy(0.01)), "CLAUDEOPS_RECOVERY=on", "CLAUDEOPS_INTERVAL=10h")
	d := b.serve("NOTIFY_SOCKET=" + m.path)
	m.next("READY=1")
	d.until("the first cycle ends", func() bool { return b.ended(1) })
	over := make(chan struct{})
	go func() {
		defer close(over)
		for range 25 {
			c := exec.Command(program, "open") // it needs the daemon
			c.Env = b.env
			if out, err := c.CombinedOutput(); err != nil {
				t.Errorf("a command failed: %v\n%s", err, out)
			}
		}
	}()
	for ended := false; !ended; {
		must(t, d.cmd.Process.Signal(syscall.SIGHUP))
		m.next("RELOADING=1")
		m.next("READY=1")
		select {
		case <-over:
			ended = true
		default:
		}
	}
	if code := d.stop(); code != 0 {
		t.Errorf("exit %d\n%s", code, d.log)
	}
}

func TestReloadIsACommand(t *testing.T) {
	t.Parallel()
	m := newManager(t)
	file := filepath.Join(t.TempDir(), "claudeops.yaml")
	must(t, os.WriteFile(file, []byte("interval: 10h\n"), 0o600))
	b := newBox(t, plays(agenttest.Healthy(0.01)), "CLAUDEOPS_CONFIG="+file)
	d := b.serve("NOTIFY_SOCKET=" + m.path)
	m.next("READY=1")
	if r := b.run("reload"); r.code != 0 || !strings.Contains(r.stderr, "claudeops.yaml is read again") {
		t.Errorf("exit %d: %s", r.code, r.stderr)
	}
	m.next("RELOADING=1")
	m.next("READY=1")
	must(t, os.WriteFile(file, []byte("interval: 10h\nmax_tier: 9\n"), 0o600))
	if r := b.run("reload"); r.code != 3 || !strings.Contains(r.stderr, "claudeops.yaml:2:11: max_tier") {
		t.Errorf("a wrong configuration: exit %d: %s", r.code, r.stderr)
	}
	must(t, os.WriteFile(file, []byte("interval: 10h\n"), 0o600))
	if code := d.stop(); code != 0 {
		t.Errorf("exit %d", code)
	}
	if r := b.run("reload"); r.code == 0 || !strings.Contains(r.stderr, "no daemon is running") {
		t.Errorf("without a daemon: exit %d: %s", r.code, r.stderr)
	}
}

// At a terminal the same signal means two things: somebody sent it, or the terminal was closed.
func TestHangUpAtATerminal(t *testing.T) {
	t.Parallel()
	// Below nohup the signal is ignored, and would be in the program too: a program inherits that, but no handler.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	b := newBox(t, plays(agenttest.Healthy(0.01)), "CLAUDEOPS_INTERVAL=10h")
	p := atTerminal(t, t.TempDir(), b.env, "serve")
	p.sees("ready")
	must(t, p.cmd.Process.Signal(syscall.SIGHUP))
	p.sees("the configuration is read again")
	must(t, p.master.Close())
	if code := p.ends(); code != 0 {
		t.Errorf("exit %d\n%s", code, p.whole())
	}
	b.nothingLeft()
}

func TestARunThatWaitsOutlastsAReload(t *testing.T) {
	t.Parallel()
	m := newManager(t)
	goOn := gateFile(t)
	second := with(held(agenttest.Healthy(0.1), goOn), func(p *agenttest.Play) { p.Cycle = 2 })
	b := newBox(t, plays(second, agenttest.Healthy(0.1)), "CLAUDEOPS_INTERVAL=10h")
	d := b.serve("NOTIFY_SOCKET=" + m.path)
	m.next("READY=1")
	d.until("the first cycle ends", func() bool { return b.ended(1) })
	waits := exec.Command(program, "run", "look around")
	waits.Env = b.env
	out := make(chan string, 1)
	go func() {
		text, err := waits.CombinedOutput()
		out <- fmt.Sprintf("%s%v", text, err)
	}()
	d.until("an agent runs", func() bool { return len(b.calls()) == 2 })
	must(t, d.cmd.Process.Signal(syscall.SIGHUP))
	m.next("RELOADING=1")
	m.next("READY=1")
	open(t, goOn)
	if got := <-out; !strings.Contains(got, "Result: healthy") || !strings.HasSuffix(got, "<nil>") {
		t.Errorf("the command says %s\n%s", got, d.log)
	}
	if code := d.stop(); code != 0 {
		t.Errorf("exit %d", code)
	}
	b.nothingLeft()
}
