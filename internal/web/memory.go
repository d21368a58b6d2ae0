package web

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/store"
)

const (
	maxObservation = 2000
	maxWord        = 80
	ownConfidence  = 0.9 // confidence of what an operator writes
)

type memoryView struct {
	Memories  []memoryRow
	Filters   filterRow
	Filtered  bool
	Several   bool
	Add       question
	FormError string
	Pager     pager
}

type memoryRow struct {
	ID          int64
	Category    string
	Service     string
	Environment string
	Observation string
	Confidence  string
	Source      string
	Session     ops.SessionID
	Created     stamp
	Expires     *stamp
	Expired     bool
	Remove      question
}

func (s *server) memory(w http.ResponseWriter, r *http.Request) {
	s.showMemories(w, r, http.StatusOK, "")
}

func (s *server) showMemories(w http.ResponseWriter, r *http.Request, status int, problem string) {
	before, ok := cursor(r)
	if !ok {
		s.errorPage(w, r, http.StatusNotFound, "No such page of memories.")
		return
	}
	f := store.MemoryFilter{
		Environment: queried(r, "environment"), Service: queried(r, "service"), Category: queried(r, "category"),
		All: queried(r, "all") != "", Before: before, Limit: listed + 1,
	}
	found, err := s.Store.Memories(r.Context(), f)
	if err != nil {
		s.fail(w, r, "list of memories", err)
		return
	}
	m := moment{s.Clock()}
	view := memoryView{
		Several: len(s.Environments) > 1, Filtered: f.Service != "" || f.Category != "" || f.Environment != "" || f.All,
		Add: s.addQuestion(r), FormError: problem,
	}
	view.Filters = filterRow{Action: "/memory", Fields: []filterField{
		{Kind: "search", Name: "service", Label: "Service", Value: f.Service},
		{Kind: "text", Name: "category", Label: "Category", Value: f.Category},
		{Kind: "check", Name: "all", Label: "Show expired", Checked: f.All},
	}}.withEnvironment(s.environmentChoices(f.Environment)).clearing(view.Filtered)
	found, view.Pager = paged(r, found, func(row ops.Memory) int64 { return row.ID })
	for _, memory := range found {
		view.Memories = append(view.Memories, m.memory(memory))
	}
	p := page{Title: "Memory", Nav: "memory", Body: view}
	switch queried(r, "done") {
	case "added":
		p.Flash = "Memory added. Later sessions will read it."
	case "removed":
		p.Flash = "Memory removed."
	}
	s.render(w, r, status, "memory", p)
}

