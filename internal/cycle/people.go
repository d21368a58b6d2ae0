package cycle

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"claudeops/internal/decide/escalation"
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
	return v.asked(ops.ApprovalExpired, "") && v.policy.Approval.OnExpiry != onExpiryApprove
}

// What an operator can have done with a question that nobody answers.
const (
	onExpiryApprove = "approve"
	onExpiryDeny    = "deny"
)

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

func (v view) inHumanHands() bool {
	return v.handedOver() != nil && slices.ContainsFunc(v.awaited(), func(i ops.Incident) bool { return i.ResolvedAt == nil })
}

func (v view) humanDone() bool { return v.handedOver() != nil }

// unseen: the world may have changed since the last session, and a repair should not be repeated that is no longer
// needed: a human took his time, or a repair was cut off and may have taken effect.
func (v view) unseen() bool {
	return v.backAgain() && len(v.doubtful()) > 0 && len(v.checks(ops.ProbeRecheck, v.last.ID)) == 0
}

func (v view) backAgain() bool {
	return v.approved() != "" || (v.policy.Recovery.Enabled && v.interrupted() && v.last.Tier > ops.Tier1)
}

// recovered: what was to be repaired is well again, and every part of it has a probe that says so.
func (v view) recovered() bool {
	checks := v.checks(ops.ProbeRecheck, v.last.ID)
	probed := v.probed()
	return v.backAgain() && len(checks) > 0 &&
		!slices.ContainsFunc(v.affected(), func(s string) bool { return !slices.Contains(probed, s) }) &&
		!slices.ContainsFunc(checks, func(c ops.Check) bool { return c.Status != ops.Healthy })
}

// held lists the services that are in a human's hands.
func (v view) held() []escalation.Held {
	var out []escalation.Held
	for _, i := range v.journal.Incidents {
		switch {
		case i.ResolvedAt != nil || (i.Waiting != nil && *i.Waiting == v.cycle.ID):
		case i.Status == ops.IncidentAcknowledged:
			out = append(out, escalation.Held{Service: i.Service, Why: fmt.Sprintf("incident %d, acknowledged by %s", i.ID, i.AcknowledgedBy)})
		case i.Holds(v.now):
			out = append(out, escalation.Held{Service: i.Service, Why: fmt.Sprintf("incident %d, snoozed until %s", i.ID, stamp(*i.SnoozedUntil))})
		case i.Waiting != nil:
			out = append(out, escalation.Held{Service: i.Service, Why: fmt.Sprintf("incident %d, cycle %d waits for a human", i.ID, *i.Waiting)})
		}
	}
	return append(out, v.silenced()...)
}

// silenced lists the services that a silence, a maintenance or a failing dependency keeps from being worked on.
func (v view) silenced() []escalation.Held {
	var out []escalation.Held
	for _, s := range v.journal.Silences {
		if !s.Active(v.now) || len(s.Labels) > 0 || s.Probe != "" {
			continue // it is about a part of what is watched
		}
		why := fmt.Sprintf("silenced by %s until %s: %s", s.Author, stamp(s.Until), s.Reason)
		for _, name := range v.affected() {
			if like(s.Service, name) && like(s.Group, v.group(name)) {
				out = append(out, escalation.Held{Service: name, Why: why})
			}
		}
	}
	for _, w := range v.journal.Withheld {
		if w.Why.Inhibits() {
			out = append(out, escalation.Held{Service: w.Service, Why: w.Reason})
		}
	}
	return out
}

// like reports whether a pattern matches; an empty one matches everything.
func like(pattern, name string) bool { return pattern == "" || ops.MatchPattern(pattern, name) }

