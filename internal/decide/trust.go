package decide

import (
	"slices"

	"claudeops/internal/ops"
)

// watched: an agent may look at nothing of what is wrong, or at no service at all: some of it is not trusted that far, and for the rest a
// no holds. A person who asks for a look gets one as long as there is anything to look at.
func (v view) watched() bool {
	if v.newest != nil || !v.policy.Distrusts(v.journal.Lowered) {
		return false
	}
	free := func(s string) bool { return !v.trust(s).Forbids(ops.Tier1) && v.noTo(s) == nil }
	if slices.ContainsFunc(v.wrong(), free) {
		return false
	}
	return len(v.outOfSight()) > 0 && v.startedByItself() || v.onlyWatched()
}

// onlyWatched: no agent may look at any service.
func (v view) onlyWatched() bool {
	services := v.policy.Inventory.Services
	if len(services) == 0 {
		return v.policy.Trust.Forbids(ops.Tier1)
	}
	return !slices.ContainsFunc(services, func(s ops.Service) bool { return !v.trust(s.Name).Forbids(ops.Tier1) })
}

// outOfSight lists what is wrong with services that no agent may look at.
func (v view) outOfSight() []string {
	return slices.DeleteFunc(v.wrong(), func(s string) bool { return !v.trust(s).Forbids(ops.Tier1) })
}

// leaveToPeople ends a cycle without an agent. The outage is an incident, and people are told once.
func leaveToPeople(v view) ops.Step {
	services := v.outOfSight()
	switch {
	case len(services) > 0:
	case len(v.probed()) > 0:
		return finishQuiet(v)
	default:
		return finish(ops.CycleSuppressed, v.withheld(ops.TrustWatch.Keeps()))
	}
	return leaveProblem(v, v.human().unseenProblem(services))
}

// leaveProblem ends the cycle with a problem for people, who are told unless the watch has told them.
func leaveProblem(v view, p problem) ops.Step {
	step := finishForHuman(v, ops.CycleNeedsHuman, p)
	if v.watchNotified(p.facts.ServicesAffected) {
		return step
	}
	return notifyOnce(v, step, v.notice(ops.NoticeNeedsHuman, p.level, v.human().told(ops.MessageLeftToPeople, p)))
}

// standing: a person stopped everything.
func (v view) standing() bool { return v.journal.Standstill != nil }

// leaveStopped ends a cycle because everything is stopped. An outage that no session has worked on is an incident, and people are told.
func leaveStopped(v view) ops.Step {
	why := v.withheld("Claude Ops is " + v.journal.Standstill.Words())
	services := v.wrong()
	if v.newest != nil || len(services) == 0 {
		return finish(ops.CycleCancelled, why, v.event(ops.LevelInfo, ops.VerbCycleCancelled, "cycle cancelled: "+why))
	}
	p := v.human().unseenProblem(services)
	p.reason, p.todo = why, v.say(ops.Reason{Kind: ops.TodoResume, Services: services})
	return leaveProblem(v, p)
}

// leaveUnseen opens incidents for what no agent may look at while one is started for the rest.
func leaveUnseen(v view, step ops.Step) ops.Step {
	services := v.outOfSight()
	if len(services) == 0 || !v.startedByItself() {
		return step
	}
	p := v.human().unseenProblem(services)
	report := v.human().report(p)
	step.Left = &report
	if !v.watchNotified(services) && !v.human().known(&report) {
		step.Notices = append(step.Notices, v.notice(ops.NoticeNeedsHuman, p.level, v.human().told(ops.MessageLeftToPeople, p)))
	}
	return step
}

// suggested ends a cycle whose agent has said what should be done, and whose services no agent may change. People get the proposal.
func suggested(v view, d ops.Decision, h *ops.Handoff) ops.Step {
	p, plan := v.human().proposedOnly(d, h, d.Services)
	step := finishForHuman(v, ops.CycleNeedsHuman, p)
	step.Incident.Recommendation = v.say(ops.Reason{Kind: ops.TodoPlan, Text: p.todo, Plan: plan})
	told := v.human().told(ops.MessageLeftToPeople, p)
	told.Plan = plan
	if v.asked(ops.ApprovalApproved, ops.ApprovalTier) {
		told.Kind = ops.MessageNotStarted // whoever approved it was told that the cycle continues
	}
	return notifyOnce(v, step, v.notice(ops.NoticeNeedsHuman, ops.LevelCritical, told))
}

// leftOut lists the services of a proposal that trust keeps from its target while the rest goes on.
func (v view) leftOut(d ops.Decision, h *ops.Handoff) []string {
	target, _ := v.policy.Handler(d.TargetHandler)
	if h == nil || target.Human() || d.Check == ops.ObjectionTrust || d.Verdict == ops.VerdictRefused || len(d.Services) == 0 {
		return nil
	}
	var out []string
	for _, s := range h.ServicesAffected {
		held := ops.Holder(v.holds, s, target.May())
		if !slices.Contains(d.Services, s) && held != nil && held.By == ops.HoldByTrust { // trust is the last reason that is given
			out = append(out, s)
		}
	}
	return out
}

// about is a handoff about the services that a decision hands on.
func about(h *ops.Handoff, d ops.Decision) *ops.Handoff {
	if h == nil || len(d.Services) == 0 {
		return h
	}
	out := *h
	out.ServicesAffected = d.Services
	return &out
}

// tellOfLeftOut opens incidents for the services that trust leaves to people while the rest goes on.
func tellOfLeftOut(v view, step ops.Step, d ops.Decision, h *ops.Handoff, services []string) ops.Step {
	p, plan := v.human().proposedOnly(d, h, services)
	p.reason = v.trust(services[0]).Keeps()
	report := v.human().report(p)
	report.Services, report.Recommendation = services, v.say(ops.Reason{Kind: ops.TodoPlan, Text: p.todo, Plan: plan})
	step.Left = &report
	if !v.human().known(&report) {
		told := v.human().told(ops.MessageLeftToPeople, p)
		told.Plan = plan
		step.Notices = append(step.Notices, v.notice(ops.NoticeNeedsHuman, p.level, told))
	}
	return step
}

// losesTrust takes trust from the services whose claimed repair probes refute.
func losesTrust(then func(view) ops.Step) func(view) ops.Step {
	return func(v view) ops.Step {
		step := then(v)
		if v.last.Tier == ops.Tier1 || !v.policy.Distrusts(v.journal.Lowered) {
			return step
		}
		for _, c := range v.badAfter(*v.last) {
			r := ops.Reduced{Service: c.Service, Why: v.say(ops.Reason{Kind: ops.WhyRefutedClaim, Session: v.last, Health: c.Status})}
			if !slices.ContainsFunc(step.Reduced, func(o ops.Reduced) bool { return o.Service == c.Service }) {
				step.Reduced = append(step.Reduced, r)
			}
		}
		return step
	}
}

// PlanTier is the highest tier for whose work on a service a human is asked or told first, so that a plan is of use; 0 if there is none.
func (b Brief) PlanTier(service string) ops.Tier {
	var out ops.Tier
	p := b.v.policy
	trust := b.v.trust(service)
	for _, h := range Targets(p, b.session.Handler) {
		asked := p.Asks(b.session.Handler, h) || trust.Asks(h.May()) || trust.Forbids(h.May())
		if !h.Human() && asked {
			out = max(out, h.May())
		}
	}
	return out
}

// ProposesOnly reports whether trust lets no agent repair the service: people read a plan, and nobody is asked about it.
func (b Brief) ProposesOnly(service string) bool { return b.v.trust(service).Forbids(ops.Tier2) }
