package api

import (
	"context"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"claudeops/internal/ops"
)

// Host is one supervisor among those that share the database.
type Host struct {
	Name         string     `json:"name"`
	Alive        bool       `json:"alive" doc:"Its lease has not ended. A host that shares its database with nobody holds none."`
	Draining     bool       `json:"draining" doc:"It takes no new work."`
	Version      *string    `json:"version"`
	Labels       []string   `json:"labels"`
	Environments []string   `json:"environments" doc:"Those it works for."`
	Running      int        `json:"running" doc:"Cycles that it advances now."`
	RegisteredAt time.Time  `json:"registered_at" doc:"When its current term began."`
	SeenAt       *time.Time `json:"seen_at" doc:"When it last renewed its lease, by the database's clock."`
	LeaseEndsAt  *time.Time `json:"lease_ends_at" doc:"Null where it holds no lease: it was stopped, or shares its database with no other host."`
}

func (s *server) registerHosts(api huma.API) {
	huma.Register(api, look("list-hosts", "/hosts", "List the hosts that work, or worked, on this database", "hosts",
		"Hosts are known by name. One whose lease has ended is no longer alive; others continue its cycles."), s.listHosts)
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
	}
}
