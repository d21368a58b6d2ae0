package notify

import (
	"context"
	"errors"
	"slices"
	"strings"

	"claudeops/internal/ops"
)

// ErrMuted means that a route tells nobody of a notice, as was wished.
var ErrMuted = errors.New("a route tells nobody of this")

// Routed is a route with its own sender; nil tells nobody.
type Routed struct {
	ops.NoticeRoute
	Sender Sender
}

// Router sends each notice to those it is for.
type Router struct {
	First  Sender
	Second Sender // nil: the first
	Routes []Routed
}

// Send delivers one notice by the first route that matches.
func (r Router) Send(ctx context.Context, n ops.Notice) error {
	_, sender := r.route(n)
	if sender == nil {
		return ErrMuted
	}
	return sender.Send(ctx, n)
}

// Route names the way a notice goes; what goes the same way can be sent together.
func (r Router) Route(n ops.Notice) string {
	name, _ := r.route(n)
	return name
}

func (r Router) route(n ops.Notice) (string, Sender) {
	if n.Target == ops.TargetSecond && r.Second != nil {
		return "second", r.Second
	}
	for _, route := range r.Routes {
		if matches(route.NoticeRoute, n) {
			return "route " + route.Name, route.Sender
		}
	}
	if n.Kind == ops.NoticeEscalated {
		return "nobody", nil // told to those who ask for it, and to nobody else
	}
	return "first", r.First
}

func matches(r ops.NoticeRoute, n ops.Notice) bool {
	return urgency(n.Level) >= urgency(r.Level) &&
		(r.Environment == "" || r.Environment == n.Environment) &&
		r.Takes(n.Kind) &&
		(len(r.Services) == 0 || slices.ContainsFunc(r.Services, func(pattern string) bool { return n.Service != "" && like(pattern, n.Service) }))
}

// urgency orders levels; no level is the lowest.
func urgency(l ops.Level) int {
	return slices.Index([]ops.Level{ops.LevelInfo, ops.LevelWarning, ops.LevelCritical}, l)
}

// like compares a name with a pattern in which * stands for any text.
func like(pattern, name string) bool {
	first, rest, star := strings.Cut(pattern, "*")
	if !star {
		return pattern == name
	}
	name, ok := strings.CutPrefix(name, first)
	if !ok {
		return false
	}
	for i := range len(name) + 1 {
		if like(rest, name[i:]) {
			return true
		}
	}
	return false
}
