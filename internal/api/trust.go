package api

import (
	"context"
	"net/http"
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
	Keyed
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
	if err != nil {
		return nil, s.problem("list trust", err)
	}
	return &body[list[Trust]]{list[Trust]{Items: Rows(rows, TrustRow)}}, nil
}

func (s *server) setTrust(ctx context.Context, in *trustInput) (*body[Trust], error) {
	t, err := s.desk.Trust(ctx, by(ctx), in.Body.Environment, in.Body.Service, in.Body.Level, in.Body.Reason)
	if err != nil {
		return nil, s.problem("change trust", err)
	}
	return &body[Trust]{TrustRow(t)}, nil
}
