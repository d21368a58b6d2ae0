package decide

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"claudeops/internal/decide/escalation"
	"claudeops/internal/decide/judge"
	"claudeops/internal/decide/recovery"
	"claudeops/internal/notice"
	"claudeops/internal/ops"
)

// What proves that a problem is over. A probe proves the repair of what it saw fail; a judge or a person proves what they looked at; a
// report of another session ends what it names. Everything else stays unverified.

// proven reports whether probes that ran for a purpose after the last session prove that a service was repaired: each is healthy, one of
// them looks at what was wrong, and so does every one that found it bad in this cycle. A probe that was healthy all the time proves
// nothing, and neither does any while a container or a unit of the service does not run: something else may answer it.
func (v view) proven(service string, purpose ops.ProbePurpose) bool {
	if slices.ContainsFunc(v.notRunning(), func(c ops.Check) bool { return c.Service == service }) {
		return false
	}
	looked := false
	for _, c := range v.checks(purpose, v.lastID()) {
		if c.Service != service {
			continue
		}
		if c.Bad() {
			return false
		}
		looked = looked || v.wasBad(c)
	}
	return looked && !v.lostSight(service, purpose)
}

// lostSight: a probe that found the service bad in this cycle has not looked again. It may have been taken out of the configuration.
func (v view) lostSight(service string, purpose ops.ProbePurpose) bool {
	again := v.checks(purpose, v.lastID())
	return slices.ContainsFunc(v.journal.Checks, func(k ops.Check) bool {
		return k.Service == service && k.Purpose != ops.ProbeAlert && k.Purpose != ops.ProbeRunning && k.Bad() &&
			!slices.ContainsFunc(again, func(c ops.Check) bool { return c.Service == service && c.Probe == k.Probe })
	})
}

// allProven reports whether probes prove it of every service that the cycle works on.
func (v view) allProven(purpose ops.ProbePurpose) bool {
	services := v.services()
	return len(services) > 0 && !slices.ContainsFunc(services, func(s string) bool { return !v.proven(s, purpose) })
}

// wasBad reports whether what a check looks at was found bad before: by a probe in this cycle or when the open incident was reported,
// or by an agent with a check of the same type.
func (v view) wasBad(c ops.Check) bool {
	for _, k := range v.journal.Checks {
		if k.Service == c.Service && k.Purpose != ops.ProbeAlert && k.Purpose != ops.ProbeRunning && k.Bad() {
			return true
		}
	}
	for _, i := range v.journal.Incidents {
		if i.Service == c.Service && i.ProbeFailedAt != nil {
			return true
		}
	}
	for _, s := range v.journal.Sessions {
		if h := proposed(s); h != nil && slices.ContainsFunc(h.CheckResults, func(r ops.CheckResult) bool {
			name, _ := v.policy.Inventory.Canonical(r.Service)
			return name == c.Service && r.CheckType == c.Type && r.Status != ops.Healthy
		}) {
			return true
		}
	}
	return false
}

// repaired ends the incidents of services for which a repair is claimed: by probes those of a service that they prove repaired, by
// another proof those on which this cycle worked. What nothing proves becomes unverified.
func (v view) repaired(purpose ops.ProbePurpose, proof ops.Proof, how string) []ops.Recovered {
	services := v.services()
	var out []ops.Recovered
	for _, i := range v.incidents() {
		if !slices.Contains(services, i.Service) || i.Class == ops.ClassAlert {
			continue // an alert ends by itself
		}
		r := ops.Recovered{Incident: i.ID, By: proof, How: how}
		switch byProbe := v.proven(i.Service, purpose); {
		case byProbe && (i.Own || i.ProbeFailedAt != nil):
			if proof == ops.ProofNone {
				r.By = ops.ProofProbe
			}
		case !i.Own, proof == ops.ProofProbe:
			continue
		}
		out = append(out, r)
	}
	return out
}

