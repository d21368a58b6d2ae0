package escalation

import (
	"fmt"
	"slices"
	"strings"

	"claudeops/internal/ops"
)

// Flaws names everything that is wrong with the handlers, roles and routes of a policy: what passes forms a chain that always ends,
// whose every owner is registered and can be reached. What needs a sound graph is only looked at once there is one.
func Flaws(p ops.Policy) []ops.Flaw {
	x := &examination{policy: p}
	x.identities()
	x.targets()
	x.fallbacks()
	x.entry()
	x.manager()
	x.role("planner", p.Planner)
	x.role("judge", p.Judge)
	x.routes()
	if p.MaxDepth < 1 {
		x.flaw("max_depth", "use at least 1", "maximum depth is %d", p.MaxDepth)
	}
	if len(x.found) > 0 {
		return x.found
	}
	x.reach()
	x.depth()
	x.independence()
	x.judgeFamily()
	return x.found
}

// examination is the flaws of one policy in the making.
type examination struct {
	policy ops.Policy
	found  []ops.Flaw
}

func (x *examination) flaw(key, fix, format string, args ...any) {
	x.found = append(x.found, ops.Flaw{Key: key, Message: fmt.Sprintf(format, args...), Fix: fix})
}

// known looks a name up and reports it when nobody is registered under it.
func (x *examination) known(key, id, format string, args ...any) (ops.Handler, bool) {
	h, ok := x.policy.Handler(id)
	if !ok {
		x.flaw(key, "name one of "+strings.Join(ids(x.policy), ", "), format, args...)
		x.found[len(x.found)-1].Unknown = id
	}
	return h, ok
}

func ids(p ops.Policy) []string {
	out := make([]string, len(p.Handlers))
	for i, h := range p.Handlers {
		out[i] = h.ID
	}
	return out
}

func at(i int, field string) string { return fmt.Sprintf("handlers[%d].%s", i, field) }

func (x *examination) identities() {
	for i, h := range x.policy.Handlers {
		first := slices.IndexFunc(x.policy.Handlers, func(o ops.Handler) bool { return o.ID == h.ID })
		if first < i {
			x.flaw(at(i, "id"), "give each handler its own id", "handler %q is registered twice", h.ID)
		}
		if !h.Tier.Known() && !(h.Human() && h.Tier == ops.HumanTier) {
			x.flaw(at(i, "tier"), "use 1, 2 or 3", "handler %q has tier %d", h.ID, int(h.Tier))
		}
		if h.Permissions > h.Tier {
			x.flaw(at(i, "permissions"), fmt.Sprintf("give %d or less, or raise the tier", int(h.Tier)),
				"handler %q is %s and has the permissions of %s", h.ID, h.Tier, h.Permissions)
		}
		if h.Human() && len(h.HandsTo)+len(h.Fallback) > 0 {
			x.flaw(at(i, "hands_to"), "remove its hands_to and fallback", "handler %q is a human, who ends the chain", h.ID)
		}
	}
}

func (x *examination) targets() {
	for i, h := range x.policy.Handlers {
		for j, id := range h.HandsTo {
			key := at(i, fmt.Sprintf("hands_to[%d]", j))
			target, ok := x.known(key, id, "handler %q hands to %q, which is not registered", h.ID, id)
			switch {
			case !ok:
			case slices.Index(h.HandsTo, id) < j:
				x.flaw(key, "keep one of them", "handler %q hands to %q twice", h.ID, id)
			case id == h.ID:
				x.flaw(key, "remove it", "handler %q hands to itself, which is a retry: a handoff must go to a higher tier", h.ID)
			case target.Tier <= h.Tier:
				// Tiers that only rise make a cycle in the graph impossible, so every cycle is found here.
				x.flaw(key, "remove it, or give the target a higher tier", "handler %q (%s) hands to %q (%s): a handoff must go to a higher tier",
					h.ID, h.Tier, id, target.Tier)
			}
		}
	}
}

