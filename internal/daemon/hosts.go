package daemon

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"claudeops/internal/config"
	"claudeops/internal/daemon/supervisor"
	"claudeops/internal/engine/river"
	"claudeops/internal/ops"
	"claudeops/internal/store"
)

// StoreOptions say where the database of a configuration is.
func StoreOptions(c *config.Config) store.Options {
	if c.DatabaseURL != "" {
		return store.Options{URL: c.DatabaseURL}
	}
	return store.Options{Path: DatabasePath(c)}
}

// Owner is this host with its current term.
func (h *Host) Owner() ops.Owner { return *h.owner.Load() }

// shared reports whether other hosts may use the same database.
func (h *Host) shared() bool { return h.Config.DatabaseURL != "" }

// may is why this host must not change anything now, or nil.
func (h *Host) may() error {
	if err := h.readiness.trouble(); err != nil {
		return err
	}
	if h.lease == nil {
		return nil
	}
	return h.lease.Held()
}

// keepLease renews the lease of this host until it is closed.
func (h *Host) keepLease(ctx context.Context) error {
	if !h.shared() {
		return nil
	}
	h.lease = supervisor.NewLease(supervisor.LeaseOptions{
		Hosts: h.store, Owner: h.Owner, Length: h.Config.Host.Lease, Enlist: h.begin,
		Drain: func(asked bool) {
			if asked != h.draining.Load() {
				h.checkDrain(context.WithoutCancel(ctx)) // the answer may be older than a request that was made since
			}
		},
		Regained: func() { h.supervisor.Wake(0); h.hub.Nudge() }, Uptime: uptime, Logger: h.Logger,
	})
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	var running sync.WaitGroup
	running.Go(func() { h.lease.Run(life) })
	running.Go(func() {
		if err := h.store.Listen(life, h.hear); err != nil && life.Err() == nil {
			h.Logger.ErrorContext(life, "cannot listen for changes of other hosts; the web pages show them late", "error", err)
		}
	})
	h.later("give up lease", func() error {
		end()
		running.Wait()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), h.Config.Host.Lease/4)
		defer cancel()
		return h.store.Retire(ctx, h.Owner())
	})
	return nil
}

// hear looks at what another host wrote. A request to end a cycle of this one reaches all.
func (h *Host) hear(reach ops.Reach) {
	if reach == ops.ReachAll {
		h.supervisor.Wake(0)
	}
	h.hub.Tell(reach)
}

// begin starts a new term.
func (h *Host) begin(ctx context.Context) error {
	self := ops.Host{Name: h.Config.Host.Name, Version: h.Version, Labels: h.Config.Host.Labels}
	for _, e := range h.mine {
		self.Environments = append(self.Environments, e.Name)
	}
	var lease time.Duration
	if h.shared() {
		var err error
		if self.Identity, err = identity(h.Config.StateDir); err != nil {
			return err
		}
		lease = h.Config.Host.Lease
	}
	owner, err := h.store.Enlist(ctx, self, lease)
	if err != nil {
		return err
	}
	h.owner.Store(&owner)
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
	if err := os.WriteFile(path, []byte(id+"\n"), 0o600); err != nil {
		return "", fmt.Errorf("write identity of this host: %w", err)
	}
	return id, nil
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
	s.UseJobs(jobs)
	return nil
}

// labelled returns the environments that this host works for.
func labelled(envs []ops.Environment, labels []string) []ops.Environment {
	var out []ops.Environment
	for _, e := range envs {
		if ops.Labelled(e.Labels, labels) {
			out = append(out, e)
		}
	}
	return out
}

// advance advances a cycle as far as possible while this host holds its lease.
func (h *Host) advance(ctx context.Context, id ops.CycleID, environment string) error {
	if h.lease == nil {
		ctx, free := h.readiness.Bound(ctx)
		defer free()
		err := h.advancer.Advance(ctx, id, environment)
		if store.Damaged(err) {
			h.readiness.damaged(err)
		}
		return err
	}
	if err := h.lease.Held(); err != nil {
		return err
	}
	ctx, free := h.lease.Bound(ctx)
	defer free()
	return h.advancer.Advance(ctx, id, environment)
}

// drain stops taking cycles, or takes them again; running ones are handed over when their session ends.
func (h *Host) drain(asked bool) {
	switch {
	case asked && !h.draining.Load():
		h.draining.Store(true)
		h.Logger.Info("draining: this host takes no new cycles and hands running ones over when their session ends")
		h.engine.Drain()
	case !asked && h.draining.Load():
		if err := h.engine.Resume(); err != nil {
			h.Logger.Warn("this host cannot take cycles again; trying again after the next renewal", "error", err)
			return
		}
		h.draining.Store(false)
		h.Logger.Info("no longer draining: this host takes cycles again")
	default:
		return
	}
	h.hub.Nudge()
}

// checkDrain reads whether this host was asked to drain. One call at a time: an older row must not win.
func (h *Host) checkDrain(ctx context.Context) {
	h.drainGate.Lock()
	defer h.drainGate.Unlock()
	hosts, err := h.store.Hosts(ctx)
	if err != nil {
		h.Logger.WarnContext(ctx, "cannot read whether this host should drain; run 'claudeops hosts drain' again", "error", err)
		return
	}
	for _, other := range hosts {
		if other.Name == h.Config.Host.Name {
			h.drain(other.Draining)
		}
	}
}