// foundWell ends the incidents that probes or the report of the last session refute. A session that does not say what it checked ends
// none, and none ends what it reported itself.
func (v view) foundWell() []ops.Recovered {
	well, bad := map[string][]ops.CheckType{}, map[string]bool{}
	if v.last != nil {
		for _, c := range v.last.Reported() {
			name, _ := v.policy.Inventory.Canonical(c.Service)
			if c.Status == ops.Healthy {
				well[name] = append(well[name], c.CheckType)
			} else {
				bad[name] = true
			}
		}
	}
	reported := func(name string) bool { return len(well[name]) > 0 && !bad[name] }
	var out []ops.Recovered
	for _, i := range v.incidents() {
		switch same := i.Check == "" || slices.Contains(well[i.Service], ops.CheckType(i.Check)); {
		case i.Class == ops.ClassAlert: // an alert ends by itself
		case i.ProbeFailedAt != nil && v.green(i.Service):
			out = append(out, ops.Recovered{Incident: i.ID, By: ops.ProofProbe, How: notice.FoundByProbes(v.cycle.ID)})
		case i.Own:
		case i.Class == ops.ClassEnvironment:
			known, err := i.Known()
			if err == nil && len(known.Unlisted) > 0 && !slices.ContainsFunc(known.Unlisted, func(name string) bool { return !reported(name) }) {
				out = append(out, ops.Recovered{Incident: i.ID, By: ops.ProofReport, How: notice.FoundByCycle(v.cycle.ID)})
			}
		case reported(i.Service) && (same || i.UnverifiedAt != nil):
			out = append(out, ops.Recovered{Incident: i.ID, By: ops.ProofReport, How: notice.FoundByCycle(v.cycle.ID)})
		}
	}
	return out
}

// green reports whether every probe of a service was healthy when it last looked in this cycle.
func (v view) green(service string) bool {
	last := map[string]ops.Check{}
	for _, c := range v.journal.Checks {
		if c.Service == service && c.Purpose != ops.ProbeAlert && c.Purpose != ops.ProbeRunning {
			last[c.Probe] = c
		}
	}
	for _, c := range last {
		if c.Bad() {
			return false
		}
	}
	return len(last) > 0
}

// incidents are the open ones about what is looked after.
func (v view) incidents() []ops.Incident {
	return slices.DeleteFunc(slices.Clone(v.journal.Incidents), func(i ops.Incident) bool { return i.ResolvedAt != nil || i.OfAgent() })
}

// closedBy is who closed the incidents that the cycle waited for: a person, or the supervisor because of probes or a report. Without any
// incident nobody has.
func (v view) closedBy() ops.Proof {
	awaited, proof := v.awaited(), ops.ProofProbe
	if len(awaited) == 0 {
		proof = ops.ProofNone
	}
	for _, i := range awaited {
		switch {
		case i.ResolvedBy != ops.Supervisor:
			return ops.ProofHuman
		case i.ProbeFailedAt == nil:
			proof = ops.ProofNone
		}
	}
	return proof
}

// sure is the confidence from which a claimed repair is taken for more than a guess.
const sure = 0.5

// doubtful: the session claims a repair that it is not sure of itself, and neither a judge nor probes confirm it.
func (v view) doubtful() bool {
	r := v.last.Report
	if v.last.Outcome != ops.OutcomeResolved || r == nil || r.Confidence == nil || *r.Confidence >= sure {
		return false
	}
	_, judged := v.verdict()
	return !judged && !v.allProven(ops.ProbeVerify)
}

func reviewDoubtful(v view) ops.Step {
	return askReview(v, notice.Doubtful(*v.last, *v.last.Report.Confidence))
}

// repairRefused: the session claims a repair that nothing confirms, it was not allowed to change anything, and the guard refused
// what it tried. Then nothing was repaired.
func (v view) repairRefused() bool {
	return v.last.Outcome == ops.OutcomeResolved && len(v.checks(ops.ProbeVerify, v.last.ID)) == 0 && len(v.refusedCalls(*v.last)) > 0
}

// refusedCalls are what the guard refused a session that was allowed no change at all.
func (v view) refusedCalls(s ops.Session) []ops.GuardRecord {
	effects := v.journal.Effects[s.ID]
	if s.May() <= ops.Tier1 || effects.Mutating || len(effects.Done) > 0 {
		return nil
	}
	return effects.Denied
}

// recoverRefused asks the tier for a way that it is allowed to go.
func recoverRefused(v view) ops.Step {
	f := v.failure()
	f.Outcome = recovery.OutcomeMissing
	return nextAttempt(v, attempt{failure: f, withoutRecovery: func() ops.Step { return refutedWithoutRecovery(v) }})
}

