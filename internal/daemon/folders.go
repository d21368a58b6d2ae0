package daemon

import (
	"context"
	"fmt"

	"claudeops/internal/agent"
	"claudeops/internal/config"
	"claudeops/internal/ops"
)

// hidesKeys says which sessions get tokens instead of the keys of the API. In auto those whose agent has no shell gate: a gate
// takes the keys out of the environment of every command.
func (h *Host) hidesKeys(gated bool) func(environment string, tier ops.Tier) bool {
	if mode := h.Config.Agent.KeyProxy; mode == config.KeyProxyOff || (gated && mode != config.KeyProxyOn) {
		return nil
	}
	return func(string, ops.Tier) bool { return true }
}

// sweepFolders removes what sessions of an earlier supervisor left, and the conversations of cycles that are over.
func (h *Host) sweepFolders(ctx context.Context) error {
	open, err := h.openCycles(ctx)
	if err != nil {
		return err
	}
	for _, e := range h.envs {
		if err := agent.SweepFolders(e.StateDir, open, h.discards); err != nil {
			h.Logger.WarnContext(ctx, "files of ended sessions could not be removed", "environment", e.Name, "error", err)
		}
	}
	return nil
}

// openCycles tells which cycles may still need their conversations.
func (h *Host) openCycles(ctx context.Context) (func(ops.CycleID) bool, error) {
	cycles, err := h.store.Unfinished(ctx)
	if err != nil {
		return nil, fmt.Errorf("read open cycles: %w", err)
	}
	open := map[ops.CycleID]bool{}
	for _, c := range cycles {
		open[c.ID] = true
	}
	return func(id ops.CycleID) bool { return open[id] }, nil
}

// forget removes the conversations of a cycle that ended, and of those that ended on another host.
func (h *Host) forget(ctx context.Context, env ops.Environment, id ops.CycleID) {
	ctx = context.WithoutCancel(ctx)
	others := false
	err := agent.ForgetConversations(env.StateDir, func(kept ops.CycleID) bool {
		others = others || kept != id
		return kept == id
	})
	if err == nil && others {
		var open func(ops.CycleID) bool
		if open, err = h.openCycles(ctx); err == nil {
			err = agent.ForgetConversations(env.StateDir, func(kept ops.CycleID) bool { return !open(kept) })
		}
	}
	if err != nil {
		h.Logger.WarnContext(ctx, "conversations of an ended cycle could not be removed", "cycle", id, "error", err)
	}
}
