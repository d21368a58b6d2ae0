package daemon

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"claudeops/internal/config"
	"claudeops/internal/daemon/supervisor"
	"claudeops/internal/decide/health"
	"claudeops/internal/engine/river"
	"claudeops/internal/failpoint"
	"claudeops/internal/notice"
	"claudeops/internal/ops"
	"claudeops/internal/store"
)

// StoreOptions say where the database of a configuration is.
func StoreOptions(c *config.Config) store.Options {
	if c.DatabaseURL != "" {
		return store.Options{URL: c.DatabaseURL, Words: notice.Rows{}, Rules: health.Rules{}}
	}
	return store.Options{Path: DatabasePath(c), Words: notice.Rows{}, Rules: health.Rules{}}
}

// Owner is this host with its current term.
func (g *ground) Owner() ops.Owner { return *g.owner.Load() }

// shared reports whether other hosts may use the same database.
func (g *ground) shared() bool { return g.Config.DatabaseURL != "" }

// may is why this host must not change anything now, or nil.
func (g *ground) may() error {
	if err := g.readiness.trouble(); err != nil {
		return err
	}
	if g.lease == nil {
		return nil
	}
	return g.lease.Held()
}

// hostLease is how long a host may go without a heartbeat before others continue its cycles; the agents of a supervisor that is paused end
// after a third of it. A busy machine or database answers within a few seconds, and nobody waits longer for a dead host than for a probe.
const hostLease = 12 * time.Second

func leaseLength() time.Duration { return failpoint.Wait("lease", hostLease) }

// makeLease begins the lease before this host is enlisted: it must end here before it ends for the others.
func (g *ground) makeLease(ctx context.Context) *supervisor.Lease {
	return supervisor.NewLease(supervisor.LeaseOptions{
		Hosts: g.store.Journal, Owner: g.Owner, Length: leaseLength(), Enlist: g.begin,
		Drain: func(asked bool) {
			if asked != g.draining.Load() {
				g.checkDrain(context.WithoutCancel(ctx)) // the answer may be older than a request that was made since
			}
		},
		Regained: func() { g.waker.Submit(0); g.hub.Nudge() }, Uptime: uptime, Logger: g.Logger,
	})
}

// keepLease renews the lease of this host until it is closed. The rest of the start may take longer than a lease.
func (g *ground) keepLease(ctx context.Context) error {
	if !g.shared() {
		return nil
	}
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	var running sync.WaitGroup
	running.Go(func() { g.lease.Run(life) })
	running.Go(func() {
		if err := g.store.Listen(life, g.hear); err != nil && life.Err() == nil {
			g.Logger.ErrorContext(life, "cannot listen for changes of other hosts; the web pages show them late", "error", err)
		}
	})
	g.later("give up lease", func() error {
		end()
		running.Wait()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaseLength()/4)
		defer cancel()
		return g.store.Journal.Retire(ctx, g.Owner())
	})
	return nil
}

// hear looks at what another host wrote. A request to end a cycle of this one reaches all.
func (g *ground) hear(reach ops.Reach) {
	if reach == ops.ReachAll {
		g.waker.Submit(0)
	}
	g.hub.Tell(reach)
}

// begin starts a new term.
func (g *ground) begin(ctx context.Context) error {
	self := ops.Host{
		Name: g.Config.Host.Name, Version: g.Version, Labels: g.Config.Host.Labels, Environments: names(g.plan.Load().mine),
	}
	var lease time.Duration
	if g.shared() {
		var err error
		if self.Identity, err = identity(g.Config.StateDir); err != nil {
			return err
		}
		lease = leaseLength()
	}
	owner, err := g.store.Journal.Enlist(ctx, self, lease)
	if err != nil {
		return err
	}
	g.owner.Store(&owner)
	return nil
}

// identity distinguishes this state folder from others with the same host name; the lock makes sure that one process uses it.
func identity(dir string) (string, error) {
	path := filepath.Join(dir, "host-id")
	raw, err := os.ReadFile(path)
	if text := strings.TrimSpace(string(raw)); err == nil && text != "" {
		return text, nil
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return "", fmt.Errorf("read identity of this host: %w", err)
	}
	id := rand.Text()
	err = os.WriteFile(path, []byte(id+"\n"), 0o600)
	return ops.Returning(id, err, "write identity of this host")
}

