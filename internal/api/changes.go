package api

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"claudeops/internal/ops"
	"claudeops/internal/store"
)

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
