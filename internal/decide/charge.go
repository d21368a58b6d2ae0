package decide

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"claudeops/internal/ops"
)

// chargeOf is what the chain works on: what the newest decision handed on, else what the cycle was started for.
func chargeOf(c ops.Cycle, j ops.Journal) ops.Charge {
	for _, d := range slices.Backward(j.Decisions) {
		if d.Verdict != ops.VerdictRefused && len(d.Services) > 0 {
			return ops.Charge{Services: d.Services}
		}
	}
	return c.Charge
}

// services are what the chain is about: those of a closed charge; of a look, all that was found in trouble and that nothing holds.
func (v view) services() []string {
	if v.charge.Open {
		return ops.Free(v.found(), v.holds, ops.Tier1)
	}
	return v.charge.Services
}

// found lists the services that somebody in this cycle found in trouble, by their own names.
func (v view) found() []string {
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
	for _, purpose := range []ops.ProbePurpose{ops.ProbeAlert, ops.ProbeObserve, ops.ProbeRecheck, ops.ProbeVerify, ops.ProbeReflex} {
		for _, c := range v.checks(purpose, 0) {
			if c.Bad() {
				add(c.Service)
			}
		}
	}
	return out
}

// named are the services that a hold could be about.
func (v view) named() []string {
	out := slices.Concat(v.found(), v.charge.Services)
	for _, s := range v.policy.Inventory.Services {
		out = append(out, s.Name)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// holding lists what holds services. It is the one place that knows every source: people, trust, the configuration, the watch, other
// cycles.
func (v view) holding() []ops.Hold {
	return slices.Concat(v.gone(), v.heldByPeople(), v.silenced(), v.inhibited(), v.elsewhere(), v.noes(), v.journal.Attacked, v.distrusted())
}

// looks is the tier from which silences, maintenance and incidents in somebody's hands hold: a person who asks for something in words
// gets a look all the same.
func (v view) looks() ops.Tier {
	if v.cycle.Prompt != "" && (v.cycle.Trigger == ops.TriggerManual || v.cycle.Trigger == ops.TriggerAPI) {
		return ops.Tier2
	}
	return ops.Tier1
}

// gone lists the services that were taken out of the configuration since the cycle started.
func (v view) gone() []ops.Hold {
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
func (v view) heldByPeople() []ops.Hold {
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

// approvedSince: a person approved work on the incident's service after the incident was last acknowledged or snoozed.
func (v view) approvedSince(i ops.Incident) bool {
	q := v.question()
	if q == nil || q.Status != ops.ApprovalApproved || q.AnsweredAt == nil || !slices.Contains(v.services(), i.Service) && i.Service != "" {
		return false
	}
	said := i.UpdatedAt // a snooze has no time of its own
	if i.Status == ops.IncidentAcknowledged && i.AcknowledgedAt != nil {
		said = *i.AcknowledgedAt
	}
	return !i.Holds(v.now) || q.AnsweredAt.After(said)
}

// silenced lists the services that somebody silenced.
func (v view) silenced() []ops.Hold {
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

func (v view) group(service string) string {
	for _, s := range v.policy.Inventory.Services {
		if s.Name == service {
			return s.Group
		}
	}
	return ""
}

// inhibited lists the services that a maintenance, a failing dependency or flapping keeps from being worked on.
func (v view) inhibited() []ops.Hold {
	var out []ops.Hold
	for _, w := range v.journal.Withheld {
		if w.Why.Inhibits() {
			out = append(out, v.heldByWatch(w, v.looks()))
		}
	}
	return out
}

func (v view) heldByWatch(w ops.Withheld, from ops.Tier) ops.Hold {
	h := ops.Hold{Service: w.Service, From: from, By: ops.HoldByWatch, Why: w.Reason}
	if !w.Until.IsZero() {
		h.Until = &w.Until
	}
	return h
}

// elsewhere lists, for a look, the services that another cycle has in its charge: that one works on them. If it called a person while this
// look waited for its turn, an agent looks, as at all that no probe sees, and no tier repairs.
func (v view) elsewhere() []ops.Hold {
	if !v.charge.Open {
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
func (v view) distrusted() []ops.Hold {
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

// untrusting are the holds but for those of trust.
func (v view) untrusting() []ops.Hold {
	return slices.DeleteFunc(slices.Clone(v.holds), func(h ops.Hold) bool { return h.By == ops.HoldByTrust })
}

// unattacked are the holds but for those of trust and of attacks.
func (v view) unattacked() []ops.Hold {
	return slices.DeleteFunc(v.untrusting(), func(h ops.Hold) bool { return h.By == ops.HoldByAttack })
}

// A human who says no means these facts: which check of which service fails in which way, and which actions were named. While nothing
// else is wrong and its time is not over, the tier that was asked about, and those above it, do not start for them. The words of an agent
// are no facts.

// noes lists the services for which a no still holds.
func (v view) noes() []ops.Hold {
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
func (v view) refuses(no ops.Approval, service string) bool {
	return no.Refuses(v.now) && no.Knew(v.wrongWith(service)) && v.sameActions(no, service) && !v.approvedAfter(no, service)
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

// approvedAfter: a person has approved work on the service in this cycle since the no. A yes is about the services of its question.
func (v view) approvedAfter(no ops.Approval, service string) bool {
	return slices.ContainsFunc(v.journal.Approvals, func(a ops.Approval) bool {
		return a.Status == ops.ApprovalApproved && a.AnsweredAt != nil && no.AnsweredAt != nil && a.AnsweredAt.After(*no.AnsweredAt) &&
			slices.ContainsFunc(a.Facts, func(f ops.Fact) bool { return f.Service == service })
	})
}

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
			if c.Service == name && c.Bad() {
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

// called lists the services for which a person was called since a time: nobody goes through the tiers for them once more. What this cycle
// asked itself is no reason to stop it.
func (v view) called(since time.Time, from ops.Tier) []ops.Hold {
	var out []ops.Hold
	for _, i := range v.incidents() {
		over := i.DeniedUntil != nil && !v.now.Before(*i.DeniedUntil) // a no that is over is asked about again; one that is not says more
		if i.CalledAt == nil || i.UnverifiedAt != nil || i.Own || !i.CalledAt.After(since) || over || v.noTo(i.Service) != nil {
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

// door lists what else keeps a cycle that nobody asked for from starting an agent: a person was called since it was asked for, or
// the watch is about to start a cycle for what a look found, unless the look was there before the watch saw it fail.
func (v view) door() []ops.Hold {
	if v.newest != nil || !v.startedByItself() {
		return nil
	}
	if !v.charge.Open {
		return v.called(v.cycle.CreatedAt, ops.Tier1)
	}
	out := v.called(time.Time{}, ops.Tier1)
	for _, w := range v.journal.Withheld {
		if w.Why == ops.HoldRecent || w.Why == ops.HoldWaiting && v.cycle.CreatedAt.After(w.Until.Add(-v.policy.Watch.Grouping.Window)) {
			out = append(out, v.heldByWatch(w, ops.Tier1))
		}
	}
	return out
}

// wrong lists what an agent would be started for: the services of a closed charge, or what a look found in trouble, without those that
// something but trust keeps from it.
func (v view) wrong() []string {
	holds := slices.Concat(v.untrusting(), v.door())
	if v.charge.Open {
		return ops.Free(v.found(), holds, ops.Tier1)
	}
	return ops.Free(v.charge.Services, holds, ops.Tier1)
}

// quiet: on schedule probes look first, they find every service well or in somebody's hands, and no agent's look is due. A cycle that has
// begun a reflex sees to its end.
func (v view) quiet() bool {
	if v.newest != nil || v.cycle.Trigger != ops.TriggerScheduled || v.policy.Observe != ops.ObserveProbes || v.lookDue() || v.reflexRan() {
		return false
	}
	probed, seen := v.probed(), map[string]bool{}
	for _, c := range v.checks(ops.ProbeObserve, 0) {
		seen[c.Service] = true
	}
	return len(v.wrong()) == 0 && len(probed) > 0 && !slices.ContainsFunc(probed, func(name string) bool { return !seen[name] })
}

// finishQuiet ends a look that cost no tokens.
func finishQuiet(v view) ops.Step {
	step := finish(ops.CycleHealthy, v.say(ops.Reason{Kind: ops.WhyAllHealthy, Count: len(v.probed())}))
	why := v.reasons(v.found(), ops.Tier1)
	if unknown := v.unknown(); len(unknown) > 0 {
		why = strings.TrimPrefix(why+"; "+v.say(ops.Reason{Kind: ops.WhyUnknown, Services: unknown}), "; ")
	}
	if why != "" {
		step = finish(ops.CycleSuppressed, v.withheld(why))
	}
	step.Recovered = v.foundWell()
	return step
}

// unknown lists the services of which a look found nothing out, because of their engine.
func (v view) unknown() []string {
	var out []string
	for _, c := range v.checks(ops.ProbeObserve, 0) {
		if !c.Known() && c.Service != ops.EngineService && !slices.Contains(out, c.Service) {
			out = append(out, c.Service)
		}
	}
	return out
}

// reasons says of each service what holds it.
func (v view) reasons(services []string, t ops.Tier) string {
	holds := slices.Concat(v.holds, v.door())
	var out []string
	for _, s := range services {
		if h := ops.Holder(holds, s, t); h != nil {
			why := strings.TrimSuffix(h.Why, ".")
			if !strings.HasPrefix(why, s+" ") {
				why = s + ": " + why
			}
			out = append(out, why)
		}
	}
	return strings.Join(out, "; ")
}

// noLasts: nobody but a probe, an alert or the schedule asks for this cycle, and for all that an agent could look at a no holds: it would
// find the same again. A person who asks for a look gets one.
func (v view) noLasts() bool {
	if v.newest != nil || len(v.journal.Denials) == 0 || !v.startedByItself() || v.denied() {
		return false
	}
	wrong := v.wrong()
	return len(wrong) > 0 && !slices.ContainsFunc(wrong, func(s string) bool { return v.noTo(s) == nil })
}

// noTo is the no that holds for a service, or nil.
func (v view) noTo(service string) *ops.Hold {
	i := slices.IndexFunc(v.holds, func(h ops.Hold) bool { return h.Service == service && h.By == ops.HoldByNo })
	if i < 0 {
		return nil
	}
	return &v.holds[i]
}

func finishRefused(v view) ops.Step {
	var why []string
	for _, s := range v.wrong() {
		why = append(why, s+": "+v.noTo(s).Why)
	}
	reason := v.withheld(strings.Join(why, "; "))
	return finish(ops.CycleSuppressed, reason, v.event(ops.LevelInfo, ops.VerbCycleHeld, reason))
}

// allHeld: something is wrong, and everything of it is in somebody's hands, or was when the cycle got its turn. A person who asks for
// something in words gets a look.
func (v view) allHeld() bool {
	if v.newest != nil || v.reflexRan() || v.looks() > ops.Tier1 {
		return false
	}
	wrong := v.charge.Services
	if v.charge.Open {
		if v.cycle.Trigger == ops.TriggerScheduled && !v.startedByItself() {
			return false // an agent looks at what no probe sees
		}
		wrong = v.found()
	}
	return len(wrong) > 0 && len(ops.Free(wrong, slices.Concat(v.holds, v.door()), ops.Tier1)) == 0
}

func finishHeld(v view) ops.Step {
	services := v.charge.Services
	if v.charge.Open {
		services = v.found()
	}
	step := finish(ops.CycleSuppressed, v.withheld(v.reasons(services, ops.Tier1)))
	step.Recovered = v.foundWell()
	return step
}

// What was decided a while ago is checked again before a tier starts that may change something: another attempt may have waited for
// hours, and a restart may lie between.

// forIntent is the view in which the queued session was decided; false if it is a look at everything, or nothing is queued.
func (v view) forIntent() (view, bool) {
	n := v.newest
	if !v.intended() || !n.Works() {
		return v, false
	}
	v.last = v.journal.Parent(*n)
	if v.last == nil && n.May() > ops.Tier1 || v.charge.Open && n.May() <= ops.Tier1 {
		return v, false
	}
	v.holds = v.holding()
	return v, len(v.services()) > 0
}

// objection says why the queued session may not start although nobody holds its services; empty: it may.
func (v view) objection() string {
	before, ok := v.forIntent()
	if !ok {
		return ""
	}
	trust := before.distrusted()
	switch {
	case v.policy.DryRun && v.newest.May() > ops.Tier1:
		return v.notAgain("dry run is on")
	case v.newest.Tier > v.policy.MaxTier:
		return v.notAgain("the maximum tier is " + strconv.Itoa(int(v.policy.MaxTier)))
	case v.unwalled() != "" && !v.agreed():
		return v.notAgain("a wall is missing, and nobody was asked: " + v.unwalled())
	case len(ops.Free(before.services(), trust, v.newest.May())) == 0:
		return v.notAgain(ops.Holder(trust, before.services()[0], v.newest.May()).Why)
	}
	return ""
}

// unwalled is which wall the queued session lacks; empty: none.
func (v view) unwalled() string {
	h, _ := v.policy.Handler(v.newest.Handler)
	h.Permissions = v.newest.May() // a fallback has those of the handler that it stands in for
	return h.Lacks()
}

// agreed: a person has said yes to the tier of the queued session. The yes covers what the ladder orders for the same work.
func (v view) agreed() bool {
	return slices.ContainsFunc(v.journal.Approvals, func(a ops.Approval) bool {
		return a.Kind == ops.ApprovalTier && a.Status == ops.ApprovalApproved && a.Tier == v.newest.Tier
	})
}

func (v view) intentStopped() bool { return v.objection() != "" }

func stopIntent(v view) ops.Step {
	if v.newest.May() <= ops.Tier1 {
		return leaveToPeople(v)
	}
	p := v.problem(ops.ProblemBlocked, ops.LevelWarning, v.objection())
	return notifyOnce(v, finishForHuman(v, ops.CycleNeedsHuman, p), v.notice(ops.NoticeNeedsHuman, p.level, v.told(ops.MessageHuman, p)))
}

// withheld: no agent was started.
func (v view) withheld(why string) string { return v.say(ops.Reason{Kind: ops.WhyWithheld, Text: why}) }

// notAgain: the queued session is not started.
func (v view) notAgain(why string) string {
	return v.say(ops.Reason{Kind: ops.WhyNotAgain, Session: v.newest, Text: why})
}

// heldSince are the holds that people, or the configuration, have put on a chain that is under way. That a service flaps, or fails with
// another one, may come from the work.
func (v view) heldSince() []ops.Hold {
	return slices.DeleteFunc(v.untrusting(), func(h ops.Hold) bool {
		return slices.ContainsFunc(v.journal.Withheld, func(w ops.Withheld) bool {
			return w.Service == h.Service && w.Reason == h.Why && (w.Why == ops.HoldFlapping || w.Why == ops.HoldDependency)
		})
	})
}

// intentHeld: people hold all that the queued session is for.
func (v view) intentHeld() bool {
	before, ok := v.forIntent()
	return ok && len(ops.Free(before.services(), before.heldSince(), v.newest.May())) == 0
}

func leaveIntent(v view) ops.Step {
	before, _ := v.forIntent()
	reason := v.notAgain(ops.Holder(before.heldSince(), before.services()[0], v.newest.May()).Why)
	return finish(ops.CycleSuppressed, reason, v.event(ops.LevelInfo, ops.VerbCycleHeld, reason))
}

// flapsNow is the hold of a service that goes up and down, or nil.
func (v view) flapsNow(service string) *ops.Withheld {
	for _, w := range v.journal.Withheld {
		if w.Service == service && w.Why == ops.HoldFlapping {
			return &w
		}
	}
	return nil
}

// flaps: one of the services is held because it flaps, and for no other reason. Nobody has decided that, so nobody knows of it.
func (v view) flaps(services []string) bool {
	return slices.ContainsFunc(v.journal.Withheld, func(w ops.Withheld) bool {
		others := func(h ops.Hold) bool { return h.Service == w.Service && h.Why != w.Reason }
		return w.Why == ops.HoldFlapping && slices.Contains(services, w.Service) && !slices.ContainsFunc(v.holds, others)
	})
}
