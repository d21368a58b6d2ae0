package api

import (
	"context"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"claudeops/internal/ops"
	"claudeops/internal/store"
)

// event is a row of events.
type event struct {
	ID          int64     `json:"id"`
	At          time.Time `json:"at"`
	CycleID     *int64    `json:"cycle_id"`
	SessionID   *int64    `json:"session_id"`
	Environment *string   `json:"environment"`
	Level       string    `json:"level"`
	Kind        string    `json:"kind"`
	Service     *string   `json:"service"`
	Message     string    `json:"message"`
}

type eventsQuery struct {
	Paging
	Level     string `query:"level" enum:"info,warning,critical"`
	CycleID   int64  `query:"cycle_id" minimum:"1"`
	SessionID int64  `query:"session_id" minimum:"1"`
}

func (s *server) registerEvents(api huma.API) {
	huma.Register(api, huma.Operation{
		OperationID: "list-events", Method: http.MethodGet, Path: "/events",
		Summary: "List events, newest first", Tags: []string{"events"},
	}, s.listEvents)
}

func (s *server) listEvents(ctx context.Context, q *eventsQuery) (*body[list[event]], error) {
	before, err := q.after()
	if err != nil {
		return nil, err
	}
	filter := store.EventFilter{Before: before, Level: ops.Level(q.Level), Limit: q.Limit + 1}
	if q.CycleID > 0 {
		filter.CycleID = ops.Ptr(ops.CycleID(q.CycleID))
	}
	if q.SessionID > 0 {
		filter.SessionID = ops.Ptr(ops.SessionID(q.SessionID))
	}
	rows, err := s.Store.Events(ctx, filter)
	if err != nil {
		return nil, s.problem("list events", err)
	}
	return &body[list[event]]{page(rows, q.Limit, func(e ops.Event) int64 { return e.ID }, eventRow)}, nil
}

func eventRow(e ops.Event) event {
	return event{
		ID: e.ID, At: e.At, CycleID: (*int64)(e.CycleID), SessionID: (*int64)(e.SessionID),
		Environment: text(e.Environment), Level: string(e.Level), Kind: e.Kind,
		Service: text(e.Service), Message: e.Message,
	}
}
