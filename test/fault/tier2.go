package main

import (
	"context"
	"fmt"
	"os"
	"strings"

	"claudeops/internal/ops"
)

// inTier2Of starts the program in the box and waits until the agent of Tier 2 runs.
func (t *trying) inTier2Of(ctx context.Context, b *box, env ...string) *process {
	p := t.start(ctx, b, modeServe, env...)
	check(p.until("the agent of Tier 2 runs", func() bool { return b.running(ctx, ops.Tier2) && len(b.agents(ops.Tier2)) > 0 }))
	return p
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
