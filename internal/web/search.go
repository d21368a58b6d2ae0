package web

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"claudeops/internal/ops"
	"claudeops/internal/store"
)

// searchView is what a search finds.
type searchView struct {
	Query     string
	Services  []serviceEntry
	Incidents []ops.Incident
	Cycles    []cycleLine
	Commands  []commandView
}

// Found reports whether there is anything.
func (v searchView) Found() bool {
	return len(v.Services)+len(v.Incidents)+len(v.Cycles)+len(v.Commands) > 0
}

// commandView is something to do: a page, or a command to copy.
type commandView struct {
	pageLink
	Command string
}

// commands are the pages, and what a person at the terminal types for the same.
func commands() []commandView {
	return []commandView{
		{pageLink{"/", "Overview: what is wrong, and what is done about it"}, "claudeops status"},
		{pageLink{"/incidents", "Incidents: acknowledge, snooze, resolve"}, "claudeops incidents list"},
		{pageLink{"/approvals", "Approvals: approve or deny a step"}, "claudeops approvals list"},
		{pageLink{"/services", "Services: health, trust, cooldowns"}, "claudeops services list"},
		{pageLink{"/actions", "Actions: do something to a service, undo it"}, "claudeops actions list"},
		{pageLink{"/silences", "Silences: hold notices and cycles back"}, "claudeops silences add SERVICE --for 1h"},
		{pageLink{"/cycles", "Cycles: run again, stop"}, "claudeops run"},
		{pageLink{"/events", "Events: the log"}, "claudeops events"},
		{pageLink{"/guard", "Guard: what agents may do, and what was refused"}, "claudeops guard check"},
		{pageLink{"/memory", "Memory: what agents remember"}, "claudeops memory list"},
		{pageLink{"/costs", "Costs: budget, tokens"}, "claudeops costs"},
		{pageLink{"/config", "Settings: configuration, tokens, walls, dry run"}, "claudeops config show --origin"},
		{pageLink{"/notifications", "Notifications: who is told, send a test"}, "claudeops notify test"},
		{pageLink{"/hosts", "Hosts: drain, resume"}, "claudeops hosts list"},
	}
}

// foundOf is how many of each kind are listed, and searched how many of the newest incidents and cycles are looked at.
const (
	foundOf  = 20
	searched = 200
)

// search finds services, incidents, cycles and commands; an id leads to its page at once.
func (s *server) search(r *http.Request) (page, error) {
	query := strings.TrimSpace(queried(r, "q"))
	if path := idPath(query); path != "" {
		return page{To: path}, nil
	}
	view, err := s.found(r, query)
	return page{Title: "Search", Body: view, Static: true}, err
}

// idPath is the page of an id as it is printed: C-2 is a cycle, #3 a session.
func idPath(query string) string {
	for prefix, path := range map[string]string{"c-": "/cycles/", "#": "/sessions/", "incident ": "/incidents/"} {
		if id, ok := strings.CutPrefix(strings.ToLower(query), prefix); ok {
			if n, err := strconv.ParseInt(strings.TrimSpace(id), 10, 64); err == nil && n > 0 {
				return fmt.Sprintf("%s%d", path, n)
			}
		}
	}
	return ""
}

func (s *server) found(r *http.Request, query string) (searchView, error) {
	view := searchView{Query: query}
	wanted := strings.ToLower(query)
	has := func(text string) bool { return strings.Contains(strings.ToLower(text), wanted) }
	for _, c := range commands() {
		if has(c.Word) || has(c.Command) {
			view.Commands = append(view.Commands, c)
		}
	}
	if query == "" {
		return view, nil
	}
	ctx, m := r.Context(), moment{s.Clock()}
	services, err := s.allServices(ctx, m.now)
	if err != nil {
		return view, err
	}
	for _, e := range services {
		if has(e.Name) && len(view.Services) < foundOf {
			view.Services = append(view.Services, e)
		}
	}
	incidents, err := s.Store.Incidents(ctx, store.IncidentFilter{Limit: searched})
	if err != nil {
		return view, err
	}
	for _, i := range incidents {
		if (has(i.Title) || has(i.Service)) && len(view.Incidents) < foundOf {
			view.Incidents = append(view.Incidents, i)
		}
	}
	cycles, err := s.Store.Cycles(ctx, store.CycleFilter{Limit: searched})
	if err != nil {
		return view, err
	}
	for _, c := range cycles {
		if (has(c.Title()) || has(c.Reason)) && len(view.Cycles) < foundOf {
			view.Cycles = append(view.Cycles, m.cycleLine(c.Cycle, c.Sessions))
		}
	}
	return view, nil
}