// labelsOf returns the labels of each environment.
func labelsOf(envs []ops.Environment) map[string][]string {
	out := map[string][]string{}
	for _, e := range envs {
		out[e.Name] = e.Labels
	}
	return out
}

// UseJobs lets a process that only writes to the database of several hosts insert the jobs of the cycles that it wakes.
func UseJobs(ctx context.Context, s *store.Store, c *config.Config) error {
	if s.Pool() == nil {
		return nil
	}
	jobs, err := river.OpenJobs(ctx, s.Pool(), labelsOf(c.Environments()))
	if err != nil || jobs == nil {
		return err
	}
	s.Journal.UseJobs(jobs)
	return nil
}

// labelled returns the environments that this host works for.
func labelled(envs []ops.Environment, labels []string) []ops.Environment {
	return slices.DeleteFunc(slices.Clone(envs), func(e ops.Environment) bool { return !ops.Labelled(e.Labels, labels) })
}

// advance advances a cycle as far as possible under the plan of this moment, while this host holds its lease.
func (g *ground) advance(ctx context.Context, id ops.CycleID, environment string) error {
	p, end := g.use()
	defer end()
	if g.lease == nil {
		ctx, free := g.readiness.Bound(ctx)
		defer free()
		err := p.advancer.Advance(ctx, id, environment)
		if store.Damaged(err) {
			g.readiness.damaged(err)
		}
		return err
	}
	if err := g.lease.Held(); err != nil {
		return err
	}
	ctx, free := g.lease.Bound(ctx)
	defer free()
	return p.advancer.Advance(ctx, id, environment)
}

// drain stops taking cycles, or takes them again; running ones are handed over when their session ends.
func (g *ground) drain(asked bool) {
	switch {
	case asked && !g.draining.Load():
		g.draining.Store(true)
		g.Logger.Info("draining: this host takes no new cycles and hands running ones over when their session ends")
		g.engine.Drain()
	case !asked && g.draining.Load():
		if err := g.engine.Resume(); err != nil {
			g.Logger.Warn("this host cannot take cycles again; trying again after the next renewal", "error", err)
			return
		}
		g.draining.Store(false)
		g.Logger.Info("no longer draining: this host takes cycles again")
	default:
		return
	}
	g.hub.Nudge()
}

// checkDrain reads whether this host was asked to drain. One call at a time: an older row must not win.
func (g *ground) checkDrain(ctx context.Context) {
	g.drainGate.Lock()
	defer g.drainGate.Unlock()
	hosts, err := g.store.Journal.Hosts(ctx)
	if err != nil {
		g.Logger.WarnContext(ctx, "cannot read whether this host should drain; run 'claudeops hosts drain' again", "error", err)
		return
	}
	for _, other := range hosts {
		if other.Name == g.Config.Host.Name {
			g.drain(other.Draining)
		}
	}
}

// skewInterval is how often this host's clock is compared with the database's.
const skewInterval = 5 * time.Second

// watchSkew records when this host's clock begins and ceases to differ from the database's, until ctx ends. Everything stored is
// compared by the database's time, so nothing stops.
func (g *ground) watchSkew(ctx context.Context) {
	wrong := false
	supervisor.Every(ctx, skewInterval, nil, func() {
		if ahead, known := g.store.Skew(); known && (ahead.Abs() > ops.MaxClockSkew) != wrong {
			if g.tellSkew(ctx, ahead) {
				wrong = !wrong
			}
		}
	})
}

func (g *ground) tellSkew(ctx context.Context, ahead time.Duration) bool {
	event := ops.Event{
		At: g.Clock(), Level: ops.LevelInfo, Verb: ops.VerbHostClock, Subject: ops.Subject{Kind: ops.SubjectHost, ID: g.Config.Host.Name},
		Detail: ops.ClockDetail{AheadMS: ahead.Milliseconds()},
	}
	if ahead.Abs() > ops.MaxClockSkew {
		event.Level = ops.LevelWarning
	}
	if _, err := g.store.Journal.AddEvent(ctx, event); err != nil {
		return false // it is tried again
	}
	g.Logger.WarnContext(ctx, "compared this host's clock with the database's", "ahead", ahead, "limit", ops.MaxClockSkew)
	g.hub.Nudge()
	return true
}
