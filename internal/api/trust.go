package api

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"claudeops/internal/desk"
	"claudeops/internal/ops"
)

// Trust is how far a service is trusted.
type Trust struct {
	Environment string     `json:"environment"`
	Service     string     `json:"service"`
	Level       string     `json:"level" enum:"watch,suggest,ask,repair,full" doc:"What holds now."`
	Ceiling     string     `json:"ceiling" enum:"watch,suggest,ask,repair,full" doc:"What the configuration allows."`
	LoweredBy   *string    `json:"lowered_by" doc:"Who lowered it below the configuration; claudeops is the supervisor itself."`
	Reason      *string    `json:"reason"`
	ChangedAt   *time.Time `json:"changed_at"`
	Proposed    int        `json:"proposed" doc:"Repairs that people were asked about."`
	Approved    int        `json:"approved"`
	Verified    int        `json:"verified"`
	Undone      int        `json:"undone"`
	Refuted     int        `json:"refuted"`
	Next        *string    `json:"next" doc:"What would be next."`
}

// TrustRow shows how far a service is trusted.
func TrustRow(t desk.Trusted) Trust {
	out := Trust{
		Environment: t.Environment, Service: t.Service, Level: t.Level.String(), Ceiling: t.Ceiling.String(), Next: text(t.Next),
		Proposed: t.Record.Proposed, Approved: t.Record.Approved, Verified: t.Record.Verified, Undone: t.Record.Undone, Refuted: t.Record.Refuted,
	}
	if l := t.Lowered; l != nil {
		out.LoweredBy, out.Reason, out.ChangedAt = text(l.By), text(l.Reason), ops.Ptr(l.At)
	}
	return out
}

type trustQuery struct {
	Environment string `query:"environment" doc:"Default: the first one."`
	Service     string `query:"service" doc:"Only this one."`
}

type trustInput struct {
	Body struct {
		Environment string `json:"environment,omitempty" doc:"Default: the first one."`
		Service     string `json:"service"`
		Level       string `json:"level" doc:"watch, suggest, ask, repair or full; at most what the configuration allows."`
		Reason      string `json:"reason,omitempty" doc:"Why, for the record. At most 500 characters."`
	}
}

func (s *server) registerTrust(api huma.API) {
	huma.Register(api, look("list-trust", "/trust", "List how far services are trusted", "trust",
		"The level that holds, the one that the configuration allows, what became of the work so far, and what would be next.",
		http.StatusUnprocessableEntity), s.listTrust)
	huma.Register(api, act("set-trust", "/trust", "Change how far a service is trusted", "trust",
		"Up to what the configuration allows. Raising it needs the role that may approve, and a person."), s.setTrust)
}

func (s *server) listTrust(ctx context.Context, q *trustQuery) (*body[list[Trust]], error) {
	var rows []desk.Trusted
	var err error
	if q.Service == "" {
		rows, err = s.desk.AllTrusted(ctx, q.Environment)
	} else {
		rows = make([]desk.Trusted, 1)
		rows[0], err = s.desk.TrustedService(ctx, q.Environment, q.Service)
	}
	return whole(s, "list trust", rows, err, TrustRow)
}

func (s *server) setTrust(ctx context.Context, in *trustInput) (*body[Trust], error) {
	t, err := s.desk.Trust(ctx, by(ctx), in.Body.Environment, in.Body.Service, in.Body.Level, in.Body.Reason)
	return answer(s, "change trust", t, err, TrustRow)
}

