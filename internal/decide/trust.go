package decide

import (
	"slices"

	"claudeops/internal/decide/escalation"
	"claudeops/internal/notice"
	"claudeops/internal/ops"
)

// trust is the level that holds for a service now.
func (v view) trust(service string) ops.Trust { return v.policy.Trusts(service, v.journal.Lowered) }

// distrusted lists the known and affected services that a tier may not work on.
func (v view) distrusted(tier ops.Tier) []escalation.Held {
	if !v.policy.Distrusts(v.journal.Lowered) {
		return nil
	}
	names := v.affected()
	for _, s := range v.policy.Inventory.Services {
		if !slices.Contains(names, s.Name) {
			names = append(names, s.Name)
		}
	}
	var out []escalation.Held
	for _, name := range names {
		if trust := v.trust(name); trust.Forbids(tier) {
			out = append(out, escalation.Held{Service: name, Why: notice.Distrusted(trust)})
		}
	}
	return out
}

// unasked lists the services that a tier may work on after approval only, and that nobody was asked about: they are not what the cycle
// works on.
func (v view) unasked(tier ops.Tier) []escalation.Held {
	if !v.policy.Distrusts(v.journal.Lowered) {
		return nil
	}
	var out []escalation.Held
	ours := v.ours()
	for _, s := range v.policy.Inventory.Services {
		if trust := v.trust(s.Name); trust.Asks(tier) && !slices.Contains(ours, s.Name) {
			out = append(out, escalation.Held{Service: s.Name, Why: notice.NotAskedAbout(trust)})
		}
	}
	return out
}

// watched: all that is wrong is with services that no agent may look at, or there are no others. A person who asks for a look gets one
// as long as there is anything to look at.
func (v view) watched() bool {
	if v.newest != nil || !v.policy.Distrusts(v.journal.Lowered) {
		return false
	}
	wrong := v.wrongNow()
	if slices.ContainsFunc(wrong, func(s string) bool { return !v.trust(s).Forbids(ops.Tier1) }) {
		return false
	}
	return len(wrong) > 0 && v.startedByItself() || v.onlyWatched()
}

// onlyWatched: no agent may look at any service.
func (v view) onlyWatched() bool {
	services := v.policy.Inventory.Services
	if len(services) == 0 {
		return v.policy.Trust.Forbids(ops.Tier1)
	}
	return !slices.ContainsFunc(services, func(s ops.Service) bool { return !v.trust(s.Name).Forbids(ops.Tier1) })
}

// wrongNow lists the services that probes and alerts find bad and that nothing else holds back.
func (v view) wrongNow() []string {
	var out []string
	for _, c := range v.latest() {
		if _, held := v.withheld(c); v.policy.Bad(c) && !held && !slices.Contains(out, c.Service) {
			out = append(out, c.Service)
		}
	}
	return out
}

// leaveToPeople ends a cycle without an agent. The outage is an incident, and people are told once.
func leaveToPeople(v view) ops.Step {
	services := v.wrongNow()
	switch {
	case len(services) > 0:
	case len(v.probed()) > 0:
		return finishQuiet(v)
	default:
		return finish(ops.CycleSuppressed, notice.Withheld(notice.Distrusted(ops.TrustWatch)))
	}
	p := v.problem(ops.ProblemTrust, ops.LevelWarning, notice.Withheld(notice.Distrusted(ops.TrustWatch)))
	p.todo = notice.RaiseTrust(services, ops.TrustSuggest)
	p.facts = &ops.Handoff{ServicesAffected: services, CheckResults: v.badChecks(services)}
	step := finishForHuman(v, ops.CycleNeedsHuman, p)
	if v.watchTold(services) {
		return step
	}
	return notifyOnce(v, step, v.notice(ops.NoticeNeedsHuman, p.level, notice.LeftToPeople(v.told(p), nil)))
}

// suggested ends a cycle whose agent has said what should be done, and whose services no agent may change. People get the proposal.
func suggested(v view, d ops.Decision, h *ops.Handoff) ops.Step {
	p, plan := v.proposedOnly(d, h, d.Services)
	step := finishForHuman(v, ops.CycleNeedsHuman, p)
	step.Incident.Recommendation = notice.WithPlan(p.todo, plan)
	text := notice.LeftToPeople(v.told(p), plan)
	if v.asked(ops.ApprovalApproved, ops.ApprovalTier) {
		text = notice.NotStarted(v.told(p)) // whoever approved it was told that the cycle continues
	}
	return notifyOnce(v, step, v.notice(ops.NoticeNeedsHuman, ops.LevelCritical, text))
}

// proposedOnly is the problem of services for which an agent may only propose something, with the steps of its plan.
func (v view) proposedOnly(d ops.Decision, h *ops.Handoff, services []string) (problem, []ops.ApprovedStep) {
	facts := *h
	facts.ServicesAffected = services
	facts.Plan = slices.DeleteFunc(slices.Clone(h.Plan), func(s ops.PlanStep) bool { return !slices.Contains(services, s.Service) })
	p := v.problemOf(ops.ProblemTrust, ops.LevelWarning, d, &facts)
	p.todo = notice.RaiseTrust(services, ops.TrustAsk)
	plan, _ := v.plan(&facts, p.target, services)
	return p, plan
}

// leftOut lists the services of a proposal that trust keeps from its target while the rest goes on.
func (v view) leftOut(d ops.Decision, h *ops.Handoff) []string {
	target, _ := v.policy.Handler(d.TargetHandler)
	if h == nil || target.Human() || d.Check == ops.ObjectionTrust || d.Verdict == ops.VerdictRefused || len(d.Services) == 0 {
		return nil
	}
	held := v.held()
	var out []string
	for _, s := range h.ServicesAffected {
		other := slices.ContainsFunc(held, func(o escalation.Held) bool { return o.Service == s })
		if !other && !slices.Contains(d.Services, s) && v.trust(s).Forbids(target.May()) {
			out = append(out, s)
		}
	}
	return out
}

// without is a handoff about fewer services.
func without(h *ops.Handoff, services []string) *ops.Handoff {
	out := *h
	out.ServicesAffected = slices.DeleteFunc(slices.Clone(h.ServicesAffected), func(s string) bool { return slices.Contains(services, s) })
	return &out
}

// tellOfLeftOut opens incidents for the services that trust leaves to people while the rest goes on.
func tellOfLeftOut(v view, step ops.Step, d ops.Decision, h *ops.Handoff, services []string) ops.Step {
	p, plan := v.proposedOnly(d, h, services)
	p.reason = notice.Distrusted(v.trust(services[0]))
	report := v.report(p)
	report.Services, report.Recommendation = services, notice.WithPlan(p.todo, plan)
	step.Left = &report
	if !v.known(&report) {
		step.Notices = append(step.Notices, v.notice(ops.NoticeNeedsHuman, p.level, notice.LeftToPeople(v.told(p), plan)))
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
			r := ops.Reduced{Service: c.Service, Why: notice.RefutedClaim(*v.last, c)}
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
		asked := p.ApprovalTier > 0 && h.Tier >= p.ApprovalTier || p.RouteOf(b.session.Handler, h.ID).Approval ||
			trust.Asks(h.May()) || trust.Forbids(h.May())
		if !h.Human() && asked {
			out = max(out, h.May())
		}
	}
	return out
}

// ProposesOnly reports whether trust lets no agent repair the service: people read a plan, and nobody is asked about it.
func (b Brief) ProposesOnly(service string) bool { return b.v.trust(service).Forbids(ops.Tier2) }
