package daemon

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"

	"claudeops/internal/hook"
	"claudeops/internal/notify"
	"claudeops/internal/ops"
	"claudeops/internal/probe"
	"claudeops/internal/redact"
	"claudeops/internal/watch"
)

// withWebhooks puts the webhooks before the pages: they have their own ways in and their own limits.
func (h *Host) withWebhooks(pages http.Handler) http.Handler {
	names := make([]string, 0, len(h.envs))
	inventories := map[string]ops.Inventory{}
	for _, e := range h.envs {
		names = append(names, e.Name)
		inventories[e.Name] = e.Policy.Inventory
	}
	h.hook = hook.New(hook.Options{
		Store: h.store, Environments: names, Token: h.Config.APIToken, Secret: h.Config.Edges.WebhookSecret, Clock: h.Clock, Logger: h.Logger,
		Service: func(environment, name string) string {
			own, _ := inventories[environment].Canonical(name)
			return own
		},
		Wake: h.hub.Nudge, Redact: redact.New(h.Config.Secrets).String,
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, hook.Path) {
			h.hook.ServeHTTP(w, r)
			return
		}
		pages.ServeHTTP(w, r)
	})
}

// startWatching runs what looks at services all the time and hears what others tell. Run owns each part until life ends.
func (h *Host) startWatching(life context.Context, run func(what string, f func() error)) error {
	w, err := watch.New(watch.Options{
		Store: h.store, Environments: h.envs, Describe: probe.Describe, Start: h.supervisor.Wake, Cancel: h.supervisor.Cancel, Clock: h.Clock,
		Logger: h.Logger, Changed: h.hub.Nudge, Expire: h.Config.Edges.AlertsExpire, Keep: h.Config.Edges.KeepChecks,
	})
	if err == nil {
		err = w.Load(life)
	}
	if err != nil {
		return fmt.Errorf("start watching: %w", err)
	}
	probing, err := h.proberOptions()
	if err != nil {
		return fmt.Errorf("start watching: %w", err)
	}
	scheduler := probe.NewScheduler(probe.SchedulerOptions{Prober: probe.New(probing), Deliver: w.Deliver})
	var watched []probe.Watched
	for _, e := range h.envs {
		for _, spec := range watch.Probes(e) {
			watched = append(watched, probe.Watched{Environment: e.Name, Spec: spec})
		}
	}
	scheduler.Watch(watched)
	run("take alerts", func() error { return h.hook.Run(life) })
	run("judge what is bad", func() error { return w.Run(life) })
	if len(watched) > 0 {
		run("run probes", func() error { return scheduler.Run(life) })
	}
	run("wake the watch", func() error { return h.forward(life, w.Wake) })
	dead := h.deadMan()
	run("watch the schedule", func() error {
		nudges, unsubscribe := h.hub.Subscribe()
		defer unsubscribe()
		return dead.Run(life, nudges)
	})
	return nil
}

// forward passes nudges on: somebody may have silenced or answered something.
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
	d := &watch.DeadMan{Ends: h.store, Environments: h.envs, Missed: h.Config.Edges.DeadManMissed, Clock: h.Clock, Logger: h.Logger}
	if address := h.Config.Edges.PingURL; address != "" {
		client := &http.Client{}
		d.Ping = func(ctx context.Context) error { return notify.Ping(ctx, client, address) }
	}
	return d
}

// outboxOptions say how notices leave this host: by which way, several at once, and with a link where there is one.
func (h *Host) outboxOptions() notify.OutboxOptions {
	c := h.Config
	router := notify.Router{First: Sender(c.AppriseURLs, c.AppriseAPI, c.StateDir)}
	own := func(name string, urls []string) notify.Sender {
		return notify.New(notify.AppriseOptions{URLs: urls, API: c.AppriseAPI, Dir: filepath.Join(c.StateDir, "notify", name)})
	}
	if len(c.Edges.SecondURLs) > 0 {
		router.Second = own("second", c.Edges.SecondURLs)
	}
	for i, r := range c.NoticeRoutes {
		routed := notify.Routed{NoticeRoute: r}
		if len(r.URLs) > 0 {
			routed.Sender = own(fmt.Sprintf("route%d", i), r.URLs)
		}
		router.Routes = append(router.Routes, routed)
	}
	o := notify.OutboxOptions{Store: h.store, Sender: router, Clock: h.Clock, Logger: h.Logger, Route: router.Route}
	if c.Edges.PublicURL != "" {
		o.Link = h.link
	}
	return o
}

// link is the page on which a person can act on a notice: the question, the incident, or the session it tells of.
func (h *Host) link(ctx context.Context, n ops.Notice) string {
	base := h.Config.Edges.PublicURL
	if n.CycleID == nil {
		return base + "/"
	}
	loaded, err := h.store.Load(ctx, *n.CycleID)
	if err != nil {
		return base + "/"
	}
	for _, a := range loaded.Journal.Approvals {
		if a.Status == ops.ApprovalPending {
			return fmt.Sprintf("%s/approvals/%d", base, a.ID)
		}
	}
	for _, i := range loaded.Journal.Incidents {
		if i.LastCycle == *n.CycleID {
			return fmt.Sprintf("%s/incidents/%d", base, i.ID)
		}
	}
	if s := loaded.Journal.Newest(); s != nil {
		return fmt.Sprintf("%s/sessions/%d", base, s.ID)
	}
	return base + "/"
}
