package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	"claudeops/internal/ops"
)

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
		mostFile   = 32 << 20
	)
	b := t.box(ctx, setup{more: fmt.Sprintf(`observe: agent
limits: {session: %s}
retention: {session_max_mb: 4}
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
