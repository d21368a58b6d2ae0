package web

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/store"
)

type guardListView struct {
	Filters  filterRow
	Filtered bool
	Walls    []Wall
	Rows     []ops.GuardRecord
	Pager    pager
}

// guardPage lists the newest decisions of the guard in all sessions.
func (s *server) guardPage(r *http.Request) (page, error) {
	before, ok := cursor(r)
	f := store.GuardFilter{
		Verdict: queried(r, "verdict"), Rule: queried(r, "rule"), Service: queried(r, "service"), Before: before, Limit: listed,
	}
	if text := queried(r, "tier"); text != "" {
		n, err := strconv.Atoi(text)
		ok = ok && err == nil && n >= int(ops.Tier1) && n <= int(ops.LastTier)
		f.Tier = ops.Tier(n)
	}
	if !ok || (f.Verdict != "" && f.Verdict != "allow" && f.Verdict != "deny") {
		return page{}, noSuch("No such list of decisions. A verdict is allow or deny, and a tier is 1, 2 or 3.")
	}
	found, err := s.Store.GuardList(r.Context(), f)
	view := guardListView{
		Walls: s.Walls(), Rows: found.Records, Pager: paging(r, found.Next),
		Filtered: f.Verdict != "" || f.Tier > 0 || f.Rule != "" || f.Service != "",
	}
	view.Filters = guardFilters(f).clearing(view.Filtered)
	return page{Title: "Guard", Nav: "guard", Body: view}, err
}

func guardFilters(f store.GuardFilter) filterRow {
	tier := ""
	if f.Tier > 0 {
		tier = strconv.Itoa(int(f.Tier))
	}
	return filterRow{Action: "/guard", Fields: []filterField{
		{Kind: "search", Name: "service", Label: "Service", Value: f.Service},
		selected("verdict", "Verdict", chosen(f.Verdict, "All verdicts", choice{Value: "deny", Word: "Denied"},
			choice{Value: "allow", Word: "Allowed"})),
		selected("tier", "Tier", chosen(tier, "All tiers", choice{Value: "1", Word: "Tier 1"}, choice{Value: "2", Word: "Tier 2"},
			choice{Value: "3", Word: "Tier 3"})),
		{Kind: "text", Name: "rule", Label: "Rule", Value: f.Rule},
	}}
}

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
