package decide

import (
	"encoding/json"
	"slices"
	"strings"
	"time"

	"claudeops/internal/ops"
)

// deed is something that the supervisor did to a service.
type deed struct {
	service, action string
	at              time.Time
}

// repair is what actions of the supervisor repaired in this cycle; nil if something else was done too, if it is about more than one
// failure, or if the configuration has a reflex for it. Whoever counts such repairs decides from what the supervisor recorded, never from
// what an agent says.
func (v proof) repair() *ops.Repair {
	deeds, alone := v.deeds()
	if !alone || len(deeds) == 0 {
		return nil
	}
	service := deeds[0].service
	c := v.reason(service, deeds[0].at, deeds[len(deeds)-1].at)
	other := func(d deed) bool { return d.service != service }
	if c == nil || slices.ContainsFunc(deeds, other) ||
		slices.ContainsFunc(v.policy.Inventory.Reflexes(service), func(r ops.Reflex) bool { return r.Reacts(*c) }) {
		return nil
	}
	r := &ops.Repair{Service: service, Probe: c.Probe, Type: c.Type, Status: c.Status, Class: c.Class()}
	for _, d := range deeds {
		r.Actions = append(r.Actions, d.action)
	}
	return r
}

// reason is the first bad result of a probe of a service before it was worked on; nil if there is none, if a service failed that does not
// depend on it, or if something failed after the last action: then something else helped, or time did.
func (v proof) reason(service string, before, last time.Time) (first *ops.Check) {
	followers := v.policy.Inventory.Dependents(service)
	for _, c := range v.journal.Checks {
		switch {
		case c.Purpose == ops.ProbeAlert || c.Purpose == ops.ProbeRunning || !c.Bad():
		case c.At.After(last), c.Service != service && !slices.Contains(followers, c.Service):
			return nil
		case c.Service == service && first == nil && !c.At.After(before):
			first = &c
		}
	}
	return first
}

// manyEffects is how many recorded calls of a session are too many to know that nothing else was done.
const manyEffects = 10

// deeds are the actions that were done in this cycle, in order. Alone means that nothing else was changed, or tried in vain by a session
// that may change something, and that nothing failed or was undone.
func (v proof) deeds() (out []deed, alone bool) {
	for _, r := range v.journal.Runs {
		switch {
		case r.Status == ops.ActionRefused:
		case r.Status != ops.ActionDone || r.UndoOf != 0 || r.Reflex != "" || r.Kind == ops.ActionPush || r.StartedAt == nil:
			return nil, false
		default:
			out = append(out, deed{r.Service, r.Action, *r.StartedAt})
		}
	}
	for _, s := range v.journal.Sessions {
		e := v.journal.Effects[s.ID]
		if len(e.Done) > manyEffects || s.May() > ops.Tier1 && slices.ContainsFunc(e.Denied, forbidden) {
			return nil, false
		}
		for _, g := range e.Done {
			container, brokered := restarted(g)
			a, own := v.restart(container)
			switch {
			case g.Tool == ops.ToolActionRun || g.Tool == "mcp__"+ops.ToolServerName+"__"+ops.ToolActionRun: // its run says what was done
			case !own:
				return nil, false
			case brokered:
				out = append(out, deed{a.Service, a.Name, g.At})
			}
		}
	}
	slices.SortStableFunc(out, func(a, b deed) int { return a.at.Compare(b.at) })
	return out, true
}

// forbidden reports whether a refused call was something other than an action of the supervisor, which a cooldown may refuse. A session
// that tried what it may not do earns no reflex.
func forbidden(g ops.GuardRecord) bool { return g.Gate != ops.GateAction }

// restart is the action that restarts a container, if it is that of a service.
func (v proof) restart(container string) (ops.ActionSpec, bool) {
	for _, s := range v.policy.Inventory.Services {
		for _, a := range s.Actions {
			if a.Kind == ops.ActionRestart && container != "" && a.Container == container && s.Container == container {
				return a, true
			}
		}
	}
	return ops.ActionSpec{}, false
}

// restarted is the container that a call of a session restarts, and nothing else. The broker did it, or it was only asked for so far.
func restarted(g ops.GuardRecord) (container string, brokered bool) {
	if g.Gate == ops.GateDocker {
		target, _, _ := strings.Cut(g.Input, "?")
		name, ok := strings.CutPrefix(strings.TrimSuffix(target, "/restart"), "POST /containers/")
		if ok && strings.HasSuffix(target, "/restart") {
			return name, true
		}
		return "", false
	}
	var in struct {
		Command string `json:"command"`
	}
	if json.Unmarshal([]byte(g.Input), &in) != nil {
		return "", false
	}
	if words := strings.Fields(in.Command); len(words) == 3 && words[0] == "docker" && words[1] == "restart" {
		container = words[2]
	}
	return container, false
}
