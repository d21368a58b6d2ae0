package web

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"claudeops/internal/api"
	"claudeops/internal/desk"
	"claudeops/internal/ops"
	"claudeops/internal/store"
)

// actionsView is what the supervisor can do, and what it did.
type actionsView struct {
	listView[runRow]
	Groups []actionGroup
}

// actionGroup is a service with its actions.
type actionGroup struct {
	Environment string
	Service     string
	Actions     []actionRow
}

// actionRow is an action with the button that runs it.
type actionRow struct {
	api.Action
	Run question
}

// runRow is a run of an action with the button that undoes it.
type runRow struct {
	api.ActionRun
	Undo      *question // nil if it cannot be undone now
	FormError string
}

func runTitle(r api.ActionRun) string {
	title := plain(r.Action + " of " + r.Service)
	if r.UndoOf != nil {
		return "Undo of " + title
	}
	return title
}

func (s *site) runRow(r ops.ActionRun) runRow {
	row := runRow{ActionRun: api.ActionRunRow(r)}
	if undo, err := s.desk.UndoOf(r); err == nil {
		row.Undo = &question{
			ID: fmt.Sprintf("undo-%d", r.ID), Button: "Undo", Icon: "rotate-ccw", Style: "plain",
			Title: fmt.Sprintf("Undo %s?", runTitle(row.ActionRun)), Text: "The supervisor runs: " + plain(undo.Does),
			Action: fmt.Sprintf("/actions/%d/undo", r.ID), Yes: "Undo it", No: "Cancel",
			Fields: []input{{Name: "reason", Label: "Reason", Kind: "area", Required: true, Max: desk.MaxReason}},
		}
	}
	return row
}

func (s *actions) actions(r *http.Request, problem string) (page, error) {
	runs, err := listOf(s.site, r, func(ctx context.Context, before int64, limit int) ([]ops.ActionRun, error) {
		return s.Store.Acts.ActionRuns(ctx, store.ActionFilter{Service: queried(r, "service"), Before: before, Limit: limit})
	}, func(x ops.ActionRun) int64 { return x.ID }, s.runRow)
	view := actionsView{listView: runs}
	view.FormError = problem
	for _, e := range s.Environments {
		for _, v := range e.Policy.Inventory.Services {
			if len(v.Actions) > 0 {
				view.Groups = append(view.Groups, actionGroupOf(e.Name, v))
			}
		}
	}
	p := page{Title: "Actions", Nav: "services", Body: view}
	if queried(r, "done") != "" {
		p.Flash = "Requested. The supervisor checks and runs it now."
	}
	return p, err
}

func actionGroupOf(environment string, v ops.Service) actionGroup {
	g := actionGroup{Environment: environment, Service: plain(v.Name)}
	for i, a := range v.Actions {
		view := actionRow{
			Action: api.ActionRow(environment, a),
			Run: question{
				ID: fmt.Sprintf("run-%s-%s-%d", environment, domID(v.Name), i), Button: "Run", Icon: "play", Style: "plain",
				Title:  fmt.Sprintf("Run %s of %s?", plain(a.Name), plain(v.Name)),
				Text:   "The supervisor runs: " + plain(a.Does()) + ". Cooldowns apply.",
				Action: "/actions", Yes: "Run it", No: "Cancel",
				Hidden: map[string]string{"environment": environment, "service": v.Name, "action": a.Name},
				Fields: []input{{Name: "reason", Label: "Reason", Kind: "area", Required: true, Max: desk.MaxReason}},
			},
		}
		if a.Kind == ops.ActionPush {
			branch := input{Name: "branch", Label: "Branch", Required: true, Max: desk.MaxName, Value: plain(a.Prefix)}
			view.Run.Fields = append(view.Run.Fields, branch)
		}
		g.Actions = append(g.Actions, view)
	}
	return g
}

// domID keeps only what an id of an element may hold.
func domID(name string) string {
	return strings.Map(func(c rune) rune {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' {
			return c
		}
		return '_'
	}, name)
}