func (x *examination) fallbacks() {
	for i, h := range x.policy.Handlers {
		for j, id := range h.Fallback {
			key := at(i, fmt.Sprintf("fallback[%d]", j))
			target, ok := x.known(key, id, "handler %q falls back to %q, which is not registered", h.ID, id)
			switch {
			case !ok:
			case slices.Index(h.Fallback, id) < j:
				x.flaw(key, "keep one of them", "handler %q falls back to %q twice", h.ID, id)
			case id == h.ID:
				x.flaw(key, "name another handler", "handler %q falls back to itself", h.ID)
			case target.Human():
				x.flaw(key, "put it into hands_to", "handler %q falls back to %q, a human", h.ID, id)
			}
		}
	}
}

func (x *examination) entry() {
	p := x.policy
	h, ok := x.known("entry", p.Entry, "entry handler %q is not registered", p.Entry)
	switch {
	case !ok:
	case h.Human():
		x.flaw("entry", "name a handler of Tier 1", "entry handler %q is a human: a cycle begins with an agent that looks", h.ID)
	case h.Tier.Known() && h.Tier != ops.Tier1:
		x.flaw(
			"entry",
			"name a handler of Tier 1",
			"entry handler %q is %s: a cycle begins with looking, and a dry run starts nothing above Tier 1",
			h.ID,
			h.Tier,
		)
	}
}

// role looks at a handler that is asked something and never works itself in that part.
func (x *examination) role(name, id string) {
	if id == "" {
		return
	}
	if h, ok := x.known(name, id, "%s %q is not registered", name, id); ok && h.Human() {
		x.flaw(name, "name a handler with an agent", "%s %q is a human", name, id)
	}
}

// manager holds the one who distributes work apart from those who do it.
func (x *examination) manager() {
	p := x.policy
	if p.Manager == "" {
		if p.Process == ops.ProcessManager {
			x.flaw("process", "name the handler that chooses with escalation.manager", "the process is manager, and there is no manager")
		}
		return
	}
	x.role("manager", p.Manager)
	if p.Manager == p.Entry {
		x.flaw(
			"manager",
			"register a handler of its own for it",
			"manager %q is also the entry handler: a manager never does the work",
			p.Manager,
		)
	}
	for i, h := range p.Handlers {
		if h.ID == p.Manager && len(h.HandsTo) > 0 {
			x.flaw(at(i, "hands_to"), "remove it", "handler %q is the manager: it chooses among what others may hand to", h.ID)
		}
		for _, given := range []struct {
			field string
			ids   []string
		}{{"hands_to", h.HandsTo}, {"fallback", h.Fallback}} {
			if j := slices.Index(given.ids, p.Manager); j >= 0 {
				x.flaw(at(i, fmt.Sprintf("%s[%d]", given.field, j)), "take the manager out",
					"handler %q gives work to %q, the manager, who never does any", h.ID, p.Manager)
			}
		}
	}
}

func (x *examination) routes() {
	p := x.policy
	for i, r := range p.Routes {
		key := func(field string) string { return fmt.Sprintf("routes[%d]%s", i, field) }
		from, knownFrom := x.known(key(".from"), r.From, "%q is not a handler", r.From)
		to, knownTo := x.known(key(".to"), r.To, "%q is not a handler", r.To)
		if !knownFrom || !knownTo {
			continue
		}
		same := func(o ops.Route) bool { return o.From == r.From && o.To == r.To }
		switch {
		case !slices.Contains(from.HandsTo, to.ID):
			x.flaw(key(""), fmt.Sprintf("%s hands to %s", from.ID, list(from.HandsTo)), "%s never hands over to %s", from.ID, to.ID)
		case slices.IndexFunc(p.Routes, same) < i:
			x.flaw(key(""), "keep one of the entries", "the route from %s to %s stands here twice", from.ID, to.ID)
		case r.Mode == ops.ContextResume && (from.Family != to.Family || from.Agent != to.Agent):
			x.flaw(
				key(".mode"),
				"use mode: handoff",
				"%s cannot continue the conversation of %s: they are %s and %s",
				to.ID,
				from.ID,
				kindOf(to),
				kindOf(from),
			)
		}
	}
}

func kindOf(h ops.Handler) string {
	if h.Agent == "" || h.Agent == h.Family {
		return h.Family
	}
	return h.Family + " by " + h.Agent
}
