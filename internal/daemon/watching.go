package daemon

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"claudeops/internal/api/webhook"
	"claudeops/internal/config"
	"claudeops/internal/guard"
	"claudeops/internal/ops"
	"claudeops/internal/store"
	"claudeops/internal/watch"
	"claudeops/internal/watch/ledger"
	"claudeops/internal/watch/notify"
	"claudeops/internal/watch/probe"
)

// newHook takes the alerts of other systems. It authenticates their senders itself.
func (p *plan) newHook() *webhook.Hook {
	inventories := map[string]ops.Inventory{}
	for _, e := range p.envs {
		inventories[e.Name] = e.Policy.Inventory
	}
	return webhook.New(webhook.Options{
		Store: p.store.Watch, Events: p.store.Journal, Environments: names(p.envs), Token: p.token, Clock: p.Clock,
		Logger: p.Logger, Secret: p.Config.Edges.WebhookSecret, Senders: p.Config.Edges.AlertSenders,
		Service: func(environment, name string) string {
			own, _ := inventories[environment].Canonical(name)
			return own
		},
		Wake: p.hub.Nudge, Redact: p.redact,
	})
}

// prepareWatch makes what probes. The stored states are read when it begins.
func (p *plan) prepareWatch() error {
	p.watchings = map[string]*watching{}
	for duty, envs := range p.watched() {
		w, err := p.newWatching(envs)
		if err != nil {
			return err
		}
		p.watchings[duty] = w
	}
	return nil
}

// watchServices are the services that probe.
func (p *plan) watchServices() (list []service) {
	for duty, w := range p.watchings {
		again := false
		list = append(list, service{name: "watch services", duty: duty, run: func(ctx context.Context) (err error) {
			if again { // another host has watched since
				if w, err = p.newWatching(w.envs); err != nil {
					return err
				}
			}
			again = true
			return w.run(ctx)
		}})
	}
	return list
}

// watched groups the environments: all are watched by one host, or each by one of the hosts that work for it.
func (p *plan) watched() map[string][]ops.Environment {
	if !p.shared() {
		return map[string][]ops.Environment{"watch": p.mine}
	}
	out := map[string][]ops.Environment{}
	for _, e := range p.mine {
		out["watch/"+e.Name] = []ops.Environment{e}
	}
	return out
}

// watching probes the services of some environments.
type watching struct {
	p         *plan
	envs      []ops.Environment
	watch     *watch.Watch
	scheduler *probe.Scheduler
	probes    int
	beats     *watch.Heartbeats // nil without any
}

func (p *plan) newWatching(envs []ops.Environment) (*watching, error) {
	w, err := watch.New(watch.Options{
		Store: p.store.Watch, Cycles: p.store.Journal, People: p.store.People, Environments: envs, Describe: probe.Describe,
		Start: p.supervisor.Wake, Cancel: p.supervisor.Cancel, Clock: p.Clock, Logger: p.Logger, Changed: p.hub.Tell,
	})
	if err != nil {
		return nil, err
	}
	probing, err := p.proberOptions()
	if err != nil {
		return nil, err
	}
	var watched []probe.Watched
	beats, beating := &watch.Heartbeats{Store: p.store.Watch, Deliver: w.Deliver, Clock: p.Clock, Logger: p.Logger}, false
	for _, e := range envs {
		some, err := beats.Add(e, probe.Describe)
		if err != nil {
			return nil, fmt.Errorf("heartbeats of %s: %w", e.Name, err)
		}
		beating = beating || some
		probes := watch.Probes(e)
		for i := range probes {
			if probes[i].Type != ops.ProbeHeartbeat {
				watched = append(watched, probe.Watched{Environment: e.Name, Spec: &probes[i]})
			}
		}
	}
	scheduler := probe.NewScheduler(probe.SchedulerOptions{Prober: probe.New(probing), Deliver: w.Deliver, Watched: watched})
	out := &watching{p: p, envs: envs, watch: w, scheduler: scheduler, probes: len(watched)}
	if beating {
		out.beats = beats
	}
	return out, nil
}

