package daemon

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"claudeops/internal/agent"
	"claudeops/internal/agent/claude"
	"claudeops/internal/agent/codex"
	"claudeops/internal/agent/command"
	"claudeops/internal/api"
	"claudeops/internal/config"
	"claudeops/internal/cycle"
	"claudeops/internal/daemon/supervisor"
	"claudeops/internal/failpoint"
	"claudeops/internal/guard"
	"claudeops/internal/guard/redact"
	"claudeops/internal/ops"
	"claudeops/internal/watch/notify"
	"claudeops/internal/watch/probe"
)

// parts chooses the drivers.
func (h *Host) parts(ctx context.Context, envs map[string]ops.Environment) (cycle.Parts, error) {
	redactor := redact.New(h.Config.Secrets)
	h.redact = redactor.String
	gates, err := h.newGates(ctx, redactor)
	if err != nil {
		return cycle.Parts{}, err
	}
	probing, err := h.proberOptions()
	if err != nil {
		return cycle.Parts{}, err
	}
	prober, health := probe.New(probing), h.newProbeHealth(envs)
	h.actions, h.prober, h.ledger = h.newActions(redactor, prober, health), prober, h.newLedger()
	return cycle.Parts{
		Gates:   gates,
		Journal: h.journal, Owner: h.Owner, Draining: func() bool { return h.engine.Draining() },
		Environments: envs, Runners: h.runners(redactor),
		Prober: prober, Handoffs: cycle.HandoffFiles{}, Sweep: agent.Sweep,
		Effects: h.store.Effects, Refusals: h.store.Refusals, HandoffCalls: h.store.HandoffCalls,
		Recall: h.recall, Transcript: h.transcript, Estimate: h.estimate,
		Health: health, Pause: min(cycle.RoundPause, max(failpoint.Wait("settle", settleTime), time.Millisecond)),
		Redact: redactor.String, Clock: h.Clock, Logger: h.Logger,
		Hold:    h.hold,
		Actions: h,
		Clones:  h,
		Forget:  h.forget,
		Changed: h.hub.Tell,
		Changes: h.changes, Notes: h.commits.Notes,
	}, nil
}

func (h *Host) runners(r *redact.Redactor) map[string]cycle.Runner {
	scripted := []string{"agent", "scripted"}
	if s := h.Config.Agent.Scenario; s != "" {
		scripted = append(scripted, "--scenario", s)
	}
	o := agent.Options{
		Redactor: r, Logger: h.Logger, Clock: h.Clock, Walls: h.walls(), Discards: h.discards,
		Keeper: h.sessionKeeper,
	}
	if h.Config.Guard.Sandbox.Networked() {
		o.Network = h.networks.open
		h.networks.sweep()
	}
	extra := h.Config.Agent.Env
	h.trials = NewTrials(h.Config, h.Self, h.store, true, h.Logger)
	tried := func(name string, a agent.Adapter) *agent.Runner {
		o := o
		o.Trial = h.trials.of(name, a, h.envs)
		return agent.NewRunner(a, o)
	}
	return map[string]cycle.Runner{
		claudeAgent: tried(claudeAgent, claude.New(claude.Options{Bin: h.Config.Agent.Bin, ExtraEnv: extra, Clock: h.Clock})),
		"scripted": agent.NewRunner(claude.New(claude.Options{
			Bin: h.Self, Prefix: scripted, ExtraEnv: extra, Clock: h.Clock,
			Ability: &ops.Ability{Version: "scripted", Known: true, Structured: true, Tells: true},
		}), o),
		codexAgent: tried(codexAgent, codex.New(codex.Options{Bin: h.Config.Agent.CodexBin, ExtraEnv: extra, Prices: h.Config.Prices})),
		"command":  agent.NewRunner(command.New(command.Options{ExtraEnv: extra}), o),
	}
}

// estimate follows what a session costs while it runs.
func (h *Host) estimate() func(ops.Activity) float64 { return agent.NewEstimate(h.Config.Prices).Add }

// mostMemories is how much a session is told of what others learnt; the prompt cuts it to its share.
const mostMemories = 40

func (h *Host) recall(ctx context.Context, environment string, services []string) ([]ops.Memory, error) {
	return h.store.Recall(ctx, environment, services, h.Clock(), mostMemories)
}

// mostLines is how much of an earlier attempt is looked through for repetition: its end.
const mostLines = 5000

func (h *Host) transcript(ctx context.Context, id ops.SessionID) ([]ops.Line, error) {
	n, err := h.store.TranscriptCount(ctx, id)
	if err != nil {
		return nil, err
	}
	return h.store.Transcript(ctx, id, max(0, n-mostLines), mostLines)
}

// keeper reminds the people of this host's environments.
func (h *Host) keeper() *supervisor.Keeper {
	policies := map[string]ops.ApprovalPolicy{}
	for _, e := range h.envs {
		policies[e.Name] = e.Policy.Approval
	}
	return &supervisor.Keeper{
		People: h.store, Policy: func(environment string) ops.ApprovalPolicy { return policies[environment] },
		Answered: h.supervisor.Wake, Changed: h.hub.Nudge, Clock: h.Clock, Logger: h.Logger,
	}
}

func (h *Host) newOutbox() *notify.Outbox { return notify.NewOutbox(h.outboxOptions()) }

// warnOfOldPrices says that costs may be wrong, because built-in prices that a handler depends on are old.
func (h *Host) warnOfOldPrices(ctx context.Context) {
	for _, p := range h.Config.StalePrices(h.Clock()) {
		h.Logger.WarnContext(ctx, "built-in prices are old, so costs may be wrong; set current ones with prices",
			"maker", p.Maker, "date", p.Date, "models", strings.Join(p.Models, ", "), "source", p.Source)
	}
}

// Explainer returns the guard of a configuration for people who ask what it would say. The guard is made with the first question.
func Explainer(c *config.Config, judge func() (*guard.Guard, error)) api.Explainer {
	if !c.Guard.Enabled {
		return nil
	}
	return func(e ops.Environment, tier ops.Tier, command string, dryRun bool) (api.Verdict, error) {
		g, err := judge()
		if err != nil {
			return api.Verdict{}, err
		}
		facts := Facts(c, e)
		facts.DryRun = facts.DryRun || dryRun
		d := Verdict(g, tier, command, facts)
		out := api.Verdict{Verdict: string(d.Verdict), Rule: d.Rule, Reason: d.Reason, Effects: []api.VerdictEffect{}}
		for _, x := range d.Effects {
			out.Effects = append(out.Effects, api.VerdictEffect{Kind: string(x.Kind), Service: x.Service})
		}
		return out, nil
	}
}

// Verdict is what the guard says of one shell command.
func Verdict(g *guard.Guard, tier ops.Tier, command string, facts guard.Facts) guard.Decision {
	raw, err := json.Marshal(map[string]string{"command": command})
	if err != nil {
		raw = nil // a string always has a JSON form, and no input is denied
	}
	return g.Check(tier, "Bash", raw, facts)
}

// NewJudge makes the guard of a configuration, to explain what it says: no session runs behind it.
func NewJudge(c *config.Config) (*guard.Guard, error) { return newJudge(c, "") }
