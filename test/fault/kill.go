package main

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"syscall"
	"time"
)

// killTrials kills at every place that fits, so many times each, spread over the courses it is reached on and the times
// it is reached there. Every place has its first turn before any has its second.
func killTrials(all []place, fits *regexp.Regexp, times int) (out []trial) {
	for i := range times {
		for _, p := range all {
			if !fits.MatchString(p.name) {
				continue
			}
			c, nth := p.turn(i)
			out = append(out, trial{
				group: "kill", name: fmt.Sprintf("%s#%d", p.name, i), detail: fmt.Sprintf("%s, the %d. time", c, nth),
				run: func(ctx context.Context, t *trying) error { return t.killAt(ctx, c, p.name, nth) },
			})
		}
	}
	return out
}

// turn says on which course, and at which time there, the place has its i-th turn.
func (p place) turn(i int) (c course, nth int) {
	var on []course
	for _, c := range courses("") {
		if p.times[c] > 0 {
			on = append(on, c)
		}
	}
	c = on[i%len(on)]
	return c, 1 + (i/len(on))%p.times[c]
}

func (t *trying) killAt(ctx context.Context, c course, name string, nth int) error {
	b := t.box(ctx, c.setup(t.program))
	kills := []string{fmt.Sprintf("%s:%d", name, nth)}
	if c.again {
		kills = slices.Insert(kills, 0, c.first())
	}
	for _, k := range kills {
		err := b.runToKill(ctx, c.mode, "CLAUDEOPS_FAILPOINT="+k)
		if errors.Is(err, errMissed) {
			t.missed = true // how often a place is passed is not the same in every run
			continue
		}
		if err != nil {
			return err
		}
	}
	return t.recover(ctx, b, c)
}

// recover starts the program again, waits until all has come to its end, and looks.
func (t *trying) recover(ctx context.Context, b *box, c course) error {
	took := must(b.runToEnd(ctx, c.mode))
	t.recovery = took
	return b.verdict(ctx, c.ladder)
}

// runToEnd runs the program until nothing is left to do, and says how long that took.
func (b *box) runToEnd(ctx context.Context, m mode, env ...string) (time.Duration, error) {
	p, err := b.start(ctx, m, env...)
	if err != nil {
		return 0, err
	}
	if m == modeServe {
		err := p.until("every cycle has ended", func() bool { return b.quiet(ctx) })
		took := time.Since(p.begun)
		if err == nil {
			err = p.ready() // before that it could not stop in good order
		}
		if err != nil {
			p.signal(syscall.SIGKILL)
			return 0, err
		}
		return took, p.stop()
	}
	if err := p.wait(); err != nil {
		return 0, err
	}
	if p.code() != 0 {
		return 0, fmt.Errorf("once exits %d:\n%s", p.code(), p.out.tail())
	}
	return p.ended.Sub(p.begun), nil
}
