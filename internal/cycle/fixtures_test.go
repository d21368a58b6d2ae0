package cycle_test

import (
	"claudeops/internal/ops"
	"claudeops/test/cycletest"
)

func policy(change ...func(*ops.Policy)) ops.Policy { return cycletest.Policy(change...) }
func handoffJSON(recommended ops.Tier) []byte       { return cycletest.HandoffJSON(recommended) }
func withPeople(p *ops.Policy)                      { cycletest.WithPeople(p) }
func managed(p *ops.Policy)                         { cycletest.Managed(p) }
func recovering(p *ops.Policy)                      { p.Recovery.Enabled = true }

func probed(p *ops.Policy)      { cycletest.Probed(p) }
func probesFirst(p *ops.Policy) { cycletest.ProbesFirst(p) }