// mayEscalateRefuted: repairs that do not hold count toward escalation, where there is a tier above.
func (v view) mayEscalateRefuted() bool {
	h := v.refutedHandoff(*v.last)
	if h == nil || v.last.Tier >= ops.LastTier {
		return false
	}
	d := escalation.Decide(v.policy, v.path(), escalation.Proposal{Session: v.proposer(), Handoff: h}, v.facts())
	return d.Verdict != ops.VerdictRefused
}

// escalateRefuted hands up what a tier says it repaired and did not, with the facts of probes, judge or guard: the tier itself
// does not see that it needs help.
func escalateRefuted(v view) ops.Step {
	h := v.refutedHandoff(*v.last)
	d := escalation.Decide(v.policy, v.path(), escalation.Proposal{Session: v.proposer(), Handoff: h}, v.facts())
	d.At = v.now
	step := decided(v, d, h)
	if step.Session != nil {
		step.Session.ContextMode = ops.ContextHandoff // the conversation believes that all is well
	}
	step.Decision = &d
	return step
}

// refutedHandoff is what probes, a judge or the guard's record say of a claimed repair that does not hold; nil where it holds.
func (v view) refutedHandoff(s ops.Session) *ops.Handoff {
	why := v.refutation(s)
	if why == "" {
		return nil
	}
	h := ops.Handoff{
		SchemaVersion: 1, RecommendedTier: s.Tier + 1, Reason: why, CooldownState: json.RawMessage(`{}`),
		InvestigationFindings: v.whyItFailed(s), RemediationAttempted: summary(s),
	}
	if h.RemediationAttempted == "" {
		h.RemediationAttempted = "it did not say what it did"
	}
	for _, c := range v.checks(ops.ProbeVerify, s.ID) {
		if c.Bad() && !slices.Contains(h.ServicesAffected, c.Service) {
			h.ServicesAffected = append(h.ServicesAffected, c.Service)
		}
		h.CheckResults = append(h.CheckResults, ops.CheckResult{Service: c.Service, CheckType: c.Type, Status: c.Status, Error: c.Error})
	}
	if len(h.ServicesAffected) == 0 {
		h.ServicesAffected = v.services()
	}
	if len(h.ServicesAffected) == 0 {
		return nil
	}
	return &h
}

// stillBad says in which state the probes found the services after a session claimed to have repaired them: "web down and db degraded".
// Of several probes of a service, the worst result counts.
func (v view) stillBad(s ops.Session) string {
	var order []string
	state := map[string]ops.Health{}
	for _, c := range v.badAfter(s) {
		if state[c.Service] == "" {
			order = append(order, c.Service)
		}
		if state[c.Service] != ops.Down {
			state[c.Service] = c.Status
		}
	}
	for i, service := range order {
		order[i] = service + " " + string(state[service])
	}
	return notice.And(order)
}

// refutation says why a claimed repair does not count; empty where nothing speaks against it.
func (v view) refutation(s ops.Session) string {
	switch r, judged := v.verdictOn(s); {
	case slices.ContainsFunc(v.checks(ops.ProbeVerify, s.ID), ops.Check.Bad):
		return "probes refute the claimed repair"
	case judged && r.Verdict == judge.Fail:
		return "the judge does not accept the claimed repair: " + scores(r)
	case s.Outcome == ops.OutcomeResolved && len(v.checks(ops.ProbeVerify, s.ID)) == 0 && len(v.refusedCalls(s)) > 0:
		return "the guard refused the repair that was tried"
	}
	return ""
}

// scores are the judge's four numbers and their sum.
func scores(r judge.Judgement) string {
	d := r.Dimensions
	return fmt.Sprintf("%d of 100 (goal %d, completeness %d, evidence %d, final state %d)",
		r.TotalScore, d.GoalAlignment, d.ActionCompleteness, d.EvidenceOfCompletion, d.FinalStateCoherence)
}

// refusals lists what the guard refused, for people and for the next tier.
func refusals(denied []ops.GuardRecord) string {
	var out []string
	for _, g := range denied {
		out = append(out, fmt.Sprintf("%s (%s)", g.Input, g.Reason))
	}
	return strings.Join(out, "; ")
}

// notRunning lists the containers and units of the affected services that did not run after the last session. Healthy probes do not
// prove a repair then: something else may answer them.
func (v view) notRunning() []ops.Check {
	return slices.DeleteFunc(v.checks(ops.ProbeRunning, v.lastID()), func(c ops.Check) bool { return c.Status == ops.Healthy })
}
