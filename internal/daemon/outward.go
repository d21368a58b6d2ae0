package daemon

import (
	"cmp"
	"slices"

	"claudeops/internal/daemon/cloudevents"
	"claudeops/internal/daemon/supervisor"
	"claudeops/internal/ops"
)

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
		Source: cmp.Or(h.Config.Edges.EventSource, h.Config.Edges.PublicURL, "/claudeops"),
	}
	for _, t := range h.Config.EventTargets {
		o.Targets = append(o.Targets, cloudevents.Target{
			Name: t.Name, URL: t.URL, Secret: t.Secret, Kinds: t.Kinds, Environment: t.Environment,
		})
	}
	return cloudevents.New(o)
}
