package decide

import (
	"slices"
	"time"

	"claudeops/internal/notice"
	"claudeops/internal/ops"
)

// question is the last thing a human was asked about the last session, or nil.
func (v view) question() *ops.Approval {
	for i := len(v.journal.Approvals) - 1; i >= 0; i-- {
		if a := &v.journal.Approvals[i]; v.last != nil && a.SessionID == v.last.ID {
			return a
		}
	}
	return nil
}

func (v view) asked(status ops.ApprovalStatus, kind ops.ApprovalKind) bool {
	q := v.question()
	return q != nil && q.Status == status && (kind == "" || q.Kind == kind)
}

func (v view) asking() bool { return v.asked(ops.ApprovalPending, "") }

func (v view) denied() bool { return v.asked(ops.ApprovalDenied, "") }

// expired: nobody answered, and the operator did not say that silence means yes.
func (v view) expired() bool {
	return v.asked(ops.ApprovalExpired, "") && v.policy.Approval.OnExpiry != ops.OnExpiryApprove
}

// approved is the handler whose start a human agreed to, or empty.
func (v view) approved() string {
	q := v.question()
	if q == nil || q.Kind != ops.ApprovalTier || (q.Status != ops.ApprovalApproved && q.Status != ops.ApprovalExpired) {
		return ""
	}
	return q.Handler
}

func (v view) reviewed() bool {
	q := v.question()
	return q != nil && q.Kind == ops.ApprovalReview && (q.Status == ops.ApprovalApproved || q.Status == ops.ApprovalExpired)
}

// handedOver is the decision that gave the last session's work to a human, or nil.
func (v view) handedOver() *ops.Decision {
	if len(v.journal.Decisions) == 0 || v.last == nil {
		return nil
	}
	d := &v.journal.Decisions[len(v.journal.Decisions)-1]
	target, ok := v.policy.Handler(d.TargetHandler)
	if !ok || !target.Human() || d.SessionID != v.last.ID || (d.Verdict != ops.VerdictEscalate && d.Verdict != ops.VerdictNeedsHuman) {
		return nil
	}
	return d
}

// awaited are the incidents this cycle waits for.
func (v view) awaited() []ops.Incident {
	var out []ops.Incident
	for _, i := range v.journal.Incidents {
		if i.Waiting != nil && *i.Waiting == v.cycle.ID {
			out = append(out, i)
		}
	}
	return out
}

func (v view) withHuman() bool {
	return v.handedOver() != nil && slices.ContainsFunc(v.awaited(), func(i ops.Incident) bool { return i.ResolvedAt == nil })
}

func (v view) humanDone() bool { return v.handedOver() != nil }

// needsRecheck: the world may have changed since the last session, and a repair should not be repeated that is no longer
// needed: a human took his time, or a repair was cut off and may have taken effect.
func (v view) needsRecheck() bool {
	return v.resumedAfterWait() && len(v.servicesToVerify()) > 0 && len(v.checks(ops.ProbeRecheck, v.last.ID)) == 0
}

func (v view) resumedAfterWait() bool {
	return v.approved() != "" || (v.policy.Recovery.Enabled && v.interrupted() && v.last.Tier > ops.Tier1)
}

// recovered: what was to be repaired is well again, and probes that saw it fail say so of every part.
func (v view) recovered() bool {
	return v.resumedAfterWait() && v.allProven(ops.ProbeRecheck) &&
		!slices.ContainsFunc(v.checks(ops.ProbeRecheck, v.last.ID), func(c ops.Check) bool { return c.Status != ops.Healthy })
}

// problemOver: a human is or was asked, and every incident that the cycle waits for has been closed since. A plan that was begun gets
// the credit instead.
func (v view) problemOver() bool {
	q := v.question()
	return q != nil && q.Status != ops.ApprovalDenied && v.allClosed() && !v.planCounts()
}

// allClosed: every incident that the cycle waits for has been closed.
func (v view) allClosed() bool {
	awaited := v.awaited()
	return len(awaited) > 0 && !slices.ContainsFunc(awaited, func(i ops.Incident) bool { return i.ResolvedAt == nil })
}

