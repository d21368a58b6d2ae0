package decide

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"claudeops/internal/decide/escalation"
	"claudeops/internal/ops"
)

func (v view) asking() bool { return v.asked(ops.ApprovalPending, "") }

func (v view) denied() bool { return v.asked(ops.ApprovalDenied, "") }

// expired: nobody answered, and silence is never a yes.
func (v view) expired() bool { return v.asked(ops.ApprovalExpired, "") }

func (v view) reviewed() bool { return v.asked(ops.ApprovalApproved, ops.ApprovalReview) }

func (v view) withHuman() bool {
	return v.handedOver() != nil && slices.ContainsFunc(v.awaited(), func(i ops.Incident) bool { return i.ResolvedAt == nil })
}

func (v view) humanDone() bool { return v.handedOver() != nil }

// needsRecheck: the world may have changed since the last session, and a repair should not be repeated that is no longer
// needed: a human took his time, or a repair was cut off and may have taken effect.
func (v view) needsRecheck() bool {
	return v.resumedAfterWait() && len(v.verifiable()) > 0 && len(v.checks(ops.ProbeRecheck, v.last.ID)) == 0
}

func (v view) resumedAfterWait() bool {
	return v.approved() != "" || (v.policy.Recovery.Enabled && v.interrupted() && v.last.Tier > ops.Tier1)
}

// recovered: what was to be repaired is well again, and probes that saw it fail say so of every part.
func (v view) recovered() bool {
	return v.resumedAfterWait() && v.proof().allProven(ops.ProbeRecheck) &&
		!slices.ContainsFunc(v.checks(ops.ProbeRecheck, v.last.ID), func(c ops.Check) bool { return c.Status != ops.Healthy })
}

// problemOver: a human is or was asked, and every incident that the cycle waits for has been closed since. A plan that was begun gets
// the credit instead.
func (v view) problemOver() bool {
	q := v.question()
	return q != nil && q.Status != ops.ApprovalDenied && v.allClosed() && !v.plans().counts()
}

// withdraw ends the question with its problem, and tells those who were asked.
func withdraw(v view) ops.Step {
	q := v.question()
	reason := v.say(ops.Reason{Kind: ops.WhyWithdrawn, Approval: q, Incidents: v.awaited()})
	step := finishResolved(v.proof().closedBy(), reason, v.event(ops.LevelInfo, ops.VerbCycleAccepted, reason))
	if q.Status == ops.ApprovalPending {
		closed := v.say(ops.Reason{Kind: ops.WhyClosed, Incidents: v.awaited()})
		step.Notices = []ops.Notice{v.notice(ops.NoticeResolved, ops.LevelInfo, v.human().toldOf(ops.MessageNotNeeded, closed))}
	}
	return step
}

func keepWaiting(v view) ops.Step {
	return ops.Step{Kind: ops.StepAwait, Reason: v.say(ops.Reason{Kind: ops.WhyNotAnswered}), Until: v.consults().lookBack(v.expiry())}
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
	p := v.human().problemOf(ops.ProblemApproval, ops.LevelCritical, d, h)
	report := v.human().report(p)
	report.Waits = true
	why := v.human().handoffReason(h)
	if why == "" {
		why = d.Reason
	}
	question := v.human().newQuestion(ops.ApprovalTier, target, why)
	step := ops.Step{
		Kind: ops.StepAwait, Reason: d.Reason, Incident: &report, Approval: question, Until: v.expires(),
		Events: []ops.Event{v.event(ops.LevelWarning, ops.VerbApprovalAsked, d.Reason)},
	}
	plan, problem := escalation.Plan(v.policy.Inventory, h, target, d.Services)
	if problem != "" {
		reason := v.say(ops.Reason{Kind: ops.WhyNoPlan, Text: problem})
		step.Events = append(step.Events, v.event(ops.LevelWarning, ops.VerbApprovalPlanless, reason))
	}
	if len(plan) > 0 {
		question.Plan, question.PlanHash = plan, ops.PlanHash(v.cycle.ID, v.last.ID, plan)
	}
	question.Facts = v.wrongWith(d.Services...)
	told := v.human().told(ops.MessageApproval, p)
	told.Handler, told.Tier, told.Lacks, told.Plan = target.ID, target.Tier, target.Lacks(), plan
	told.Expires, told.Now = v.expires(), v.now
	step.Notices = []ops.Notice{v.notice(ops.NoticeApproval, ops.LevelCritical, told)}
	return step
}

