package escalation

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"claudeops/internal/ops"
)

// Proposal is what a session asks for.
type Proposal struct {
	Session  ops.Session
	Handoff  *ops.Handoff // nil when it is not valid
	Problems []string     // why it is not valid
}

// Facts are what else is known when the decision is made.
type Facts struct {
	ChainUSD  float64        `json:"chain_usd"`
	DayUSD    float64        `json:"day_usd"`
	Cooldowns []ops.Cooldown `json:"cooldowns,omitempty"`
}

// ruling is a decision in the making.
type ruling struct {
	policy   ops.Policy
	source   ops.Handler
	proposal Proposal
	facts    Facts
	target   ops.Handler
	decision ops.Decision
}

// check objects to a proposal by setting verdict and reason.
type check struct {
	name   string
	object func(*ruling) (ops.Verdict, string)
}

func checks() []check {
	return []check{
		{"end of chain", endOfChain},
		{"validity", validity},
		{"route", routing},
		{"dry run", dryRun},
		{"maximum tier", maximumTier},
		{"cooldown", cooldown},
		{"budget", budget},
		{"approval", approval},
	}
}

// Decide says what becomes of the proposal. Path holds the handlers that worked in this cycle, the source last.
func Decide(p ops.Policy, path []string, proposal Proposal, f Facts) ops.Decision {
	source, ok := p.Handler(proposal.Session.Handler)
	if !ok {
		source = ops.Handler{ID: proposal.Session.Handler, Tier: proposal.Session.Tier}
	}
	r := &ruling{policy: p, source: source, proposal: proposal, facts: f, decision: ops.Decision{
		CycleID: proposal.Session.CycleID, SessionID: proposal.Session.ID, SourceHandler: source.ID,
		Depth: len(path), MaxDepth: p.MaxDepth, ProcessMode: ops.ProcessTyped, Path: append([]string{}, path...),
	}}
	r.decision.Inputs = inputs(p, path, proposal, f)
	if proposal.Handoff != nil {
		r.decision.Proposed = proposal.Handoff.Reason
		r.decision.TargetHandler = proposal.Handoff.Target
	}
	for _, c := range checks() {
		if verdict, reason := c.object(r); verdict != "" {
			r.decision.Check, r.decision.Verdict, r.decision.Reason = c.name, verdict, reason
			return r.decision
		}
	}
	r.decision.Check = "all"
	r.decision.Verdict = ops.VerdictEscalate
	r.decision.Path = append(r.decision.Path, r.target.ID)
	r.decision.Reason = fmt.Sprintf("%s hands %s to %s (%s)", r.source.Tier,
		strings.Join(proposal.Handoff.ServicesAffected, ", "), r.target.ID, r.target.Tier.Title())
	return r.decision
}

func endOfChain(r *ruling) (ops.Verdict, string) {
	if r.source.Tier < ops.LastTier {
		return "", ""
	}
	return ops.VerdictNeedsHuman, fmt.Sprintf(
		"%s is the last tier and still asked for help: a human has to take over", r.source.Tier)
}

func validity(r *ruling) (ops.Verdict, string) {
	if r.proposal.Handoff != nil {
		return "", ""
	}
	return ops.VerdictRefused, "the handoff is not valid: " + strings.Join(r.proposal.Problems, "; ")
}

func routing(r *ruling) (ops.Verdict, string) {
	found := resolve(r.policy, r.source, *r.proposal.Handoff)
	r.target = found.target
	if found.target.ID != "" {
		r.decision.TargetHandler = found.target.ID
	}
	if found.problem != "" {
		r.decision.SelfEscalationRejected = found.self
		return ops.VerdictRefused, found.problem
	}
	if r.decision.Depth > r.policy.MaxDepth {
		return ops.VerdictRefused, fmt.Sprintf("depth %d is above the maximum of %d", r.decision.Depth, r.policy.MaxDepth)
	}
	r.decision.TargetValidated = true
	r.decision.SelfEscalationRejected = true // the rule was applied, and the target is another handler
	return "", ""
}

