package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"claudeops/internal/ops"
)

const (
	// silence is after how long without a heartbeat the keeper kills all sessions.
	silence = lease / 3
	// busyTime is what a busy machine may need on top.
	busyTime = 3 * time.Second
	// longPause is how long a supervisor is stopped: several leases.
	longPause = 40 * time.Second
)

// inTier2Of starts the program in the box and waits until the agent of Tier 2 runs.
func (t *trying) inTier2Of(ctx context.Context, b *box, env ...string) *process {
	p := t.start(ctx, b, modeServe, env...)
	check(p.until("the agent of Tier 2 runs", func() bool { return b.running(ctx, ops.Tier2) && len(b.agents(ops.Tier2)) > 0 }))
	return p
}

// goneWithin waits until no process of a session is left, and returns how long that took.
func (b *box) goneWithin(limit time.Duration) (time.Duration, error) {
	begun := time.Now()
	for len(b.orphans()) > 0 {
		if time.Since(begun) > limit {
			return 0, fmt.Errorf("processes of sessions live on for more than %s: %s", limit, strings.Join(b.orphans(), ", "))
		}
		<-time.After(5 * time.Millisecond)
	}
	return time.Since(begun), nil
}

// keeper returns the process id of the keeper of the program, or 0.
func (p *process) keeper() int {
	entries, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		return 0
	}
	for _, e := range entries {
		line, err := os.ReadFile(e) //nolint:gosec // of /proc
		if err != nil || !bytes.Contains(line, []byte("\x00session-keeper\x00")) {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(e)))
		if err == nil && status(pid, "PPid:") == strconv.Itoa(p.cmd.Process.Pid) && !strings.HasPrefix(status(pid, "State:"), "Z") {
			return pid
		}
	}
	return 0
}

// killSupervisor kills the supervisor in Tier 2 and does not start it again at once: its agents must end without it.
func (t *trying) killSupervisor(ctx context.Context) error {
	b := t.box(ctx, setup{ladder: true, scenario: slowChain(5 * time.Second)})
	p := t.inTier2Of(ctx, b)
	p.signal(syscall.SIGKILL)
	gone := must(b.goneWithin(busyTime))
	<-p.done
	t.found = fmt.Sprintf("the agents were gone %s after the kill", gone.Round(time.Millisecond))
	return t.recover(ctx, b, course{mode: modeServe, ladder: true})
}

// stopSupervisor stops the supervisor in Tier 2 for several leases. Its agents must end meanwhile, and it must not go on as if they
// had not.
func (t *trying) stopSupervisor(ctx context.Context) error {
	b := t.box(ctx, setup{ladder: true, scenario: slowChain(10 * time.Second)})
	p := t.inTier2Of(ctx, b)
	p.signal(syscall.SIGSTOP)
	stopped := time.Now()
	gone := must(b.goneWithin(silence + busyTime))
	check(b.nothingDone(len(b.service.done()), longPause-time.Since(stopped)))
	p.signal(syscall.SIGCONT)
	return t.goesOn(ctx, b, p, fmt.Sprintf("the agents were gone %s after the stop", gone.Round(10*time.Millisecond)))
}

// goesOn waits until the chain has ended, stops the program and looks.
func (t *trying) goesOn(ctx context.Context, b *box, p *process, found string) error {
	back := time.Now()
	check(p.until("every cycle has ended", func() bool { return b.quiet(ctx) }))
	t.recovery = time.Since(back)
	t.found = fmt.Sprintf("%s; %s after it was over the chain had ended: %s", found, t.recovery.Round(10*time.Millisecond), b.summary(ctx))
	check(p.ready())
	check(p.stop())
	return b.verdict(ctx, b.ladder)
}