// EarnedReflex is a repair that the supervisor does without an agent, because it helped several times and a person said yes.
type EarnedReflex struct {
	ID          int64         `json:"id"`
	Environment string        `json:"environment"`
	Service     string        `json:"service"`
	Probe       string        `json:"probe" doc:"The probe that fails."`
	On          string        `json:"on" doc:"Its type."`
	Status      string        `json:"status" enum:"down,degraded" doc:"What it finds."`
	Class       string        `json:"class" doc:"In which way: a class of HTTP such as 5xx, refused, timeout, exit, else the status."`
	Do          []string      `json:"do" doc:"The actions, in order."`
	Does        []string      `json:"does" doc:"What these run as they are configured now."`
	State       string        `json:"state" enum:"asked,on,off" doc:"Asked: nobody has answered, and it is not done."`
	Cycles      []ops.CycleID `json:"cycles" doc:"The repairs that earned it."`
	Done        int           `json:"done" doc:"Cycles in which it was done."`
	Helped      int           `json:"helped" doc:"Of these, those that it resolved for good."`
	ChangedBy   *string       `json:"changed_by" doc:"Who switched it last; claudeops is the supervisor, which only switches off."`
	Reason      *string       `json:"reason"`
	AskedAt     time.Time     `json:"asked_at"`
	ChangedAt   time.Time     `json:"changed_at"`
}

// ReflexRow shows an earned reflex.
func ReflexRow(r desk.EarnedReflex) EarnedReflex {
	return EarnedReflex{
		ID: r.ID, Environment: r.Environment, Service: r.Service, Probe: strings.Join(r.Probes, ", "), On: r.On, Status: string(r.Status),
		Class: r.Class, Do: r.Do, Does: r.Does, State: string(r.State), Cycles: r.Cycles, Done: r.Done, Helped: r.Helped,
		ChangedBy: text(r.Person), Reason: text(r.Why), AskedAt: r.AskedAt, ChangedAt: r.ChangedAt,
	}
}

type reflexesQuery struct {
	Environment string `query:"environment" doc:"Default: the first one."`
	Service     string `query:"service" doc:"Only those of this one."`
}

type switchInput struct {
	RowPath
	Body struct {
		Reason string `json:"reason,omitempty" doc:"Why, for the record. At most 500 characters."`
	}
}

func (s *server) registerReflexes(api huma.API) {
	huma.Register(api, look("list-reflexes", "/reflexes", "List earned reflexes", "reflexes",
		"What has helped three times, where it comes from, whether people said yes, and what became of it since.",
		http.StatusUnprocessableEntity), s.listReflexes)
	huma.Register(api, look("get-reflex", "/reflexes/{id}", "Show an earned reflex", "reflexes",
		"With what its actions run as they are configured now.", http.StatusNotFound), s.getReflex)
	const people = "It needs the role that may approve, and a person. One that is in this state already is a conflict."
	huma.Register(api, act("enable-reflex", "/reflexes/{id}/enable", "Switch an earned reflex on", "reflexes",
		"From then on the supervisor does exactly what is configured now. "+people, http.StatusNotFound), s.switchReflex(ops.ReflexOn))
	huma.Register(api, act("disable-reflex", "/reflexes/{id}/disable", "Switch an earned reflex off, or say no to it", "reflexes",
		people, http.StatusNotFound), s.switchReflex(ops.ReflexIsOff))
}

func (s *server) listReflexes(ctx context.Context, q *reflexesQuery) (*body[list[EarnedReflex]], error) {
	all, err := s.desk.Reflexes(ctx, q.Environment, q.Service)
	return whole(s, "list reflexes", all, err, ReflexRow)
}

func (s *server) getReflex(ctx context.Context, in *RowPath) (*body[EarnedReflex], error) {
	r, err := s.desk.Reflex(ctx, in.ID)
	return answer(s, fmt.Sprintf("reflex %d", in.ID), r, err, ReflexRow)
}

func (s *server) switchReflex(to ops.ReflexState) func(context.Context, *switchInput) (*body[EarnedReflex], error) {
	return func(ctx context.Context, in *switchInput) (*body[EarnedReflex], error) {
		r, err := s.desk.SwitchReflex(ctx, by(ctx), in.ID, to, in.Body.Reason)
		return answer(s, fmt.Sprintf("reflex %d", in.ID), r, err, ReflexRow)
	}
}
