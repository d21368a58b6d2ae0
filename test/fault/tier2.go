package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"claudeops/internal/ops"
)

// busyTime is what a busy machine may need on top.
const busyTime = 3 * time.Second

// inTier2Of starts the program in the box and waits until the agent of Tier 2 runs.
func (t *trying) inTier2Of(ctx context.Context, b *box, env ...string) *process {
	p := t.start(ctx, b, modeServe, env...)
	check(p.until("the agent of Tier 2 runs", func() bool { return b.running(ctx, ops.Tier2) && len(b.agents(ops.Tier2)) > 0 }))
	return p
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
