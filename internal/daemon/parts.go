package daemon

import (
	"path/filepath"

	"claudeops/internal/agent"
	"claudeops/internal/cycle"
	"claudeops/internal/handoff/handofffile"
	"claudeops/internal/notify"
	"claudeops/internal/ops"
	"claudeops/internal/probe"
	"claudeops/internal/redact"
)

// handoffFiles reads and deletes the file in a state folder.
type handoffFiles struct{}

func (handoffFiles) Read(dir string) ([]byte, bool, error) { return handofffile.Read(dir) }
func (handoffFiles) Delete(dir string) error               { return handofffile.Delete(dir) }

// parts chooses the drivers.
func (h *Host) parts(envs map[string]ops.Environment) (cycle.Parts, error) {
	redactor := redact.New(h.Config.Secrets)
	gates, err := h.newGates(redactor)
	if err != nil {
		return cycle.Parts{}, err
	}
	return cycle.Parts{
		Gates: gates, KnownOnly: h.Config.Guard.RequireVersion,
		Journal: h.store, Owner: h.owner, Environments: envs, Runners: h.runners(redactor),
		Prober: probe.New(probe.Options{Clock: h.Clock}), Handoffs: handoffFiles{}, Sweep: agent.Sweep,
		Settle: settleTime, Redact: redactor.String, Clock: h.Clock, Logger: h.Logger,
		Changed: func(ops.CycleID) { h.hub.Nudge() },
	}, nil
}

func (h *Host) runners(r *redact.Redactor) map[string]cycle.Runner {
	scripted := []string{"agent", "scripted"}
	if s := h.Config.Agent.Scenario; s != "" {
		scripted = append(scripted, "--scenario", s)
	}
	walls := h.walls()
	return map[string]cycle.Runner{
		"claude": agent.NewClaude(agent.ClaudeOptions{
			Bin: h.Config.Agent.Bin, Redactor: r, Logger: h.Logger, Clock: h.Clock, ExtraEnv: h.Config.Agent.Env,
			Walls: walls,
		}),
		"scripted": agent.NewClaude(agent.ClaudeOptions{
			Bin: h.Self, Argv0Extra: scripted, Redactor: r, Logger: h.Logger, Clock: h.Clock, ExtraEnv: h.Config.Agent.Env,
			Walls:   walls,
			Ability: &ops.Ability{Version: "scripted", Known: true, Structured: true},
		}),
	}
}

// Sender is the way notices leave this host.
func Sender(urls []string, api, stateDir string) *notify.Apprise {
	return notify.New(notify.AppriseOptions{URLs: urls, API: api, Dir: filepath.Join(stateDir, "notify")})
}

func (h *Host) newOutbox() *notify.Outbox {
	return notify.NewOutbox(notify.OutboxOptions{
		Store: h.store, Sender: Sender(h.Config.AppriseURLs, h.Config.AppriseAPI, h.Config.StateDir), Clock: h.Clock, Logger: h.Logger,
	})
}
