package main_test

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"claudeops/internal/ops"
	"claudeops/test/agenttest"
	"claudeops/test/pgtest"
)

// shortLease is what a busy machine can still renew in time: the keeper kills after a third of it.
const shortLease = "CLAUDEOPS_FAULT_WAITS=lease=3s"

// withChild is a play that starts a child in a POSIX session of its own, and ignores the interrupt, as its child does.
func withChild(p agenttest.Play, file string) agenttest.Play {
	p = held(p, file)
	p.OnInterrupt = "ignore"
	p.Steps = append([]agenttest.Step{{Spawn: &agenttest.Child{Setsid: true, IgnoreSignals: true}}}, p.Steps...)
	return p
}

// keeper returns the process id of the keeper of a daemon, or 0.
func (d *daemon) keeper() int {
	entries, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, e := range entries {
		line, err := os.ReadFile(e)
		if err != nil || !bytes.Contains(line, []byte("\x00session-keeper\x00")) {
			continue
		}
		raw, err := os.ReadFile(filepath.Join(filepath.Dir(e), "stat"))
		if err != nil {
			continue
		}
		_, after, _ := strings.Cut(string(raw), ") ")
		if f := strings.Fields(after); len(f) > 1 && f[0] != "Z" && f[1] == strconv.Itoa(d.cmd.Process.Pid) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(e)))
			return pid
		}
	}
	return 0
}

// agents lists the processes of sessions of a box that live.
func (b *box) agents() (out []int) {
	entries, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, e := range entries {
		raw, err := os.ReadFile(e)
		if err != nil || !bytes.Contains(raw, []byte("CLAUDEOPS_SESSION_KEY=")) || !bytes.Contains(raw, []byte("CLAUDEOPS_STATE_DIR="+b.state+"\x00")) {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(e))); err == nil && alive(pid) {
			out = append(out, pid)
		}
	}
	return out
}

// gone waits until no process of a session of the box lives.
func (b *box) gone() {
	b.t.Helper()
	for begun := time.Now(); len(b.agents()) > 0; pause(10 * time.Millisecond) {
		if time.Since(begun) > patience {
			b.t.Fatalf("%d processes of sessions still live", len(b.agents()))
		}
	}
}

func signalTo(t *testing.T, pid int, s syscall.Signal) {
	t.Helper()
	must(t, syscall.Kill(pid, s))
}

// busy starts a daemon and waits until its agent has a child.
func (b *box) busy() (*daemon, ops.Session) {
	b.t.Helper()
	d := b.ready()
	s := d.working(ops.Tier1)
	d.until("the agent has a child", func() bool { // what stands around the agent are processes of the session, too
		return slices.ContainsFunc(b.agents(), func(pid int) bool {
			line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
			return err == nil && bytes.Contains(line, []byte("sleep 0.1"))
		})
	})
	return d, s
}

func TestAKilledSupervisorLeavesNoAgent(t *testing.T) {
	t.Parallel()
	b := newBox(t, plays(withChild(agenttest.Healthy(0.01), gateFile(t))))
	d, _ := b.busy()
	keeper := d.keeper()
	if keeper == 0 {
		t.Fatal("there is no keeper")
	}
	// What a terminal or a service manager sends to all processes must not end the keeper before the supervisor.
	for _, s := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		signalTo(t, keeper, s)
	}
	must(t, d.cmd.Process.Kill())
	b.gone()
	for begun := time.Now(); alive(keeper); pause(10 * time.Millisecond) {
		if time.Since(begun) > patience {
			t.Fatal("the keeper outlives what it kept")
		}
	}
	for begun := time.Now(); !strings.Contains(d.log.String(), "the supervisor is gone; killed "); pause(10 * time.Millisecond) {
		if time.Since(begun) > patience { // its last words may still be on their way through the pipe
			t.Fatalf("the keeper does not say what it did:\n%s", d.log)
		}
	}
}

func TestAPausedSupervisorLosesItsAgents(t *testing.T) {
	t.Parallel()
	gate := gateFile(t)
	first := withChild(agenttest.Healthy(0.01), gate)
	first.Attempt = 1
	b := newBox(t, plays(first, agenttest.Healthy(0.01)), shortLease)
	d, s := b.busy()
	signalTo(t, d.cmd.Process.Pid, syscall.SIGSTOP)
	b.gone()
	signalTo(t, d.cmd.Process.Pid, syscall.SIGCONT)
	d.until("the cycle ends", func() bool { return d.ended(1) })
	if left := d.load(s.CycleID).Journal.Session(s.ID); left.Status != ops.SessionInterrupted || left.StopCause != ops.StopLease {
		t.Errorf("the session is %s (%s): %s", left.Status, left.StopCause, left.Error)
	}
	d.until("it is ready with a new keeper", func() bool { status, _ := d.get("/readyz"); return status == http.StatusOK && d.keeper() != 0 })
	if code := d.stop(); code != 0 {
		t.Errorf("exit %d\n%s", code, d.log)
	}
}

