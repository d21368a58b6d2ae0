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
	ownConfidence  = 0.9 // of what an operator writes
)

type memoryView struct {
	Memories     []memoryRow
	Service      string
	Category     string
	Environments []choice
	All          bool
	Filtered     bool
	Several      bool
	Add          question
	Gap          string
	Pager        pager
}

type memoryRow struct {
	ID          int64
	Category    string
	Service     string
	Environment string
	Observation string
	Sure        string
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

func (s *server) showMemories(w http.ResponseWriter, r *http.Request, status int, gap string) {
	before, ok := cursor(r)
	if !ok {
		s.errorPage(w, r, http.StatusNotFound, "There is no such page of memories.")
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
		Service: f.Service, Category: f.Category, All: f.All, Several: len(s.Environments) > 1, Environments: s.environmentChoices(f.Environment),
		Filtered: f.Service != "" || f.Category != "" || f.Environment != "" || f.All, Add: s.addQuestion(r), Gap: gap,
	}
	found, view.Pager = paged(r, found, func(row ops.Memory) int64 { return row.ID })
	for _, memory := range found {
		view.Memories = append(view.Memories, m.memory(memory))
	}
	p := page{Title: "Memory", Nav: "memory", Body: view}
	switch queried(r, "done") {
	case "added":
		p.Flash = "It is kept, and told to later sessions."
	case "removed":
		p.Flash = "It is forgotten."
	}
	s.render(w, r, status, "memory", p)
}

func (m moment) memory(memory ops.Memory) memoryRow {
	row := memoryRow{
		ID: memory.ID, Category: plain(memory.Category), Service: plain(memory.Service), Environment: memory.Environment,
		Observation: plain(memory.Observation), Sure: strconv.FormatFloat(100*memory.Confidence, 'f', 0, 64) + " %", Source: sourceText(memory.Source),
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
	case "force-done":
		return "The supervisor"
	case "operator":
		return "An operator"
	}
	return plain(source)
}

func forget(id int64) question {
	return question{
		ID: fmt.Sprintf("forget-%d", id), Button: "Remove", Icon: "trash-2", Style: "plain", Title: fmt.Sprintf("Remove memory %d?", id),
		Text: "Later sessions are no longer told of it. It cannot be brought back.", Action: fmt.Sprintf("/memory/%d/remove", id),
		Yes: "Remove", No: "Keep", Danger: true,
	}
}

func (s *server) addQuestion(r *http.Request) question {
	q := question{
		ID: "add-memory", Button: "Add", Icon: "plus", Style: "primary", Title: "Add a memory", Action: "/memory", Yes: "Keep it", No: "Cancel",
		Text: "Later sessions are told of it as knowledge, not as an instruction.",
		Fields: []input{
			{Name: "observation", Label: "What is known", Kind: "area", Required: true, Max: maxObservation, Value: plain(r.PostFormValue("observation"))},
			{Name: "service", Label: "Service", Max: maxWord, Value: plain(r.PostFormValue("service")), Hint: "Empty: about everything"},
			{Name: "category", Label: "Category", Max: maxWord, Value: plain(r.PostFormValue("category")), Hint: "One word, such as timing or cause"},
			{Name: "keep", Label: "Keep it", Kind: "select", Required: true, Choices: []choice{
				{Value: "", Word: "For ever"}, {Value: "30", Word: "30 days"}, {Value: "90", Word: "90 days"}, {Value: "365", Word: "A year"},
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
	gap := ""
	days, err := strconv.Atoi(r.PostFormValue("keep"))
	switch {
	case m.Observation == "":
		gap = "Say what is known. Nothing was kept."
	case len(m.Observation) > maxObservation || len(m.Category) > maxWord || len(m.Service) > maxWord:
		gap = fmt.Sprintf("It is too long: at most %d characters, and %d for a service or a category. Nothing was kept.", maxObservation, maxWord)
	case !slices.Contains(environmentNames(s.Environments), m.Environment):
		gap = fmt.Sprintf("No environment is called %q. Nothing was kept.", plain(m.Environment))
	case r.PostFormValue("keep") != "" && (err != nil || days < 1 || days > 3650):
		gap = "It is kept for ever, or for a number of days. Nothing was kept."
	}
	if gap != "" {
		s.showMemories(w, r, http.StatusUnprocessableEntity, gap)
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
	s.audit(r, m, fmt.Sprintf("%s kept memory %d: %s", s.person(r), id, firstLine(m.Observation, 200)))
	http.Redirect(w, r, "/memory?done=added", http.StatusSeeOther)
}

// memoryPage asks before a memory is removed.
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
	s.render(w, r, http.StatusOK, "forget", page{
		Title: "Remove a memory", Nav: "memory", Still: true,
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

// audit records who changed what is remembered. The change itself is done, so a failure is only logged.
func (s *server) audit(r *http.Request, m ops.Memory, message string) {
	_, err := s.Store.AddEvent(r.Context(), ops.Event{
		At: s.Clock(), Environment: m.Environment, Level: ops.LevelInfo, Kind: "memory", Service: m.Service, Message: message,
	})
	if err != nil {
		s.Logger.ErrorContext(r.Context(), "cannot record who changed a memory", "error", err)
	}
}