// stopKeeper stops the keeper in Tier 2: the supervisor must end its agents and start none until the keeper answers.
func (t *trying) stopKeeper(ctx context.Context) error {
	b := t.box(ctx, setup{ladder: true, scenario: slowChain(10 * time.Second)})
	p := t.inTier2Of(ctx, b)
	keeper := p.keeper()
	if keeper == 0 {
		return fmt.Errorf("there is no keeper\n%s", p.out.tail())
	}
	_ = syscall.Kill(keeper, syscall.SIGSTOP)
	defer func() { _ = syscall.Kill(keeper, syscall.SIGCONT) }()
	stopped := time.Now()
	gone := must(b.goneWithin(silence + 2*busyTime))
	if code, body := p.get("/readyz"); code != http.StatusServiceUnavailable {
		return fmt.Errorf("readyz answers %d while the keeper is stopped: %.200s", code, body)
	}
	for time.Since(stopped) < longPause {
		<-time.After(20 * time.Millisecond)
		if left := b.orphans(); len(left) > 0 {
			return fmt.Errorf("sessions start while the keeper is stopped: %s", strings.Join(left, ", "))
		}
	}
	_ = syscall.Kill(keeper, syscall.SIGCONT)
	return t.goesOn(ctx, b, p, fmt.Sprintf("the agents were gone %s after the stop, and none started", gone.Round(10*time.Millisecond)))
}

// killKeeper kills the keeper in Tier 2: another one must take its place, and no session may end because of it.
func (t *trying) killKeeper(ctx context.Context) error {
	b := t.box(ctx, setup{ladder: true, scenario: slowChain(5 * time.Second)})
	p := t.inTier2Of(ctx, b)
	old, begun := p.keeper(), time.Now()
	kill(old)
	check(p.within(busyTime, "there is another keeper", func() bool { now := p.keeper(); return now != 0 && now != old }))
	found := fmt.Sprintf("another keeper ran after %s", time.Since(begun).Round(time.Millisecond))
	check(t.goesOn(ctx, b, p, found))
	cycles := must(b.cycles(ctx))
	for _, s := range cycles[0].Sessions {
		if s.Status != ops.SessionCompleted {
			return fmt.Errorf("session %d is %s: %s", s.ID, s.Status, s.Error)
		}
	}
	return nil
}

// sessionKeys lists the sessions that have a living agent.
func (b *box) sessionKeys() map[string]bool {
	out := map[string]bool{}
	for tier := ops.Tier1; tier <= ops.LastTier; tier++ {
		for _, pid := range b.agents(tier) {
			raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
			if err != nil {
				continue
			}
			for entry := range strings.SplitSeq(string(raw), "\x00") {
				if key, ok := strings.CutPrefix(entry, "CLAUDEOPS_SESSION_KEY="); ok {
					out[key] = true
				}
			}
		}
	}
	return out
}

// oldHost kills or stops one of two hosts in Tier 2. The agents of both must never live at the same time.
func (t *trying) oldHost(ctx context.Context, with syscall.Signal) error {
	d := must(newServer(ctx))
	b := t.box(ctx, setup{ladder: true, scenario: slowChain(10 * time.Second), database: d})
	old := t.inTier2Of(ctx, b, "CLAUDEOPS_HOST=old")
	next := t.start(ctx, b, modeServe, "CLAUDEOPS_HOST=next", "CLAUDEOPS_STATE_DIR="+b.file("next"))
	check(next.ready())
	first := b.sessionKeys()
	old.signal(with)
	begun := time.Now()
	var gone, taken time.Duration
	overlap := 0
	check(next.until("every cycle has ended", func() bool {
		now := b.sessionKeys()
		both := false
		for key := range now {
			both = both || first[key]
			if !first[key] && taken == 0 {
				taken = time.Since(begun)
			}
		}
		if !both && gone == 0 {
			gone = time.Since(begun)
		}
		if len(now) > 1 {
			overlap++
		}
		if with == syscall.SIGSTOP && taken > 0 && time.Since(begun) > longPause {
			old.signal(syscall.SIGCONT)
		}
		return b.settled(ctx)
	}))
	t.recovery = time.Since(begun)
	t.found = fmt.Sprintf("the agents of the old host were gone after %s, the next one started its own after %s: %s",
		gone.Round(10*time.Millisecond), taken.Round(10*time.Millisecond), b.summary(ctx))
	if overlap > 0 {
		return fmt.Errorf("agents of both hosts lived at the same time, seen %d times (%s)", overlap, t.found)
	}
	if with == syscall.SIGSTOP {
		old.signal(syscall.SIGCONT)
		check(old.ready())
		check(old.stop())
	} else {
		<-old.done
	}
	check(next.until("every notice is sent", func() bool { return b.quiet(ctx) }))
	check(next.stop())
	return b.verdict(ctx, true)
}

