package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"claudeops/internal/daemon/supervisor"
	"claudeops/internal/ops"
	"claudeops/internal/watch/notify"
)

// service is one thing that the daemon does until its context ends.
type service struct {
	name string
	duty string // what only one of the hosts of a database does at a time; empty: every host does it
	run  func(ctx context.Context) error
}

// services run side by side. One that fails stops none of the others: the daemon is told and ends them in order.
type services struct {
	log   *slog.Logger
	group *errgroup.Group

	mu      sync.Mutex
	running []string
}

// newServices returns services that have not begun, and a context that ends with ctx or, with its error as the cause, when one fails.
func newServices(ctx context.Context, log *slog.Logger) (*services, context.Context) {
	group, stopped := errgroup.WithContext(ctx)
	return &services{log: log, group: group}, stopped
}

// start runs services until life ends.
func (s *services) start(life context.Context, list ...service) {
	for _, one := range list {
		s.note(func(running []string) []string { return append(running, one.name) })
		s.group.Go(func() error {
			defer s.note(func(running []string) []string {
				i := slices.Index(running, one.name)
				return slices.Delete(running, i, i+1)
			})
			err := one.run(life)
			if err == nil || errors.Is(err, context.Canceled) || life.Err() != nil {
				return nil
			}
			s.log.ErrorContext(life, "a service of the daemon failed", "service", one.name, "error", err)
			return fmt.Errorf("%s: %w", one.name, err)
		})
	}
}

func (s *services) note(change func(running []string) []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running = change(s.running)
}

// wait returns when all services have ended. When ctx ends first, it names those that have not: they cannot keep the daemon from ending.
func (s *services) wait(ctx context.Context) error {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = s.group.Wait() // the context of newServices has told of it
	}()
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return fmt.Errorf("stopping without services that do not end: %s", strings.Join(s.running, ", "))
}

// endless makes a service of something that does not fail.
func endless(f func(ctx context.Context)) func(ctx context.Context) error {
	return func(ctx context.Context) error { f(ctx); return nil }
}

// nudged makes a service of something that looks again when something changed that reaches it.
func (h *Host) nudged(from ops.Reach, f func(ctx context.Context, nudges <-chan struct{}) error) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		nudges, unsubscribe := h.hub.Subscribe(from)
		defer unsubscribe()
		return f(ctx, nudges)
	}
}

// shareDuties lets a service that only one of the hosts may run wait until it is this one's turn.
func (h *Host) shareDuties(list []service) []service {
	if h.lease == nil {
		return list
	}
	for i, s := range list {
		if s.duty != "" {
			list[i].run = func(ctx context.Context) error { return h.lease.Duty(ctx, s.duty, s.run) }
		}
	}
	return list
}

// attending are the services that answer and record, also while the daemon starts and ends.
func (h *Host) attending(server *http.Server, conns *connections) []service {
	return h.shareDuties([]service{
		{name: "serve pages", run: func(context.Context) error { return ignore(server.Serve(conns), http.ErrServerClosed) }},
		{name: "serve control socket", run: func(context.Context) error { return h.control.Serve(localAPI(server.Handler)) }},
		{name: "deliver notices", duty: "notices", run: h.nudged(ops.ReachPeople, h.outbox.Run)},
		{name: "deliver notices that cannot be stored", run: h.nudged(ops.ReachPeople, notify.NewOutbox(h.unstoredOptions()).Run)},
		{name: "store kept output", run: endless(h.journal.run)},
		{name: "do what people ask for", run: h.nudged(ops.ReachAll, h.takeRequests)},
		{name: "watch readiness", run: endless(func(ctx context.Context) {
			h.readiness.watch(ctx, h.loops.add("watch readiness"), func(trouble error) { h.tellTrouble(ctx, trouble) })
		})},
		{name: "compare clocks", run: endless(h.watchSkew)},
	})
}

// working are the services that start work or speak to people: what the daemon does once its engine runs.
func (h *Host) working(ctx context.Context) ([]service, error) {
	list, err := h.watchServices(ctx)
	if err != nil {
		return nil, fmt.Errorf("start watching: %w", err)
	}
	list = append(
		list,
		service{name: "take alerts", run: h.hook.Run},
		service{name: "look for changes", run: h.nudged(ops.ReachAll, h.ledger.Run)},
		service{name: "watch the schedule", duty: "schedule", run: h.nudged(ops.ReachAll, h.deadMan().Run)},
		service{name: "keep schedule", run: h.supervisor.Run},
		service{name: "update services", run: h.nudged(ops.ReachAll, h.newUpdater().run)},
		service{name: "remind people", duty: "people", run: endless(h.keeper().Run)},
		service{name: "remove old records", duty: "retention", run: endless(h.retention().Run)},
		h.tellSystemd(),
		service{name: "try walls", run: endless(h.tellWalls)},
	)
	if replies := h.replies(); replies.Needed() {
		list = append(list, service{name: "read answers", duty: "answers", run: replies.Run})
	}
	if slices.ContainsFunc(h.envs, func(e ops.Environment) bool { return e.Policy.BudgetDayUSD > 0 }) {
		spending := supervisor.Spending{Costs: h.store, Environments: h.envs, Changed: h.hub.Nudge, Clock: h.Clock, Logger: h.Logger}
		list = append(list, service{name: "watch spending", duty: "spending", run: endless(spending.Run)})
	}
	return h.shareDuties(list), nil
}

// tellSystemd keeps the watchdog of systemd calm while every loop runs.
func (h *Host) tellSystemd() service {
	return service{name: "tell systemd", run: endless(func(ctx context.Context) { h.Service.watch(ctx, &h.loops) })}
}
