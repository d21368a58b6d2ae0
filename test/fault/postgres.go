package main

import (
	"context"
	"fmt"
	"log/slog"
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
func (t *trying) serverAway(ctx context.Context, length time.Duration) error {
	d := must(newServer(ctx))
	b := t.box(ctx, setup{ladder: true, scenario: slowChain(3 * time.Second), database: d})
	p := t.inTier2Of(ctx, b)
	check(d.cluster.Stop(ctx))
	stopped, before := time.Now(), len(b.service.done())
	check(p.within(lease, "the agents are gone", func() bool { return len(b.agents(ops.Tier2)) == 0 }))
	gone := time.Since(stopped)
	check(b.nothingDone(before, length-gone))
	check(d.cluster.Resume(ctx))
	return t.goesOn(ctx, b, p, fmt.Sprintf("the agents were gone after %s", gone.Round(10*time.Millisecond)))
}
