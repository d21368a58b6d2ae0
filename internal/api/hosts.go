package api

import (
	"context"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"claudeops/internal/ops"
)

// Host is a supervisor that uses the database.
type Host struct {
	Name         string     `json:"name"`
	Alive        bool       `json:"alive" doc:"Its lease has not ended. False where the database is not shared."`
	Draining     bool       `json:"draining" doc:"It takes no new cycles."`
	Version      *string    `json:"version"`
	Labels       []string   `json:"labels"`
	Environments []string   `json:"environments" doc:"Environments that it works for."`
	Running      int        `json:"running" doc:"Number of cycles that run there."`
	RegisteredAt time.Time  `json:"registered_at" doc:"When it was started."`
	SeenAt       *time.Time `json:"seen_at" doc:"When it last renewed its lease, by the database's clock."`
	LeaseEndsAt  *time.Time `json:"lease_ends_at" doc:"Null without a lease: it was stopped, or the database is not shared."`
	ClockAheadMS int64      `json:"clock_ahead_ms" doc:"How far its clock was ahead of the database's when it last renewed its lease."`
}

func (s *server) registerHosts(api huma.API) {
	huma.Register(api, look("list-hosts", "/hosts", "List the hosts that use, or used, this database", "hosts",
		"When the lease of a host ends, other hosts continue its cycles."), s.listHosts)
}

func (s *server) listHosts(ctx context.Context, _ *struct{}) (*body[list[Host]], error) {
	rows, err := s.Store.Hosts(ctx)
	if err != nil {
		return nil, s.problem("list hosts", err)
	}
	return &body[list[Host]]{list[Host]{Items: Rows(rows, HostRow)}}, nil
}

// HostRow is a host.
func HostRow(h ops.Host) Host {
	return Host{
		Name: h.Name, Alive: h.Alive, Draining: h.Draining, Version: text(h.Version), Labels: h.Labels, Environments: h.Environments,
		Running: h.Running, RegisteredAt: h.RegisteredAt, SeenAt: h.SeenAt, LeaseEndsAt: h.ExpiresAt,
		ClockAheadMS: h.ClockAhead.Milliseconds(),
	}
}
