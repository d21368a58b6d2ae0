package web

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"claudeops/internal/desk"
	"claudeops/internal/ops"
	"claudeops/internal/store"
)

// actionsView is what the supervisor can do, and what it did.
type actionsView struct {
	Groups    []actionGroup
	Runs      []runView
	Several   bool
	FormError string
	Pager     pager
}

// actionGroup is a service with its actions.
type actionGroup struct {
	Environment string
	Service     string
	Actions     []actionView
}

type actionView struct {
	Name        string
	Description string
	Does        string
	Undo        string
	Tier        ops.Tier
	Approval    bool
	Run         question
}

// runView is one run of an action.
type runView struct {
	ID        int64
	Title     string
	Status    badge
	By        string
	Session   ops.SessionID
	Cycle     *cycleRef
	Why       string
	Does      string
	Commit    string
	Asked     stamp
	Ended     *stamp
	Before    []healthView
	After     []healthView
	Output    string
	Error     string
	UndoOf    int64
	UndoneBy  int64
	Undo      *question // nil if it cannot be undone now
	FormError string
}

type healthView struct {
	Service string
	Badge   badge
	Error   string
}

func actionBadge(status ops.ActionStatus) badge {
	switch status {
	case ops.ActionRequested:
		return badge{"unknown", "clock", "Requested"}
	case ops.ActionStarted:
		return badge{"run", "loader", "Running"}
	case ops.ActionDone:
		return badge{"ok", "circle-check", "Done"}
	case ops.ActionFailed:
		return badge{"bad", "octagon-x", "Failed"}
	case ops.ActionUndone:
		return badge{"warn", "rotate-ccw", "Undone"}
	case ops.ActionInterrupted:
		return badge{"warn", "triangle-alert", "Interrupted"}
	case ops.ActionRefused:
		return badge{"unknown", "ban", "Refused"}
	}
	return badge{"unknown", "circle-question-mark", plain(string(status))}
}

func healthViews(all []ops.ServiceHealth) []healthView {
	var out []healthView
	for _, h := range all {
		out = append(out, healthView{Service: plain(h.Service), Badge: healthBadge(h.Status), Error: firstLine(h.Error, 200)})
	}
	return out
}

func (s *server) runView(m moment, r ops.ActionRun) runView {
	view := runView{
		ID: r.ID, Title: plain(r.Action + " of " + r.Service), Status: actionBadge(r.Status), By: firstLine(r.By(), maxWord), Why: plain(r.Why),
		Does: plain(r.Does), Commit: plain(r.Commit), Asked: m.stamp(r.RequestedAt), Before: healthViews(r.Before), After: healthViews(r.After),
		Output: plain(r.Output), Error: plain(r.Error), UndoOf: r.UndoOf, UndoneBy: r.UndoneBy,
	}
	if r.UndoOf != 0 {
		view.Title = fmt.Sprintf("Undo of %s", view.Title)
	}
	if r.SessionID != nil {
		view.Session = *r.SessionID
	}
	if r.CycleID != nil {
		ref := refer(*r.CycleID)
		view.Cycle = &ref
	}
	if r.EndedAt != nil {
		at := m.stamp(*r.EndedAt)
		view.Ended = &at
	}
	if undo, err := s.desk.UndoOf(r); err == nil {
		view.Undo = &question{
			ID: fmt.Sprintf("undo-%d", r.ID), Button: "Undo", Icon: "rotate-ccw", Style: "plain", Title: fmt.Sprintf("Undo %s?", view.Title),
			Text: "The supervisor runs: " + plain(undo.Does), Action: fmt.Sprintf("/actions/%d/undo", r.ID), Yes: "Undo it", No: "Cancel",
			Fields: []input{{Name: "reason", Label: "Reason", Kind: "area", Required: true, Max: desk.MaxReason}},
		}
	}
	return view
}

func (s *server) runViews(m moment, runs []ops.ActionRun) []runView {
	var out []runView
	for _, r := range runs {
		out = append(out, s.runView(m, r))
	}
	return out
}

func (s *server) actions(w http.ResponseWriter, r *http.Request) {
	s.showActions(w, r, http.StatusOK, "")
}

func (s *server) showActions(w http.ResponseWriter, r *http.Request, status int, problem string) {
	before, ok := cursor(r)
	if !ok {
		s.errorPage(w, r, http.StatusNotFound, "No such page of actions.")
		return
	}
	found, err := s.Store.ActionRuns(r.Context(), store.ActionFilter{Service: queried(r, "service"), Before: before, Limit: listed + 1})
	if err != nil {
		s.fail(w, r, "list of actions", err)
		return
	}
	view := actionsView{Several: len(s.Environments) > 1, FormError: problem}
	found, view.Pager = paged(r, found, func(x ops.ActionRun) int64 { return x.ID })
	view.Runs = s.runViews(moment{s.Clock()}, found)
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
	s.render(w, r, status, "actions", p)
}

func actionGroupOf(environment string, v ops.Service) actionGroup {
	g := actionGroup{Environment: environment, Service: plain(v.Name)}
	for i, a := range v.Actions {
		view := actionView{
			Name: plain(a.Name), Description: plain(a.Description), Does: plain(a.Does()), Undo: plain(a.WayBack()),
			Tier: a.Tier, Approval: a.Approval,
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

func (s *server) action(w http.ResponseWriter, r *http.Request) {
	s.showAction(w, r, http.StatusOK, "")
}

func (s *server) showAction(w http.ResponseWriter, r *http.Request, status int, problem string) {
	run, err := s.findRun(r)
	if err != nil {
		s.fail(w, r, "action", err)
		return
	}
	view := s.runView(moment{s.Clock()}, run)
	view.FormError = problem
	s.render(w, r, status, "action", page{Title: view.Title, Nav: "services", Body: view})
}

func (s *server) findRun(r *http.Request) (ops.ActionRun, error) {
	id, ok := rowID(r)
	if !ok {
		return ops.ActionRun{}, ops.ErrNotFound
	}
	return s.Store.ActionRun(r.Context(), id)
}

// runAction asks the daemon for an action.
func (s *server) runAction(w http.ResponseWriter, r *http.Request) {
	_, err := s.desk.RunAction(r.Context(), by(r), desk.Action{
		Environment: r.PostFormValue("environment"), Service: r.PostFormValue("service"), Name: r.PostFormValue("action"),
		Branch: typed(r, "branch"), Why: reason(r),
	})
	if errors.Is(err, ops.ErrNotFound) {
		s.showActions(w, r, http.StatusUnprocessableEntity, "This action does not exist. Nothing was run.")
		return
	}
	s.requested(w, r, err, s.showActions)
}

func (s *server) undoAction(w http.ResponseWriter, r *http.Request) {
	id, _ := rowID(r) // there is none with the id 0
	_, err := s.desk.Undo(r.Context(), by(r), id, reason(r))
	s.requested(w, r, err, s.showAction)
}

// requested answers a request for an action: with the list of runs, or with the form and what is wrong.
func (s *server) requested(w http.ResponseWriter, r *http.Request, err error, show func(http.ResponseWriter, *http.Request, int, string)) {
	again := func(problem string) { show(w, r, http.StatusUnprocessableEntity, problem) }
	switch {
	case refused(err, "Nothing was run.", again):
	case errors.Is(err, ops.ErrConflict):
		show(w, r, http.StatusConflict, "It cannot be done now: "+plain(err.Error())+". Nothing was run.")
	case err != nil:
		s.fail(w, r, "action", err)
	default:
		http.Redirect(w, r, "/actions?done=requested", http.StatusSeeOther)
	}
}
