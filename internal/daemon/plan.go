package daemon

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"sync"

	"claudeops/internal/act"
	"claudeops/internal/api/webhook"
	"claudeops/internal/cycle"
	"claudeops/internal/daemon/supervisor"
	"claudeops/internal/failpoint"
	"claudeops/internal/guard"
	"claudeops/internal/guard/wall"
	"claudeops/internal/ops"
	"claudeops/internal/watch/ledger"
	"claudeops/internal/watch/notify"
	"claudeops/internal/watch/probe"
)

// plan is what one reading of the configuration makes, on a ground. It is built whole or not at all, and another one takes its place as a
// whole. From then on it begins nothing: it is closed when the last session, action, update and probe that it began has ended.
type plan struct {
	Options
	*ground

	token string // for the pages and the API
	// judge is the guard, made when it is first needed: reading its tables takes time.
	judge      func() (*guard.Guard, error)
	sandboxes  map[string]*wall.Sandbox // the walls by environment, also where none are on
	envs       []ops.Environment
	mine       []ops.Environment // those of them that this host works for
	gates      *gates            // nil without the guard
	advancer   *cycle.Advancer
	actions    *act.Runner
	prober     *probe.Prober
	commits    *act.Commits
	ledger     *ledger.Ledger
	supervisor *supervisor.Supervisor
	outbox     *notify.Outbox
	setup      *Setup
	trials     *Trials
	hook       *webhook.Hook
	watchings  map[string]*watching // by the duty to watch them
	site       func() http.Handler  // made when somebody asks

	life    context.Context //nolint:containedctx // of its services
	replace func()          // ends it, and not what has begun
	begun   sync.WaitGroup  // cycles that are advanced, and its services
}

func (g *ground) newPlan(o Options, envs []ops.Environment) *plan {
	for i := range envs {
		envs[i].Policy.Watch = envs[i].Watch // a cycle judges its own probes as the watch does
		envs[i].Protected = Protected(o.Config, envs[i])
	}
	o.Logger, o.Clock, o.Service, o.Reload = g.Logger, g.Clock, g.Service, g.Reload
	p := &plan{
		Options: o, ground: g, sandboxes: newSandboxes(o, envs), envs: envs,
		judge: sync.OnceValues(func() (*guard.Guard, error) { return newJudge(o.Config, o.Self) }),
	}
	for i, e := range envs {
		noteFloor(&envs[i], p.sandboxes[e.Name])
	}
	p.mine = labelled(envs, o.Config.Host.Labels)
	p.site = sync.OnceValue(p.newSite)
	p.life, p.replace = ops.Replaceable(g.life)
	return p
}

// build makes the parts. It has no effect outside of them but for folders that are missing.
func (p *plan) build(ctx context.Context) error {
	p.Clock = p.ground.Clock
	for _, e := range p.envs {
		if err := os.MkdirAll(e.StateDir, 0o700); err != nil {
			return fmt.Errorf("create state folder of %s: %w", e.Name, err)
		}
	}
	if err := p.takeToken(); err != nil {
		return err
	}
	p.know(func(live []*plan) []*plan { return append(live, p) })
	byName := map[string]ops.Environment{}
	for _, e := range p.mine {
		byName[e.Name] = e
	}
	parts, err := p.parts(byName)
	if err != nil {
		return err
	}
	p.advancer = cycle.New(parts)
	p.supervisor = supervisor.New(supervisor.Options{
		Journal: p.store.Journal, Notices: p.store.People, Engine: p.waker, Environments: p.envs, Scheduled: p.mine, Shared: p.shared(),
		Clock: p.Clock, Logger: p.Logger, Ran: p.loops.add("schedule"), Idle: p.idle,
	})
	p.setup = NewSetup(ctx, SetupOptions{Config: p.Config, Environments: p.envs, Store: p.store, Trials: p.trials, Changed: p.hub.Nudge})
	p.outbox = notify.NewOutbox(letters{p}.outboxOptions())
	p.hook = p.newHook()
	return p.prepareWatch()
}

// close ends what a plan holds when nothing runs under it any more.
func (p *plan) close() error {
	p.replace()
	p.know(func(live []*plan) []*plan { return slices.DeleteFunc(live, func(l *plan) bool { return l == p }) })
	if p.setup == nil {
		return nil
	}
	return p.setup.Close()
}

// know changes which plans live, and with them the secrets that are removed from everything stored or shown. There is one redactor for
// all: a session under the old plan may read what is a secret since, and the pages under the new one show what a session prints that still
// holds the old key.
func (g *ground) know(change func(live []*plan) []*plan) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.live = change(g.live)
	var secrets []string
	for _, p := range g.live {
		secrets = append(secrets, p.Config.Secrets...)
	}
	g.redactor.Learn(secrets)
}

func (g *ground) redact(text string) string { return g.redactor.String(text) }

