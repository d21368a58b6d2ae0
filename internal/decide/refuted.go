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
		if v.policy.Bad(c) && !slices.Contains(h.ServicesAffected, c.Service) {
			h.ServicesAffected = append(h.ServicesAffected, c.Service)
		}
		h.CheckResults = append(h.CheckResults, ops.CheckResult{Service: c.Service, CheckType: c.Type, Status: c.Status, Error: c.Error})
	}
	if len(h.ServicesAffected) == 0 {
		h.ServicesAffected = v.affected()
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
	case slices.ContainsFunc(v.checks(ops.ProbeVerify, s.ID), v.policy.Bad):
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
