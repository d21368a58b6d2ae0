package api

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"claudeops/internal/ops"
	"claudeops/internal/store"
)

// Event is something that happened.
type Event struct {
	ID          int64          `json:"id"`
	At          time.Time      `json:"at"`
	CycleID     *int64         `json:"cycle_id"`
	SessionID   *int64         `json:"session_id"`
	Environment *string        `json:"environment"`
	Level       string         `json:"level"`
	Kind        ops.EventKind  `json:"kind"`
	Verb        ops.Verb       `json:"verb" doc:"What happened; docs/events.md lists them all."`
	ActorKind   ops.ActorKind  `json:"actor_kind" enum:"person,agent,supervisor"`
	Actor       *string        `json:"actor" doc:"The name of the person."`
	SubjectKind *string        `json:"subject_kind"`
	SubjectID   *string        `json:"subject_id" doc:"A number, or the name of a service, host or token."`
	Reason      *string        `json:"reason" doc:"What the actor gave as the reason, or said."`
	Detail      map[string]any `json:"detail" doc:"What events of this verb tell beside that; docs/events.md says which fields it has."`
	Service     *string        `json:"service"`
	Message     string         `json:"message"`
}

type eventsQuery struct {
	Paging
	After       int64     `query:"after" minimum:"0" doc:"Events after this id, oldest first."`
	Level       string    `query:"level" enum:"info,warning,critical" doc:"Filter by level."`
	Since       time.Time `query:"since" doc:"At this time or later."`
	Kind        string    `query:"kind" doc:"Filter by kind, such as audit or agent."`
	Service     string    `query:"service" doc:"Filter by service."`
	Environment string    `query:"environment" doc:"Filter by environment."`
	CycleID     int64     `query:"cycle_id" minimum:"1" doc:"Filter by cycle."`
	SessionID   int64     `query:"session_id" minimum:"1" doc:"Filter by session."`
}

func (s *server) registerEvents(api huma.API) {
	huma.Register(api, look("list-events", "/events", "List events, newest first", "events",
		"Every action of a person is an event of the kind audit."), s.listEvents)
}

func (s *server) listEvents(ctx context.Context, q *eventsQuery) (*body[list[Event]], error) {
	if kinds := ops.EventKinds(); q.Kind != "" && !slices.Contains(kinds, ops.EventKind(q.Kind)) {
		return nil, huma.Error422UnprocessableEntity(fmt.Sprintf("kind is %q; use one of %v", q.Kind, kinds))
	}
	return listed(s, "list events", q.Paging, func(before int64, limit int) ([]ops.Event, error) {
		filter := store.EventFilter{
			Before: before, After: q.After, Level: ops.Level(q.Level), Kind: q.Kind, Service: q.Service, Environment: q.Environment,
			Since: q.Since, Limit: limit, CycleID: (*ops.CycleID)(idOrNull(q.CycleID)), SessionID: (*ops.SessionID)(idOrNull(q.SessionID)),
		}
		if q.After > 0 && before > 0 {
			filter.After, filter.Before = max(q.After, before), 0 // the next page of newer events
		}
		return s.Store.Journal.Events(ctx, filter)
	}, func(e ops.Event) int64 { return e.ID }, EventRow)
}

// fields are what a detail says; nil: nothing.
func fields(d ops.Detail) (out map[string]any) {
	text, err := json.Marshal(d)
	if d == nil || err != nil || json.Unmarshal(text, &out) != nil {
		return nil
	}
	return out
}

// EventRow is an event.
func EventRow(e ops.Event) Event {
	return Event{
		ID: e.ID, At: e.At, CycleID: (*int64)(e.CycleID), SessionID: (*int64)(e.SessionID),
		Environment: text(e.Environment), Level: string(e.Level), Kind: e.Kind(), Verb: e.Verb,
		ActorKind: e.By().Kind, Actor: text(e.Actor.Name), SubjectKind: text(string(e.Subject.Kind)), SubjectID: text(e.Subject.ID),
		Reason: text(e.Reason), Detail: fields(e.Detail), Service: text(e.Service), Message: e.Message.Words(),
	}
}