func (v view) group(service string) string {
	for _, s := range v.policy.Inventory.Services {
		if s.Name == service {
			return s.Group
		}
	}
	return ""
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

func keepWaiting(v view) ops.Step {
	return ops.Step{Kind: ops.StepAwait, Reason: "a human has not answered yet", Until: v.expiry()}
}

// expiry is when the open question is looked at again; zero for never.
func (v view) expiry() time.Time {
	if q := v.question(); q != nil && q.Status == ops.ApprovalPending && q.ExpiresAt != nil {
		return *q.ExpiresAt
	}
	return time.Time{}
}

// askApproval stops before a tier starts until a human has answered.
func (v view) askApproval(d ops.Decision, h *ops.Handoff) ops.Step {
	target, _ := v.policy.Handler(d.TargetHandler)
	report := v.report("Approval needed before "+target.ID+" starts", d.Reason, h)
	report.Waits = true
	return ops.Step{
		Kind: ops.StepAwait, Reason: d.Reason, Incident: &report,
		Approval: v.newQuestion(ops.ApprovalTier, target, d.Reason), Until: v.expires(),
		Events:  []ops.Event{v.event(ops.LevelWarning, ops.EventApproval, d.Reason)},
		Notices: []ops.Notice{v.notice(ops.NoticeApproval, ops.LevelCritical, "Your approval is needed", v.story(d, h)+v.howToAnswer())},
	}
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

func (v view) howToAnswer() string {
	text := "\nAnswer on the page Incidents, or with: claudeops approvals list, then claudeops approvals approve ID or deny ID --reason TEXT\n"
	if at := v.expires(); !at.IsZero() {
		text += "Without an answer it expires at " + stamp(at) + ".\n"
	}
	return text
}

// toHuman gives the work to a person: the cycle waits, with its environment's slot free, until the incident is closed.
func (v view) toHuman(d ops.Decision, h *ops.Handoff) ops.Step {
	report := v.report("A human has to take over", d.Reason, h)
	report.Waits = true
	level := ops.LevelInfo
	if d.Verdict == ops.VerdictNeedsHuman {
		level = ops.LevelWarning
	}
	return v.told(ops.Step{Kind: ops.StepAwait, Reason: d.Reason, Incident: &report, Events: []ops.Event{v.event(level, ops.EventEscalation, d.Reason)}},
		v.notice(ops.NoticeNeedsHuman, ops.LevelCritical, "Human attention required", v.story(d, h)))
}

func closedByHuman(v view) ops.Step {
	reason := "the incident was closed"
	for _, i := range v.awaited() {
		reason = fmt.Sprintf("incident %d was closed by %s: %s", i.ID, i.ResolvedBy, i.Resolution)
	}
	return v.finish(ops.CycleResolved, reason, v.event(ops.LevelInfo, ops.EventCycle, reason))
}

func denied(v view) ops.Step {
	q := v.question()
	reason := fmt.Sprintf("%s said no to %s: %s", q.AnsweredBy, q.Handler, q.Answer)
	status := ops.CycleBlocked
	if q.Kind == ops.ApprovalReview {
		reason = fmt.Sprintf("%s does not accept the repair: %s", q.AnsweredBy, q.Answer)
		status = ops.CycleNeedsHuman
	}
	return v.finish(status, reason, v.event(ops.LevelWarning, ops.EventApproval, reason))
}

func unanswered(v view) ops.Step {
	q := v.question()
	reason := fmt.Sprintf("nobody answered whether %s may start", q.Handler)
	if q.Kind == ops.ApprovalReview {
		reason = "nobody answered whether the repair is good enough"
	}
	status := ops.CycleNeedsHuman
	if v.policy.Approval.OnExpiry == onExpiryDeny {
		status = ops.CycleBlocked
	}
	step := v.finish(status, reason, v.event(ops.LevelWarning, ops.EventApproval, reason))
	step.Notices = []ops.Notice{v.notice(ops.NoticeNeedsHuman, ops.LevelCritical, "A question expired", reason+".\n"+v.where())}
	return step
}

func lookAgain(v view) ops.Step {
	return ops.Step{
		Kind: ops.StepProbe, Purpose: ops.ProbeRecheck, Target: v.last.ID, Services: v.doubtful(),
		Reason: "time has passed; probes look first whether the repair is still needed",
	}
}

func recoveredMeanwhile(v view) ops.Step {
	reason := "probes find all affected services well again; nothing more was started"
	step := v.finish(ops.CycleResolved, reason, v.event(ops.LevelInfo, ops.EventCycle, reason))
	step.Recovered = v.wellAgain(reason)
	return step
}

// report is what a human gets to know of the problem.
func (v view) report(title, recommendation string, h *ops.Handoff) ops.IncidentReport {
	r := ops.IncidentReport{Title: title, Level: ops.LevelCritical, Class: string(ops.Down), CostUSD: v.chainUSD(), Recommendation: recommendation}
	if h != nil {
		r.Services, r.Checks, r.Findings, r.Tried = h.ServicesAffected, h.CheckResults, h.InvestigationFindings, h.RemediationAttempted
	} else {
		r.Services = v.affected()
	}
	if len(r.Services) == 0 {
		r.Class = "agent" // nothing is known to be wrong but the agent itself
	}
	return r
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
		if h := proposalOf(s).handoff; h != nil {
			for _, n := range h.ServicesAffected {
				add(n)
			}
		}
	}
	for _, c := range v.journal.Checks {
		if c.Status == ops.Down {
			add(c.Service)
		}
	}
	return out
}

// told adds a notice unless the people know of the problem already: what is open is reminded of, not repeated.
func (v view) told(step ops.Step, n ops.Notice) ops.Step {
	if !v.known(step.Incident) {
		step.Notices = append(step.Notices, n)
	}
	return step
}

func (v view) known(r *ops.IncidentReport) bool {
	if r == nil || len(r.Services) == 0 {
		return false
	}
	return !slices.ContainsFunc(r.Services, func(service string) bool {
		name, _ := v.policy.Inventory.Canonical(service)
		return !slices.ContainsFunc(v.journal.Incidents, func(i ops.Incident) bool {
			return i.ResolvedAt == nil && i.Service == name && i.Class == r.Class && i.LastCycle != v.cycle.ID
		})
	})
}

// wellAgain closes the incidents of the services this cycle found well, or made so.
func (v view) wellAgain(how string) []ops.Recovered {
	var out []ops.Recovered
	for _, service := range v.affected() {
		out = append(out, ops.Recovered{Service: service, How: how})
	}
	return out
}

// openElsewhere reports whether an incident of an earlier cycle is still open.
func (v view) openElsewhere() bool {
	return slices.ContainsFunc(v.journal.Incidents, func(i ops.Incident) bool { return i.ResolvedAt == nil })
}

func (v view) where() string {
	return fmt.Sprintf("\nCycle %d, environment %s. Details: claudeops cycles show %d\n", v.cycle.ID, v.cycle.Environment, v.cycle.ID)
}

func names(handlers []ops.Handler) string {
	var out []string
	for _, h := range handlers {
		out = append(out, h.ID)
	}
	return strings.Join(out, ", ")
}