func TestNothingStartsWhileTheKeeperIsStopped(t *testing.T) {
	t.Parallel()
	gate := gateFile(t)
	first := withChild(agenttest.Healthy(0.01), gate)
	first.Cycle, first.Attempt = 1, 1
	b := newBox(t, plays(first, agenttest.Healthy(0.01)), shortLease)
	d, s := b.busy()
	keeper := d.keeper()
	signalTo(t, keeper, syscall.SIGSTOP)
	t.Cleanup(func() { _ = syscall.Kill(keeper, syscall.SIGKILL) })
	d.until("it is not ready and says why", func() bool {
		status, body := d.get("/readyz")
		return status == http.StatusServiceUnavailable && strings.Contains(body, fmt.Sprintf("process %d", keeper))
	})
	b.gone()
	calls := len(b.calls())
	if status, _ := d.post("/api/v1/cycles", map[string]string{}); status != http.StatusAccepted {
		t.Errorf("submitting answers %d", status)
	}
	d.until("a session is held", func() bool { return strings.Contains(d.log.String(), "is not started: the keeper") })
	if n := len(b.calls()); n != calls {
		t.Errorf("%d sessions were started while the keeper was stopped", n-calls)
	}
	signalTo(t, keeper, syscall.SIGCONT)
	d.until("both cycles have ended", func() bool {
		c, ok := d.newest()
		return ok && c.Cycle.ID >= 2 && c.Cycle.Status.Ended() && d.load(1).Cycle.Status.Ended()
	})
	if left := d.load(s.CycleID).Journal.Session(s.ID); left.Status != ops.SessionInterrupted {
		t.Errorf("the session is %s: %s", left.Status, left.Error)
	}
	if status, body := d.get("/readyz"); status != http.StatusOK {
		t.Errorf("readyz answers %d %s", status, body)
	}
}

func TestAKilledKeeperIsReplacedAndKnowsTheSessions(t *testing.T) {
	t.Parallel()
	b := newBox(t, plays(withChild(agenttest.Healthy(0.01), gateFile(t))))
	d, s := b.busy()
	old := d.keeper()
	signalTo(t, old, syscall.SIGKILL)
	d.until("there is another keeper", func() bool { k := d.keeper(); return k != 0 && k != old })
	if now := d.load(s.CycleID).Journal.Session(s.ID); now.Status != ops.SessionRunning || !alive(s.PID) {
		t.Errorf("the session is %s", now.Status)
	}
	d.until("it is ready", func() bool { status, _ := d.get("/readyz"); return status == http.StatusOK })
	must(t, d.cmd.Process.Kill())
	b.gone()
}

// TestAPausedHostDoesNotWorkBesideTheNextOne stops a host in the middle of a repair: its agent must be gone before the other host
// starts one.
func TestAPausedHostDoesNotWorkBesideTheNextOne(t *testing.T) {
	t.Parallel()
	gate := gateFile(t)
	boxes := hosts(t, pgtest.URL(t), plays(agenttest.Escalates(1, 0.03, "jellyfin"), withChild(tier(2, agenttest.Healthy(0.3)), gate)), "a", "b")
	a, b := boxes[0].ready(), boxes[1].ready()
	s := a.working(ops.Tier2)
	stops, lives := a, b
	if s.Owner == "b" {
		stops, lives = b, a
	}
	signalTo(t, stops.cmd.Process.Pid, syscall.SIGSTOP)
	lives.until("the other host continues", func() bool {
		n, ok := lives.session()
		return ok && n.ID != s.ID && n.Status == ops.SessionRunning
	})
	if now := len(stops.agents()); now > 0 {
		t.Errorf("%d processes of the stopped host still live", now)
	}
	signalTo(t, stops.cmd.Process.Pid, syscall.SIGCONT)
	stops.until("it has noticed", func() bool { return strings.Contains(stops.log.String(), "stopping agents") })
	open(t, gate)
	lives.until("the cycle ends", func() bool { return lives.cycle().Cycle.Status.Ended() })
	lives.finishedOnce(ops.CycleResolved)
	if was := lives.cycle().Journal.Session(s.ID); was.Status != ops.SessionInterrupted || was.StopCause != ops.StopLease {
		t.Errorf("what ran on the stopped host is %s, %s", was.Status, was.StopCause)
	}
	stops.until("it is ready again", func() bool { status, _ := stops.get("/readyz"); return status == http.StatusOK })
	lives.nothingLeft()
	stops.nothingLeft()
}