// withdraw ends the question with its problem, and tells those who were asked.
func withdraw(v view) ops.Step {
	q := v.question()
	reason := notice.Withdrawn(*q, notice.Closed(v.awaited()))
	step := finishResolved(v.closedBy(), reason, v.event(ops.LevelInfo, ops.EventApproval, reason))
	if q.Status == ops.ApprovalPending {
		step.Notices = []ops.Notice{v.notice(ops.NoticeResolved, ops.LevelInfo, notice.NotNeeded(v.toldOf(notice.Closed(v.awaited()))))}
	}
	return step
}

func keepWaiting(v view) ops.Step {
	return ops.Step{Kind: ops.StepAwait, Reason: notice.NotAnswered, Until: v.lookBack(v.expiry())}
}

// expiry is when the open question is looked at again; zero for never.
func (v view) expiry() time.Time {
	if q := v.question(); q != nil && q.Status == ops.ApprovalPending && q.ExpiresAt != nil {
		return *q.ExpiresAt
	}
	return time.Time{}
}

// askApproval stops before a tier starts until a human has answered.
func askApproval(v view, d ops.Decision, h *ops.Handoff) ops.Step {
	target, _ := v.policy.Handler(d.TargetHandler)
	p := v.problemOf(ops.ProblemApproval, ops.LevelCritical, d, h)
	report := v.report(p)
	report.Waits = true
	why := v.agentReason(h)
	if why == "" {
		why = d.Reason
	}
	question := v.newQuestion(ops.ApprovalTier, target, why)
	step := ops.Step{
		Kind: ops.StepAwait, Reason: d.Reason, Incident: &report, Approval: question, Until: v.expires(),
		Events: []ops.Event{v.event(ops.LevelWarning, ops.EventApproval, d.Reason)},
	}
	plan, problem := v.plan(h, target, d.Services)
	if problem != "" {
		step.Events = append(step.Events, v.event(ops.LevelWarning, ops.EventApproval, notice.NoPlan(problem)))
	}
	if len(plan) > 0 {
		question.Plan, question.PlanHash = plan, ops.PlanHash(v.cycle.ID, v.last.ID, plan)
	}
	question.Facts = v.wrongWith(d.Services...)
	asked := notice.Question{Handler: target.ID, Tier: target.Tier, Expires: v.expires(), Now: v.now, Plan: plan}
	step.Notices = []ops.Notice{v.notice(ops.NoticeApproval, ops.LevelCritical, notice.Approval(v.told(p), asked))}
	return step
}

func (v view) newQuestion(kind ops.ApprovalKind, target ops.Handler, why string) *ops.Approval {
	a := &ops.Approval{
		CycleID: v.cycle.ID, SessionID: v.last.ID, Environment: v.cycle.Environment, Kind: kind,
		Tier: target.Tier, Handler: target.ID, Status: ops.ApprovalPending, Reason: why, RequestedAt: v.now,
	}
	if at := v.expires(); !at.IsZero() {
		a.ExpiresAt = &at
	}
	return a
}

func (v view) expires() time.Time {
	if v.policy.Approval.Expiry <= 0 {
		return time.Time{}
	}
	return v.now.Add(v.policy.Approval.Expiry)
}

// toldOf is what a notice says where only a reason is known.
func (v view) toldOf(reason string) notice.Problem {
	return notice.Problem{What: reason, CostUSD: v.chainUSD(), Environment: v.cycle.Environment, Cycle: v.cycle.ID}
}

// toHuman gives the work to a person: the cycle waits, with its environment's slot free, until the incident is closed.
func toHuman(v view, d ops.Decision, h *ops.Handoff) ops.Step {
	p := v.problemOf(ops.ProblemTakeOver, ops.LevelCritical, d, h)
	report := v.report(p)
	report.Waits = true
	level := ops.LevelInfo
	if d.Verdict == ops.VerdictNeedsHuman {
		level = ops.LevelWarning
	}
	return notifyOnce(v,
		ops.Step{Kind: ops.StepAwait, Reason: d.Reason, Incident: &report, Events: []ops.Event{v.event(level, ops.EventEscalation, d.Reason)}},
		v.notice(ops.NoticeNeedsHuman, ops.LevelCritical, notice.NeedsHuman(v.told(p))),
	)
}

