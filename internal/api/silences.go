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

// Silence keeps what matches from starting anything for a while.
type Silence struct {
	ID          int64             `json:"id"`
	Environment *string           `json:"environment" doc:"Null where it holds in all."`
	Service     *string           `json:"service"`
	Group       *string           `json:"group"`
	Probe       *string           `json:"probe"`
	Labels      map[string]string `json:"labels" doc:"Patterns for the labels of alerts; a silence with labels is about alerts only."`
	Reason      string            `json:"reason"`
	Author      string            `json:"author"`
	CreatedAt   time.Time         `json:"created_at"`
	From        time.Time         `json:"from"`
	Until       time.Time         `json:"until"`
	Active      bool              `json:"active" doc:"It holds now."`
}

// Notification is a message to people and what became of it.
type Notification struct {
	ID          int64          `json:"id"`
	CycleID     *int64         `json:"cycle_id"`
	Kind        ops.NoticeKind `json:"kind"`
	Level       string         `json:"level"`
	Environment *string        `json:"environment"`
	Service     *string        `json:"service"`
	Target      string         `json:"target" enum:"first,second"`
	Status      string         `json:"status" enum:"pending,sent,dead,skipped" doc:"Dead: tried often enough. Skipped: no target is configured."`
	Attempts    int            `json:"attempts"`
	Error       *string        `json:"error" doc:"Why the last attempt failed."`
	NextAt      *time.Time     `json:"next_at" doc:"When it is tried next; null where it is not."`
	CreatedAt   time.Time      `json:"created_at"`
	SentAt      *time.Time     `json:"sent_at"`
	Title       string         `json:"title"`
	Body        string         `json:"body"`
}

type silencesQuery struct {
	Paging
	Environment string `query:"environment" doc:"Only what holds in this environment."`
	All         bool   `query:"all" doc:"Ended ones too."`
}

type silenceInput struct {
	Keyed
	Body struct {
		Environment string            `json:"environment,omitempty" doc:"Leave it out for all."`
		Service     string            `json:"service,omitempty" maxLength:"200" doc:"Which services; * stands for any text."`
		Group       string            `json:"group,omitempty" maxLength:"200" doc:"Which groups of services."`
		Probe       string            `json:"probe,omitempty" maxLength:"200" doc:"Which probes, by name."`
		Labels      map[string]string `json:"labels,omitempty" maxProperties:"20" doc:"Alerts with these labels, a pattern for each."`
		Reason      string            `json:"reason" minLength:"1" maxLength:"500" doc:"Why, for those who find it."`
		From        *time.Time        `json:"from,omitempty" doc:"When it begins; leave it out for now."`
		Until       *time.Time        `json:"until,omitempty" doc:"When it ends."`
		For         string            `json:"for,omitempty" doc:"How long it holds, such as 2h, instead of until."`
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
	Status string `query:"status" enum:"pending,sent,dead,skipped" doc:"Only those that stand there; dead are those that were given up."`
}

func (s *server) registerSilences(api huma.API) {
	huma.Register(api, look("list-silences", "/silences", "List silences that have not ended, newest first", "silences",
		"What a silence matches starts no cycle and goes up no tier while it holds."), s.listSilences)
	add := act("add-silence", "/silences", "Silence a service, group, probe or alert", "silences",
		"It needs something to match, a reason and an end: until or for.")
	add.DefaultStatus = http.StatusCreated
	huma.Register(api, add, s.addSilence)
	huma.Register(api, act("end-silence", "/silences/{id}/end", "End a silence now", "silences",
		"What still fails counts again at once. One that has ended is a conflict that says when.", http.StatusNotFound), s.endSilence)
	huma.Register(api, look("list-notifications", "/notifications", "List notices, newest first", "notifications",
		"What people were told, shall be told, or could not be told, with the reason."), s.listNotifications)
	huma.Register(api, act("retry-notification", "/notifications/{id}/retry", "Try again to deliver a notice", "notifications",
		"For one that was given up or had no target; any other is a conflict that says where it stands.", http.StatusNotFound), s.retryNotification)
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
	return &silenceOutput{Location: fmt.Sprintf("%s/silences?all=true&cursor=%d&limit=1", prefix, added.ID+1), Body: SilenceRow(added, now)}, nil
}

// settle gives a silence its end, and says what is missing for one that means something.
func (in *silenceInput) settle(q *ops.Silence) error {
	switch {
	case q.Service == "" && q.Group == "" && q.Probe == "" && len(q.Labels) == 0:
		return huma.Error422UnprocessableEntity("it would silence everything: give service, group, probe or labels; * stands for any text")
	case strings.TrimSpace(q.Reason) == "":
		return huma.Error422UnprocessableEntity("a reason is needed: say why, for those who find it")
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
		return huma.Error422UnprocessableEntity("it would end before it begins: give a later end")
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

// changed says that rows were written which somebody works on.
func (s *server) changed() {
	if s.Changed != nil {
		s.Changed()
	}
}

// SilenceRow is a silence as it stands at a time.
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

// NotificationRow is a message to people.
func NotificationRow(n ops.Notice) Notification {
	row := Notification{
		ID: n.ID, CycleID: (*int64)(n.CycleID), Kind: n.Kind, Level: string(n.Level), Environment: text(n.Environment), Service: text(n.Service),
		Target: "first", Status: string(n.Status), Attempts: n.Attempts, Error: text(n.Error), CreatedAt: n.CreatedAt, SentAt: n.SentAt,
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
