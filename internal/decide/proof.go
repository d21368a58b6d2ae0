package decide

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"claudeops/internal/decide/escalation"
	"claudeops/internal/decide/judge"
	"claudeops/internal/decide/recovery"
	"claudeops/internal/ops"
)

// proof says what shows that a problem is over, and what shows that it is not.
type proof struct{ view }

// What proves that a problem is over. A probe proves the repair of what it saw fail; a judge or a person proves what they looked at; a
// report of another session ends what it names. Everything else stays unverified.

// proven reports whether probes that ran for a purpose after the last session prove that a service was repaired: each is healthy, one of
// them looks at what was wrong, and so does every one that found it bad in this cycle. A probe that was healthy all the time proves
// nothing, and neither does any while a container or a unit of the service does not run, for something else may answer it, or while the
// service is held because it goes up and down.
func (v proof) proven(service string, purpose ops.ProbePurpose) bool {
	stopped := slices.ContainsFunc(v.notRunning(), func(c ops.Check) bool { return c.Service == service })
	if stopped || v.flapsNow(service) != nil {
		return false
	}
	looked := false
	for _, c := range v.checks(purpose, v.lastID()) {
		if c.Service != service {
			continue
		}
		if c.Bad() || !c.Known() {
			return false
		}
		looked = looked || v.wasBad(c)
	}
	return looked && !v.lostSight(service, purpose)
}

// lostSight: a probe that found the service bad in this cycle has not looked again. It may have been taken out of the configuration.
func (v proof) lostSight(service string, purpose ops.ProbePurpose) bool {
	again := v.checks(purpose, v.lastID())
	return slices.ContainsFunc(v.journal.Checks, func(k ops.Check) bool {
		return k.Service == service && k.Purpose != ops.ProbeAlert && k.Purpose != ops.ProbeRunning && k.Bad() &&
			!slices.ContainsFunc(again, func(c ops.Check) bool { return c.Service == service && c.Probe == k.Probe })
	})
}

// allProven reports whether probes prove it of every service that the cycle works on.
func (v proof) allProven(purpose ops.ProbePurpose) bool {
	services := v.services()
	return len(services) > 0 && !slices.ContainsFunc(services, func(s string) bool { return !v.proven(s, purpose) })
}

// wasBad reports whether what a check looks at was found bad before, by a probe in this cycle or when the open incident was reported. The
// word of an agent makes no witness of a probe that saw nothing wrong.
func (v proof) wasBad(c ops.Check) bool {
	return slices.ContainsFunc(v.journal.Checks, func(k ops.Check) bool {
		return k.Service == c.Service && k.Purpose != ops.ProbeAlert && k.Purpose != ops.ProbeRunning && k.Bad()
	}) || slices.ContainsFunc(v.journal.Incidents, func(i ops.Incident) bool { return i.Service == c.Service && i.ProbeFailedAt != nil })
}

// changedNothing: neither a session that might repair something nor an action has changed anything in this cycle. What nobody recorded may
// have.
func (v proof) changedNothing() bool {
	acted := func(r ops.ActionRun) bool { return r.Status != ops.ActionRefused }
	changed := func(s ops.Session) bool {
		e, known := v.journal.Effects[s.ID]
		return s.May() > ops.Tier1 && s.Works() && (e.Mutating || !known)
	}
	return !slices.ContainsFunc(v.journal.Runs, acted) && !slices.ContainsFunc(v.journal.Sessions, changed)
}

// repaired ends the incidents of services for which a repair is claimed: by probes those of a service that they prove repaired, by
// another proof those on which this cycle worked. What nothing proves becomes unverified.
func (v proof) repaired(purpose ops.ProbePurpose, proof ops.Proof, how string) []ops.Recovered {
	services := v.services()
	var out []ops.Recovered
	for _, i := range v.incidents() {
		if !slices.Contains(services, i.Service) || i.Class == ops.ClassAlert {
			continue // an alert ends by itself
		}
		r := ops.Recovered{Incident: i.ID, By: proof, How: how, Ends: endedBy(proof)}
		switch byProbe := v.proven(i.Service, purpose); {
		case byProbe && (i.Own || i.ProbeFailedAt != nil):
			if proof == ops.ProofNone {
				r.By, r.Ends = ops.ProofProbe, endedBy(ops.ProofProbe)
			}
		case !i.Own, proof == ops.ProofProbe:
			continue
		}
		out = append(out, r)
	}
	return out
}

// endedBy are the findings that a proof of a repair ends: a person or a judge looked at all, a probe at what it can see.
func endedBy(p ops.Proof) []ops.FindingKind {
	if p == ops.ProofHuman || p == ops.ProofJudge {
		return nil
	}
	return []ops.FindingKind{ops.FoundByProbe, ops.FoundByLook}
}

// foundWell ends the incidents that probes or the report of the last session refute. A session that does not say what it checked ends
// none, and none ends what it reported itself.
func (v proof) foundWell() []ops.Recovered {
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
		r := ops.Recovered{Incident: i.ID, Ends: []ops.FindingKind{}, Types: well[i.Service]}
		if i.ProbeFailedAt != nil && v.green(i.Service) {
			r.By, r.How, r.Ends = ops.ProofProbe, v.say(ops.Reason{Kind: ops.WhyFoundByProbes, Cycle: v.cycle.ID}), append(r.Ends, ops.FoundByProbe)
		}
		same := i.Check == "" || slices.Contains(well[i.Service], ops.CheckType(i.Check)) || len(i.Findings) > 0
		if i.Service != "" && !i.Own && reported(i.Service) && (same || i.UnverifiedAt != nil) {
			r.Ends = append(r.Ends, ops.FoundByAgent)
			if r.By == "" {
				r.By, r.How = ops.ProofReport, v.say(ops.Reason{Kind: ops.WhyFoundByCycle, Cycle: v.cycle.ID})
			}
		}
		if i.Class != ops.ClassAlert && r.By != "" { // an alert ends by itself
			out = append(out, r)
		}
	}
	return out
}

