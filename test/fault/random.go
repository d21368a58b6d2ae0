package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"syscall"
	"time"
)

// randomTrials kill at any moment, and one in four the start after that as well.
func randomTrials(count int, seed uint64, on []course) (out []trial) {
	for i := range count {
		out = append(out, trial{
			group: "random", name: fmt.Sprintf("random#%d", i),
			run: func(ctx context.Context, t *trying) error {
				return t.killAnywhere(ctx, rand.New(rand.NewPCG(seed, uint64(i))), on) //nolint:gosec // it chooses moments
			},
		})
	}
	return out
}

func (t *trying) killAnywhere(ctx context.Context, r *rand.Rand, on []course) error {
	c := on[r.IntN(len(on))]
	b := t.box(ctx, c.setup(t.program))
	starts := 1
	if r.IntN(4) == 0 {
		starts = 2
	}
	for range starts {
		after := time.Duration(r.Float64() * float64(t.typical))
		t.detail = fmt.Sprintf("%s %s, after %s", t.detail, c, after.Round(time.Millisecond))
		killed := must(b.killAfter(ctx, c.mode, after))
		t.missed = t.missed || !killed
	}
	return t.recover(ctx, b, c)
}

// killAfter reports whether the program still ran.
func (b *box) killAfter(ctx context.Context, m mode, after time.Duration) (bool, error) {
	p, err := b.start(ctx, m)
	if err != nil {
		return false, err
	}
	select {
	case <-p.done:
		return false, nil
	case <-time.After(after):
	}
	p.signal(syscall.SIGKILL)
	if err := p.wait(); err != nil {
		return false, err
	}
	return p.killed(), nil
}
