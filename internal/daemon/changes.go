package daemon

import (
	"context"

	"claudeops/internal/ops"
	"claudeops/internal/store"
	"claudeops/internal/watch/ledger"
)

// newLedger looks at what changes on this machine.
func (h *Host) newLedger() *ledger.Ledger {
	return &ledger.Ledger{
		Store: h.store, Host: h.Config.Host.Name, Environments: h.mine, Redact: h.redact, Clock: h.Clock, Logger: h.Logger,
		Collectors: []ledger.Collector{
			ledger.Containers{Socket: h.Config.Docker.Socket, Environments: h.mine},
			ledger.Units{Systemctl: "systemctl"},
			ledger.Packages{Log: "/var/log/dpkg.log"},
			ledger.Repositories{},
			ledger.Disks{Mounts: "/proc/self/mountinfo", Used: ledger.Used},
			ledger.Boot{Proc: "/proc"},
		},
		Newest: func(ctx context.Context) (int64, error) {
			newest, err := h.store.Incidents(ctx, store.IncidentFilter{Open: true, Limit: 1})
			if err != nil || len(newest) == 0 {
				return 0, err
			}
			return newest[0].ID, nil
		},
	}
}

// changes looks once more, and says what changed since services were last healthy. A session runs without it, too.
func (h *Host) changes(ctx context.Context, env ops.Environment, services []string) []string {
	h.ledger.Look(ctx, env)
	needs := env.Policy.Inventory.Needs(services...)
	found, err := h.store.WhatChanged(ctx, env.Name, services, needs, "", h.Clock())
	if err != nil {
		h.Logger.WarnContext(ctx, "what changed could not be read", "environment", env.Name, "error", err)
		return nil
	}
	if len(services) == 0 && len(found.Changes) == 0 {
		return nil // nothing is known to be wrong
	}
	return found.Lines()
}
