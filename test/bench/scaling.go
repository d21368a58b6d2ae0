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
	// farEnvironments is how many environments there are, however many the hosts: only the hosts differ. Each has one chain to do.
	farEnvironments = 60
	// farEach is how many chains are waited for, for each host.
	farEach = 18
	// farSlots is how many sessions a host runs at once.
	farSlots = 4
	// farDelay is how long a packet takes to the database, and back.
	farDelay = 4 * time.Millisecond
	// farWait is how long an agent waits, as for a model. Real sessions take longer.
	farWait = "10"
)

// far is what hosts did with a network between them and the database.
type far struct {
	perMinute float64       // chains
	busy      float64       // the share of the slots
	each      time.Duration // processor time of the hosts for a chain, without agents
}

// scaling measures how busy one host and three hosts keep their slots, and what a chain costs them.
func (b *bench) scaling() ([]figure, error) {
	var out []figure
	var one time.Duration
	for _, hosts := range []int{1, 3} {
		f := must(b.farHosts(hosts))
		if hosts == 1 {
			one = f.each
		}
		out = append(out, figure{
			fmt.Sprintf("%d chains, %d hosts with %d slots each, %s to the database each way, sessions of %s s",
				hosts*farEach, hosts, farSlots, farDelay, farWait),
			fmt.Sprintf("%.0f chains per minute, %.1f %% of the slots busy", f.perMinute, 100*f.busy), "≥ 90 %",
		}, figure{
			"… processor time of the hosts for a chain",
			fmt.Sprintf("%d ms (%.2f times one host's)", f.each.Milliseconds(), f.each.Seconds()/one.Seconds()), "≤ 1.15 times",
		})
	}
	return out, nil
}

// farHosts lets hosts do all chains.
func (b *bench) farHosts(hosts int) (f far, err error) {
	ctx := context.Background()
	c, err := pgtest.Start(ctx)
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	if err := c.SQL(ctx, "CREATE DATABASE far"); err != nil {
		return f, err
	}
	proxy, err := pgtest.NewProxy(ctx, c.Address("far"), farDelay)
	if err != nil {
		return f, err
	}
	defer func() { _ = proxy.Close() }()
	agent, err := b.agent("sleep " + farWait + "\n" + hopping(filepath.Join(b.dir, "far-times")))
	if err != nil {
		return f, err
	}
	file := filepath.Join(b.dir, "far.yaml")
	text := fmt.Sprintf("interval: 24h\nhost: {sessions: %d}\nenvironments:\n", farSlots)
	for i := range farEnvironments {
		text += fmt.Sprintf("  - name: env%03d\n", i)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return f, err
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
		return f, err
	}
	return farRate(ctx, c.Address("far"), all)
}

// farRate waits until most is done: the last chains do not keep all slots busy. It counts from the moment at which the first are done.
func farRate(ctx context.Context, address string, hosts []*daemon) (f far, err error) {
	db := must(pgx.Connect(ctx, address))
	defer func() { _ = db.Close(ctx) }()
	first, last := len(hosts)*2, len(hosts)*farEach
	var done int
	reach := func(n int) error {
		return until(ctx, func() (bool, error) {
			err := db.QueryRow(ctx, `SELECT COUNT(*) FROM cycles WHERE ended_at IS NOT NULL`).Scan(&done)
			return done >= n, err
		})
	}
	check(reach(first))
	used := processorTimes(hosts)
	began, before := time.Now().UTC(), done
	check(reach(last))
	ended := time.Now().UTC()
	after := processorTimes(hosts)
	took := ended.Sub(began)
	var seconds float64
	err = db.QueryRow(ctx, `SELECT SUM(EXTRACT(EPOCH FROM LEAST(COALESCE(ended_at::timestamptz, $2), $2) - GREATEST(started_at::timestamptz, $1)))
		FROM sessions WHERE started_at::timestamptz < $2 AND COALESCE(ended_at::timestamptz, $2) > $1`, began, ended).Scan(&seconds)
	f.perMinute, f.each = float64(done-before)/took.Minutes(), (after-used)/time.Duration(done-before)
	f.busy = seconds / took.Seconds() / float64(len(hosts)*farSlots)
	return f, err
}

func processorTimes(hosts []*daemon) (sum time.Duration) {
	for _, d := range hosts {
		sum += must(processorTime(d.cmd.Process.Pid))
	}
	return sum
}
