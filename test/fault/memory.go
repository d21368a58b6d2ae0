package main

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"claudeops/internal/ops"
)

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
