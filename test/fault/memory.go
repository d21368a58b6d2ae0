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
func (t *trying) outOfMemory(ctx context.Context, ladder bool) (err error) {
	b, err := newBox(ctx, setup{program: t.program, ladder: ladder, scenario: slowChain(2 * time.Second)})
	if err != nil {
		return err
	}
	defer func() { t.leave(b, err) }()
	p, err := b.start(ctx, modeServe)
	if err != nil {
		return err
	}
	defer p.signal(syscall.SIGKILL)
	var pids []int
	err = p.until("the agent of Tier 2 runs", func() bool { pids = b.agents(ops.Tier2); return len(pids) > 0 && b.running(ctx, ops.Tier2) })
	if err != nil {
		return err
	}
	kill(pids[0])
	killed := time.Now()
	if err := p.until("every cycle has ended", func() bool { return b.quiet(ctx) }); err != nil {
		return err
	}
	t.recovery = time.Since(killed)
	t.found = b.summary(ctx)
	if err := p.stop(); err != nil {
		return err
	}
	cycles, err := b.cycles(ctx)
	if err != nil {
		return err
	}
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
