package decide

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"claudeops/internal/ops"
)

// charge is what a chain is about, and what keeps it from it.
type charge struct {
	past
	holds []ops.Hold // what keeps services from tiers
}

// taskOf is what the chain works on: what the newest decision handed on, else what the cycle was started for.
func taskOf(c ops.Cycle, j ops.Journal) ops.Charge {
	for _, d := range slices.Backward(j.Decisions) {
		if d.Verdict != ops.VerdictRefused && len(d.Services) > 0 {
			return ops.Charge{Services: d.Services}
		}
	}
	return c.Charge
}

// services are what the chain is about: those of a closed charge; of a look, all that was found in trouble and that nothing holds.
func (v charge) services() []string {
	if v.task.Open {
		return ops.Free(v.found(), v.holds, ops.Tier1)
	}
	return v.task.Services
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

// untrusting are the holds but for those of trust.
func (v charge) untrusting() []ops.Hold {
	return slices.DeleteFunc(slices.Clone(v.holds), func(h ops.Hold) bool { return h.By == ops.HoldByTrust })
}

// unattacked are the holds but for those of trust and of attacks.
func (v charge) unattacked() []ops.Hold {
	return slices.DeleteFunc(v.untrusting(), func(h ops.Hold) bool { return h.By == ops.HoldByAttack })
}

// door lists what else keeps a cycle that nobody asked for from starting an agent: a person was called since it was asked for, or
// the watch is about to start a cycle for what a look found, unless the look was there before the watch saw it fail.
func (v charge) door() []ops.Hold {
	if v.newest != nil || !v.startedByItself() {
		return nil
	}
	if !v.task.Open {
		return v.holder().called(v.cycle.CreatedAt, ops.Tier1)
	}
	out := v.holder().called(time.Time{}, ops.Tier1)
	for _, w := range v.journal.Withheld {
		if w.Why == ops.HoldRecent || w.Why == ops.HoldWaiting && v.cycle.CreatedAt.After(w.Until.Add(-v.policy.Watch.Grouping.Window)) {
			out = append(out, v.holder().heldByWatch(w, ops.Tier1))
		}
	}
	return out
}

// wrong lists what an agent would be started for: the services of a closed charge, or what a look found in trouble, without those that
// something but trust keeps from it.
func (v charge) wrong() []string {
	return ops.Free(v.about(), slices.Concat(v.untrusting(), v.door()), ops.Tier1)
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
	step.Recovered = v.proof().foundWell()
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
func (v charge) reasons(services []string, t ops.Tier) string {
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
func (v charge) noTo(service string) *ops.Hold { return noTo(v.holds, service) }

func noTo(holds []ops.Hold, service string) *ops.Hold {
	i := slices.IndexFunc(holds, func(h ops.Hold) bool { return h.Service == service && h.By == ops.HoldByNo })
	if i < 0 {
		return nil
	}
	return &holds[i]
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
	if v.task.Open && v.cycle.Trigger == ops.TriggerScheduled && !v.startedByItself() {
		return false // an agent looks at what no probe sees
	}
	wrong := v.about()
	return len(wrong) > 0 && len(ops.Free(wrong, slices.Concat(v.holds, v.door()), ops.Tier1)) == 0
}

func finishHeld(v view) ops.Step {
	step := finish(ops.CycleSuppressed, v.withheld(v.reasons(v.about(), ops.Tier1)))
	step.Recovered = v.proof().foundWell()
	return step
}

// What was decided a while ago is checked again before a tier starts that may change something: another attempt may have waited for
// hours, and a restart may lie between.

// forIntent is the view in which the queued session was decided; false if it is a look at everything, or nothing is queued.
func (v charge) forIntent() (charge, bool) {
	n := v.newest
	if !v.intended() || !n.Works() {
		return v, false
	}
	v.last = v.journal.Parent(*n)
	if v.last == nil && n.May() > ops.Tier1 || v.task.Open && n.May() <= ops.Tier1 {
		return v, false
	}
	v.holds = v.holder().holding()
	return v, len(v.services()) > 0
}

// objection says why the queued session may not start although nobody holds its services; empty: it may.
func (v charge) objection() string {
	before, ok := v.forIntent()
	if !ok {
		return ""
	}
	trust := before.holder().distrusted()
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
func (v charge) unwalled() string {
	h, _ := v.policy.Handler(v.newest.Handler)
	h.Permissions = v.newest.May() // a fallback has those of the handler that it stands in for
	return h.Lacks()
}

// agreed: a person has said yes to the tier of the queued session. The yes covers what the ladder orders for the same work.
func (v charge) agreed() bool {
	return slices.ContainsFunc(v.journal.Approvals, func(a ops.Approval) bool {
		return a.Kind == ops.ApprovalTier && a.Status == ops.ApprovalApproved && a.Tier == v.newest.Tier
	})
}

func (v view) intentStopped() bool { return v.objection() != "" }

func stopIntent(v view) ops.Step {
	if v.newest.May() <= ops.Tier1 {
		return leaveToPeople(v)
	}
	p := v.human().problem(ops.ProblemBlocked, ops.LevelWarning, v.objection())
	return handOver(v, ops.CycleNeedsHuman, p, ops.NoticeNeedsHuman, ops.MessageHuman)
}

// withheld: no agent was started.
func (v charge) withheld(why string) string {
	return v.say(ops.Reason{Kind: ops.WhyWithheld, Text: why})
}

// notAgain: the queued session is not started.
func (v charge) notAgain(why string) string {
	return v.say(ops.Reason{Kind: ops.WhyNotAgain, Session: v.newest, Text: why})
}

// heldSince are the holds that people, or the configuration, have put on a chain that is under way. That a service flaps, or fails with
// another one, may come from the work.
func (v charge) heldSince() []ops.Hold {
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

// flaps: one of the services is held because it flaps, and for no other reason. Nobody has decided that, so nobody knows of it.
func (v charge) flaps(services []string) bool {
	return slices.ContainsFunc(v.journal.Withheld, func(w ops.Withheld) bool {
		others := func(h ops.Hold) bool { return h.Service == w.Service && h.Why != w.Reason }
		return w.Why == ops.HoldFlapping && slices.Contains(services, w.Service) && !slices.ContainsFunc(v.holds, others)
	})
}

// allProbed: every service that the cycle works on has a probe.
func (v charge) allProbed() bool { return len(v.verifiable()) == len(v.services()) }

// unheld are the services of the chain that nothing holds back. A no to a tier is one to a reflex too; an attack is of agents.
func (v charge) unheld() []string {
	return ops.Free(v.services(), v.unattacked(), ops.LastTier)
}

// verifiable are the services of the chain that we can probe ourselves: the last session's word alone does not settle their state.
func (v charge) verifiable() []string {
	probed := v.probed()
	return slices.DeleteFunc(slices.Clone(v.services()), func(name string) bool { return !slices.Contains(probed, name) })
}

// silentOn lists the services of the charge that are bad and that a proposal leaves out. What holds the others does not hold these: a cycle
// that ended without a word about them would begin again and again, and nobody would hear of it.
func (v charge) silentOn(h *ops.Handoff) []string {
	return slices.DeleteFunc(slices.Clone(v.task.Services), func(s string) bool {
		return slices.Contains(h.ServicesAffected, s) || len(v.badChecks([]string{s})) == 0
	})
}