func (s *actions) action(r *http.Request, problem string) (page, error) {
	run, err := s.Store.Acts.ActionRun(r.Context(), rowID(r))
	row := s.runRow(run)
	row.FormError = problem
	return page{Title: runTitle(row.ActionRun), Nav: "services", Body: row}, err
}

// runAction asks the daemon for an action.
func (s *actions) runAction(r *http.Request) (string, error) {
	_, err := s.desk.RunAction(r.Context(), by(r), desk.Action{
		Environment: r.PostFormValue("environment"), Service: r.PostFormValue("service"), Name: r.PostFormValue("action"),
		Branch: typed(r, "branch"), Why: reason(r),
	})
	if errors.Is(err, ops.ErrNotFound) {
		err = wrong{http.StatusUnprocessableEntity, "This action does not exist. Nothing was run."}
	}
	return requested(err)
}

func (s *actions) undoAction(r *http.Request) (string, error) {
	_, err := s.desk.Undo(r.Context(), by(r), rowID(r), reason(r))
	return requested(err)
}

// requested leads to the list of runs, unless the action cannot be done now.
func requested(err error) (string, error) {
	if errors.Is(err, ops.ErrConflict) {
		err = wrong{http.StatusConflict, "It cannot be done now: " + plain(err.Error()) + ". Nothing was run."}
	}
	return "/actions?done=requested", err
}

type guardListView struct {
	Filters  filterRow
	Filtered bool
	Walls    []Wall
	Rows     []ops.GuardRecord
	Pager    pager
}

// guardPage lists what the guard refused in all sessions, or all its decisions.
func (s *events) guardPage(r *http.Request) (page, error) {
	before, ok := cursor(r)
	f := store.GuardFilter{
		Verdict: queried(r, "verdict"), Rule: queried(r, "rule"), Service: queried(r, "service"), Before: before, Limit: listed,
	}
	if text := queried(r, "tier"); text != "" {
		n, err := strconv.Atoi(text)
		ok = ok && err == nil && n >= int(ops.Tier1) && n <= int(ops.LastTier)
		f.Tier = ops.Tier(n)
	}
	view := guardListView{Filtered: f.Verdict != "" || f.Tier > 0 || f.Rule != "" || f.Service != ""}
	view.Filters = guardFilters(f).clearing(view.Filtered)
	switch f.Verdict {
	case "":
		f.Verdict = "deny"
	case "all":
		f.Verdict = ""
	case "allow", "deny":
	default:
		ok = false
	}
	if !ok {
		return page{}, noSuch("No such list of decisions. A verdict is allow, deny or all, and a tier is 1, 2 or 3.")
	}
	found, err := s.Store.Acts.GuardList(r.Context(), f)
	view.Walls, view.Rows, view.Pager = s.Walls(), found.Records, paging(r, found.Next)
	return page{Title: "Guard", Nav: "guard", Body: view}, err
}

func guardFilters(f store.GuardFilter) filterRow {
	tier := ""
	if f.Tier > 0 {
		tier = strconv.Itoa(int(f.Tier))
	}
	return filterRow{Action: "/guard", Fields: []filterField{
		{Kind: "search", Name: "service", Label: "Service", Value: f.Service},
		selected("verdict", "Verdict", chosen(strings.TrimPrefix(f.Verdict, "deny"), "Refused", choice{Value: "allow", Word: "Allowed"},
			choice{Value: "all", Word: "Allowed and refused"})),
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
		all := ops.LimitsFor(limits, service, action)
		if len(all) == 0 {
			continue
		}
		limit := slices.MinFunc(all, func(a, b ops.CooldownLimit) int { return cmp.Compare(a.Count, b.Count) })
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

func windowText(d time.Duration) string {
	if d%time.Hour == 0 {
		return fmt.Sprintf("%d h", int(d.Hours()))
	}
	return span(d)
}
