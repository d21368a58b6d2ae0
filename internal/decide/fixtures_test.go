package decide_test

import (
	"slices"
	"time"

	"claudeops/internal/decide"
	"claudeops/internal/notice"
	"claudeops/internal/ops"
	"claudeops/test/cycletest"
)

func policy(change ...func(*ops.Policy)) ops.Policy { return cycletest.Policy(change...) }
func handoffJSON(recommended ops.Tier) []byte       { return cycletest.HandoffJSON(recommended) }
func withPeople(p *ops.Policy)                      { cycletest.WithPeople(p) }
func managed(p *ops.Policy)                         { cycletest.Managed(p) }
func probed(p *ops.Policy)                          { cycletest.Probed(p) }
func probesFirst(p *ops.Policy)                     { cycletest.ProbesFirst(p) }

// next is what happens next under a policy, in the words that people read.
func next(c ops.Cycle, j ops.Journal, p ops.Policy, now time.Time) ops.Step {
	c.Policy = p
	return decide.Next(notice.Steps{}, ops.Claimed{Cycle: c, Journal: j}, now)
}

// charged fills in what the store keeps of a cycle's charge: what started it, and what each decision handed on.
func charged(c *ops.Cycle, j *ops.Journal, p ops.Policy) {
	if !c.Charge.Open && len(c.Charge.Services) == 0 {
		c.Charge.Open = c.Trigger != ops.TriggerProbe && c.Trigger != ops.TriggerAlert
		for _, k := range j.Checks {
			if !c.Charge.Open && k.Bad() && k.AfterSession == nil && !slices.Contains(c.Charge.Services, k.Service) {
				c.Charge.Services = append(c.Charge.Services, k.Service)
			}
		}
	}
	if len(j.Decisions) > 0 {
		return
	}
	for _, s := range j.Sessions {
		if s.Proposal == nil || s.Proposal.Handoff == nil {
			continue
		}
		d := ops.Decision{SessionID: s.ID, Verdict: ops.VerdictEscalate}
		for _, name := range s.Proposal.Handoff.ServicesAffected {
			name, _ = p.Inventory.Canonical(name)
			d.Services = append(d.Services, name)
		}
		if slices.ContainsFunc(j.Approvals, func(a ops.Approval) bool { return a.SessionID == s.ID && a.Kind == ops.ApprovalTier }) {
			d.Verdict = ops.VerdictApproval
		} else if !slices.ContainsFunc(j.Sessions, func(o ops.Session) bool { return o.Works() && o.ID > s.ID && o.Tier > s.Tier }) {
			continue
		}
		j.Decisions = append(j.Decisions, d)
	}
}
