package daemon

import (
	"context"
	"fmt"
	"net/http"

	"golang.org/x/sync/errgroup"

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
}

// newWatching reads the stored states of the services.
func (h *Host) newWatching(ctx context.Context, envs []ops.Environment) (*watching, error) {
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
	if err := w.Load(ctx); err != nil {
		return nil, fmt.Errorf("read stored states: %w", err)
	}
	return &watching{h: h, watch: w, scheduler: scheduler, probes: len(watched)}, nil
}

// run watches until ctx ends.
func (w *watching) run(ctx context.Context) error {
	var parts errgroup.Group
	parts.Go(func() error { return w.watch.Run(ctx) })
	parts.Go(func() error { return w.h.nudged(w.forward)(ctx) })
	if w.probes > 0 {
		parts.Go(func() error {
			defer w.watch.Flush(context.WithoutCancel(ctx))
			return w.scheduler.Run(ctx)
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
