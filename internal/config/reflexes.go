package config

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"claudeops/internal/ops"
)

// reflex is an entry of a service's reflexes.
type reflex struct {
	ops.Reflex
	written
}

func reflexFields(r *reflex) []field {
	return []field{
		value("on", &r.On, anyCaseKind(probeTypes()...), "Type of the probe of this service that fails.").
			mustElse("the reflex does not say which probe it is for"),
		value("status", &r.Status, choiceKind("a status", ops.Down, ops.Degraded), "What the probe finds.").or("down"),
		value("for", &r.For, durationKind(0), "How long it must have failed, counted from the first failed check.").orElse("0: at once"),
		value("do", &r.Do, strictListKind("actions"), "Actions of this service, done in this order until one fails.").
			mustElse("the reflex does not say what to do"),
		value("tries", &r.Tries, intKind(1, 100), "At most so often within `per`. The cooldown of the action holds too.").or("2"),
		value("per", &r.Per, durationKind(time.Minute), "The time in which tries are counted, at most 168h.").or("6h"),
	}
}

// finishReflex checks one reflex without its service.
func finishReflex(e *entry, r *reflex) {
	r.written = written{e.position(e.node), e.key}
	switch {
	case r.Per > ops.ReflexLongest:
		e.refuse(&r.Per, "give at most 168h", "%s is too long", r.Per)
	case len(r.Do) == 0:
		e.refuse(&r.Do, "name an action, such as [restart]", "the list is empty")
	}
}

// checkReflexes checks the reflexes of a service against its probes and actions.
func checkReflexes(e *entry, s *service) {
	for _, r := range s.reflexes {
		refuse := func(field, fix, format string, args ...any) {
			e.problems.add(r.at, r.key+"."+field, fmt.Sprintf(format, args...), fix)
		}
		if !slices.ContainsFunc(s.probes, func(p probeEntry) bool { return p.Type == r.On }) {
			refuse("on", "add the probe, or name the type of another one", "the service has no probe of type %s", r.On)
		}
		for i, name := range r.Do {
			n := slices.IndexFunc(s.Actions, func(a ops.ActionSpec) bool { return a.Name == name })
			switch {
			case n < 0:
				refuse(fmt.Sprintf("do[%d]", i), "use one of: "+listOr(s.Actions, "none; add container, unit or actions to the service"),
					"the service has no action %q", name)
			case s.Actions[n].Kind == ops.ActionPush:
				refuse(fmt.Sprintf("do[%d]", i), "use another action", "a push needs a branch, which a reflex does not have")
			}
		}
		r.Service = s.Name
		if slices.ContainsFunc(s.Reflexes, func(o ops.Reflex) bool { return o.Key() == r.Key() }) {
			refuse("do", "remove one of them", "%s for %s %s is given twice", strings.Join(r.Do, ", "), r.On, r.Status)
		}
		s.Reflexes = append(s.Reflexes, r.Reflex)
	}
}

// aimReflexes tells reflexes the names of their probes.
func (l *loader) aimReflexes(v inventory) {
	if l.in.ProbeName == nil {
		return
	}
	for _, s := range v.services.Services {
		for i := range s.Reflexes {
			for _, p := range v.probes {
				if p.Service == s.Name && p.Type == s.Reflexes[i].On {
					s.Reflexes[i].Probes = append(s.Reflexes[i].Probes, l.in.ProbeName(p))
				}
			}
		}
	}
}
