package escalation

import (
	"errors"
	"fmt"
	"strings"

	"claudeops/internal/ops"
)

// Validate refuses a policy whose handlers cannot form a bounded chain.
func Validate(p ops.Policy) error {
	var all []error
	for _, f := range Flaws(p) {
		all = append(all, errors.New(f.String()))
	}
	return errors.Join(all...)
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
		if target.Tier != h.RecommendedTier && !target.Human() { // a person has no tier to contradict
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
		if person, ok := personAbove(p, source); ok && h.RecommendedTier > source.Tier && h.RecommendedTier <= ops.HumanTier {
			return person, ""
		}
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

// personAbove is the human a handler may hand to: where no agent has the tier that is asked for, a person is meant.
func personAbove(p ops.Policy, source ops.Handler) (ops.Handler, bool) {
	for _, id := range source.HandsTo {
		if h, ok := p.Handler(id); ok && h.Human() {
			return h, true
		}
	}
	return ops.Handler{}, false
}

func list(ids []string) string {
	if len(ids) == 0 {
		return "nobody"
	}
	return strings.Join(ids, ", ")
}
