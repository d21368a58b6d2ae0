package web

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"claudeops/internal/api"
	"claudeops/internal/desk"
	"claudeops/internal/ops"
	"claudeops/internal/store"
)

// actionsView is what the supervisor can do, and what it did.
type actionsView struct {
	Groups    []actionGroup
	Runs      []runRow
	Several   bool
	FormError string
	Pager     pager
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

func (s *server) runRow(r ops.ActionRun) runRow {
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

func (s *server) actions(r *http.Request, problem string) (page, error) {
	before, ok := cursor(r)
	if !ok {
		return page{}, noSuch("No such page of actions.")
	}
	found, err := s.Store.ActionRuns(r.Context(), store.ActionFilter{Service: queried(r, "service"), Before: before, Limit: listed + 1})
	view := actionsView{Several: len(s.Environments) > 1, FormError: problem}
	found, view.Pager = paged(r, found, func(x ops.ActionRun) int64 { return x.ID })
	view.Runs = api.Rows(found, s.runRow)
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

func (s *server) action(r *http.Request, problem string) (page, error) {
	run, err := s.Store.ActionRun(r.Context(), rowID(r))
	row := s.runRow(run)
	row.FormError = problem
	return page{Title: runTitle(row.ActionRun), Nav: "services", Body: row}, err
}

// runAction asks the daemon for an action.
func (s *server) runAction(r *http.Request) (string, error) {
	_, err := s.desk.RunAction(r.Context(), by(r), desk.Action{
		Environment: r.PostFormValue("environment"), Service: r.PostFormValue("service"), Name: r.PostFormValue("action"),
		Branch: typed(r, "branch"), Why: reason(r),
	})
	if errors.Is(err, ops.ErrNotFound) {
		err = wrong{http.StatusUnprocessableEntity, "This action does not exist. Nothing was run."}
	}
	return requested(err)
}

func (s *server) undoAction(r *http.Request) (string, error) {
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
