package web

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"claudeops/internal/ops"
)

// cooldownView is the remaining allowance of one action on one service.
type cooldownView struct {
	Environment string
	Service     string
	Action      string
	Left        int
	Of          int
	Window      string
	Until       *stamp
	Never       bool
	Used        bool
	Clear       string // URL of the page that clears it
}

// cooldownsOf returns the remaining actions on a service. A limit for the service overrides the general one.
func (m moment) cooldownsOf(environment, service string, limits []ops.CooldownLimit, used []ops.Cooldown) []cooldownView {
	var out []cooldownView
	for _, action := range countedActions(service, limits) {
		limit, found := tightest(limits, service, action)
		if !found {
			continue
		}
		view := cooldownView{
			Environment: environment, Service: service, Action: action, Left: limit.Count, Of: limit.Count, Window: windowText(limit.Window),
			Never: limit.Count <= 0,
		}
		for _, u := range used {
			if u.Service != service || u.Action != action {
				continue
			}
			view.Used, view.Left = true, u.Left
			if !u.Until.IsZero() {
				at := m.stamp(u.Until)
				view.Until = &at
			}
		}
		view.Clear = clearPath(environment, service, action)
		out = append(out, view)
	}
	return out
}

// countedActions are what is limited for a service: restarts, redeployments, and actions with a cooldown of their own.
func countedActions(service string, limits []ops.CooldownLimit) []string {
	out := []string{ops.CountsRestart, ops.CountsRedeployment}
	for _, l := range limits {
		if l.Service == service && !slices.Contains(out, l.Action) {
			out = append(out, l.Action)
		}
	}
	return out
}

func tightest(limits []ops.CooldownLimit, service, action string) (ops.CooldownLimit, bool) {
	var own, general []ops.CooldownLimit
	for _, l := range limits {
		switch {
		case l.Action != action:
		case l.Service == service:
			own = append(own, l)
		case l.Service == "":
			general = append(general, l)
		}
	}
	if len(own) == 0 {
		own = general
	}
	if len(own) == 0 {
		return ops.CooldownLimit{}, false
	}
	return slices.MinFunc(own, func(a, b ops.CooldownLimit) int { return cmp.Compare(a.Count, b.Count) }), true
}

func windowText(d time.Duration) string {
	if d%time.Hour == 0 {
		return fmt.Sprintf("%d h", int(d.Hours()))
	}
	return span(d)
}
