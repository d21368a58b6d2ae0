package decide

import (
	"slices"
	"strings"

	"claudeops/internal/decide/escalation"
	"claudeops/internal/notice"
	"claudeops/internal/ops"
)

// A human who says no means these facts: which check of which service fails in which way, and which actions were named. While nothing
// else is wrong and its time is not over, no agent starts for them. The words of an agent are no facts.

// latest are the last results of each probe and alert in this cycle, whatever they were for.
func (v view) latest() []ops.Check {
	var out []ops.Check
	for _, c := range v.journal.Checks {
		if c.Purpose == ops.ProbeRunning {
			continue // no check of the service itself: it says why a repair is not proven
		}
		if i := slices.IndexFunc(out, func(o ops.Check) bool { return o.Service == c.Service && o.Probe == c.Probe }); i >= 0 {
			out[i] = c
			continue
		}
		out = append(out, c)
	}
	return out
}

// wrongWith are the facts about services: what probes and alerts found, else what the last session reported.
func (v view) wrongWith(services ...string) []ops.Fact {
	var out []ops.Fact
	for _, name := range services {
		name, _ = v.policy.Inventory.Canonical(name)
		found := len(out)
		for _, c := range v.latest() {
			if c.Service == name && v.policy.Bad(c) {
				out = append(out, ops.FactOf(c))
			}
		}
		if len(out) == found {
			out = append(out, v.reportedAbout(name)...)
		}
	}
	return ops.SortedFacts(out)
}

// reportedAbout are the facts about a service in which no probe finds anything wrong.
func (v view) reportedAbout(service string) []ops.Fact {
	var out []ops.Fact
	if h := v.proposal(); h != nil {
		for _, c := range h.CheckResults {
			if name, _ := v.policy.Inventory.Canonical(c.Service); name == service && c.Status != ops.Healthy {
				out = append(out, ops.Fact{Service: service, Type: c.CheckType, Class: string(c.Status)})
			}
		}
	}
	if len(out) == 0 {
		out = []ops.Fact{{Service: service, Class: "reported"}}
	}
	return out
}

// proposal is what the last session handed up, or nil.
func (v view) proposal() *ops.Handoff {
	if v.last == nil {
		return nil
	}
	return proposed(*v.last)
}

// noTo is the no of a human that still holds for a service, or nil.
func (v view) noTo(service string) *ops.Approval {
	wrong := v.wrongWith(service)
	for i := range v.journal.Denials {
		no := &v.journal.Denials[i]
		if no.Refuses(v.now) && no.Knew(wrong) && v.sameActions(*no, service) && !v.approvedAfter(*no) {
			return no
		}
	}
	return nil
}

// sameActions: the actions that were denied are configured as they were, and no other one is proposed now.
func (v view) sameActions(no ops.Approval, service string) bool {
	for _, p := range no.Plan {
		if a, _ := v.policy.Inventory.Action(service, p.Action); p.Service == service && p.Digest != a.Digest() {
			return false
		}
	}
	h := v.proposal()
	return h == nil || !slices.ContainsFunc(h.Plan, func(p ops.PlanStep) bool {
		name, _ := v.policy.Inventory.Canonical(p.Service)
		a, known := v.policy.Inventory.Action(name, p.Action) // a name that means nothing is as good as none
		return name == service && known && !slices.ContainsFunc(no.Plan, func(o ops.ApprovedStep) bool { return o.Digest == a.Digest() })
	})
}

// approvedAfter: a human has approved something in this cycle since the no.
func (v view) approvedAfter(no ops.Approval) bool {
	return slices.ContainsFunc(v.journal.Approvals, func(a ops.Approval) bool {
		return a.Status == ops.ApprovalApproved && a.AnsweredAt != nil && no.AnsweredAt != nil && a.AnsweredAt.After(*no.AnsweredAt)
	})
}

// refusedServices lists the affected services for which a no still holds.
func (v view) refusedServices() []escalation.Held {
	var out []escalation.Held
	if len(v.journal.Denials) == 0 {
		return nil
	}
	for _, service := range v.affected() {
		if no := v.noTo(service); no != nil {
			out = append(out, escalation.Held{Service: service, Why: notice.SaidNo(*no)})
		}
	}
	return out
}

// noLasts: nobody but a probe, an alert or the schedule asks for this cycle, and for all that is wrong a no holds, or something else
// that starts no agent. A person who asks for a look gets one.
func (v view) noLasts() bool {
	if v.newest != nil || len(v.journal.Denials) == 0 || !v.startedByItself() {
		return false
	}
	no := v.refusedServices()
	return len(no) > 0 && !slices.ContainsFunc(v.latest(), func(c ops.Check) bool {
		_, held := v.withheld(c)
		return v.policy.Bad(c) && !held && !slices.ContainsFunc(no, func(h escalation.Held) bool { return h.Service == c.Service })
	})
}

// startedByItself: the cycle was started because something is wrong, or because it was time for the probes.
func (v view) startedByItself() bool {
	switch v.cycle.Trigger {
	case ops.TriggerProbe, ops.TriggerAlert:
		return true
	case ops.TriggerScheduled:
		return v.policy.Observe == ops.ObserveProbes && !v.lookDue()
	case ops.TriggerManual, ops.TriggerAPI:
	}
	return false
}

func finishRefused(v view) ops.Step {
	var why []string
	for _, h := range v.refusedServices() {
		why = append(why, h.Service+": "+h.Why)
	}
	reason := notice.Withheld(strings.Join(why, "; "))
	return finish(ops.CycleSuppressed, reason, v.event(ops.LevelInfo, ops.EventApproval, reason))
}
