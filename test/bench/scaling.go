package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"claudeops/test/pgtest"
	"claudeops/test/testtoken"
)

const (
	// farEnvironments is how many environments the hosts share, farRounds how many chains each of them has to do.
	farEnvironments = 60
	farRounds       = 3
	// farDelay is how long a packet takes to the database, and back.
	farDelay = 4 * time.Millisecond
	// farWait is how long an agent waits, as for a model.
	farWait = "0.1"
	// allBusy is the share of the cores from which on they are the limit.
	allBusy = 0.9
)

// scaling compares the chains per minute of one host and of three, with a network between them and the database.
func (b *bench) scaling() ([]figure, error) {
	var out []figure
	var rates []float64
	for _, hosts := range []int{1, 3} {
		rate, busy, err := b.farHosts(hosts)
		if err != nil {
			return nil, fmt.Errorf("%d hosts: %w", hosts, err)
		}
		rates = append(rates, rate)
		limit := ""
		if busy > allBusy {
			limit = "; the cores are the limit"
		}
		out = append(out, figure{
			fmt.Sprintf("%d chains in %d environments, %d host(s), %s to the database each way", farEnvironments*farRounds, farEnvironments, hosts, farDelay),
			fmt.Sprintf("%.0f chains per minute, %.0f %% of the cores busy%s", rate, 100*busy, limit), "",
		})
	}
	return append(out, figure{"three hosts to one", fmt.Sprintf("%.2f times", rates[1]/rates[0]), "≥ 2.2"}), nil
}

// farHosts lets hosts do all chains. It returns how many they did per minute and which share of the machine's cores was busy.
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
	text := "interval: 24h\nenvironments:\n"
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
	if err := askForMore(all[0]); err != nil {
		return 0, 0, err
	}
	return farRate(ctx, c.Address("far"))
}

// askForMore queues cycles: each daemon without history has started one in every environment.
func askForMore(d *daemon) error {
	client := &http.Client{Transport: testtoken.Transport{}}
	for range farRounds - 1 {
		for i := range farEnvironments {
			r, err := client.Post("http://"+d.addr+"/api/v1/cycles", "application/json", //nolint:noctx // loopback
				bytes.NewBufferString(fmt.Sprintf(`{"environment":"env%03d"}`, i)))
			if err != nil {
				return err
			}
			_ = r.Body.Close()
			if r.StatusCode != http.StatusAccepted {
				return fmt.Errorf("a cycle was refused: %s", r.Status)
			}
		}
	}
	return nil
}

// farRate waits until all is done. It counts from a moment at which all hosts work.
func farRate(ctx context.Context, address string) (perMinute, busy float64, err error) {
	db, err := pgx.Connect(ctx, address)
	if err != nil {
		return 0, 0, err
	}
	defer func() { _ = db.Close(ctx) }()
	ended := func() (n int, err error) {
		err = db.QueryRow(ctx, `SELECT COUNT(*) FROM cycles WHERE ended_at IS NOT NULL`).Scan(&n)
		return n, err
	}
	before, err := ended()
	if err != nil {
		return 0, 0, err
	}
	began := time.Now()
	used, total, err := cpuTime()
	if err != nil {
		return 0, 0, err
	}
	// The last chains do not keep all workers busy.
	const last = farEnvironments * farRounds * 9 / 10
	var done int
	err = until(ctx, func() (bool, error) { done, err = ended(); return done >= last, err })
	if err != nil {
		return 0, 0, err
	}
	took := time.Since(began)
	usedAfter, totalAfter, err := cpuTime()
	if err != nil {
		return 0, 0, err
	}
	return float64(done-before) / took.Minutes(), float64(usedAfter-used) / float64(totalAfter-total), nil
}

// cpuTime is how long all cores of the machine were busy, and how long they were there, in ticks.
func cpuTime() (busy, total int64, err error) {
	raw, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, 0, err
	}
	line, _, _ := strings.Cut(string(raw), "\n")
	for i, field := range strings.Fields(line)[1:9] {
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0, 0, err
		}
		total += n
		if i != 3 && i != 4 { // idle, and waiting for a disk
			busy += n
		}
	}
	return busy, total, nil
}
