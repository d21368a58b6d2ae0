package decide

import (
	"slices"
	"strconv"
	"strings"

	"claudeops/internal/decide/escalation"
	"claudeops/internal/notice"
	"claudeops/internal/ops"
)

// held lists the services that a human has taken over, put off, said no about, is asked about by another cycle or took out of the
// configuration. What this cycle asked itself never holds it, and its approval counts over what was said before it.
func (v view) held() []escalation.Held {
	var out []escalation.Held
	for _, i := range v.incidents() {
		own := i.Waiting != nil && *i.Waiting == v.cycle.ID
		why := ""
		switch {
		case own && v.approvedSince(i):
		case i.Status == ops.IncidentAcknowledged:
			why = notice.Acknowledged(i)
		case i.Holds(v.now):
			why = notice.Snoozed(i)
		case i.Waiting != nil && !own:
			why = notice.AwaitsHuman(i)
		}
		for _, name := range namedBy(i) {
			if why != "" {
				out = append(out, escalation.Held{Service: name, Why: why})
			}
		}
	}
	return slices.Concat(out, v.gone(), v.notApproved(), v.silenced(), v.refusedServices())
}

// notApproved lists what a yes is not about: services of the proposal that were held back when the question was asked.
func (v view) notApproved() []escalation.Held {
	h := v.proposal()
	if h == nil || v.approved() == "" {
		return nil
	}
	var out []escalation.Held
	for i := len(v.journal.Decisions) - 1; i >= 0; i-- {
		d := v.journal.Decisions[i]
		if d.SessionID != v.last.ID || d.Verdict != ops.VerdictApproval {
			continue
		}
		for _, name := range h.ServicesAffected {
			if name, _ = v.policy.Inventory.Canonical(name); !slices.Contains(d.Services, name) {
				out = append(out, escalation.Held{Service: name, Why: notice.NotInTheYes})
			}
		}
		break
	}
	return out
}

// gone lists the services that were taken out of the configuration since the cycle started.
func (v view) gone() []escalation.Held {
	var out []escalation.Held
	for _, s := range v.policy.Inventory.Services {
		if s.Gone {
			out = append(out, escalation.Held{Service: s.Name, Why: notice.Unconfigured})
		}
	}
	return out
}

// What was decided a while ago is looked at again before a tier starts that may change something: another attempt may have waited for
// hours, and a restart may lie between.

// forIntent is the view in which the queued session was decided, with its services; false if it only looks, or nothing is queued.
func (v view) forIntent() (view, []string, bool) {
	n := v.newest
	if !v.intended() || !n.Works() || n.May() <= ops.Tier1 {
		return v, nil, false
	}
	if v.last = v.journal.Parent(*n); v.last == nil {
		return v, nil, false
	}
	services := v.affected()
	for _, d := range v.journal.Decisions {
		if d.SessionID == v.last.ID && len(d.Services) > 0 {
			services = d.Services
		}
	}
	return v, services, len(services) > 0
}

// objection says why the queued session may not start although nobody holds its services; empty: it may.
func (v view) objection() string {
	before, services, ok := v.forIntent()
	if !ok {
		return ""
	}
	distrusted := before.distrusted(v.newest.May())
	switch {
	case v.policy.DryRun:
		return notice.NotAgain(*v.newest, "dry run is on")
	case v.newest.Tier > v.policy.MaxTier:
		return notice.NotAgain(*v.newest, "the maximum tier is "+strconv.Itoa(int(v.policy.MaxTier)))
	case allHeld(services, distrusted):
		return notice.NotAgain(*v.newest, distrusted[0].Why)
	}
	return ""
}

func allHeld(services []string, held []escalation.Held) bool {
	return !slices.ContainsFunc(services, func(s string) bool {
		return !slices.ContainsFunc(held, func(h escalation.Held) bool { return h.Service == s })
	})
}

func (v view) intentStopped() bool { return v.objection() != "" }

func stopIntent(v view) ops.Step {
	p := v.problem(ops.ProblemBlocked, ops.LevelWarning, v.objection())
	return notifyOnce(v, finishForHuman(v, ops.CycleNeedsHuman, p), v.notice(ops.NoticeNeedsHuman, p.level, notice.NeedsHuman(v.told(p))))
}

// intentHeld: people hold all that the queued session is for. That a service flaps, or fails with another one, may come from the work.
func (v view) intentHeld() bool {
	before, services, ok := v.forIntent()
	return ok && allHeld(services, before.heldByPeople())
}

func (v view) heldByPeople() []escalation.Held {
	return slices.DeleteFunc(v.held(), func(h escalation.Held) bool {
		return slices.ContainsFunc(v.journal.Withheld, func(w ops.Withheld) bool {
			return w.Service == h.Service && w.Reason == h.Why && (w.Why == ops.HoldFlapping || w.Why == ops.HoldDependency)
		})
	})
}

func leaveIntent(v view) ops.Step {
	before, _, _ := v.forIntent()
	reason := notice.NotAgain(*v.newest, before.heldByPeople()[0].Why)
	return finish(ops.CycleSuppressed, reason, v.event(ops.LevelInfo, ops.EventEscalation, reason))
}

// namedBy lists what an incident is about: its service, or the names of no inventory. Without any name it holds nothing back.
func namedBy(i ops.Incident) []string {
	if i.Service != "" {
		return []string{i.Service}
	}
	known, err := i.Known()
	if err != nil {
		return nil
	}
	return known.Unlisted
}

// flaps: a service is held back because it flaps, and for no other reason. Nobody has decided that, so nobody knows of it.
func (v view) flaps() bool {
	holds := map[string]int{}
	for _, h := range v.held() {
		holds[h.Service]++
	}
	return slices.ContainsFunc(v.journal.Withheld, func(w ops.Withheld) bool { return w.Why == ops.HoldFlapping && holds[w.Service] == 1 })
}

// approvedSince: a person approved after the incident was last acknowledged or snoozed.
func (v view) approvedSince(i ops.Incident) bool {
	q := v.question()
	if q == nil || q.Status != ops.ApprovalApproved || q.AnsweredAt == nil {
		return false
	}
	said := i.UpdatedAt // a snooze has no time of its own
	if i.Status == ops.IncidentAcknowledged && i.AcknowledgedAt != nil {
		said = *i.AcknowledgedAt
	}
	return !i.Holds(v.now) || q.AnsweredAt.After(said)
}

// silenced lists the services that a silence, a maintenance or a failing dependency keeps from being worked on.
func (v view) silenced() []escalation.Held {
	var out []escalation.Held
	for _, s := range v.journal.Silences {
		if !s.Active(v.now) || len(s.Labels) > 0 || s.Probe != "" {
			continue // it is about a part of what is watched
		}
		for _, name := range v.affected() {
			if ops.MatchPattern(s.Service, name) && ops.MatchPattern(s.Group, v.group(name)) {
				out = append(out, escalation.Held{Service: name, Why: notice.Silenced(s)})
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

func (v view) group(service string) string {
	for _, s := range v.policy.Inventory.Services {
		if s.Name == service {
			return s.Group
		}
	}
	return ""
}

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
	if v.newest != nil || len(v.journal.Denials) == 0 || !v.startedByItself() || v.denied() {
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
