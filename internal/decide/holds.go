package decide

import (
	"slices"
	"time"

	"claudeops/internal/ops"
)

// holder finds what holds services.
type holder struct{ past }

// holding lists what holds services. It is the one place that knows every source: people, trust, the configuration, the watch, other
// cycles.
func (v holder) holding() []ops.Hold {
	return slices.Concat(v.gone(), v.heldByPeople(), v.silenced(), v.inhibited(), v.elsewhere(), v.noes(), v.journal.Attacked, v.distrusted())
}

// gone lists the services that were taken out of the configuration since the cycle started.
func (v holder) gone() []ops.Hold {
	var out []ops.Hold
	for _, s := range v.policy.Inventory.Services {
		if s.Gone {
			out = append(out, ops.Hold{Service: s.Name, From: ops.Tier1, By: ops.HoldByGone, Why: v.say(ops.Reason{Kind: ops.WhyUnconfigured})})
		}
	}
	return out
}

// heldByPeople lists the services whose incidents somebody has taken over or put off, or about which another cycle asks. What this cycle
// asked itself never holds it, and a yes to it counts over what was said before.
func (v holder) heldByPeople() []ops.Hold {
	var out []ops.Hold
	for _, i := range v.incidents() {
		own := i.Waiting != nil && *i.Waiting == v.cycle.ID
		h := ops.Hold{From: v.looks()}
		switch {
		case own && v.approvedSince(i):
			continue
		case i.Status == ops.IncidentAcknowledged:
			h.By, h.Why = ops.HoldByAcknowledged, v.say(ops.Reason{Kind: ops.WhyAcknowledged, Incident: i})
		case i.Holds(v.now):
			h.By, h.Why, h.Until = ops.HoldBySnooze, v.say(ops.Reason{Kind: ops.WhySnoozed, Incident: i}), i.SnoozedUntil
		case i.Waiting != nil && !own:
			h.By, h.Why = ops.HoldByQuestion, v.say(ops.Reason{Kind: ops.WhyAwaitsHuman, Incident: i})
			if known, _ := i.Known(); known.Reflex {
				h.From = ops.Tier2
			}
		default:
			continue
		}
		for _, h.Service = range namedBy(i) {
			out = append(out, h)
		}
	}
	return out
}

// approvedSince: a person approved work on the incident's service after the incident was last acknowledged or snoozed.
func (v holder) approvedSince(i ops.Incident) bool {
	q := v.question()
	if q == nil || q.Status != ops.ApprovalApproved || q.AnsweredAt == nil || !slices.Contains(v.about(), i.Service) && i.Service != "" {
		return false
	}
	said := i.UpdatedAt // a snooze has no time of its own
	if i.Status == ops.IncidentAcknowledged && i.AcknowledgedAt != nil {
		said = *i.AcknowledgedAt
	}
	return !i.Holds(v.now) || q.AnsweredAt.After(said)
}

// silenced lists the services that somebody silenced.
func (v holder) silenced() []ops.Hold {
	var out []ops.Hold
	for _, s := range v.journal.Silences {
		if !s.Active(v.now) || len(s.Labels) > 0 || s.Probe != "" {
			continue // it is about a part of what is watched
		}
		for _, name := range v.named() {
			if ops.MatchPattern(s.Service, name) && ops.MatchPattern(s.Group, v.group(name)) {
				why := v.say(ops.Reason{Kind: ops.WhySilenced, Silence: s})
				out = append(out, ops.Hold{Service: name, From: v.looks(), By: ops.HoldBySilence, Why: why, Until: &s.Until})
			}
		}
	}
	return out
}

// inhibited lists the services that a maintenance, a failing dependency or flapping keeps from being worked on.
func (v holder) inhibited() []ops.Hold {
	var out []ops.Hold
	for _, w := range v.journal.Withheld {
		if w.Why.Inhibits() {
			out = append(out, v.heldByWatch(w, v.looks()))
		}
	}
	return out
}

func (v holder) heldByWatch(w ops.Withheld, from ops.Tier) ops.Hold {
	h := ops.Hold{Service: w.Service, From: from, By: ops.HoldByWatch, Why: w.Reason}
	if !w.Until.IsZero() {
		h.Until = &w.Until
	}
	return h
}

