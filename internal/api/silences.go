package api

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

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
	Title       string         `json:"title"`
	Body        string         `json:"body"`
}

type silencesQuery struct {
	Paging
	Environment string `query:"environment" doc:"Silences that apply to this environment."`
	All         bool   `query:"all" doc:"Include silences that have ended."`
}

type silenceInput struct {
	Keyed
	Body struct {
		Environment string            `json:"environment,omitempty" doc:"Default: all."`
		Service     string            `json:"service,omitempty" maxLength:"200" doc:"Service name; * matches any text."`
		Group       string            `json:"group,omitempty" maxLength:"200" doc:"Group of services."`
		Probe       string            `json:"probe,omitempty" maxLength:"200" doc:"Name of a probe."`
		Labels      map[string]string `json:"labels,omitempty" maxProperties:"20" doc:"Labels of alerts, with a pattern for each."`
		Reason      string            `json:"reason" minLength:"1" maxLength:"500" doc:"Why, for the record."`
		From        *time.Time        `json:"from,omitempty" doc:"Start. Default: now."`
		Until       *time.Time        `json:"until,omitempty" doc:"End."`
		For         string            `json:"for,omitempty" doc:"Duration such as 2h, instead of until."`
	}
}

type silenceOutput struct {
	Location string `header:"Location"`
	Body     Silence
}

type rowInput struct {
	RowPath
	Keyed
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
	before, err := q.after()
	if err != nil {
		return nil, err
	}
	now := s.Clock()
	f := store.SilenceFilter{Environment: q.Environment, Before: before, Limit: q.Limit + 1}
	if !q.All {
		f.Active = now
	}
	rows, err := s.Store.Silences(ctx, f)
	if err != nil {
		return nil, s.problem("list silences", err)
	}
	item := func(q ops.Silence) Silence { return SilenceRow(q, now) }
	return &body[list[Silence]]{page(rows, q.Limit, func(q ops.Silence) int64 { return q.ID }, item)}, nil
}

func (s *server) addSilence(ctx context.Context, in *silenceInput) (*silenceOutput, error) {
	now := s.Clock()
	if in.Body.Environment != "" {
		if _, err := s.environment(in.Body.Environment); err != nil {
			return nil, err
		}
	}
	q := ops.Silence{
		Environment: in.Body.Environment, Service: in.Body.Service, Group: in.Body.Group, Probe: in.Body.Probe, Labels: in.Body.Labels,
		Reason: in.Body.Reason, Author: who(ctx), CreatedAt: now, From: now,
	}
	if in.Body.From != nil {
		q.From = *in.Body.From
	}
	if err := in.settle(&q); err != nil {
		return nil, err
	}
	added, err := s.Store.AddSilence(ctx, q)
	if err != nil {
		return nil, s.problem("add silence", err)
	}
	s.changed()
	location := fmt.Sprintf("%s/silences?all=true&cursor=%d&limit=1", Prefix, added.ID+1)
	return &silenceOutput{Location: location, Body: SilenceRow(added, now)}, nil
}

// settle sets the end of a silence and checks that nothing is missing.
func (in *silenceInput) settle(q *ops.Silence) error {
	switch {
	case q.Service == "" && q.Group == "" && q.Probe == "" && len(q.Labels) == 0:
		return huma.Error422UnprocessableEntity("it would mute everything: give service, group, probe or labels; * matches any text")
	case strings.TrimSpace(q.Reason) == "":
		return huma.Error422UnprocessableEntity("reason is missing: say why, for the record")
	case (in.Body.Until == nil) == (in.Body.For == ""):
		return huma.Error422UnprocessableEntity("a silence needs an end: give either until or for")
	case in.Body.Until != nil:
		q.Until = *in.Body.Until
	default:
		d, err := time.ParseDuration(in.Body.For)
		if err != nil || d <= 0 {
			return huma.Error422UnprocessableEntity(fmt.Sprintf("for is %q: give a duration such as 2h", in.Body.For))
		}
		q.Until = q.From.Add(d)
	}
	for name, pattern := range q.Labels {
		if name == "" || pattern == "" || len(name) > 200 || len(pattern) > 200 {
			return huma.Error422UnprocessableEntity("a label needs a name and a pattern of at most 200 characters each")
		}
	}
	if !q.Until.After(q.From) || !q.Until.After(q.CreatedAt) {
		return huma.Error422UnprocessableEntity("the end is before the start or in the past: give a later end")
	}
	return nil
}

func (s *server) endSilence(ctx context.Context, in *rowInput) (*body[Silence], error) {
	now := s.Clock()
	q, err := s.Store.EndSilence(ctx, in.ID, who(ctx), now)
	if err != nil {
		return nil, s.problem(fmt.Sprintf("silence %d", in.ID), err)
	}
	s.changed()
	return &body[Silence]{SilenceRow(q, now)}, nil
}

func (s *server) listNotifications(ctx context.Context, q *notificationsQuery) (*body[list[Notification]], error) {
	before, err := q.after()
	if err != nil {
		return nil, err
	}
	rows, err := s.Store.NoticeList(ctx, store.NoticeFilter{Status: ops.NoticeStatus(q.Status), Before: before, Limit: q.Limit + 1})
	if err != nil {
		return nil, s.problem("list notifications", err)
	}
	return &body[list[Notification]]{page(rows, q.Limit, func(n ops.Notice) int64 { return n.ID }, NotificationRow)}, nil
}

func (s *server) retryNotification(ctx context.Context, in *rowInput) (*body[Notification], error) {
	what := fmt.Sprintf("notification %d", in.ID)
	if err := s.Store.RetryNotice(ctx, in.ID, s.Clock()); err != nil {
		return nil, s.problem(what, err)
	}
	s.changed()
	rows, err := s.Store.NoticeList(ctx, store.NoticeFilter{Before: in.ID + 1, Limit: 1})
	if err == nil && (len(rows) == 0 || rows[0].ID != in.ID) {
		err = ops.ErrNotFound
	}
	if err != nil {
		return nil, s.problem(what, err)
	}
	return &body[Notification]{NotificationRow(rows[0])}, nil
}

// changed reports that silences or notifications were written.
func (s *server) changed() {
	if s.Changed != nil {
		s.Changed()
	}
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
		CreatedAt: n.CreatedAt, SentAt: n.SentAt,
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
