package api

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"claudeops/internal/ops"
	"claudeops/internal/store"
)

// Memory is a note that later sessions are given.
type Memory struct {
	ID          int64      `json:"id"`
	Environment string     `json:"environment"`
	Category    string     `json:"category"`
	Service     *string    `json:"service"`
	Observation string     `json:"observation"`
	Confidence  float64    `json:"confidence"`
	Source      string     `json:"source"`
	SessionID   *int64     `json:"session_id"`
	CreatedAt   time.Time  `json:"created_at"`
	UpdatedAt   time.Time  `json:"updated_at"`
	ExpiresAt   *time.Time `json:"expires_at"`
}

type memoriesQuery struct {
	Paging
	Environment string `query:"environment" doc:"Filter by environment."`
	Service     string `query:"service" doc:"Filter by service."`
	Category    string `query:"category" doc:"Filter by category."`
	All         bool   `query:"all" doc:"Include expired memories."`
}

type rememberInput struct {
	Body struct {
		Environment string     `json:"environment,omitempty" doc:"Defaults to the first configured environment."`
		Category    string     `json:"category,omitempty" default:"note" doc:"Kind of knowledge, one word. At most 50 characters."`
		Service     string     `json:"service,omitempty" doc:"Service it is about. Default: all."`
		Observation string     `json:"observation" doc:"At most 2000 characters."`
		Confidence  *float64   `json:"confidence,omitempty" doc:"From 0 to 1. Default: 0.9."`
		ExpiresAt   *time.Time `json:"expires_at,omitempty" doc:"When it expires. Default: never."`
	}
}

func (s *server) registerMemories(api huma.API) {
	huma.Register(api, look("list-memories", "/memories", "List memories, newest first", "memories",
		"Notes from sessions and people that later sessions are given."), s.listMemories)
	huma.Register(api, look("get-memory", "/memories/{id}", "Show a memory", "memories",
		"Expired memories too.", http.StatusNotFound), shown(s, "memory", s.desk.Memory, MemoryRow))
	remember := act("add-memory", "/memories", "Add a memory", "memories",
		"A memory that exists already gets a higher confidence instead of a duplicate.")
	remember.DefaultStatus = http.StatusCreated
	huma.Register(api, remember, s.remember)
	forget := act("remove-memory", "/memories/{id}", "Delete a memory", "memories", "It cannot be restored.", http.StatusNotFound)
	forget.Method, forget.DefaultStatus = http.MethodDelete, http.StatusNoContent
	huma.Register(api, forget, s.forget)
}

func (s *server) listMemories(ctx context.Context, q *memoriesQuery) (*body[list[Memory]], error) {
	return listed(s, "list memories", q.Paging, func(before int64, limit int) ([]ops.Memory, error) {
		return s.Store.People.Memories(ctx, store.MemoryFilter{
			Environment: q.Environment, Service: q.Service, Category: q.Category, All: q.All, Before: before, Limit: limit,
		})
	}, func(m ops.Memory) int64 { return m.ID }, MemoryRow)
}

func (s *server) remember(ctx context.Context, in *rememberInput) (*created[Memory], error) {
	m, err := s.desk.AddMemory(ctx, by(ctx), ops.Memory{
		Environment: in.Body.Environment, Category: in.Body.Category, Service: in.Body.Service, Observation: in.Body.Observation,
		ExpiresAt: in.Body.ExpiresAt,
	}, in.Body.Confidence)
	if err != nil {
		return nil, s.problem("add memory", err)
	}
	return &created[Memory]{Location: fmt.Sprintf("%s/memories/%d", Prefix, m.ID), Body: MemoryRow(m)}, nil
}

func (s *server) forget(ctx context.Context, in *RowPath) (*struct{}, error) {
	if err := s.desk.RemoveMemory(ctx, by(ctx), in.ID); err != nil {
		return nil, s.problem(fmt.Sprintf("memory %d", in.ID), err)
	}
	return &struct{}{}, nil
}

// MemoryRow is a memory.
func MemoryRow(m ops.Memory) Memory {
	return Memory{
		ID: m.ID, Environment: m.Environment, Category: m.Category, Service: text(m.Service), Observation: m.Observation,
		Confidence: m.Confidence, Source: m.Source, SessionID: (*int64)(m.SessionID),
		CreatedAt: m.CreatedAt, UpdatedAt: m.UpdatedAt, ExpiresAt: m.ExpiresAt,
	}
}

// Change is one difference that a host found between two looks at its machine.
type Change struct {
	ID          int64          `json:"id"`
	At          time.Time      `json:"at" doc:"When it happened; where nobody knows, when it was seen."`
	SeenAt      time.Time      `json:"seen_at"`
	Environment string         `json:"environment"`
	Host        string         `json:"host"`
	Kind        ops.ChangeKind `json:"kind" enum:"container,unit,packages,repository,disk,machine"`
	Subject     string         `json:"subject" doc:"Such as the name of the container."`
	Service     *string        `json:"service" doc:"Null if it concerns every service of the environment."`
	Text        string         `json:"text"`
}

// ChangeRow shows a change.
func ChangeRow(c ops.Change) Change {
	return Change{
		ID: c.ID, At: c.At, SeenAt: c.SeenAt, Environment: c.Environment, Host: c.Host, Kind: c.Kind, Subject: c.Subject,
		Service: text(c.Service), Text: c.Text,
	}
}

// Changed is what changed before an incident.
type Changed struct {
	Since   time.Time `json:"since" doc:"When the service was last healthy, at most a day before the incident."`
	Changes []Change  `json:"changes" doc:"The nearest first, at most ten."`
	More    bool      `json:"more" doc:"There were more than these."`
	Unseen  []string  `json:"unseen" doc:"What could not be seen at the last look, and why."`
	Lines   []string  `json:"lines" doc:"The same in words."`
}

func changedRow(w ops.WhatChanged) *Changed {
	return &Changed{
		Since: w.Since, Changes: Rows(w.Changes, ChangeRow), More: w.More, Unseen: append([]string{}, w.Unseen...),
		Lines: append([]string{}, w.Lines()...),
	}
}

// Changes is a page of changes.
type Changes struct {
	Items      []Change `json:"items"`
	NextCursor *string  `json:"next_cursor"`
	Unseen     []string `json:"unseen" doc:"What could not be seen at the last look, and why."`
}

type changesQuery struct {
	Paging
	Environment string    `query:"environment" doc:"Default: the first one."`
	Service     string    `query:"service" doc:"Changes of this one, of what it needs, and those that concern every service."`
	Since       time.Time `query:"since" doc:"Happened at this time or later. Default: everything that is kept."`
}

func (s *server) registerChanges(api huma.API) {
	huma.Register(api, look("list-changes", "/changes", "List what changed on the hosts, newest first", "changes",
		"Containers, units, packages, clones, disks and starts of the machine, as hosts saw them every five minutes and when an "+
			"incident was opened.", http.StatusUnprocessableEntity), s.listChanges)
}

func (s *server) listChanges(ctx context.Context, q *changesQuery) (*body[Changes], error) {
	before, err := q.after()
	if err != nil {
		return nil, err
	}
	rows, unseen, err := s.desk.Changes(ctx, q.Environment, q.Service, store.ChangeFilter{Since: q.Since, Before: before, Limit: q.Limit + 1})
	if err != nil {
		return nil, s.problem("list changes", err)
	}
	found := page(rows, q.Limit, func(c ops.Change) int64 { return c.ID }, ChangeRow)
	return &body[Changes]{Changes{found.Items, found.NextCursor, append([]string{}, unseen...)}}, nil
}