// elsewhere lists, for a look, the services that another cycle has in its charge: that one works on them. If it called a person while this
// look waited for its turn, an agent looks, as at all that no probe sees, and no tier repairs.
func (v holder) elsewhere() []ops.Hold {
	if !v.task.Open {
		return nil
	}
	begun := func(h ops.Hold) bool {
		return slices.ContainsFunc(v.reflexRuns(), func(r ops.ActionRun) bool { return r.Service == h.Service })
	}
	out := slices.DeleteFunc(slices.Clone(v.journal.Elsewhere), begun) // what a reflex has begun here is finished here
	if v.cycle.Trigger == ops.TriggerScheduled || v.cycle.Trigger == ops.TriggerAlert {
		out = append(out, v.called(v.cycle.CreatedAt, ops.Tier2)...)
	}
	return out
}

// distrusted lists the services that are trusted too little: watch holds every tier, suggest those that repair.
func (v holder) distrusted() []ops.Hold {
	if !v.policy.Distrusts(v.journal.Lowered) {
		return nil
	}
	var out []ops.Hold
	for _, name := range v.named() {
		trust := v.trust(name)
		for _, tier := range []ops.Tier{ops.Tier1, ops.Tier2} {
			if trust.Forbids(tier) {
				out = append(out, ops.Hold{Service: name, From: tier, By: ops.HoldByTrust, Why: trust.Keeps()})
				break
			}
		}
	}
	return out
}

// A human who says no means these facts: which check of which service fails in which way, and which actions were named. While nothing
// else is wrong and its time is not over, the tier that was asked about, and those above it, do not start for them. The words of an agent
// are no facts.

// noes lists the services for which a no still holds.
func (v holder) noes() []ops.Hold {
	var out []ops.Hold
	for _, no := range v.journal.Denials {
		for _, f := range no.Facts {
			known := slices.ContainsFunc(out, func(h ops.Hold) bool { return h.Service == f.Service })
			if !known && v.refuses(no, f.Service) {
				why := v.say(ops.Reason{Kind: ops.WhySaidNo, Approval: &no})
				out = append(out, ops.Hold{Service: f.Service, From: no.Tier, By: ops.HoldByNo, Why: why, Until: no.DeniedUntil})
			}
		}
	}
	return out
}

// refuses: a no still holds for a service.
func (v holder) refuses(no ops.Approval, service string) bool {
	return no.Refuses(v.now) && no.Knew(v.wrongWith(service)) && v.sameActions(no, service) && !v.approvedAfter(no, service)
}

// sameActions: the actions that were denied are configured as they were, and no other one is proposed now.
func (v holder) sameActions(no ops.Approval, service string) bool {
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

// approvedAfter: a person has approved work on the service in this cycle since the no. A yes is about the services of its question.
func (v holder) approvedAfter(no ops.Approval, service string) bool {
	return slices.ContainsFunc(v.journal.Approvals, func(a ops.Approval) bool {
		return a.Status == ops.ApprovalApproved && a.AnsweredAt != nil && no.AnsweredAt != nil && a.AnsweredAt.After(*no.AnsweredAt) &&
			slices.ContainsFunc(a.Facts, func(f ops.Fact) bool { return f.Service == service })
	})
}

// called lists the services for which a person was called since a time: nobody goes through the tiers for them once more. What this cycle
// asked itself is no reason to stop it.
func (v holder) called(since time.Time, from ops.Tier) []ops.Hold {
	var out []ops.Hold
	noes := v.noes()
	for _, i := range v.incidents() {
		over := i.DeniedUntil != nil && !v.now.Before(*i.DeniedUntil) // a no that is over is asked about again; one that is not says more
		if i.CalledAt == nil || i.UnverifiedAt != nil || i.Own || !i.CalledAt.After(since) || over || noTo(noes, i.Service) != nil {
			continue
		}
		h := ops.Hold{From: from, By: ops.HoldByCall, Why: v.say(ops.Reason{Kind: ops.WhyWasCalled, Incident: i})}
		if repeat := v.policy.Watch.Grouping.Repeat; repeat > 0 {
			h.Until = ops.Ptr(i.CalledAt.Add(repeat))
		}
		for _, h.Service = range namedBy(i) {
			if h.Until == nil || h.Until.After(v.now) {
				out = append(out, h)
			}
		}
	}
	return out
}
