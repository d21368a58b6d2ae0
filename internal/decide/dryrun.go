package decide

import (
	"slices"

	"claudeops/internal/decide/escalation"
	"claudeops/internal/notice"
	"claudeops/internal/ops"
)

// dryRun ends a cycle that would have repaired something. The outage is an incident all the same, and people are told of it once:
// nobody else will do anything about it.
func dryRun(v view, d ops.Decision, h *ops.Handoff) ops.Step {
	facts := *h
	facts.ServicesAffected = d.Services
	p := v.problemOf(ops.ProblemDryRun, ops.LevelWarning, d, &facts)
	p.todo = notice.AllowRepair(d.Services, v.cycle.Options.DryRun)
	would := v.would(facts)
	step := finishForHuman(v, ops.CycleSuppressed, p)
	step.Incident.DryRun = true
	step.Incident.Recommendation = notice.WithoutDryRun(p.todo, would)
	switch {
	case v.asked(ops.ApprovalApproved, ops.ApprovalTier):
		// Whoever approved it was told that the cycle continues.
		step.Notices = []ops.Notice{v.notice(ops.NoticeBlocked, p.level, notice.NotStarted(v.told(p)))}
	case v.cycle.Options.DryRun:
		step.Incident.Handled = true // nobody is called: whoever asked for this one look sees what it found
	case !v.watchTold(d.Services):
		step = notifyOnce(v, step, v.notice(ops.NoticeBlocked, p.level, notice.DryRun(v.told(p), would)))
	}
	return step
}

// watchTold: the notice that these services turned bad has gone out already.
func (v view) watchTold(services []string) bool {
	return !slices.ContainsFunc(services, func(s string) bool { return !slices.Contains(v.journal.Told, s) })
}

// would is what would have been done, as far as rules and limits can say now.
func (v view) would(h ops.Handoff) string {
	wet := v
	wet.policy.DryRun = false
	d := escalation.Decide(wet.policy, v.path(), escalation.Proposal{Session: v.proposer(), Handoff: &h, Choice: v.choice()}, v.facts())
	target, _ := v.policy.Handler(d.TargetHandler)
	plan, _ := wet.plan(&h, target, d.Services)
	return notice.Would(d, target, plan)
}

// saidInDryRun: people know of the incident only that it would be repaired if there were no dry run.
func saidInDryRun(i ops.Incident) bool {
	known, err := i.Known()
	return err == nil && known.DryRun
}
