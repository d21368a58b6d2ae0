package api

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"claudeops/internal/desk"
	"claudeops/internal/ops"
	"claudeops/internal/store"
)

// Silence mutes matching services, groups, probes or alerts for a time.
type Silence struct {
	ID          int64             `json:"id"`
	Environment *string           `json:"environment" doc:"Null if it applies to all."`
	Service     *string           `json:"service"`
	Group       *string           `json:"group"`
	Probe       *string           `json:"probe"`
	Labels      map[string]string `json:"labels" doc:"Patterns for labels of alerts. A silence with labels matches alerts only."`
	Reason      string            `json:"reason"`
	Author      string            `json:"author"`
	CreatedAt   time.Time         `json:"created_at"`
	From        time.Time         `json:"from"`
	Until       time.Time         `json:"until"`
	Active      bool              `json:"active" doc:"It applies now."`
}

// Notification is a message to people, and whether it was sent.
type Notification struct {
	ID          int64          `json:"id"`
	CycleID     *int64         `json:"cycle_id"`
	Kind        ops.NoticeKind `json:"kind"`
	Level       string         `json:"level"`
	Environment *string        `json:"environment"`
	Service     *string        `json:"service"`
	Target      string         `json:"target" enum:"first,second"`
	Status      string         `json:"status" enum:"pending,sent,dead,skipped" doc:"Dead: all attempts failed. Skipped: no target."`
	Attempts    int            `json:"attempts"`
	Error       *string        `json:"error" doc:"Why the last attempt failed."`
	NextAt      *time.Time     `json:"next_at" doc:"When it is tried next, or null."`
	CreatedAt   time.Time      `json:"created_at"`
	SentAt      *time.Time     `json:"sent_at"`
	Deliveries  []ops.Delivery `json:"deliveries" doc:"The targets that took it."`
	Title       string         `json:"title"`
	Body        string         `json:"body"`
}

type silencesQuery struct {
	Paging
	Environment string `query:"environment" doc:"Silences that apply to this environment."`
	All         bool   `query:"all" doc:"Include silences that have ended."`
}

type silenceInput struct {
	Body struct {
		Environment string            `json:"environment,omitempty" doc:"Default: all."`
		Service     string            `json:"service,omitempty" doc:"Service name; * matches any text. A name has at most 200 characters."`
		Group       string            `json:"group,omitempty" doc:"Group of services."`
		Probe       string            `json:"probe,omitempty" doc:"Name of a probe."`
		Labels      map[string]string `json:"labels,omitempty" doc:"Up to 20 labels of alerts, with a pattern for each."`
		Reason      string            `json:"reason" doc:"Why, for the record. At most 500 characters."`
		From        *time.Time        `json:"from,omitempty" doc:"Start. Default: now."`
		Until       *time.Time        `json:"until,omitempty" doc:"End."`
		For         string            `json:"for,omitempty" doc:"A duration such as 2h, or seconds, instead of until. At most 90 days."`
	}
}

type notificationsQuery struct {
	Paging
	Status string `query:"status" enum:"pending,sent,dead,skipped" doc:"Filter by status; dead are failed ones."`
}

func (s *server) registerSilences(api huma.API) {
	huma.Register(api, look("list-silences", "/silences", "List silences that have not ended, newest first", "silences",
		"While a silence applies, matching problems start no cycle, and nothing escalates for them."), s.listSilences)
	add := act("add-silence", "/silences", "Silence a service, group, probe or alert", "silences",
		"It needs something to match, a reason, and an end: until or for.")
	add.DefaultStatus = http.StatusCreated
	huma.Register(api, add, s.addSilence)
	huma.Register(api, act("end-silence", "/silences/{id}/end", "End a silence now", "silences",
		"Problems that still exist count again at once. A silence that has ended is a conflict.", http.StatusNotFound), s.endSilence)
	huma.Register(api, look("list-notifications", "/notifications", "List notifications, newest first", "notifications",
		"Sent, pending and failed ones, with the error."), s.listNotifications)
	huma.Register(api, act("retry-notification", "/notifications/{id}/retry", "Send a notification again", "notifications",
		"For a failed one or one without a target. Any other is a conflict.", http.StatusNotFound), s.retryNotification)
}

func (s *server) listSilences(ctx context.Context, q *silencesQuery) (*body[list[Silence]], error) {
	now := s.Clock()
	return listed(s, "list silences", q.Paging, func(before int64, limit int) ([]ops.Silence, error) {
		f := store.SilenceFilter{Environment: q.Environment, Before: before, Limit: limit}
		if !q.All {
			f.Active = now
		}
		return s.Store.Watch.Silences(ctx, f)
	}, func(q ops.Silence) int64 { return q.ID }, func(q ops.Silence) Silence { return SilenceRow(q, now) })
}

func (s *server) addSilence(ctx context.Context, in *silenceInput) (*created[Silence], error) {
	asked := desk.Silence{
		Environment: in.Body.Environment, Service: in.Body.Service, Group: in.Body.Group, Probe: in.Body.Probe, Labels: in.Body.Labels,
		Reason: in.Body.Reason, From: value(in.Body.From),
	}
	var err error
	if asked.End, err = end(in.Body.Until, in.Body.For); err != nil {
		return nil, s.problem("add silence", err)
	}
	added, err := s.desk.AddSilence(ctx, by(ctx), asked)
	if err != nil {
		return nil, s.problem("add silence", err)
	}
	location := fmt.Sprintf("%s/silences?all=true&cursor=%d&limit=1", Prefix, added.ID+1)
	return &created[Silence]{Location: location, Body: SilenceRow(added, s.Clock())}, nil
}