// toHuman gives the work to a person: the cycle waits, with its environment's slot free, until the incident is closed.
func toHuman(v view, d ops.Decision, h *ops.Handoff) ops.Step {
	p := v.human().problemOf(ops.ProblemTakeOver, ops.LevelCritical, d, h)
	report := v.human().report(p)
	report.Waits = true
	level := ops.LevelInfo
	if d.Verdict == ops.VerdictNeedsHuman {
		level = ops.LevelWarning
	}
	return notifyOnce(v,
		ops.Step{
			Kind: ops.StepAwait, Reason: d.Reason, Incident: &report,
			Events: []ops.Event{v.event(level, ops.VerbEscalationHuman, d.Reason)},
		},
		v.notice(ops.NoticeNeedsHuman, ops.LevelCritical, v.human().told(ops.MessageHuman, p)),
	)
}

func closedByHuman(v view) ops.Step {
	reason := v.say(ops.Reason{Kind: ops.WhyClosed, Incidents: v.awaited()})
	return finishResolved(v.proof().closedBy(), reason, v.event(ops.LevelInfo, ops.VerbCycleResolved, reason))
}

func denied(v view) ops.Step {
	q := v.question()
	reason, status := v.say(ops.Reason{Kind: ops.WhyDenied, Approval: q}), ops.CycleBlocked
	if q.Kind == ops.ApprovalReview {
		status = ops.CycleNeedsHuman
	}
	return finish(status, reason, v.event(ops.LevelWarning, ops.VerbCycleDenied, reason))
}

func unanswered(v view) ops.Step {
	reason := v.say(ops.Reason{Kind: ops.WhyUnanswered, Approval: v.question()})
	step := finish(ops.CycleNeedsHuman, reason, v.event(ops.LevelWarning, ops.VerbCycleUnanswered, reason))
	told := v.human().toldOf(ops.MessageExpired, reason)
	if services := v.services(); len(services) > 0 {
		told.Todo = v.say(ops.Reason{Kind: ops.TodoAfterSilence, Services: services})
	}
	step.Notices = []ops.Notice{v.notice(ops.NoticeNeedsHuman, ops.LevelCritical, told)}
	return step
}

func lookAgain(v view) ops.Step {
	step := lookBeforeReflex(v)
	step.Target = v.last.ID
	return step
}

func recoveredMeanwhile(v view) ops.Step {
	reason := v.say(ops.Reason{Kind: ops.WhyWellAgain})
	step := finishResolved(ops.ProofProbe, reason, v.event(ops.LevelInfo, ops.VerbCycleResolved, reason))
	step.Recovered = v.proof().repaired(ops.ProbeRecheck, ops.ProofProbe, reason)
	return step
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
			how := v.say(ops.Reason{Kind: ops.WhyAgentWorks, Cycle: v.cycle.ID})
			step.Recovered = append(step.Recovered, ops.Recovered{Incident: i.ID, By: ops.ProofReport, How: how})
		}
	}
	return step
}

// planSchema is the form of a plan.
const planSchema = `{"type":"object","properties":{"root_cause":{"type":"string"},"ruled_out":{"type":"array","items":{"type":"string"}},` +
	`"plan":{"type":"array","items":{"type":"string"}}},"required":["root_cause","plan"],"additionalProperties":false}`

// Targets are the handlers that a handler may hand to.
func Targets(p ops.Policy, handler string) []ops.Handler {
	source, _ := p.Handler(handler)
	var out []ops.Handler
	for _, id := range source.HandsTo {
		if h, ok := p.Handler(id); ok {
			out = append(out, h)
		}
	}
	return out
}

// DescribeHandler is one line about a handler for an agent that may name it as its target.
func DescribeHandler(h ops.Handler) string {
	text := fmt.Sprintf("%s: %s (%s), family %s, model %s", h.ID, h.Tier, h.Tier.Title(), h.Family, h.Model)
	if h.Human() {
		text = h.ID + ": a human"
	}
	if h.GoodFor != "" {
		text += ". Good for: " + strings.TrimSuffix(h.GoodFor, ".")
	}
	return text
}
