package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"claudeops/internal/ops"
)

// stormRule lets agents start as many children as they like.
const stormRule = `  - {id: web-storm, program: webctl, args: [storm, "*"], tier: 1, reason: It is what is tried.,
     match: [webctl storm 5], not_match: [webctl get]}
`

// stormy is a session that leaves so many processes behind, each in a POSIX session of its own, and says that all is well.
func stormy(children int) string {
	return fmt.Sprintf(`name: storm
tiers:
  1:
    cost_usd: 0.01
    steps: [{when: {bash: 'webctl storm %d', exit: 0}, else: [{finish: {is_error: true}}]}]
    outcome: {schema_version: 1, outcome: healthy, summary: all is well, check_results: [{service: web, check_type: http, status: healthy, error: ""}], actions: [], events: [], memories: []}
    result: All is well.
`, children)
}

// storm starts children that outlive everybody who does not hunt them: half of them ignore every polite signal, each holds
// the output of the agent open.
func storm(word string) int {
	count, err := strconv.Atoi(word)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	for i := range count {
		script := "exec sleep 600"
		if i%2 == 1 {
			script = "trap '' INT TERM HUP; sleep 600; sleep 600"
		}
		c := exec.Command("/bin/sh", "-c", script) //nolint:gosec,noctx // it is to outlive us
		c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		c.Stdout, c.Stderr = os.Stdout, os.Stderr
		if err := c.Start(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	return 0
}

// forkStorm is one session with very many children.
func (t *trying) forkStorm(ctx context.Context, children int) error {
	b := t.box(ctx, setup{scenario: stormy(children), more: "observe: agent\n"})
	b.service.set(true)
	took := must(b.runToEnd(ctx, modeOnce))
	cycles := must(b.cycles(ctx))
	if s := cycles[0].Sessions[0]; s.Status != ops.SessionCompleted {
		return fmt.Errorf("the session is %s: %s", s.Status, s.Error)
	}
	t.recovery = took
	t.found = fmt.Sprintf("%d children, half of them deaf, are gone; the whole run took %s", children, took.Round(10*time.Millisecond))
	return errors.Join(b.leftovers(ctx, cycles)...)
}

// grandchildren runs very many sessions in one supervisor, each of which leaves a process behind.
func (t *trying) grandchildren(ctx context.Context, sessions int) error {
	const side = 4 // environments side by side
	more := "observe: agent\nenvironments:\n"
	for i := range side {
		more += fmt.Sprintf("  - name: env%d\n", i)
	}
	b := t.box(ctx, setup{scenario: stormy(2), more: more})
	b.service.set(true)
	p := t.start(ctx, b, modeServe)
	pid := p.cmd.Process.Pid
	check(p.until("the first cycles have ended", func() bool { return b.settled(ctx) && b.count(ctx) >= side }))
	begun := time.Now()
	var open []string
	for b.count(ctx) < sessions {
		if open == nil && b.count(ctx) >= sessions/10 {
			open = files(pid) // pools are as large as they get
		}
		for i := range side {
			if code, body := p.submit(fmt.Sprintf(`{"environment":"env%d"}`, i)); code != 202 {
				return fmt.Errorf("submitting answers %d: %.300s", code, body)
			}
		}
		check(p.until("the cycles have ended", func() bool { return b.settled(ctx) }))
	}
	took, left := time.Since(begun), files(pid)
	cycles := must(b.cycles(ctx))
	for _, c := range cycles {
		if c.Status != ops.CycleHealthy || len(c.Sessions) != 1 {
			return fmt.Errorf("cycle %d ended %s with %d sessions: %s", c.ID, c.Status, len(c.Sessions), c.Reason)
		}
	}
	threads := status(pid, "Threads:")
	t.found = fmt.Sprintf("%d sessions in %s; open files of the supervisor %d after a tenth of them, %d at the end; %s threads",
		len(cycles), took.Round(time.Second), len(open), len(left), threads)
	errs := b.leftovers(ctx, cycles)
	if len(left) > len(open)+3 {
		errs = append(errs, fmt.Errorf("files are left open:\n%s\nat the end:\n%s", strings.Join(open, "\n"), strings.Join(left, "\n")))
	}
	return errors.Join(append(errs, p.stop())...)
}

// count is how many cycles there are.
func (b *box) count(ctx context.Context) int {
	cycles, err := b.cycles(ctx)
	if err != nil {
		return 0
	}
	return len(cycles)
}

// status is a line of what the kernel tells of a process.
func status(pid int, name string) string {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(raw)) {
		if rest, ok := strings.CutPrefix(line, name); ok {
			return strings.TrimSpace(rest)
		}
	}
	return ""
}

// What an agent prints that never ends its output: lines, or one line.
const (
	endlessLines = "exec yes 'I am still looking at the logs of the service, and there is always one more line to read.'"
	endlessLine  = "exec tr '\\0' x </dev/zero"
)

// endlessOutput runs an agent that prints for ever, as fast as it can. Its limit must end it, and neither the memory of the supervisor nor
// the database may grow with it.
func (t *trying) endlessOutput(ctx context.Context, script string) error {
	const (
		limit      = 10 * time.Second
		mostMemory = 400 << 10 // kB
		mostFile   = 128 << 20
	)
	b := t.box(ctx, setup{more: fmt.Sprintf(`observe: agent
limits: {session: %s}
handlers:
  - {id: tier1, tier: 1, family: local, agent: command, model: none, command: [/bin/sh, -c, %q]}
`, limit, script)})
	b.service.set(true)
	p := t.start(ctx, b, modeServe)
	check(p.until("the agent runs", func() bool { return len(b.orphans()) > 0 }))
	begun, slowest := time.Now(), time.Duration(0)
	check(p.within(limit+30*time.Second, "its limit has ended it", func() bool {
		asked := time.Now()
		code, _ := p.get("/")
		slowest = max(slowest, time.Since(asked))
		return code == http.StatusOK && len(b.orphans()) == 0 && b.settled(ctx)
	}))
	took := time.Since(begun)
	cycles := must(b.cycles(ctx))
	s := cycles[0].Sessions[0]
	memory, err := strconv.Atoi(strings.TrimSuffix(status(p.cmd.Process.Pid, "VmHWM:"), " kB"))
	if err != nil {
		return fmt.Errorf("read memory: %w", err)
	}
	size := int64(0)
	for _, suffix := range []string{"", "-wal"} {
		if info, err := os.Stat(sqliteFile{b.state}.path() + suffix); err == nil {
			size += info.Size()
		}
	}
	t.found = fmt.Sprintf("ended %s after it began (limit %s): %s; the supervisor had %d MB at most, the database %d kB, pages answered within %s",
		took.Round(100*time.Millisecond), limit, s.Status, memory>>10, size>>10, slowest.Round(time.Millisecond))
	if s.Status != ops.SessionTimedOut || memory > mostMemory || size > mostFile || slowest > 10*time.Second {
		return errors.New(t.found + ": " + s.Error)
	}
	check(p.stop())
	return errors.Join(b.leftovers(ctx, cycles)...)
}