func closedByHuman(v view) ops.Step {
	reason := notice.Closed(v.awaited())
	return finishResolved(v.closedBy(), reason, v.event(ops.LevelInfo, ops.EventCycle, reason))
}

func denied(v view) ops.Step {
	q := v.question()
	reason, status := notice.Denied(*q), ops.CycleBlocked
	if q.Kind == ops.ApprovalReview {
		status = ops.CycleNeedsHuman
	}
	return finish(status, reason, v.event(ops.LevelWarning, ops.EventApproval, reason))
}

func unanswered(v view) ops.Step {
	reason, status := notice.Unanswered(*v.question()), ops.CycleNeedsHuman
	if v.policy.Approval.OnExpiry == ops.OnExpiryDeny {
		status = ops.CycleBlocked
	}
	step := finish(status, reason, v.event(ops.LevelWarning, ops.EventApproval, reason))
	told := v.toldOf(reason)
	told.Todo = notice.AfterSilence(v.affected())
	step.Notices = []ops.Notice{v.notice(ops.NoticeNeedsHuman, ops.LevelCritical, notice.Expired(told))}
	return step
}

func lookAgain(v view) ops.Step {
	return ops.Step{
		Kind: ops.StepProbe, Purpose: ops.ProbeRecheck, Target: v.last.ID, Services: v.servicesToVerify(),
		Reason: notice.LooksAgain,
	}
}

func recoveredMeanwhile(v view) ops.Step {
	step := finishResolved(ops.ProofProbe, notice.WellAgain, v.event(ops.LevelInfo, ops.EventCycle, notice.WellAgain))
	step.Recovered = v.repaired(ops.ProbeRecheck, ops.ProofProbe, notice.WellAgain)
	return step
}

// affected lists the services that somebody in this cycle found in trouble, by their own names.
func (v view) affected() []string {
	var out []string
	add := func(name string) {
		name, _ = v.policy.Inventory.Canonical(name)
		if name != "" && !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	for _, s := range v.journal.Sessions {
		if h := proposed(s); h != nil {
			for _, n := range h.ServicesAffected {
				add(n)
			}
		}
		for _, name := range asksAbout(s) {
			add(name)
		}
	}
	for _, purpose := range []ops.ProbePurpose{ops.ProbeAlert, ops.ProbeObserve, ops.ProbeRecheck, ops.ProbeVerify} {
		for _, c := range v.checks(purpose, 0) {
			if v.policy.Bad(c) {
				add(c.Service)
			}
		}
	}
	return out
}

// closeAgentIncidents closes the incidents about the agent or the judge itself, such as a wrong key, once it has done its work again.
func closeAgentIncidents(v view, step ops.Step) ops.Step {
	if !step.Kind.Leaves() || step.Kind == ops.StepRest {
		return step
	}
	works := map[string]bool{ops.ClassAgent: slices.ContainsFunc(v.journal.Sessions, func(s ops.Session) bool {
		return s.Works() && s.Status == ops.SessionCompleted && s.Outcome != ops.OutcomeInconclusive
	}), ops.ClassJudge: slices.ContainsFunc(v.journal.Sessions, func(s ops.Session) bool {
		_, answered := v.verdictOn(s)
		return answered
	})}
	for _, i := range v.journal.Incidents {
		if i.ResolvedAt == nil && works[i.Class] && (step.Incident == nil || step.Incident.Class != i.Class) {
			step.Recovered = append(step.Recovered, ops.Recovered{Incident: i.ID, By: ops.ProofReport, How: notice.AgentWorks(v.cycle.ID)})
		}
	}
	return step
}
