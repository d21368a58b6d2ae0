package escalation

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"claudeops/internal/ops"
)

// Proposal is what a session asks for.
type Proposal struct {
	Session  ops.Session
	Handoff  *ops.Handoff // nil when it is not valid
	Problems []string     // why it is not valid
	Choice   *Choice      // what the manager said, where one was asked
}

// Choice is a manager's answer. Without a target it gave none that counts, and Why says so.
type Choice struct {
	Manager string `json:"manager"`
	Target  string `json:"target,omitempty"`
	Why     string `json:"why"`
}

// Facts are what else is known when the decision is made.
type Facts struct {
	ChainUSD  float64        `json:"chain_usd"`
	DayUSD    float64        `json:"day_usd"`
	Cooldowns []ops.Cooldown `json:"cooldowns,omitempty"`
	Held      []ops.Hold     `json:"held,omitempty"`    // but for trust, which the policy says
	Lowered   []ops.Lowered  `json:"lowered,omitempty"` // trust below the policy's
	// Approved names the handler whose start a human agreed to.
	Approved string `json:"approved,omitempty"`
}

// ruling is a decision in the making.
type ruling struct {
	policy   ops.Policy
	source   ops.Handler
	proposal Proposal
	facts    Facts
	target   ops.Handler
	services []string // what is handed on
	left     string   // why nothing would be handed on if trust allowed no more; empty: something is
	decision ops.Decision
}

// check objects to a proposal by setting verdict and reason.
type check struct {
	name   ops.Objection
	object func(*ruling) (ops.Verdict, string)
}

func checks() []check {
	return []check{
		{ops.ObjectionEndOfChain, endOfChain},
		{ops.ObjectionValidity, validity},
		{ops.ObjectionRoute, routing},
		{ops.ObjectionReason, reasoned},
		{ops.ObjectionIndependence, independence},
		{ops.ObjectionHeld, held},
		{ops.ObjectionDryRun, dryRun},
		{ops.ObjectionMaxTier, maximumTier},
		{ops.ObjectionTrust, trusted},
		{ops.ObjectionCooldown, cooldown},
		{ops.ObjectionBudget, budget},
		{ops.ObjectionApproval, approval},
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
		r.services = proposal.Handoff.ServicesAffected
		r.decision.Proposed = proposal.Handoff.Why()
		r.decision.TargetHandler = proposal.Handoff.Target
	}
	if proposal.Choice != nil {
		r.decision.ManagerPresent = true
	}
	for _, c := range checks() {
		verdict, reason := c.object(r)
		r.decision.Services = r.services
		if verdict != "" {
			r.decision.Check, r.decision.Verdict, r.decision.Reason = c.name, verdict, reason
			return r.decision
		}
	}
	r.decision.Check = ops.ObjectionNone
	r.decision.Verdict = ops.VerdictEscalate
	r.decision.Path = append(r.decision.Path, r.target.ID)
	r.decision.Reason = fmt.Sprintf("%s hands %s to %s (%s)", r.source.Tier, strings.Join(r.services, ", "), r.target.ID, title(r.target))
	if c := proposal.Choice; c != nil {
		r.decision.Reason += chosen(*c)
	}
	return r.decision
}

func title(h ops.Handler) string {
	if h.Human() {
		return "a human"
	}
	return h.Tier.Title()
}

func chosen(c Choice) string {
	if c.Target == "" {
		return fmt.Sprintf(" as proposed: %s chose nobody (%s)", c.Manager, c.Why)
	}
	return fmt.Sprintf(" as %s chose: %s", c.Manager, c.Why)
}