// closedBy is who closed the incidents that the cycle waited for: a person, or the supervisor because of probes or a report. Without any
// incident nobody has.
func (v proof) closedBy() ops.Proof {
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

// doubted: the session claims a repair that it is not sure of itself.
func doubted(s ops.Session) bool {
	return s.Outcome == ops.OutcomeResolved && s.Report != nil && s.Report.Confidence != nil && *s.Report.Confidence < sure
}

// doubtful: the session claims a repair that it is not sure of itself, and neither a judge nor probes confirm it.
func (v proof) doubtful() bool {
	_, judged := v.verdict()
	return doubted(*v.last) && !judged && !v.allProven(ops.ProbeVerify)
}

func reviewDoubtful(v view) ops.Step {
	return askReview(v, v.say(ops.Reason{Kind: ops.WhyDoubtful, Session: v.last}))
}

// repairRefused: the session claims a repair that nothing confirms, it was not allowed to change anything, and the guard refused
// what it tried. Then nothing was repaired.
func (v proof) repairRefused() bool {
	return v.last.Outcome == ops.OutcomeResolved && len(v.checks(ops.ProbeVerify, v.last.ID)) == 0 && len(v.refusedCalls(*v.last)) > 0
}

// recoverRefused asks the tier for a way that it is allowed to go.
func recoverRefused(v view) ops.Step {
	f := v.ladder().failure()
	f.Outcome = recovery.OutcomeMissing
	return nextAttempt(v, attempt{failure: f, withoutRecovery: refutedWithoutRecovery})
}

// unsure: the session doubts its own claim, nothing confirms it, and the tier above may take it over. Where none may, a judge or a human
// looks.
func (v proof) unsure() bool {
	if !v.doubtful() || v.last.Tier >= ops.LastTier {
		return false
	}
	d := v.handUp(v.claimHandoff(*v.last))
	target, _ := v.policy.Handler(d.TargetHandler)
	return (d.Verdict == ops.VerdictEscalate || d.Verdict == ops.VerdictApproval) && !target.Human()
}

// mayEscalateRefuted: repairs that do not hold count toward escalation, where there is a tier above.
func (v proof) mayEscalateRefuted() bool {
	return v.isRefuted(*v.last) && v.last.Tier < ops.LastTier && v.handUp(v.claimHandoff(*v.last)).Verdict != ops.VerdictRefused
}

func (v proof) handUp(h *ops.Handoff) ops.Decision {
	if h == nil {
		return ops.Decision{Verdict: ops.VerdictRefused}
	}
	return escalation.Decide(v.policy, v.path(), escalation.Proposal{Session: v.proposer(), Handoff: h}, v.facts())
}

// escalateClaim hands up a repair that is claimed and does not hold, or that the tier doubts itself, with the facts of probes, judge or
// guard: the tier does not see that it needs help.
func escalateClaim(v view) ops.Step {
	h := v.proof().claimHandoff(*v.last)
	d := v.proof().handUp(h)
	d.At = v.now
	step := decided(v, d, h)
	if step.Session != nil {
		step.Session.ContextMode = ops.ContextHandoff // the conversation believes that all is well
	}
	step.Decision = &d
	return step
}

// claimHandoff is what probes, a judge, the guard's record or the tier's own doubt say of a claimed repair; nil where it holds.
func (v proof) claimHandoff(s ops.Session) *ops.Handoff {
	why := v.refutation(s)
	if why == "" && doubted(s) {
		why = v.say(ops.Reason{Kind: ops.WhyUnsure, Session: &s})
	}
	if why == "" {
		return nil
	}
	h := ops.Handoff{
		SchemaVersion: 1, RecommendedTier: s.Tier + 1, Reason: why, CooldownState: json.RawMessage(`{}`),
		InvestigationFindings: v.ladder().whyItFailed(s), RemediationAttempted: summary(s),
	}
	if h.RemediationAttempted == "" {
		h.RemediationAttempted = "it did not say what it did"
	}
	for _, c := range v.seenAfter(s) {
		if c.Bad() && !slices.Contains(h.ServicesAffected, c.Service) {
			h.ServicesAffected = append(h.ServicesAffected, c.Service)
		}
		if !c.Known() {
			continue
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
func (v proof) stillBad(s ops.Session) string {
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
	return ops.And(order)
}

// refutation says why a claimed repair does not count; empty where nothing speaks against it.
func (v proof) refutation(s ops.Session) string {
	switch r, judged := v.verdictOn(s); {
	case len(v.badAfter(s)) > 0:
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
		out = append(out, fmt.Sprintf("%s (%s)", ops.Visible(g.Input), g.Reason))
	}
	return strings.Join(out, "; ")
}

// doubted: the judge did not pass the claim.
func (v proof) doubted() bool {
	r, ok := v.verdict()
	return ok && r.Verdict != judge.Pass
}

func (v proof) isRefuted(s ops.Session) bool { return v.refutation(s) != "" }

// stillDown lists the services whose last check in this cycle found them down.
func (v proof) stillDown() []string {
	latest := map[string]ops.Health{}
	var order []string
	for _, c := range v.journal.Checks {
		if c.Purpose == ops.ProbeRunning {
			continue
		}
		if _, seen := latest[c.Service]; !seen {
			order = append(order, c.Service)
		}
		latest[c.Service] = c.Status
	}
	return slices.DeleteFunc(order, func(s string) bool { return latest[s] != ops.Down })
}