func (m moment) memory(memory ops.Memory) memoryRow {
	row := memoryRow{
		ID: memory.ID, Category: plain(memory.Category), Service: plain(memory.Service), Environment: memory.Environment,
		Observation: plain(memory.Observation), Confidence: strconv.FormatFloat(100*memory.Confidence, 'f', 0, 64) + " %",
		Source:  sourceText(memory.Source),
		Created: m.stamp(memory.CreatedAt), Expires: m.maybe(memory.ExpiresAt), Remove: forget(memory.ID),
	}
	if memory.SessionID != nil {
		row.Session = *memory.SessionID
	}
	row.Expired = memory.ExpiresAt != nil && !memory.ExpiresAt.After(m.now)
	return row
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

func (s *server) addQuestion(r *http.Request) question {
	typed := func(name string) string { return plain(r.PostFormValue(name)) }
	q := question{
		ID: "add-memory", Button: "Add", Icon: "plus", Style: "primary", Title: "Add a memory", Action: "/memory", Yes: "Add", No: "Cancel",
		Text: "Later sessions read it as information, not as an instruction.",
		Fields: []input{
			{Name: "observation", Label: "Memory", Kind: "area", Required: true, Max: maxObservation, Value: typed("observation")},
			{Name: "service", Label: "Service", Max: maxWord, Value: typed("service"), Hint: "Leave empty for all services"},
			{Name: "category", Label: "Category", Max: maxWord, Value: typed("category"), Hint: "One word, for example timing or cause"},
			{Name: "keep", Label: "Keep for", Kind: "select", Required: true, Choices: []choice{
				{Value: "", Word: "No limit"}, {Value: "30", Word: "30 days"}, {Value: "90", Word: "90 days"}, {Value: "365", Word: "1 year"},
			}},
		},
	}
	if len(s.Environments) > 1 {
		field := input{Name: "environment", Label: "Environment", Kind: "select", Required: true}
		for _, e := range s.Environments {
			field.Choices = append(field.Choices, choice{Value: e.Name, Word: e.Name})
		}
		q.Fields = slices.Insert(q.Fields, 1, field)
	}
	return q
}

func (s *server) addMemory(w http.ResponseWriter, r *http.Request) {
	now := s.Clock()
	m := ops.Memory{
		Environment: r.PostFormValue("environment"), Category: strings.TrimSpace(plain(r.PostFormValue("category"))),
		Service: strings.TrimSpace(plain(r.PostFormValue("service"))), Observation: strings.TrimSpace(plain(r.PostFormValue("observation"))),
		Confidence: ownConfidence, Source: "operator", CreatedAt: now,
	}
	if m.Environment == "" {
		m.Environment = s.Environments[0].Name
	}
	if m.Category == "" {
		m.Category = "note"
	}
	problem := ""
	days, err := strconv.Atoi(r.PostFormValue("keep"))
	switch {
	case m.Observation == "":
		problem = "Enter what is known. Nothing was added."
	case len(m.Observation) > maxObservation || len(m.Category) > maxWord || len(m.Service) > maxWord:
		problem = fmt.Sprintf("Too long: at most %d characters, and %d for a service or category. Nothing was added.", maxObservation, maxWord)
	case !slices.Contains(environmentNames(s.Environments), m.Environment):
		problem = fmt.Sprintf("No such environment: %q. Nothing was added.", plain(m.Environment))
	case r.PostFormValue("keep") != "" && (err != nil || days < 1 || days > 3650):
		problem = "Keep it without limit or for 1 to 3650 days. Nothing was added."
	}
	if problem != "" {
		s.showMemories(w, r, http.StatusUnprocessableEntity, problem)
		return
	}
	if days > 0 {
		m.ExpiresAt = ops.Ptr(now.Add(time.Duration(days) * 24 * time.Hour))
	}
	id, err := s.Store.AddMemory(r.Context(), m)
	if err != nil {
		s.fail(w, r, "memory", err)
		return
	}
	s.audit(r, m, fmt.Sprintf("%s added memory %d: %s", s.person(r), id, firstLine(m.Observation, 200)))
	http.Redirect(w, r, "/memory?done=added", http.StatusSeeOther)
}

// memoryPage asks for confirmation before it removes a memory.
type memoryPage struct {
	memoryRow
	Several bool
}

func (s *server) findMemory(r *http.Request) (ops.Memory, error) {
	id, ok := rowID(r)
	if !ok {
		return ops.Memory{}, ops.ErrNotFound
	}
	found, err := s.Store.Memories(r.Context(), store.MemoryFilter{All: true, Before: id + 1, Limit: 1})
	if err != nil {
		return ops.Memory{}, err
	}
	if len(found) == 0 || found[0].ID != id {
		return ops.Memory{}, ops.ErrNotFound
	}
	return found[0], nil
}

func (s *server) askMemory(w http.ResponseWriter, r *http.Request) {
	m, err := s.findMemory(r)
	if err != nil {
		s.fail(w, r, "memory", err)
		return
	}
	s.render(w, r, http.StatusOK, "memory_remove", page{
		Title: "Remove a memory", Nav: "memory", Static: true,
		Body: memoryPage{moment{s.Clock()}.memory(m), len(s.Environments) > 1},
	})
}

func (s *server) removeMemory(w http.ResponseWriter, r *http.Request) {
	m, err := s.findMemory(r)
	if err == nil {
		err = s.Store.RemoveMemory(r.Context(), m.ID)
	}
	if err != nil {
		s.fail(w, r, "memory", err)
		return
	}
	s.audit(r, m, fmt.Sprintf("%s removed memory %d: %s", s.person(r), m.ID, firstLine(m.Observation, 200)))
	http.Redirect(w, r, "/memory?done=removed", http.StatusSeeOther)
}

// audit records who changed a memory. The change itself is done, so a failure is only logged.
func (s *server) audit(r *http.Request, m ops.Memory, message string) {
	_, err := s.Store.AddEvent(r.Context(), ops.Event{
		At: s.Clock(), Environment: m.Environment, Level: ops.LevelInfo, Kind: ops.EventMemory, Service: m.Service, Message: message,
	})
	if err != nil {
		s.Logger.ErrorContext(r.Context(), "record memory change failed", "error", err)
	}
}
