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
	asked context.Context //nolint:containedctx // it ends when the daemon is asked to stop, or, with its error as the cause, when one fails

	mu      sync.Mutex
	running []*underway
}

// underway is a service that has not ended.
type underway struct {
	name  string
	ended chan struct{}
}

// newServices returns services that have not begun.
func newServices(ctx context.Context, log *slog.Logger) *services {
	group, asked := errgroup.WithContext(ctx)
	return &services{log: log, group: group, asked: asked}
}

// start runs services until life ends. Those of a plan, which are counted, each begin when that of the same name has ended under every plan
// before: two at once would do things twice.
func (s *services) start(life context.Context, counted *sync.WaitGroup, list ...service) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := slices.Clone(s.running)
	for _, one := range list {
		self := &underway{one.name, make(chan struct{})}
		s.running = append(s.running, self)
		if counted != nil {
			counted.Add(1)
		}
		s.group.Go(func() error {
			defer func() {
				s.mu.Lock()
				s.running = slices.DeleteFunc(s.running, func(u *underway) bool { return u == self })
				s.mu.Unlock()
				close(self.ended)
				if counted != nil {
					counted.Done()
				}
			}()
			for _, earlier := range before {
				if counted != nil && earlier.name == one.name {
					<-earlier.ended
				}
			}
			if counted != nil && life.Err() != nil {
				return nil // another plan took its place before it could begin
			}
			err := one.run(life)
			if err == nil || errors.Is(err, context.Canceled) || life.Err() != nil {
				return nil
			}
			s.log.ErrorContext(life, "a service of the daemon failed", "service", one.name, "error", err)
			return fmt.Errorf("%s: %w", one.name, err)
		})
	}
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
	names := ops.Map(s.running, func(u *underway) string { return u.name })
	return fmt.Errorf("stopping without services that do not end: %s", strings.Join(names, ", "))
}

// endless makes a service of something that does not fail.
func endless(f func(ctx context.Context)) func(ctx context.Context) error {
	return func(ctx context.Context) error { f(ctx); return nil }
}

// nudged makes a service of something that looks again when something changed that reaches it.
func (g *ground) nudged(from ops.Reach, f func(ctx context.Context, nudges <-chan struct{}) error) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		nudges, unsubscribe := g.hub.Subscribe(from)
		defer unsubscribe()
		return f(ctx, nudges)
	}
}

// shareDuties lets a service that only one of the hosts may run wait until it is this one's turn.
func (g *ground) shareDuties(list []service) []service {
	if g.lease == nil {
		return list
	}
	for i, s := range list {
		if s.duty != "" {
			list[i].run = func(ctx context.Context) error { return g.lease.Duty(ctx, s.duty, s.run) }
		}
	}
	return list
}

// attending are the services that answer and record, also while the daemon starts and ends.
func (g *ground) attending(server *http.Server) []service {
	return []service{
		{name: "serve pages", run: func(context.Context) error { return ignore(server.Serve(g.conns), http.ErrServerClosed) }},
		{name: "serve control socket", run: func(context.Context) error { return g.control.Serve(localAPI(server.Handler)) }},
		{name: "store kept output", run: endless(g.journal.run)},
		{name: "watch readiness", run: endless(func(ctx context.Context) {
			g.readiness.watch(ctx, g.loops.add("watch readiness"), func(trouble error) { g.tellTrouble(ctx, trouble) })
		})},
		{name: "compare clocks", run: endless(g.watchSkew)},
	}
}

// working are the services that the daemon has besides once its engine runs.
func (g *ground) working() []service {
	return []service{
		g.tellSystemd(),
		{name: "read the configuration again", run: endless(g.obeyHangups)},
	}
}

// attending are the services that speak to people and obey them, also while the daemon starts and ends.
func (p *plan) attending() []service {
	return []service{
		{name: "deliver notices", duty: "notices", run: p.nudged(ops.ReachPeople, p.outbox.Run)},
		{name: "deliver notices that cannot be stored", run: p.nudged(ops.ReachPeople, notify.NewOutbox(letters{p}.unstoredOptions()).Run)},
		{name: "do what people ask for", run: p.nudged(ops.ReachAll, p.takeRequests)},
	}
}

// working are the services that start work: what the plan does once the engine runs.
func (p *plan) working() []service {
	list := append(
		p.watchServices(),
		service{name: "look for changes", run: p.nudged(ops.ReachWatch, p.ledger.Run)},
		service{name: "watch the schedule", duty: "schedule", run: p.nudged(ops.ReachWatch, p.deadMan().Run)},
		service{name: "keep schedule", run: p.supervisor.Run},
		service{name: "update services", run: p.nudged(ops.ReachWatch, p.newUpdater().run)},
		service{name: "remind people", duty: "people", run: endless(p.keeper().Run)},
		service{name: "remove old records", duty: "retention", run: endless(p.retention().Run)},
		service{name: "try walls", run: endless(p.tellWalls)},
	)
	if replies := (letters{p}).replies(); replies.Needed() {
		list = append(list, service{name: "read answers", duty: "answers", run: replies.Run})
	}
	if slices.ContainsFunc(p.envs, func(e ops.Environment) bool { return e.Policy.BudgetDayUSD > 0 }) {
		spending := supervisor.Spending{
			Costs: p.store.Reports, Silences: p.store.Watch, Notices: p.store.People, Environments: p.envs, Changed: p.hub.Nudge, Clock: p.Clock,
			Logger: p.Logger,
		}
		list = append(list, service{name: "watch spending", duty: "spending", run: endless(spending.Run)})
	}
	return list
}

// tellSystemd keeps the watchdog of systemd calm while every loop runs.
func (g *ground) tellSystemd() service {
	return service{name: "tell systemd", run: endless(func(ctx context.Context) { g.Service.watch(ctx, &g.loops) })}
}
