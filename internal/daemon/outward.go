package daemon

import (
	"cmp"
	"context"
	"slices"

	"claudeops/internal/daemon/cloudevents"
	"claudeops/internal/daemon/supervisor"
	"claudeops/internal/ops"
)

// sendOutward starts what tells other programs about the work: traces and events. The function that it returns ends their wake-ups.
func (h *Host) sendOutward(ctx, life context.Context, run func(what string, f func() error)) (stop func()) {
	var stops []func()
	if exporter := h.traces(ctx); exporter != nil {
		ended, unsubscribe := h.hub.Subscribe()
		stops = append(stops, unsubscribe)
		run("send traces", func() error {
			return h.onOneHost(life, "traces", func(ctx context.Context) error { return exporter.Run(ctx, ended) })
		})
	}
	if sender := h.eventSender(); sender != nil {
		changed, unsubscribe := h.hub.Subscribe()
		stops = append(stops, unsubscribe)
		run("send events", func() error {
			return h.onOneHost(life, "events", func(ctx context.Context) error { return sender.Run(ctx, changed) })
		})
	}
	return func() {
		for _, end := range stops {
			end()
		}
	}
}

// spending watches the budgets of the day; nil if there are none.
func (h *Host) spending() *supervisor.Spending {
	if !slices.ContainsFunc(h.envs, func(e ops.Environment) bool { return e.Policy.BudgetDayUSD > 0 }) {
		return nil
	}
	return &supervisor.Spending{Costs: h.store, Environments: h.envs, Changed: h.hub.Nudge, Clock: h.Clock, Logger: h.Logger}
}

// eventSender sends events to the programs that are configured; nil if there are none.
func (h *Host) eventSender() *cloudevents.Sender {
	if len(h.Config.EventTargets) == 0 {
		return nil
	}
	o := cloudevents.Options{
		Journal: h.store, Queue: h.store, Clock: h.store.Clock, Logger: h.Logger, Version: h.Version,
		Source: cmp.Or(h.Config.Edges.PublicURL, "/claudeops"),
	}
	for _, t := range h.Config.EventTargets {
		o.Targets = append(o.Targets, cloudevents.Target{
			Name: t.Name, URL: t.URL, Secret: t.Secret, Kinds: t.Kinds, Environment: t.Environment,
		})
	}
	return cloudevents.New(o)
}
