package escalation

import (
	"fmt"
	"strings"

	"claudeops/internal/ops"
)

// Validate refuses a policy whose handlers cannot form a bounded chain.
func Validate(p ops.Policy) error {
	seen := map[string]bool{}
	for _, h := range p.Handlers {
		if seen[h.ID] {
			return fmt.Errorf("handler %q is registered twice: give each handler its own id", h.ID)
		}
		seen[h.ID] = true
		if !h.Tier.Known() {
			return fmt.Errorf("handler %q has tier %d: use 1, 2 or 3", h.ID, h.Tier)
		}
	}
	if !seen[p.Entry] {
		return fmt.Errorf("entry handler %q is not registered", p.Entry)
	}
	for _, h := range p.Handlers {
		for _, id := range h.HandsTo {
			target, ok := p.Handler(id)
			switch {
			case !ok:
				return fmt.Errorf("handler %q hands to %q, which is not registered", h.ID, id)
			case target.Tier <= h.Tier:
				// Tiers that only rise also make a cycle in the graph impossible.
				return fmt.Errorf("handler %q (%s) hands to %q (%s): a handoff must go to a higher tier", h.ID, h.Tier, id, target.Tier)
			}
		}
	}
	if p.MaxDepth < 1 {
		return fmt.Errorf("maximum depth is %d: use at least 1", p.MaxDepth)
	}
	return nil
}

// route is a target that was looked up, or the reason why there is none.
type route struct {
	target  ops.Handler
	self    bool
	problem string
}

// resolve finds the handler a handoff asks for among those the source may hand to.
func resolve(p ops.Policy, source ops.Handler, h ops.Handoff) route {
	target, problem := named(p, source, h)
	if problem != "" {
		return route{problem: problem}
	}
	if target.ID == source.ID {
		return route{target: target, self: true, problem: fmt.Sprintf(
			"%s proposed itself: handing work to the same handler is a retry, not an escalation", source.ID)}
	}
	for _, id := range source.HandsTo {
		if id == target.ID {
			return route{target: target}
		}
	}
	return route{target: target, problem: fmt.Sprintf("%s (%s) may not hand to %s (%s); it may hand to %s",
		source.ID, source.Tier, target.ID, target.Tier, list(source.HandsTo))}
}

func named(p ops.Policy, source ops.Handler, h ops.Handoff) (ops.Handler, string) {
	if h.Target != "" {
		target, ok := p.Handler(h.Target)
		if !ok {
			return ops.Handler{}, fmt.Sprintf("target %q is not a registered handler", h.Target)
		}
		if target.Tier != h.RecommendedTier {
			return ops.Handler{}, fmt.Sprintf("target %q is %s, but recommended_tier is %d: the handoff names two owners",
				h.Target, target.Tier, h.RecommendedTier)
		}
		return target, ""
	}
	if source.Tier == h.RecommendedTier {
		return source, ""
	}
	var found []ops.Handler
	for _, c := range p.Handlers {
		if c.Tier == h.RecommendedTier {
			found = append(found, c)
		}
	}
	if len(found) == 0 {
		return ops.Handler{}, fmt.Sprintf("no handler is registered for recommended_tier %d", h.RecommendedTier)
	}
	// Several handlers may share a tier: the one the source may hand to is meant.
	for _, c := range found {
		for _, id := range source.HandsTo {
			if c.ID == id {
				return c, ""
			}
		}
	}
	return found[0], ""
}

func list(ids []string) string {
	if len(ids) == 0 {
		return "nobody"
	}
	return strings.Join(ids, ", ")
}
