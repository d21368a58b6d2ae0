package main

import (
	"context"
	"fmt"
	"log/slog"
	"syscall"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/store"
	"claudeops/test/pgtest"
)

// server is a database on a PostgreSQL of the box's own.
type server struct {
	cluster *pgtest.Cluster
	url     string
}

func newServer(ctx context.Context) (*server, error) {
	c, err := pgtest.Start(ctx, pgtest.Durable)
	if err != nil {
		return nil, fmt.Errorf("start PostgreSQL: %w", err)
	}
	if err := c.SQL(ctx, "CREATE DATABASE journal"); err != nil {
		return nil, err
	}
	return &server{c, c.Address("journal")}, nil
}

func (d *server) environ() []string { return []string{"CLAUDEOPS_DATABASE_URL=" + d.url} }

func (d *server) open(ctx context.Context) (*store.Store, error) {
	return store.OpenReadOnly(ctx, store.Options{URL: d.url, Clock: time.Now, Logger: slog.New(slog.DiscardHandler)})
}

func (d *server) check(ctx context.Context) error {
	s, err := d.open(ctx)
	if err != nil {
		return err
	}
	return s.Close()
}

func (d *server) drop() error { return d.cluster.Close() }

// lease is the default one: within it everything of a host that cannot reach its database must be gone.
const lease = 12 * time.Second

// serverAway stops PostgreSQL in the middle of Tier 2.
func (t *trying) serverAway(ctx context.Context, length time.Duration) (err error) {
	d, err := newServer(ctx)
	if err != nil {
		return err
	}
	b, err := newBox(ctx, setup{program: t.program, ladder: true, scenario: slowChain(3 * time.Second), database: d})
	if err != nil {
		return err
	}
	defer func() { t.leave(b, err) }()
	p, err := b.start(ctx, modeServe)
	if err != nil {
		return err
	}
	defer p.signal(syscall.SIGKILL)
	if err := p.until("Tier 2 runs", func() bool { return b.running(ctx, ops.Tier2) && len(b.agents(ops.Tier2)) > 0 }); err != nil {
		return err
	}
	if err := d.cluster.Stop(ctx); err != nil {
		return err
	}
	stopped, before := time.Now(), len(b.service.done())
	if err := p.within(lease, "the agents are gone", func() bool { return len(b.agents(ops.Tier2)) == 0 }); err != nil {
		return err
	}
	gone := time.Since(stopped)
	for time.Since(stopped) < length {
		<-time.After(100 * time.Millisecond)
		if done := b.service.done(); len(done) > before {
			return fmt.Errorf("%s was done although nothing could be reserved", done[before].verb)
		}
	}
	if err := d.cluster.Resume(ctx); err != nil {
		return err
	}
	back := time.Now()
	if err := p.until("every cycle has ended", func() bool { return b.quiet(ctx) }); err != nil {
		return err
	}
	t.recovery = time.Since(back)
	t.found = fmt.Sprintf("the agents were gone after %s; %s after it came back the chain had ended: %s",
		gone.Round(10*time.Millisecond), t.recovery.Round(10*time.Millisecond), b.summary(ctx))
	if err := p.stop(); err != nil {
		return err
	}
	return b.verdict(ctx, true)
}
