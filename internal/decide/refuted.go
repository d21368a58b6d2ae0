package decide

import (
	"encoding/json"
	"slices"

	"claudeops/internal/decide/escalation"
	"claudeops/internal/ops"
)

// mayEscalateRefuted: repairs that do not hold count toward escalation, where somebody stands above.
func (v view) mayEscalateRefuted() bool {
	h := v.refutedHandoff(*v.last)
	if h == nil || v.last.Tier >= ops.LastTier {
		return false
	}
	d := escalation.Decide(v.policy, v.path(), escalation.Proposal{Session: v.proposer(), Handoff: h}, v.facts())
	return d.Verdict != ops.VerdictRefused
}

// escalateRefuted hands up what a tier says it repaired and did not, with the facts of our own probes: the tier itself does not
// see that it needs help.
func (v view) escalateRefuted() ops.Step {
	h := v.refutedHandoff(*v.last)
	d := escalation.Decide(v.policy, v.path(), escalation.Proposal{Session: v.proposer(), Handoff: h}, v.facts())
	d.At = v.now
	step := v.decided(d, h)
	if step.Session != nil {
		step.Session.ContextMode = ops.ContextHandoff // the conversation believes that all is well
	}
	step.Decision = &d
	return step
}

// refutedHandoff is what our probes and the record say of a claimed repair that does not hold; nil where it holds.
func (v view) refutedHandoff(s ops.Session) *ops.Handoff {
	h := ops.Handoff{
		SchemaVersion: 1, RecommendedTier: s.Tier + 1, Reason: "probes refute the claimed repair", CooldownState: json.RawMessage(`{}`),
		InvestigationFindings: v.whyItFailed(s), RemediationAttempted: summary(s),
	}
	if h.RemediationAttempted == "" {
		h.RemediationAttempted = "it did not say what it did"
	}
	for _, c := range v.checks(ops.ProbeVerify, s.ID) {
		if c.Status == ops.Down && !slices.Contains(h.ServicesAffected, c.Service) {
			h.ServicesAffected = append(h.ServicesAffected, c.Service)
		}
		h.CheckResults = append(h.CheckResults, ops.CheckResult{Service: c.Service, CheckType: c.Type, Status: c.Status, Error: c.Error})
	}
	if len(h.ServicesAffected) == 0 {
		return nil
	}
	return &h
}
