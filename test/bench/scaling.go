package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"claudeops/test/pgtest"
)

const (
	// farEnvironments is how many environments the hosts share. Each of them has one chain to do.
	farEnvironments = 60
	// farSlots is how many sessions a host runs at once.
	farSlots = 4
	// farDelay is how long a packet takes to the database, and back.
	farDelay = 4 * time.Millisecond
	// farWait is how long an agent waits, as for a model. Real sessions take longer.
	farWait = "10"
)

// scaling measures how busy three hosts keep their slots, with a network between them and the database.
func (b *bench) scaling() ([]figure, error) {
	const hosts = 3
	rate, busy, err := b.farHosts(hosts)
	if err != nil {
		return nil, err
	}
	return []figure{{
		fmt.Sprintf("%d chains, %d hosts with %d slots each, %s to the database each way, sessions of %s s",
			farEnvironments, hosts, farSlots, farDelay, farWait),
		fmt.Sprintf("%.0f chains per minute, %.1f %% of the slots busy", rate, 100*busy), "≥ 90 %",
	}}, nil
}

// farHosts lets hosts do all chains. It returns how many they did per minute and which share of their slots was busy.
func (b *bench) farHosts(hosts int) (perMinute, busy float64, err error) {
	ctx := context.Background()
	c, err := pgtest.Start(ctx)
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	if err := c.SQL(ctx, "CREATE DATABASE far"); err != nil {
		return 0, 0, err
	}
	proxy, err := pgtest.NewProxy(ctx, c.Address("far"), farDelay)
	if err != nil {
		return 0, 0, err
	}
	defer func() { _ = proxy.Close() }()
	agent, err := b.agent("sleep " + farWait + "\n" + hopping(filepath.Join(b.dir, "far-times")))
	if err != nil {
		return 0, 0, err
	}
	file := filepath.Join(b.dir, "far.yaml")
	text := fmt.Sprintf("interval: 24h\nhost: {sessions: %d}\nenvironments:\n", farSlots)
	for i := range farEnvironments {
		text += fmt.Sprintf("  - name: env%03d\n", i)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return 0, 0, err
	}
	all := make([]*daemon, hosts)
	failed := make([]error, hosts)
	var starting sync.WaitGroup
	for i := range all {
		starting.Go(func() {
			all[i], failed[i] = b.start(agent, filepath.Join(b.dir, fmt.Sprintf("far-%d-%d", hosts, i)), "CLAUDEOPS_CONFIG="+file,
				"CLAUDEOPS_DATABASE_URL="+proxy.Address(c.Address("far")), fmt.Sprintf("CLAUDEOPS_HOST=far%d", i))
		})
	}
	starting.Wait()
	for _, d := range all {
		if d != nil {
			defer d.stop()
		}
	}
	if err := errors.Join(failed...); err != nil {
		return 0, 0, err
	}
	return farRate(ctx, c.Address("far"), hosts)
}

// farRate waits until most is done: the last chains do not keep all slots busy. It counts from the moment at which a tenth is done.
func farRate(ctx context.Context, address string, hosts int) (perMinute, busy float64, err error) {
	db, err := pgx.Connect(ctx, address)
	if err != nil {
		return 0, 0, err
	}
	defer func() { _ = db.Close(ctx) }()
	const first, last = farEnvironments / 10, farEnvironments * 8 / 10
	var done int
	reach := func(n int) error {
		return until(ctx, func() (bool, error) {
			err := db.QueryRow(ctx, `SELECT COUNT(*) FROM cycles WHERE ended_at IS NOT NULL`).Scan(&done)
			return done >= n, err
		})
	}
	if err := reach(first); err != nil {
		return 0, 0, err
	}
	began, before := time.Now().UTC(), done
	if err := reach(last); err != nil {
		return 0, 0, err
	}
	ended := time.Now().UTC()
	took := ended.Sub(began)
	var seconds float64
	err = db.QueryRow(ctx, `SELECT SUM(EXTRACT(EPOCH FROM LEAST(COALESCE(ended_at::timestamptz, $2), $2) - GREATEST(started_at::timestamptz, $1)))
		FROM sessions WHERE started_at::timestamptz < $2 AND COALESCE(ended_at::timestamptz, $2) > $1`, began, ended).Scan(&seconds)
	return float64(done-before) / took.Minutes(), seconds / took.Seconds() / float64(hosts*farSlots), err
}
