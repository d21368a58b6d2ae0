package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/store"
)

const year = 365 * 24 * time.Hour

// clockJump sets the clock of a running supervisor wrong by so much. A second redeployment within a day must stay denied, and
// the schedule may catch up with one cycle at most.
func (t *trying) clockJump(ctx context.Context, by time.Duration) error {
	b := t.box(ctx, setup{ladder: false})
	clock := b.file("clock")
	p := t.start(ctx, b, modeServe, "CLAUDEOPS_FAULT_CLOCK="+clock)
	check(p.until("the first chain has ended", func() bool { return b.quiet(ctx) }))
	if !b.service.well() {
		return errors.New("the first chain did not repair the service")
	}
	b.service.set(false)
	check(os.WriteFile(clock, []byte(by.String()), 0o600))
	jumped := b.count(ctx)
	// The schedule looks at the clock at least every 30 s.
	check(p.hold(ctx, b, 35*time.Second))
	caughtUp := b.count(ctx) - jumped
	if code, body := p.submit("{}"); code != 202 {
		return fmt.Errorf("submitting answers %d: %.300s", code, body)
	}
	check(p.until("the second chain has ended", func() bool { return b.settled(ctx) }))
	done := map[string]int{}
	for _, a := range b.service.done() {
		done[a.verb]++
	}
	t.found = fmt.Sprintf("%s: %d cycles of the schedule after the jump, %d restarts, %d redeployments in all; %s", by, caughtUp, done["restart"], done["redeploy"], b.summary(ctx))
	var errs []error
	if caughtUp > 1 {
		errs = append(errs, fmt.Errorf("%d cycles were caught up", caughtUp))
	}
	if done["redeploy"] != 1 || done["restart"] > 2 {
		errs = append(errs, fmt.Errorf("a cooldown ended early: %d restarts, %d redeployments", done["restart"], done["redeploy"]))
	}
	if err := p.stop(); err != nil {
		errs = append(errs, err)
	}
	// A supervisor that starts while the clock is wrong does not know better either.
	before := b.count(ctx)
	p = t.start(ctx, b, modeServe, "CLAUDEOPS_FAULT_CLOCK="+clock)
	if err := errors.Join(p.ready(), p.hold(ctx, b, 3*time.Second), p.stop()); err != nil {
		errs = append(errs, fmt.Errorf("start with the wrong clock: %w", err))
	}
	if more := b.count(ctx) - before; more > 1 {
		errs = append(errs, fmt.Errorf("%d cycles were caught up at the start", more))
	}
	cycles := must(b.cycles(ctx))
	return errors.Join(append(append(errs, open(cycles)...), b.leftovers(ctx, cycles)...)...)
}

// clockSteps sets the clock of a running supervisor forth and back while Tier 2 works, each step larger than every time limit. No session may
// end because of it or take a time that it did not take, and the chain must be repaired as if nothing had been.
func (t *trying) clockSteps(ctx context.Context, d database) error {
	b := t.box(ctx, setup{ladder: true, scenario: slowChain(8 * time.Second), database: d})
	clock := b.file("clock")
	p := t.inTier2Of(ctx, b, "CLAUDEOPS_FAULT_CLOCK="+clock)
	steps := []time.Duration{3 * time.Hour, -2 * time.Hour, 26 * time.Hour, -26 * time.Hour, 90 * time.Second, 0}
	for _, by := range steps {
		check(os.WriteFile(clock+".new", []byte(by.String()), 0o600))
		check(os.Rename(clock+".new", clock))
		<-time.After(time.Second)
	}
	check(t.goesOn(ctx, b, p, fmt.Sprintf("the clock went %v", steps)))
	cycles := must(b.cycles(ctx))
	var errs []error
	for _, c := range cycles {
		for _, s := range c.Sessions {
			took := s.EndedAt.Sub(*s.StartedAt)
			if s.Status != ops.SessionCompleted || took < 0 || took > patience {
				errs = append(errs, fmt.Errorf("session %d (%s) is %s after %s: %s", s.ID, s.Tier, s.Status, took, s.Error))
			}
		}
	}
	return errors.Join(errs...)
}

// hold waits for so long, and until every cycle has ended.
func (p *process) hold(ctx context.Context, b *box, d time.Duration) error {
	<-time.After(d)
	return p.until("every cycle has ended", func() bool { return b.settled(ctx) })
}

// open names what is not at its end.
func open(cycles []store.CycleSummary) (errs []error) {
	for _, c := range cycles {
		if !c.Status.Ended() {
			errs = append(errs, fmt.Errorf("cycle %d is still %s", c.ID, c.Status))
		}
		for _, s := range c.Sessions {
			if s.Status == ops.SessionRunning || s.Status == ops.SessionQueued {
				errs = append(errs, fmt.Errorf("session %d is still %s", s.ID, s.Status))
			}
		}
	}
	return errs
}
