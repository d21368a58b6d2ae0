package daemon

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"

	"claudeops/internal/api/webhook"
	"claudeops/internal/ops"
	"claudeops/internal/watch"
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
		Store: h.store, Environments: names, Token: h.token, Secret: h.Config.Edges.WebhookSecret, Clock: h.Clock, Logger: h.Logger,
		Service: func(environment, name string) string {
			own, _ := inventories[environment].Canonical(name)
			return own
		},
		Wake: h.hub.Nudge, Redact: h.redact,
	})
	return h.hook
}

// startWatching starts the probes and the alerts of other systems. Run owns each part until life ends.
func (h *Host) startWatching(life context.Context, run func(what string, f func() error)) error {
	run("take alerts", func() error { return h.hook.Run(life) })
	for duty, envs := range h.watched() {
		w, err := h.newWatching(envs)
		if err != nil {
			return fmt.Errorf("start watching: %w", err)
		}
		if err := w.watch.Load(life); err != nil {
			return fmt.Errorf("start watching: %w", err)
		}
		run("watch services", func() error {
			return h.onOneHost(life, duty, func(ctx context.Context) error {
				if h.lease == nil {
					return w.run(ctx)
				}
				// Another host may have watched since: the states are read again.
				w, err := h.newWatching(envs)
				if err != nil {
					return err
				}
				if err := w.watch.Load(ctx); err != nil {
					return fmt.Errorf("read stored states: %w", err)
				}
				return w.run(ctx)
			})
		})
	}
	dead := h.deadMan()
	run("watch the schedule", func() error {
		nudges, unsubscribe := h.hub.Subscribe()
		defer unsubscribe()
		return h.onOneHost(life, "schedule", func(ctx context.Context) error { return dead.Run(ctx, nudges) })
	})
	return nil
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
}

func (h *Host) newWatching(envs []ops.Environment) (*watching, error) {
	w, err := watch.New(watch.Options{
		Store: h.store, Environments: envs, Describe: probe.Describe, Start: h.supervisor.Wake, Cancel: h.supervisor.Cancel, Clock: h.Clock,
		Logger: h.Logger, Changed: h.hub.Nudge, Expire: h.Config.Edges.AlertsExpire,
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
	for _, e := range envs {
		for _, spec := range watch.Probes(e) {
			watched = append(watched, probe.Watched{Environment: e.Name, Spec: spec})
		}
	}
	scheduler.Watch(watched)
	return &watching{h: h, watch: w, scheduler: scheduler, probes: len(watched)}, nil
}

// run watches until ctx ends.
func (w *watching) run(ctx context.Context) error {
	var parts sync.WaitGroup
	errs := make(chan error, 3)
	parts.Go(func() { errs <- w.watch.Run(ctx) })
	parts.Go(func() { errs <- w.h.forward(ctx, w.watch.Wake) })
	if w.probes > 0 {
		parts.Go(func() {
			defer w.watch.Flush(context.WithoutCancel(ctx))
			errs <- w.scheduler.Run(ctx)
		})
	}
	parts.Wait()
	close(errs)
	var all error
	for err := range errs {
		all = errors.Join(all, err)
	}
	return all
}

// forward passes nudges on: there may be a new silence or answer.
func (h *Host) forward(life context.Context, wake func()) error {
	nudges, unsubscribe := h.hub.Subscribe()
	defer unsubscribe()
	for {
		select {
		case <-life.Done():
			return nil
		case <-nudges:
			wake()
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
