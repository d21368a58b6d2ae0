package cli

import (
	"context"

	"claudeops/internal/api"
	"claudeops/internal/ops"
	"claudeops/internal/store"
)

func sessionIDs(ctx context.Context, s *client) ([]string, error) {
	rows, err := s.Sessions(ctx, store.SessionFilter{Limit: proposed})
	return described(rows, err, func(x api.Session) (string, string) { return numbered(x.ID), x.Tier.String() + ", " + string(x.Status) })
}

func cycleIDs(ctx context.Context, s *client) ([]string, error) {
	rows, err := s.Cycles(ctx, store.CycleFilter{Limit: proposed})
	return described(rows, err, func(x api.Cycle) (string, string) { return numbered(x.ID), x.StatusText() + ", " + x.Title })
}

func incidentIDs(ctx context.Context, s *client) ([]string, error) {
	rows, err := s.Incidents(ctx, store.IncidentFilter{Limit: proposed})
	return described(rows, err, func(x api.Incident) (string, string) { return numbered(x.ID), string(x.Status) + ", " + x.Title })
}

func approvalIDs(ctx context.Context, s *client) ([]string, error) {
	rows, err := s.Approvals(ctx, store.ApprovalFilter{Status: ops.ApprovalPending, Limit: proposed})
	return described(rows, err, func(x api.Approval) (string, string) { return numbered(x.ID), x.Handler + ", " + x.Reason })
}

func silenceIDs(ctx context.Context, s *client) ([]string, error) {
	rows, err := s.Silences(ctx, "", false)
	return described(rows, err, func(x api.Silence) (string, string) { return numbered(x.ID), matcher(x) })
}

func memoryIDs(ctx context.Context, s *client) ([]string, error) {
	rows, err := s.Memories(ctx, store.MemoryFilter{Limit: proposed})
	return described(rows, err, func(x api.Memory) (string, string) { return numbered(x.ID), x.Observation })
}

func actionIDs(ctx context.Context, s *client) ([]string, error) {
	rows, err := s.ActionRuns(ctx, store.ActionFilter{Limit: proposed})
	return described(rows, err, func(x api.ActionRun) (string, string) {
		return numbered(x.ID), x.Action + " of " + clean(x.Service) + ", " + string(x.Status)
	})
}

func serviceNames(ctx context.Context, s *client) ([]string, error) {
	rows, err := s.Services(ctx, "")
	return described(rows, err, func(x api.ServiceState) (string, string) { return clean(x.Name), x.State })
}

func hostNames(ctx context.Context, s *client) ([]string, error) {
	rows, err := s.Hosts(ctx)
	return described(rows, err, func(x api.Host) (string, string) { return clean(x.Name), value(x.Version) })
}

// environmentNames lists the environments of the configuration: a server does not list its own.
func (a *app) environmentNames(context.Context, *client) ([]string, error) {
	cfg, err := a.load()
	if err != nil {
		return nil, err
	}
	return described(cfg.Environments(), nil, func(e ops.Environment) (string, string) { return e.Name, "environment" })
}
