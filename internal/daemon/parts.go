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
	"claudeops/internal/ops"
	"claudeops/internal/watch/probe"
)

// parts chooses the drivers.
func (p *plan) parts(envs map[string]ops.Environment) (cycle.Parts, error) {
	gates, err := p.newGates()
	if err != nil {
		return cycle.Parts{}, err
	}
	p.gates = gates
	probing, err := p.proberOptions()
	if err != nil {
		return cycle.Parts{}, err
	}
	prober, health := probe.New(probing), p.newProbeHealth(envs)
	p.actions, p.prober, p.ledger = p.newActions(prober, health), prober, p.newLedger()
	out := cycle.Parts{
		Journal: p.journal, Owner: p.Owner, Draining: func() bool { return p.engine.Draining() },
		Environments: envs, Runners: p.runners(), Newer: p.newer,
		Prober: prober, Handoffs: cycle.HandoffFiles{}, Sweep: agent.Sweep,
		Effects: p.store.Acts.Effects, Refusals: p.store.Acts.Refusals, HandoffCalls: p.store.Acts.HandoffCalls,
		Recall: p.recall, Transcript: p.transcript, Estimate: p.estimate,
		Health: health, Pause: min(cycle.RoundPause, max(failpoint.Wait("settle", settleTime), time.Millisecond)),
		Redact: p.redact, Clock: p.Clock, Logger: p.Logger,
		Hold:    p.hold,
		Actions: p,
		Clones:  p,
		Forget:  p.forget,
		Changed: p.hub.Tell,
		Changes: p.changes, Notes: p.commits.Notes,
	}
	if gates != nil {
		out.Gates = gates
	}
	return out, nil
}

func (p *plan) runners() map[string]cycle.Runner {
	scripted := []string{"agent", "scripted"}
	if s := p.Config.Agent.Scenario; s != "" {
		scripted = append(scripted, "--scenario", s)
	}
	o := agent.Options{
		Redactor: p.redactor, Logger: p.Logger, Clock: p.Clock, Walls: p.walls(), Discards: p.discards,
		Keeper: p.sessionKeeper,
	}
	if p.Config.Guard.Sandbox.Networked() {
		o.Network = p.openNetwork
	}
	extra := p.Config.Agent.Env
	p.trials = NewTrials(p.Config, p.Self, p.store, true, p.Logger)
	tried := func(name string, a agent.Adapter) *agent.Runner {
		o := o
		o.Trial = p.trials.of(name, a, p.envs)
		return agent.NewRunner(a, o)
	}
	return map[string]cycle.Runner{
		claudeAgent: tried(claudeAgent, claude.New(claude.Options{Bin: p.Config.Agent.Bin, ExtraEnv: extra, Clock: p.Clock})),
		"scripted": agent.NewRunner(claude.New(claude.Options{
			Bin: p.Self, Prefix: scripted, ExtraEnv: extra, Clock: p.Clock,
			Ability: &ops.Ability{Version: "scripted", Known: true, Structured: true, Tells: true},
		}), o),
		codexAgent: tried(codexAgent, codex.New(codex.Options{Bin: p.Config.Agent.CodexBin, ExtraEnv: extra, Prices: p.Config.Prices})),
		"command":  agent.NewRunner(command.New(command.Options{ExtraEnv: extra}), o),
	}
}

// estimate follows what a session costs while it runs.
func (p *plan) estimate() func(ops.Activity) float64 { return agent.NewEstimate(p.Config.Prices).Add }

// mostMemories is how much a session is told of what others learnt; the prompt cuts it to its share.
const mostMemories = 40

func (g *ground) recall(ctx context.Context, environment string, services []string) ([]ops.Memory, error) {
	return g.store.People.Recall(ctx, environment, services, g.Clock(), mostMemories)
}

// mostLines is how much of an earlier attempt is looked through for repetition: its end.
const mostLines = 5000

func (g *ground) transcript(ctx context.Context, id ops.SessionID) ([]ops.Line, error) {
	n, err := g.store.Journal.TranscriptCount(ctx, id)
	if err != nil {
		return nil, err
	}
	return g.store.Journal.Transcript(ctx, id, max(0, n-mostLines), mostLines)
}

// keeper reminds the people of this host's environments.
func (p *plan) keeper() *supervisor.Keeper {
	policies := map[string]ops.ApprovalPolicy{}
	for _, e := range p.envs {
		policies[e.Name] = e.Policy.Approval
	}
	return &supervisor.Keeper{
		People: p.store.People, Policy: func(environment string) ops.ApprovalPolicy { return policies[environment] },
		Answered: p.supervisor.Wake, Changed: p.hub.Nudge, Clock: p.Clock, Logger: p.Logger,
	}
}

// warnOfOldPrices says that costs may be wrong, because built-in prices that a handler depends on are old.
func (p *plan) warnOfOldPrices(ctx context.Context) {
	for _, old := range p.Config.StalePrices(p.Clock()) {
		p.Logger.WarnContext(ctx, "built-in prices are old, so costs may be wrong; set current ones with prices",
			"maker", old.Maker, "date", old.Date, "models", strings.Join(old.Models, ", "), "source", old.Source)
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
