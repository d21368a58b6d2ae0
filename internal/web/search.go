package web

import (
	"context"
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
func (s *overview) search(r *http.Request) (page, error) {
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

func (s *overview) found(r *http.Request, query string) (searchView, error) {
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
	services, err := s.services.allServices(ctx, m.now)
	if err != nil {
		return view, err
	}
	for _, e := range services {
		if has(e.Name) && len(view.Services) < foundOf {
			view.Services = append(view.Services, e)
		}
	}
	incidents, err := s.Store.People.Incidents(ctx, store.IncidentFilter{Limit: searched})
	if err != nil {
		return view, err
	}
	for _, i := range incidents {
		if (has(i.Title) || has(i.Service)) && len(view.Incidents) < foundOf {
			view.Incidents = append(view.Incidents, i)
		}
	}
	cycles, err := s.Store.Reports.Cycles(ctx, store.CycleFilter{Limit: searched})
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

func (s *memories) memory(r *http.Request, problem string) (page, error) {
	f := store.MemoryFilter{
		Environment: queried(r, "environment"), Service: queried(r, "service"), Category: queried(r, "category"),
		All: queried(r, "all") != "",
	}
	view, err := listOf(s.site, r, func(ctx context.Context, before int64, limit int) ([]ops.Memory, error) {
		f.Before, f.Limit = before, limit
		return s.Store.People.Memories(ctx, f)
	}, func(m ops.Memory) int64 { return m.ID }, api.MemoryRow)
	view.Filtered = f.Service != "" || f.Category != "" || f.Environment != "" || f.All
	view.Add, view.FormError = s.addQuestion(r), problem
	view.Filters = filterRow{Action: "/memory", Fields: []filterField{
		{Kind: "search", Name: "service", Label: "Service", Value: f.Service},
		{Kind: "text", Name: "category", Label: "Category", Value: f.Category},
		{Kind: "check", Name: "all", Label: "Show expired", Checked: f.All},
	}}.withEnvironment(s.environmentChoices(f.Environment)).clearing(view.Filtered)
	p := page{Title: "Memory", Nav: "memory", Body: view}
	switch queried(r, "done") {
	case "added":
		p.Flash = "Memory added. Later sessions will read it."
	case "removed":
		p.Flash = "Memory removed."
	}
	return p, err
}

func sourceText(source string) string {
	switch source {
	case "agent":
		return "An agent"
	case string(ops.ActionForceDone):
		return "The supervisor"
	case "operator":
		return "An operator"
	}
	return plain(source)
}

func forget(id int64) question {
	return question{
		ID: fmt.Sprintf("forget-%d", id), Button: "Remove", Icon: "trash-2", Style: "plain", Title: fmt.Sprintf("Remove memory %d?", id),
		Text: "Later sessions no longer read it. This cannot be undone.", Action: fmt.Sprintf("/memory/%d/remove", id),
		Yes: "Remove", No: "Keep", Danger: true,
	}
}

func (s *memories) addQuestion(r *http.Request) question {
	q := question{
		ID: "add-memory", Button: "Add", Icon: "plus", Style: "primary", Title: "Add a memory", Action: "/memory", Yes: "Add", No: "Cancel",
		Text: "Later sessions read it as information, not as an instruction.",
		Fields: []input{
			{Name: "observation", Label: "Memory", Kind: "area", Required: true, Max: desk.MaxObservation, Value: typed(r, "observation")},
			{Name: "service", Label: "Service", Max: desk.MaxName, Value: typed(r, "service"), Hint: "Leave empty for all services"},
			{Name: "category", Label: "Category", Max: desk.MaxCategory, Value: typed(r, "category"), Hint: "One word, for example timing or cause"},
			{Name: "keep", Label: "Keep for", Kind: "select", Required: true, Choices: []choice{
				{Value: "", Word: "No limit"}, {Value: "30", Word: "30 days"}, {Value: "90", Word: "90 days"}, {Value: "365", Word: "1 year"},
			}},
		},
	}
	if len(s.Environments) > 1 {
		q.Fields = slices.Insert(q.Fields, 1, input{
			Name: "environment", Label: "Environment", Kind: "select", Required: true, Choices: api.Rows(s.Environments, environmentChoice),
		})
	}
	return q
}

func (s *memories) addMemory(r *http.Request) (string, error) {
	m := ops.Memory{
		Environment: r.PostFormValue("environment"), Category: typed(r, "category"), Service: typed(r, "service"),
		Observation: typed(r, "observation"),
	}
	if keep := r.PostFormValue("keep"); keep != "" {
		days, err := strconv.Atoi(keep)
		if err != nil || days < 1 || days > 3650 {
			return "", wrong{http.StatusUnprocessableEntity, "Keep it without limit or for 1 to 3650 days. Nothing was added."}
		}
		m.ExpiresAt = ops.Ptr(s.Clock().Add(time.Duration(days) * 24 * time.Hour))
	}
	_, err := s.desk.AddMemory(r.Context(), by(r), m, nil)
	return "/memory?done=added", err
}

func (s *memories) removeMemory(r *http.Request) (string, error) {
	return "/memory?done=removed", s.desk.RemoveMemory(r.Context(), by(r), rowID(r))
}
