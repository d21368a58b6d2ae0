package notify

import (
	"context"
	"errors"
	"slices"

	"claudeops/internal/ops"
)

// ErrMuted means that the route of a notice has no target, as configured.
var ErrMuted = errors.New("its route has no target")

// Routed is a route with its own sender; nil sends to nobody.
type Routed struct {
	ops.NoticeRoute
	Sender Sender
}

// Router sends each notice by its route.
type Router struct {
	First  Sender
	Second Sender // nil: the first
	Routes []Routed
	// Escalations reach the second persons, by the names of their routes.
	Escalations map[string]Sender
}

// Send delivers one notice by the first route that matches.
func (r Router) Send(ctx context.Context, n ops.Notice) error {
	_, sender := r.route(n)
	if sender == nil {
		return ErrMuted
	}
	return sender.Send(ctx, n)
}

// Route names the route of a notice; notices of one route can be sent together.
func (r Router) Route(n ops.Notice) string {
	name, _ := r.route(n)
	return name
}

// Rule returns the route that a notice goes by, if it is one of the routes.
func (r Router) Rule(n ops.Notice) (ops.NoticeRoute, bool) {
	if n.Target == ops.TargetSecond && r.Second != nil {
		return ops.NoticeRoute{}, false
	}
	if _, escalated := n.Target.Escalation(); escalated {
		return ops.NoticeRoute{}, false
	}
	for _, route := range r.Routes {
		if matches(route.NoticeRoute, n) {
			return route.NoticeRoute, true
		}
	}
	return ops.NoticeRoute{}, false
}

func (r Router) route(n ops.Notice) (string, Sender) {
	if n.Target == ops.TargetSecond && r.Second != nil {
		return "second", r.Second
	}
	if name, escalated := n.Target.Escalation(); escalated {
		return r.escalation(name)
	}
	for _, route := range r.Routes {
		if matches(route.NoticeRoute, n) {
			return "route " + route.Name, route.Sender
		}
	}
	if n.Kind == ops.NoticeEscalated {
		return "nobody", nil // sent only where a route names it
	}
	return "first", r.First
}

// escalation is the second person of a route. If the route was removed meanwhile, those who are told when nobody answers are told.
func (r Router) escalation(name string) (string, Sender) {
	if sender, ok := r.Escalations[name]; ok {
		return "escalation of route " + name, sender
	}
	if r.Second != nil {
		return "second", r.Second
	}
	return "first", r.First
}

func matches(r ops.NoticeRoute, n ops.Notice) bool {
	return urgency(n.Level) >= urgency(r.Level) &&
		(r.Environment == "" || r.Environment == n.Environment) &&
		r.Takes(n.Kind) &&
		(len(r.Services) == 0 || slices.ContainsFunc(r.Services, func(pattern string) bool {
			return pattern != "" && n.Service != "" && ops.MatchPattern(pattern, n.Service)
		}))
}

// urgency orders levels; no level is the lowest.
func urgency(l ops.Level) int {
	return slices.Index([]ops.Level{ops.LevelInfo, ops.LevelWarning, ops.LevelCritical}, l)
}
