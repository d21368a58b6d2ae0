package escalation

import (
	"errors"
	"fmt"
	"slices"
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
	if slices.Contains(source.HandsTo, target.ID) {
		return route{target: target}
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
		if slices.Contains(source.HandsTo, c.ID) {
			return c, ""
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

// The functions below need a sound graph: every target registered, tiers that only rise.

// reach reports handlers that nothing ever leads to.
func (x *examination) reach() {
	p := x.policy
	reached := workers(p)
	for _, id := range []string{p.Manager, p.Planner, p.Judge} {
		if h, ok := p.Handler(id); ok {
			reached = append(append(reached, id), h.Fallback...)
		}
	}
	for i, h := range p.Handlers {
		if !slices.Contains(reached, h.ID) {
			x.flaw(at(i, "id"), "let a handler hand to it, give it a role, or remove it", "handler %q is never reached from %q", h.ID, p.Entry)
		}
	}
}

// depth reports a limit that would cut a chain somebody configured.
func (x *examination) depth() {
	way := longest(x.policy)
	if needs := len(way) - 1; needs > x.policy.MaxDepth {
		x.flaw("max_depth", fmt.Sprintf("set max_depth to %d, or take a handler out of hands_to", needs),
			"max_depth %d cuts %s, which needs %d", x.policy.MaxDepth, strings.Join(way, " → "), needs)
	}
}

// independence reports demands that no run can meet.
func (x *examination) independence() {
	p := x.policy
	for _, h := range p.Handlers {
		for _, id := range h.HandsTo {
			target, _ := p.Handler(id)
			if p.RouteOf(h.ID, id).Independence != ops.IndependenceFamily || h.Family != target.Family {
				continue
			}
			key := "independence"
			if i := slices.IndexFunc(p.Routes, func(r ops.Route) bool {
				return r.From == h.ID && r.To == id && r.Independence == ops.IndependenceFamily
			}); i >= 0 {
				key = fmt.Sprintf("routes[%d].independence", i)
			}
			x.flaw(key, "hand to a handler of another family, or demand other_handler on this route",
				"the route from %s to %s demands another family, and both are %s", h.ID, id, h.Family)
		}
	}
}

// judgeFamily reports a judge that shares the blind spots of everybody it would judge.
func (x *examination) judgeFamily() {
	judge, ok := x.policy.Handler(x.policy.Judge)
	if !ok {
		return
	}
	for _, id := range workers(x.policy) {
		if h, _ := x.policy.Handler(id); !h.Human() && h.Family != judge.Family {
			return
		}
	}
	x.flaw("judge", "name a judge of another family", "judge %q is of the family %s, like everybody it would judge", judge.ID, judge.Family)
}

// workers are the handlers that work reaches, from the entry on.
func workers(p ops.Policy) []string {
	reached := []string{p.Entry}
	for i := 0; i < len(reached); i++ {
		h, _ := p.Handler(reached[i])
		for _, id := range slices.Concat(h.HandsTo, h.Fallback) {
			if !slices.Contains(reached, id) {
				reached = append(reached, id)
			}
		}
	}
	return reached
}

// longest is the longest chain of handoffs that a valid policy allows, the entry first.
func longest(p ops.Policy) []string {
	known := map[string][]string{}
	var from func(id string) []string
	from = func(id string) []string {
		if way, ok := known[id]; ok {
			return way
		}
		h, _ := p.Handler(id)
		var best []string
		for _, next := range h.HandsTo {
			if way := from(next); len(way) > len(best) {
				best = way
			}
		}
		known[id] = append([]string{id}, best...)
		return known[id]
	}
	return from(p.Entry)
}