// Permitted lists the handlers to which the proposal may go as things are, the ones that need a human's approval included.
// A manager chooses among them and nobody else.
func Permitted(p ops.Policy, path []string, proposal Proposal, f Facts) []ops.Handler {
	source, ok := p.Handler(proposal.Session.Handler)
	if !ok || proposal.Handoff == nil {
		return nil
	}
	var out []ops.Handler
	for _, id := range source.HandsTo {
		target, ok := p.Handler(id)
		if !ok {
			continue
		}
		asked := proposal
		asked.Choice = &Choice{Target: id}
		if d := Decide(p, path, asked, f); d.Verdict == ops.VerdictEscalate || d.Verdict == ops.VerdictApproval {
			out = append(out, target)
		}
	}
	return out
}

func endOfChain(r *ruling) (ops.Verdict, string) {
	if r.source.Tier < ops.LastTier {
		return "", ""
	}
	for _, id := range r.source.HandsTo {
		if h, ok := r.policy.Handler(id); ok && h.Human() {
			r.target, r.decision.TargetHandler = h, h.ID
			r.decision.TargetValidated, r.decision.SelfEscalationRejected = true, true
			r.decision.Path = append(r.decision.Path, h.ID)
		}
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
	found := r.destination()
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

// reasoned: where several handlers of the tier could take over, the proposal has to say why.
func reasoned(r *ruling) (ops.Verdict, string) {
	var same []string
	for _, id := range r.source.HandsTo {
		if h, ok := r.policy.Handler(id); ok && h.Tier == r.target.Tier {
			same = append(same, id)
		}
	}
	if len(same) < 2 || r.proposal.Choice != nil || strings.TrimSpace(r.proposal.Handoff.Reason) != "" {
		return "", ""
	}
	return ops.VerdictRefused, fmt.Sprintf(
		"the handoff gives no reason; several handlers could take over (%s), so name one as target and say why in reason",
		strings.Join(same, ", "),
	)
}

// destination is where the manager wants it, or else where the handoff says.
func (r *ruling) destination() route {
	h := *r.proposal.Handoff
	c := r.proposal.Choice
	if c == nil || c.Target == "" {
		return resolve(r.policy, r.source, h)
	}
	r.decision.ProcessMode = ops.ProcessManager
	target, ok := r.policy.Handler(c.Target)
	if !ok {
		return route{problem: fmt.Sprintf("target %q is not a registered handler", c.Target)}
	}
	h.Target, h.RecommendedTier = target.ID, target.Tier
	return resolve(r.policy, r.source, h)
}

// independence keeps a second opinion from being the first one again.
func independence(r *ruling) (ops.Verdict, string) {
	demand := r.policy.RouteOf(r.source.ID, r.target.ID).Independence
	family := r.proposal.Session.Family
	if family == "" {
		family = r.source.Family
	}
	switch {
	case demand == ops.IndependenceNone || demand == "":
	case slices.Contains(r.decision.Path, r.target.ID):
		return ops.VerdictRefused, fmt.Sprintf("%s has already worked on this, and the route demands another handler", r.target.ID)
	case demand == ops.IndependenceFamily && r.target.Family == family:
		return ops.VerdictRefused, fmt.Sprintf(
			"%s is of the family %s like %s, and the route demands another family",
			r.target.ID,
			family,
			r.source.ID,
		)
	}
	return "", ""
}

// held drops the services that are in a human's hands, and those whose trust is too low for the target. Where trust is all that keeps
// the target from the rest, the services stay, and the check of trust objects to them: a dry run and the maximum tier come first.
func held(r *ruling) (ops.Verdict, string) {
	var left, distrusted, why []string
	for _, service := range r.services {
		name, _ := r.policy.Inventory.Canonical(service)
		trust := r.policy.Trusts(name, r.facts.Lowered)
		tier := r.target.May()
		if r.target.Human() {
			tier = ops.LastTier // what people hold is not handed to a person again
		}
		switch h := ops.Holder(r.facts.Held, name, tier); {
		case h != nil:
			why = append(why, fmt.Sprintf("%s (%s)", name, h.Why))
		case !r.target.Human() && trust.Forbids(tier):
			distrusted = append(distrusted, service)
			r.left = trust.Keeps()
		default:
			left = append(left, service)
		}
	}
	switch {
	case len(left) > 0 || len(r.services) == 0:
		r.services, r.left = left, ""
		return "", ""
	case len(distrusted) > 0:
		r.services = distrusted
		return "", ""
	}
	r.services = nil
	return ops.VerdictSuppressed, fmt.Sprintf(
		"escalation to %s was suppressed, because this is held back: %s",
		r.target.ID,
		strings.Join(why, ", "),
	)
}

func trusted(r *ruling) (ops.Verdict, string) {
	if r.left == "" {
		return "", ""
	}
	return ops.VerdictNeedsHuman, fmt.Sprintf("%s does not start for %s: %s", r.target.Tier, strings.Join(r.services, ", "), r.left)
}

func dryRun(r *ruling) (ops.Verdict, string) {
	if !r.policy.DryRun {
		return "", ""
	}
	return ops.VerdictSuppressed, fmt.Sprintf("escalation to %s was suppressed: dry run is on", r.target.Tier)
}

func maximumTier(r *ruling) (ops.Verdict, string) {
	if r.target.Human() || r.target.Tier <= r.policy.MaxTier {
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
	if r.target.Human() {
		return "", ""
	}
	var lifts time.Time
	for _, service := range r.services {
		name, _ := r.policy.Inventory.Canonical(service)
		for _, action := range actionsOf(r.target.Tier) {
			i := slices.IndexFunc(r.facts.Cooldowns, func(c ops.Cooldown) bool { return c.Service == name && c.Action == action })
			if i < 0 || r.facts.Cooldowns[i].Left > 0 {
				return "", ""
			}
			c := r.facts.Cooldowns[i]
			if lifts.IsZero() || c.Until.Before(lifts) {
				lifts = c.Until
			}
		}
	}
	if lifts.IsZero() {
		return "", ""
	}
	verdict := ops.VerdictBlocked
	if steps, _ := Plan(r.policy.Inventory, r.proposal.Handoff, r.target, r.services); len(steps) > 0 && r.facts.Approved != r.target.ID {
		verdict = ops.VerdictApproval // a person can say yes to exactly what it stopped
	}
	return verdict, fmt.Sprintf("escalation to %s was blocked by cooldown: nothing is left that it may do for %s until %s",
		r.target.Tier, strings.Join(r.services, ", "), lifts.UTC().Format(time.RFC3339))
}

// Plan is what a human is shown of a proposed plan: each step with what the supervisor would run. A plan that could not be carried
// out as it is written is not offered, with the reason.
func Plan(inventory ops.Inventory, h *ops.Handoff, target ops.Handler, services []string) (steps []ops.ApprovedStep, problem string) {
	if h == nil {
		return nil, ""
	}
	for i, p := range h.Plan {
		name, _ := inventory.Canonical(p.Service)
		a, known := inventory.Action(name, p.Action)
		switch {
		case !slices.Contains(services, name):
			return nil, fmt.Sprintf("step %d is about %s, which is not handed on", i+1, p.Service)
		case !known:
			return nil, fmt.Sprintf("step %d names the action %s, which %s does not have", i+1, p.Action, name)
		case a.Tier > target.May():
			return nil, fmt.Sprintf("step %d needs %s, and %s is asked for", i+1, a.Tier, target.Tier)
		case (a.Kind == ops.ActionPush) != (p.Branch != ""):
			return nil, fmt.Sprintf("step %d names a branch where none belongs, or none where one is needed", i+1)
		}
		p.Service = name
		steps = append(steps, ops.ApprovedStep{PlanStep: p, Does: a.Does(), WayBack: a.WayBack(), Digest: a.Digest()})
	}
	return steps, ""
}

func budget(r *ruling) (ops.Verdict, string) {
	if r.target.Human() {
		return "", ""
	}
	b, spent := r.policy.Spent(r.facts.ChainUSD, r.facts.DayUSD)
	if !spent {
		return "", ""
	}
	return ops.VerdictBlocked, fmt.Sprintf("escalation to %s was blocked by budget: %s; %s", r.target.Tier, b.Words(), b.Frees())
}

func approval(r *ruling) (ops.Verdict, string) {
	switch tier := r.policy.ApprovalTier; {
	case r.target.Human() || r.facts.Approved == r.target.ID:
		return "", ""
	case r.target.Lacks() != "":
		why := fmt.Sprintf("%s needs a human's approval before it starts (a wall is missing: %s)", r.target.ID, r.target.Lacks())
		return ops.VerdictApproval, why
	case tier > 0 && r.target.Tier >= tier:
		return ops.VerdictApproval, fmt.Sprintf("%s needs a human's approval before it starts (approval tier is %d)", r.target.Tier, tier)
	case r.policy.Asks(r.source.ID, r.target):
		return ops.VerdictApproval, fmt.Sprintf(
			"%s needs a human's approval before it starts (the route from %s demands it)",
			r.target.ID,
			r.source.ID,
		)
	}
	for _, service := range r.services {
		if trust := r.policy.Trusts(service, r.facts.Lowered); trust.Asks(r.target.May()) {
			return ops.VerdictApproval, fmt.Sprintf("%s needs a human's approval before it starts (trust in %s is %s)", r.target.ID, service, trust)
		}
	}
	return "", ""
}

// recorded is everything a decision was computed from, as it is kept.
type recorded struct {
	Policy   ops.Policy   `json:"policy"`
	Path     []string     `json:"path"`
	Tier     ops.Tier     `json:"tier"`
	Handoff  *ops.Handoff `json:"handoff"`
	Problems []string     `json:"problems,omitempty"`
	Choice   *Choice      `json:"choice,omitempty"`
	Facts    Facts        `json:"facts"`
}

// inputs keeps everything the decision was computed from, so that it can be computed again.
func inputs(p ops.Policy, path []string, proposal Proposal, f Facts) json.RawMessage {
	raw, err := json.Marshal(recorded{p, path, proposal.Session.Tier, proposal.Handoff, proposal.Problems, proposal.Choice, f})
	if err != nil {
		// Only a cooldown_state that is not JSON can fail here, and such a handoff is never valid.
		return json.RawMessage(`{}`)
	}
	return raw
}

// Again takes a recorded decision once more under another policy.
func Again(d ops.RecordedDecision, p ops.Policy) (ops.Decision, error) {
	var in struct {
		recorded
		Policy json.RawMessage `json:"policy"` // another one decides
	}
	if err := json.Unmarshal(d.Inputs, &in); err != nil {
		return ops.Decision{}, fmt.Errorf("read inputs of decision %d: %w", d.ID, err)
	}
	if len(in.Path) == 0 {
		return ops.Decision{}, fmt.Errorf("read inputs of decision %d: they are not kept", d.ID)
	}
	session := ops.Session{ID: d.SessionID, CycleID: d.CycleID, Handler: d.SourceHandler, Tier: in.Tier, Family: d.Family}
	return Decide(p, in.Path, Proposal{session, in.Handoff, in.Problems, in.Choice}, in.Facts), nil
}

// Under is the policy under which a recorded decision was taken.
func Under(d ops.Decision) ops.Policy {
	var in recorded
	if json.Unmarshal(d.Inputs, &in) != nil {
		return ops.Policy{}
	}
	return in.Policy
}

// ChoiceSchema is the form of a manager's answer: one of the ids, and why. It uses plain keywords only, as the agents'
// programs take it.
func ChoiceSchema(ids []string) string {
	raw, err := json.Marshal(map[string]any{
		"type": "object",
		"properties": map[string]any{
			"target": map[string]any{"type": "string", "enum": ids},
			"reason": map[string]any{"type": "string"},
		},
		"required":             []string{"target", "reason"},
		"additionalProperties": false,
	})
	if err != nil { // plain strings always encode
		return "{}"
	}
	return string(raw)
}