// end is when something ends: at a time, or after a while.
func end(until *time.Time, span string) (out desk.End, err error) {
	out.Until = value(until)
	if span != "" {
		out.For, err = desk.Span(span)
	}
	return out, err
}

// value is the zero value for nil.
func value[T any](p *T) (out T) {
	if p != nil {
		out = *p
	}
	return out
}

func (s *server) endSilence(ctx context.Context, in *RowPath) (*body[Silence], error) {
	q, err := s.desk.EndSilence(ctx, by(ctx), in.ID)
	return answer(s, fmt.Sprintf("silence %d", in.ID), SilenceRow(q, s.Clock()), err, same)
}

func (s *server) listNotifications(ctx context.Context, q *notificationsQuery) (*body[list[Notification]], error) {
	return listed(s, "list notifications", q.Paging, func(before int64, limit int) ([]ops.Notice, error) {
		return s.Store.People.NoticeList(ctx, store.NoticeFilter{Status: ops.NoticeStatus(q.Status), Before: before, Limit: limit})
	}, func(n ops.Notice) int64 { return n.ID }, NotificationRow)
}

func (s *server) retryNotification(ctx context.Context, in *RowPath) (*body[Notification], error) {
	what := fmt.Sprintf("notification %d", in.ID)
	if err := s.desk.RetryNotification(ctx, by(ctx), in.ID); err != nil {
		return nil, s.problem(what, err)
	}
	rows, err := s.Store.People.NoticeList(ctx, store.NoticeFilter{Before: in.ID + 1, Limit: 1})
	if err == nil && (len(rows) == 0 || rows[0].ID != in.ID) {
		err = ops.ErrNotFound
	}
	if err != nil {
		return nil, s.problem(what, err)
	}
	return &body[Notification]{NotificationRow(rows[0])}, nil
}

// SilenceRow is a silence at a time.
func SilenceRow(q ops.Silence, now time.Time) Silence {
	labels := q.Labels
	if labels == nil {
		labels = map[string]string{}
	}
	return Silence{
		ID: q.ID, Environment: text(q.Environment), Service: text(q.Service), Group: text(q.Group), Probe: text(q.Probe), Labels: labels,
		Reason: q.Reason, Author: q.Author, CreatedAt: q.CreatedAt, From: q.From, Until: q.Until, Active: q.Active(now),
	}
}

// NotificationRow is a notification.
func NotificationRow(n ops.Notice) Notification {
	row := Notification{
		ID: n.ID, CycleID: (*int64)(n.CycleID), Kind: n.Kind, Level: string(n.Level), Environment: text(n.Environment),
		Service: text(n.Service), Target: "first", Status: string(n.Status), Attempts: n.Attempts, Error: text(n.Error),
		CreatedAt: n.CreatedAt, SentAt: n.SentAt, Deliveries: n.Deliveries,
		Title: n.Title, Body: n.Body,
	}
	if n.Target == ops.TargetSecond {
		row.Target = "second"
	}
	if n.Status == ops.NoticePending {
		row.NextAt = &n.NextAt
	}
	return row
}

// Standstill says whether a person stopped everything.
type Standstill struct {
	Stopped bool       `json:"stopped" doc:"No agent, reflex, step of a plan or update starts, on any host."`
	By      *string    `json:"by"`
	Reason  *string    `json:"reason"`
	At      *time.Time `json:"at"`
}

// StandstillRow shows a standstill; nil is none.
func StandstillRow(h *ops.Standstill) Standstill {
	if h == nil {
		return Standstill{}
	}
	return Standstill{Stopped: true, By: text(h.By), Reason: text(h.Reason), At: ops.Ptr(h.At)}
}

type stopInput struct {
	Body struct {
		Reason string `json:"reason,omitempty" doc:"Why, for the record. At most 500 characters."`
	}
}

func (s *server) registerStandstill(api huma.API) {
	huma.Register(api, look("get-stop", "/stop", "Whether everything is stopped", "hosts", "By whom, why and since when."), s.standstill)
	huma.Register(api, act("stop", "/stop", "Stop everything", "hosts",
		"Agents end and their cycles are cancelled; nothing starts on any host until it is taken back. An action in flight ends, and an update "+
			"in its watch is judged to its end. Probes, incidents and notices go on."), s.stopAll)
	resume := act("resume", "/stop", "Let everything start again", "hosts", "What waits in the queue goes on.")
	resume.Method = http.MethodDelete
	huma.Register(api, resume, s.resumeAll)
}

func (s *server) standstill(ctx context.Context, _ *struct{}) (*body[Standstill], error) {
	h, err := s.Store.People.Standstill(ctx)
	return answer(s, "read whether everything is stopped", h, err, StandstillRow)
}

func (s *server) stopAll(ctx context.Context, in *stopInput) (*body[Standstill], error) {
	h, err := s.desk.StopAll(ctx, by(ctx), in.Body.Reason)
	return answer(s, "stop everything", &h, err, StandstillRow)
}

func (s *server) resumeAll(ctx context.Context, _ *struct{}) (*body[Standstill], error) {
	_, err := s.desk.ResumeAll(ctx, by(ctx), "")
	return answer(s, "let everything start again", nil, err, StandstillRow)
}