// run reads the stored states of the services, and watches until ctx ends.
func (w *watching) run(ctx context.Context) error {
	if err := w.watch.Load(ctx); err != nil {
		return fmt.Errorf("start watching: read stored states: %w", err)
	}
	var parts errgroup.Group
	parts.Go(func() error { return w.watch.Run(ctx) })
	parts.Go(func() error { return w.p.nudged(ops.ReachWatch, w.forward)(ctx) })
	if w.probes > 0 {
		parts.Go(func() error {
			defer w.watch.Flush(context.WithoutCancel(ctx))
			return w.scheduler.Run(ctx)
		})
	}
	if w.beats != nil {
		parts.Go(func() error {
			defer w.watch.Flush(context.WithoutCancel(ctx))
			return w.p.nudged(ops.ReachWatch, w.beats.Run)(ctx)
		})
	}
	return parts.Wait()
}

// forward passes nudges on: there may be a new silence or answer.
func (w *watching) forward(ctx context.Context, nudges <-chan struct{}) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-nudges:
			w.watch.Wake()
		}
	}
}

// newLedger looks at what changes on this machine.
func (p *plan) newLedger() *ledger.Ledger {
	return &ledger.Ledger{
		Store: p.store.Watch, Host: p.Config.Host.Name, Environments: p.mine, Shared: &p.looks, Redact: p.redact,
		Clock: p.Clock, Logger: p.Logger,
		Collectors: []ledger.Collector{
			ledger.Containers{Socket: p.Config.Docker.Socket, Environments: p.mine},
			ledger.Units{Systemctl: "systemctl"},
			ledger.Packages{Log: "/var/log/dpkg.log"},
			ledger.Repositories{},
			ledger.Disks{Mounts: "/proc/self/mountinfo", Used: ledger.Used},
			ledger.Boot{Proc: "/proc"},
		},
		Newest: func(ctx context.Context) (int64, error) {
			newest, err := p.store.People.Incidents(ctx, store.IncidentFilter{Open: true, Limit: 1})
			if err != nil || len(newest) == 0 {
				return 0, err
			}
			return newest[0].ID, nil
		},
	}
}

// Changes looks once more, and says what changed since services were last healthy. A session runs without it, too.
func (p *plan) Changes(ctx context.Context, env ops.Environment, services []string) []string {
	p.ledger.Look(ctx, env)
	needs := env.Policy.Inventory.Needs(services...)
	found, err := p.store.Watch.WhatChanged(ctx, env.Name, services, needs, "", p.Clock())
	if err != nil {
		p.Logger.WarnContext(ctx, "what changed could not be read", "environment", env.Name, "error", err)
		return nil
	}
	if len(services) == 0 && len(found.Changes) == 0 {
		return nil // nothing is known to be wrong
	}
	return found.Lines()
}

func (p *plan) deadMan() *watch.DeadMan {
	d := &watch.DeadMan{
		Ends: p.store.Journal, Notices: p.store.People, Environments: p.envs, Missed: p.Config.Edges.DeadManMissed,
		Changed: p.hub.Nudge, Clock: p.Clock, Logger: p.Logger,
	}
	if address := p.Config.Edges.PingURL; address != "" {
		client := &http.Client{}
		d.Ping = func(ctx context.Context) error { return notify.Ping(ctx, client, address) }
	}
	return d
}

// proberOptions are the options of every prober of this host. A probe must not change anything, so with the guard on a command
// that is known to change something is a configuration error.
func (p *plan) proberOptions() (probe.Options, error) {
	o := probe.Options{
		Clock: p.Clock, Socket: p.Config.Docker.Socket, Answered: p.engineAnswered,
		Heartbeats: func(ctx context.Context, environment, service string) ([]ops.Heartbeat, error) {
			return p.store.Watch.HeartbeatsOf(ctx, environment, service)
		},
	}
	if !p.Config.Guard.Enabled {
		return o, nil
	}
	judge, err := p.judge()
	if err != nil {
		return o, err
	}
	commands := newProbeCommands(judge, p.Options, p.envs)
	o.Allow = commands.allow
	return o, commands.check(p.Config)
}

