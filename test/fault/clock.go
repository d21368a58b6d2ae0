package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"claudeops/internal/ops"
)

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