func dryRun(r *ruling) (ops.Verdict, string) {
	if !r.policy.DryRun {
		return "", ""
	}
	return ops.VerdictSuppressed, fmt.Sprintf("escalation to %s was suppressed: dry run is on", r.target.Tier)
}

func maximumTier(r *ruling) (ops.Verdict, string) {
	if r.target.Tier <= r.policy.MaxTier {
		return "", ""
	}
	return ops.VerdictNeedsHuman, fmt.Sprintf(
		"escalation to %s was blocked by the tier limit: the maximum tier is %d, so a human has to take over",
		r.target.Tier, r.policy.MaxTier)
}

// actionsOf names what a tier can repair with; a tier that has none of it left would start in vain.
func actionsOf(t ops.Tier) []string {
	if t >= ops.Tier3 {
		return []string{"restart", "redeployment"}
	}
	return []string{"restart"}
}

func cooldown(r *ruling) (ops.Verdict, string) {
	var lifts time.Time
	for _, service := range r.proposal.Handoff.ServicesAffected {
		name, _ := r.policy.Inventory.Canonical(service)
		for _, action := range actionsOf(r.target.Tier) {
			c, ok := find(r.facts.Cooldowns, name, action)
			if !ok || c.Left > 0 {
				return "", ""
			}
			if lifts.IsZero() || c.Until.Before(lifts) {
				lifts = c.Until
			}
		}
	}
	if lifts.IsZero() {
		return "", ""
	}
	return ops.VerdictBlocked, fmt.Sprintf("escalation to %s was blocked by cooldown: nothing is left that it may do for %s until %s",
		r.target.Tier, strings.Join(r.proposal.Handoff.ServicesAffected, ", "), lifts.UTC().Format(time.RFC3339))
}

func find(all []ops.Cooldown, service, action string) (ops.Cooldown, bool) {
	for _, c := range all {
		if c.Service == service && c.Action == action {
			return c, true
		}
	}
	return ops.Cooldown{}, false
}

func budget(r *ruling) (ops.Verdict, string) {
	if limit := r.policy.BudgetChainUSD; limit > 0 && r.facts.ChainUSD >= limit {
		return ops.VerdictBlocked, fmt.Sprintf("escalation to %s was blocked by budget: this chain spent $%.2f of $%.2f",
			r.target.Tier, r.facts.ChainUSD, limit)
	}
	if limit := r.policy.BudgetDayUSD; limit > 0 && r.facts.ChainUSD+r.facts.DayUSD >= limit {
		return ops.VerdictBlocked, fmt.Sprintf("escalation to %s was blocked by budget: today $%.2f of $%.2f are spent; it lifts at midnight UTC",
			r.target.Tier, r.facts.ChainUSD+r.facts.DayUSD, limit)
	}
	return "", ""
}

func approval(r *ruling) (ops.Verdict, string) {
	if r.policy.ApprovalTier == 0 || r.target.Tier < r.policy.ApprovalTier {
		return "", ""
	}
	return ops.VerdictNeedsHuman, fmt.Sprintf("%s needs a human's approval before it starts (approval tier is %d)",
		r.target.Tier, r.policy.ApprovalTier)
}

// inputs keeps everything the decision was computed from, so that it can be computed again.
func inputs(p ops.Policy, path []string, proposal Proposal, f Facts) json.RawMessage {
	raw, err := json.Marshal(struct {
		Policy   ops.Policy   `json:"policy"`
		Path     []string     `json:"path"`
		Tier     ops.Tier     `json:"tier"`
		Handoff  *ops.Handoff `json:"handoff"`
		Problems []string     `json:"problems,omitempty"`
		Facts    Facts        `json:"facts"`
	}{p, path, proposal.Session.Tier, proposal.Handoff, proposal.Problems, f})
	if err != nil {
		// Only a cooldown_state that is not JSON can fail here, and such a handoff is never valid.
		return json.RawMessage(`{}`)
	}
	return raw
}