// engineAnswered reports whether the container engine has answered a probe of an environment. Where agents observe, the results of cycles
// are all that is kept.
func (p *plan) engineAnswered(ctx context.Context, environment string) (bool, error) {
	states, err := p.store.Reports.StatesOf(ctx, environment, ops.EngineService)
	if err != nil || slices.ContainsFunc(states, func(v ops.CheckState) bool { return v.Probe == ops.ProbeEngine && v.Level != "" }) {
		return err == nil, err
	}
	checks, err := p.store.Reports.LastChecks(ctx, environment, ops.EngineService, ops.ProbeEngine, lastLooks)
	return slices.ContainsFunc(checks, func(c ops.Check) bool { return c.Status == ops.Healthy }), err
}

// lastLooks is in how many results the engine must have answered once.
const lastLooks = 100

// Check returns a configuration error for what a start would refuse: guard rules, commands of probes. It starts nothing.
func Check(o Options) error {
	if !o.Config.Guard.Enabled {
		return nil
	}
	judge, err := newJudge(o.Config, o.Self)
	if err != nil {
		return err
	}
	return newProbeCommands(judge, o, o.Config.Environments()).check(o.Config)
}

func newProbeCommands(judge *guard.Guard, o Options, envs []ops.Environment) *probeCommands {
	c := &probeCommands{judge: judge}
	for _, e := range envs {
		facts := Facts(o.Config, e)
		facts.Cwd = "/" // probes run there
		facts.OwnPaths = append(facts.OwnPaths, o.Self, gateDir(o.Config))
		c.scopes = append(c.scopes, probeScope{e, facts})
	}
	return c
}

// probeCommands asks the guard about the commands of probes.
type probeCommands struct {
	judge  *guard.Guard
	scopes []probeScope
}

// probeScope is an environment and what the guard knows about it.
type probeScope struct {
	env   ops.Environment
	facts guard.Facts
}

// check checks all configured commands, so that a refused one shows at start and not as a check that never runs.
func (c *probeCommands) check(from *config.Config) error {
	var problems []config.Problem
	for _, p := range c.scopes {
		for i, spec := range p.env.Probes {
			if spec.Type != "command" || len(spec.Command) == 0 {
				continue
			}
			if err := c.judged(spec.Command, p.facts); err != nil {
				where, key := from.ProbePlace(p.env.Name, i)
				problems = append(problems, config.Problem{
					Where: where, Key: key, Message: fmt.Sprintf("the probe %q of %s is not run: %s", probe.Describe(spec), spec.Service, err),
					Fix: "use a command that changes nothing, or switch the guard off (guard.enabled)",
				})
			}
		}
	}
	if len(problems) > 0 {
		return &config.Error{Problems: problems}
	}
	return nil
}

// allow checks a command again before it runs: the files behind its paths may have changed since the start. It must be allowed
// in every environment that configures it; a command that none configures must be allowed in all.
func (c *probeCommands) allow(argv []string) error {
	var errs []error
	known := false
	for _, p := range c.scopes {
		if p.runs(argv) {
			known = true
			errs = append(errs, c.judged(argv, p.facts))
		}
	}
	if !known {
		for _, p := range c.scopes {
			errs = append(errs, c.judged(argv, p.facts))
		}
	}
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func (p probeScope) runs(argv []string) bool {
	return slices.ContainsFunc(p.env.Probes, func(s ops.ProbeSpec) bool { return s.Type == "command" && slices.Equal(s.Command, argv) })
}

func (c *probeCommands) judged(argv []string, facts guard.Facts) error {
	d := Verdict(c.judge, ops.Tier1, commandLine(argv), facts)
	if !d.Allowed() && !operatorMayAllow(d.Rule) {
		return errors.New("the guard refuses it: " + strings.TrimSuffix(d.Reason, "."))
	}
	return nil
}

// operatorMayAllow reports whether configuring a command is enough to allow what the rule denies: programs and scripts that the
// guard does not know. Known changes, and what no session may do, stay refused.
func operatorMayAllow(rule string) bool { return slices.Contains([]string{"R4", "R6", "R8"}, rule) }

// commandLine quotes words so that a shell reads exactly these.
func commandLine(argv []string) string {
	words := ops.Map(argv, quoted)
	return strings.Join(words, " ")
}
