package web

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"claudeops/internal/desk"
	"claudeops/internal/ops"
	"claudeops/internal/store"
)

const maxWord = 80

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
		field := input{Name: "environment", Label: "Environment", Kind: "select", Required: true}
		for _, e := range s.Environments {
			field.Choices = append(field.Choices, choice{Value: e.Name, Word: e.Name})
		}
		q.Fields = slices.Insert(q.Fields, 1, field)
	}
	return q
}

func (s *server) addMemory(w http.ResponseWriter, r *http.Request) {
	show := func(problem string) { s.showMemories(w, r, http.StatusUnprocessableEntity, problem) }
	m := ops.Memory{
		Environment: r.PostFormValue("environment"), Category: typed(r, "category"), Service: typed(r, "service"),
		Observation: typed(r, "observation"),
	}
	if keep := r.PostFormValue("keep"); keep != "" {
		days, err := strconv.Atoi(keep)
		if err != nil || days < 1 || days > 3650 {
			show("Keep it without limit or for 1 to 3650 days. Nothing was added.")
			return
		}
		m.ExpiresAt = ops.Ptr(s.Clock().Add(time.Duration(days) * 24 * time.Hour))
	}
	_, err := s.desk.AddMemory(r.Context(), by(r), m, nil)
	switch {
	case refused(err, "Nothing was added.", show):
	case err != nil:
		s.fail(w, r, "memory", err)
	default:
		http.Redirect(w, r, "/memory?done=added", http.StatusSeeOther)
	}
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
	return s.desk.Memory(r.Context(), id)
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
	id, _ := rowID(r) // there is none with the id 0
	if err := s.desk.RemoveMemory(r.Context(), by(r), id); err != nil {
		s.fail(w, r, "memory", err)
		return
	}
	http.Redirect(w, r, "/memory?done=removed", http.StatusSeeOther)
}