// use returns the plan of this moment, which is not closed before end is called.
func (g *ground) use() (p *plan, end func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	p = g.plan.Load()
	p.begun.Add(1)
	return p, p.begun.Done
}

// Newer is an environment as the plan has it that took the place of this one, if one did.
func (p *plan) Newer(env ops.Environment) (ops.Environment, bool) {
	now := p.plan.Load()
	if e, ok := now.works(env.Name); ok {
		env = e
	}
	return env, now != p
}

// reload puts the configuration as it is now into effect. An error says why the old one stays.
func (g *ground) reload(ctx context.Context) (err error) {
	g.swapping.Lock()
	defer g.swapping.Unlock()
	if !g.ready.Load() {
		return ops.NewConflict(ops.ConflictState, "the daemon starts or ends now, so it does not read its configuration again")
	}
	g.Service.reloading()
	defer func() {
		switch {
		case err == nil:
			g.Service.running(g.listener)
		case errors.Is(err, ops.ErrRestart):
			g.Service.unchanged("it needs a restart")
		default:
			g.Service.unchanged("run claudeops config check")
		}
	}()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(g.running.asked, cancel)() //nolint:contextcheck // whoever asks the daemon to stop does not wait for this
	o, err := g.Load()
	if err != nil {
		return err
	}
	if changed := g.Config.NeedsRestart(o.Config); changed != "" {
		return ops.NewConflict(ops.ConflictRestart, "the configuration changes %s, which needs a restart: nothing is changed until then", changed)
	}
	next := g.newPlan(o, o.Config.Environments())
	if err = next.build(ctx); err == nil && g.takeUp != nil {
		err = g.takeUp(labelsOf(next.envs), names(next.mine))
	}
	if err != nil {
		return errors.Join(err, next.close())
	}
	failpoint.Hit("reload.swap.before")
	g.swap(next)
	failpoint.Hit("reload.swap.after")
	ctx = context.WithoutCancel(ctx)
	g.Logger.InfoContext(ctx, "the configuration is read again")
	if err := g.store.Journal.WorkFor(ctx, g.Owner(), names(next.mine)); err != nil {
		g.Logger.WarnContext(ctx, "the list of hosts shows former environments", "error", err)
	}
	next.announce(ctx)
	return nil
}

// swap lets a plan take the place of the one that runs.
func (g *ground) swap(next *plan) {
	g.mu.Lock()
	old := g.plan.Swap(next)
	g.mu.Unlock()
	old.replace()
	next.start(append(next.attending(), next.working()...))
	g.start(service{name: "end an earlier configuration", run: func(context.Context) error { old.begun.Wait(); return old.close() }})
	g.waker.Submit(0)
	g.hub.Nudge()
}

// obeyHangups reads the configuration again whenever somebody sends SIGHUP.
func (g *ground) obeyHangups(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-g.Hangups:
		}
		if err := g.reload(ctx); err != nil {
			g.Logger.ErrorContext(ctx, "the new configuration is not used; the daemon continues with the old one", "error", err)
		}
	}
}

// start runs services for as long as the plan is in effect.
func (p *plan) start(list []service) { p.running.start(p.life, &p.begun, p.shareDuties(list)...) }

// start runs services until the daemon ends.
func (g *ground) start(list ...service) { g.running.start(g.life, nil, list...) }

func names(envs []ops.Environment) []string {
	out := make([]string, 0, len(envs))
	for _, e := range envs {
		out = append(out, e.Name)
	}
	return out
}

// prepare removes what an earlier run left, before anything runs, and logs what the operator should know.
func (p *plan) prepare(ctx context.Context) error {
	failpoint.Hit("boot.welcome.before")
	if p.gates != nil {
		p.gates.sweep(ctx)
	}
	p.networks.sweep()
	files := cycle.HandoffFiles{}
	for _, e := range p.envs {
		if err := files.Delete(e.StateDir); err != nil {
			return fmt.Errorf("delete stale handoff file: %w", err)
		}
	}
	if err := p.sweepFolders(ctx); err != nil {
		return err
	}
	p.announce(ctx)
	return p.interruptActions(ctx)
}

// announce logs what the operator should know of the configuration. No worker takes cycles of environments that are not in it any more.
func (p *plan) announce(ctx context.Context) {
	for _, n := range p.Config.Notices {
		p.Logger.WarnContext(ctx, "configuration notice", "notice", n)
	}
	p.warnOfOldPrices(ctx)
	open, err := p.store.Journal.Unfinished(ctx)
	if err != nil {
		p.Logger.WarnContext(ctx, "open cycles of other environments could not be looked for", "error", err)
	}
	for _, c := range open {
		if !slices.Contains(names(p.envs), c.Environment) {
			p.Logger.WarnContext(ctx, "an open cycle belongs to an environment that is not configured; configure it again to continue the cycle",
				"cycle", c.ID, "environment", c.Environment)
		}
	}
}