// outOfMemory does to the agent of Tier 2 what the kernel does to a program that takes too much: SIGKILL, out of the blue.
func (t *trying) outOfMemory(ctx context.Context, ladder bool) error {
	b := t.box(ctx, setup{ladder: ladder, scenario: slowChain(2 * time.Second)})
	p := t.start(ctx, b, modeServe)
	var pids []int
	check(p.until("the agent of Tier 2 runs", func() bool { pids = b.agents(ops.Tier2); return len(pids) > 0 && b.running(ctx, ops.Tier2) }))
	kill(pids[0])
	killed := time.Now()
	check(p.until("every cycle has ended", func() bool { return b.quiet(ctx) }))
	t.recovery = time.Since(killed)
	t.found = b.summary(ctx)
	check(p.stop())
	cycles := must(b.cycles(ctx))
	var hit *ops.Session
	for i, s := range cycles[0].Sessions {
		if s.Tier == ops.Tier2 && hit == nil {
			hit = &cycles[0].Sessions[i]
		}
	}
	if hit == nil || hit.Status != ops.SessionFailed || hit.ExitCode == nil || *hit.ExitCode != 128+int(syscall.SIGKILL) || hit.Failure == "" || hit.Error == "" {
		return fmt.Errorf("the killed session is recorded as %s", t.found)
	}
	want := ops.CycleFailed // and a human hears of it
	if ladder {
		want = ops.CycleResolved
	}
	if cycles[0].Status != want {
		return fmt.Errorf("the cycle ended %s: %s", cycles[0].Status, cycles[0].Reason)
	}
	return errors.Join(append(b.leftovers(ctx, cycles), b.checkPeople(ctx, cycles))...)
}

// descriptors opens several times as many connections as the program can have files, half of them with a request that never ends,
// while a chain runs.
func (t *trying) descriptors(ctx context.Context, limit, connections int) error {
	b := t.box(ctx, setup{ladder: true, scenario: slowChain(5 * time.Second)})
	b.wrap = []string{"/bin/sh", "-c", fmt.Sprintf(`ulimit -n %d; exec "$0" "$@"`, limit)}
	p := t.inTier2Of(ctx, b)
	var conns []net.Conn
	defer func() {
		for _, c := range conns {
			_ = c.Close()
		}
	}()
	refused, most := 0, 0
	for i := range connections {
		conn, err := (&net.Dialer{Timeout: 5 * time.Second}).DialContext(ctx, "tcp", p.addr)
		if err != nil {
			refused++
			continue
		}
		conns = append(conns, conn)
		if i%2 == 1 {
			_, _ = io.WriteString(conn, "POST /api/v1/cycles HTTP/1.1\r\nHost: "+p.addr+"\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n")
		}
		if i%50 == 0 {
			most = max(most, len(files(p.cmd.Process.Pid)))
		}
	}
	begun := time.Now()
	check(p.until("every cycle has ended", func() bool { return b.settled(ctx) }))
	took := time.Since(begun)
	for _, c := range conns {
		_ = c.Close()
	}
	closed := time.Now()
	check(p.until("it answers again", func() bool { code, _ := p.get("/readyz"); return code == http.StatusOK }))
	t.recovery = time.Since(closed)
	t.found = fmt.Sprintf("%d connections with a limit of %d descriptors: at most %d were open, %d could not connect; the chain ended after %s: %s",
		connections, limit, most, refused, took.Round(10*time.Millisecond), b.summary(ctx))
	check(p.until("every notice is sent", func() bool { return b.quiet(ctx) }))
	check(p.stop())
	cycles := must(b.cycles(ctx))
	for _, s := range cycles[0].Sessions {
		if s.Status != ops.SessionCompleted {
			return fmt.Errorf("session %d is %s: %s", s.ID, s.Status, s.Error)
		}
	}
	return b.verdict(ctx, true)
}
