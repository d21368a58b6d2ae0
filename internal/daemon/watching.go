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
	"claudeops/internal/watch"
	"claudeops/internal/watch/health"
	"claudeops/internal/watch/notify"
	"claudeops/internal/watch/probe"
)

// webhooks takes the alerts of other systems. It authenticates their senders itself.
func (h *Host) webhooks() http.Handler {
	names := make([]string, 0, len(h.envs))
	inventories := map[string]ops.Inventory{}
	for _, e := range h.envs {
		names = append(names, e.Name)
		inventories[e.Name] = e.Policy.Inventory
	}
	h.hook = webhook.New(webhook.Options{
		Store: h.store, Environments: names, Token: h.token, Clock: h.Clock, Logger: h.Logger,
		Secret: h.Config.Edges.WebhookSecret, Senders: h.Config.Edges.AlertSenders,
		Service: func(environment, name string) string {
			own, _ := inventories[environment].Canonical(name)
			return own
		},
		Wake: h.hub.Nudge, Redact: h.redact,
	})
	return h.hook
}

// watchServices are the services that probe. Their states are read before the first one runs.
func (h *Host) watchServices(ctx context.Context) ([]service, error) {
	var list []service
	for duty, envs := range h.watched() {
		w, err := h.newWatching(ctx, envs)
		if err != nil {
			return nil, err
		}
		list = append(list, service{name: "watch services", duty: duty, run: func(ctx context.Context) error {
			if h.lease != nil { // another host may have watched since: the states are read again
				if w, err = h.newWatching(ctx, envs); err != nil {
					return err
				}
			}
			return w.run(ctx)
		}})
	}
	return list, nil
}

// watched groups the environments: all are watched by one host, or each by one of the hosts that work for it.
func (h *Host) watched() map[string][]ops.Environment {
	if !h.shared() {
		return map[string][]ops.Environment{"watch": h.mine}
	}
	out := map[string][]ops.Environment{}
	for _, e := range h.mine {
		out["watch/"+e.Name] = []ops.Environment{e}
	}
	return out
}

// watching probes the services of some environments.
type watching struct {
	h         *Host
	watch     *watch.Watch
	scheduler *probe.Scheduler
	probes    int
	beats     *watch.Heartbeats // nil without any
}

// newWatching reads the stored states of the services.
func (h *Host) newWatching(ctx context.Context, envs []ops.Environment) (*watching, error) {
	w, err := watch.New(watch.Options{
		Store: h.store, Environments: envs, Describe: probe.Describe, Start: h.supervisor.Wake, Cancel: h.supervisor.Cancel, Clock: h.Clock,
		Logger: h.Logger, Changed: h.hub.Nudge,
	})
	if err != nil {
		return nil, err
	}
	probing, err := h.proberOptions()
	if err != nil {
		return nil, err
	}
	scheduler := probe.NewScheduler(probe.SchedulerOptions{Prober: probe.New(probing), Deliver: w.Deliver})
	var watched []probe.Watched
	beats, beating := &watch.Heartbeats{Store: h.store, Deliver: w.Deliver, Clock: h.Clock, Logger: h.Logger}, false
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
	scheduler.Watch(watched)
	if err := w.Load(ctx); err != nil {
		return nil, fmt.Errorf("read stored states: %w", err)
	}
	out := &watching{h: h, watch: w, scheduler: scheduler, probes: len(watched)}
	if beating {
		out.beats = beats
	}
	return out, nil
}

// run watches until ctx ends.
func (w *watching) run(ctx context.Context) error {
	var parts errgroup.Group
	parts.Go(func() error { return w.watch.Run(ctx) })
	parts.Go(func() error { return w.h.nudged(ops.ReachAll, w.forward)(ctx) })
	if w.probes > 0 {
		parts.Go(func() error {
			defer w.watch.Flush(context.WithoutCancel(ctx))
			return w.scheduler.Run(ctx)
		})
	}
	if w.beats != nil {
		parts.Go(func() error {
			defer w.watch.Flush(context.WithoutCancel(ctx))
			return w.h.nudged(ops.ReachAll, w.beats.Run)(ctx)
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

func (h *Host) deadMan() *watch.DeadMan {
	d := &watch.DeadMan{
		Ends: h.store, Environments: h.envs, Missed: h.Config.Edges.DeadManMissed, Changed: h.hub.Nudge, Clock: h.Clock,
		Logger: h.Logger,
	}
	if address := h.Config.Edges.PingURL; address != "" {
		client := &http.Client{}
		d.Ping = func(ctx context.Context) error { return notify.Ping(ctx, client, address) }
	}
	return d
}

// proberOptions are the options of every prober of this host. A probe must not change anything, so with the guard on a command
// that is known to change something is a configuration error.
func (h *Host) proberOptions() (probe.Options, error) {
	o := probe.Options{
		Clock: h.Clock, Socket: h.Config.Docker.Socket, Answered: h.engineAnswered,
		Heartbeats: func(ctx context.Context, environment, service string) ([]ops.Heartbeat, error) {
			return h.store.HeartbeatsOf(ctx, environment, service)
		},
	}
	if !h.Config.Guard.Enabled {
		return o, nil
	}
	judge, err := h.judge()
	if err != nil {
		return o, err
	}
	commands := newProbeCommands(judge, h.Options, h.envs)
	o.Allow = commands.allow
	return o, commands.check(h.Config)
}

// engineAnswered reports whether the container engine has answered a probe of an environment. Where agents observe, the results of cycles
// are all that is kept.
func (h *Host) engineAnswered(ctx context.Context, environment string) (bool, error) {
	states, err := h.store.StatesOf(ctx, environment, ops.EngineService)
	if err != nil || slices.ContainsFunc(states, func(v health.State) bool { return v.Probe == ops.ProbeEngine && v.Level != "" }) {
		return err == nil, err
	}
	checks, err := h.store.LastChecks(ctx, environment, ops.EngineService, ops.ProbeEngine, lastLooks)
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
	words := make([]string, len(argv))
	for i, word := range argv {
		words[i] = quoted(word)
	}
	return strings.Join(words, " ")
}
