package main

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"claudeops/test/pgtest"
	"claudeops/test/testtoken"
)

const (
	costChains = 20               // chains that the cost of one is measured on
	restFor    = 15 * time.Second // how long a daemon at rest is watched
	fewEnvs    = 1                // environments of the daemons whose cost at rest is compared
	manyEnvs   = 41
)

// chainCost is what one chain of three tiers costs, with an agent that costs nothing.
type chainCost struct {
	commits, rows, flushes, wal, stored, transcript float64
	database, supervisor, agents                    time.Duration
	alone                                           time.Duration // how long it takes when nothing else runs
}

func (c chainCost) processor() time.Duration { return c.database + c.supervisor + c.agents }

// restCost is what a daemon or an environment costs in a second in which nothing happens.
type restCost struct {
	commits, flushes, wal float64
	database, supervisor  time.Duration
	connections           float64
}

// scale measures one chain, computes from it what one database can carry, and checks the arithmetic with as many cells as fit here.
func (b *bench) scale() ([]figure, error) {
	ctx := context.Background()
	c := must(pgtest.Start(ctx, pgtest.Durable))
	defer func() { _ = c.Close() }()
	rate := must(b.flushRate(b.dir))
	cost, one, err := b.costPostgres(ctx, c, "cost", fewEnvs, costChains)
	if err != nil {
		return nil, fmt.Errorf("measure a chain on PostgreSQL: %w", err)
	}
	_, many, err := b.costPostgres(ctx, c, "rest", manyEnvs, 0)
	if err != nil {
		return nil, fmt.Errorf("measure environments at rest: %w", err)
	}
	lite, err := b.costSQLite(ctx, costChains)
	if err != nil {
		return nil, fmt.Errorf("measure a chain on SQLite: %w", err)
	}
	env := many.minus(one).times(1 / float64(manyEnvs-fewEnvs))
	out := costFigures(cost, lite, one, env)
	out = append(out, capacity{cores: float64(runtime.NumCPU()), flushes: rate, chain: cost, environment: env, host: one}.figures()...)
	return append(out, b.simulateCells(ctx, c, cost)...), nil
}

func (r restCost) minus(s restCost) restCost {
	return restCost{
		r.commits - s.commits, r.flushes - s.flushes, r.wal - s.wal, r.database - s.database, r.supervisor - s.supervisor,
		r.connections - s.connections,
	}
}

func (r restCost) times(f float64) restCost {
	part := func(d time.Duration) time.Duration { return time.Duration(float64(d) * f) }
	return restCost{r.commits * f, r.flushes * f, r.wal * f, part(r.database), part(r.supervisor), r.connections * f}
}

// costPostgres lets a daemon do chains on a database of its own, one after the other, and watches it at rest before that.
func (b *bench) costPostgres(ctx context.Context, c *pgtest.Cluster, name string, envs, chains int) (chainCost, restCost, error) {
	d, times, err := b.startCell(ctx, c, name, environments(envs))
	if err != nil {
		return chainCost{}, restCost{}, err
	}
	defer d.stop()
	check(ended(ctx, times, envs))
	m := must(newMeter(ctx, c.Address("postgres"), []string{name}, d.cmd.Process.Pid))
	defer func() { _ = m.conn.Close(ctx) }()
	var rest restCost
	check(m.conn.QueryRow(ctx, `SELECT COUNT(*) FROM pg_stat_activity WHERE datname = $1`, name).Scan(&rest.connections))
	first := must(m.read(ctx))
	<-time.After(restFor)
	second := must(m.read(ctx))
	used, seconds := second.minus(first), second.at.Sub(first.at).Seconds()
	per := restCost{used.commits, used.flushes, used.wal, used.database, used.supervisors, 0}.times(1 / seconds)
	per.connections = rest.connections
	if chains == 0 {
		return chainCost{}, per, nil
	}
	begun := time.Now()
	check(submit(ctx, d.addr, times, envs, chains))
	alone := time.Since(begun) / time.Duration(chains)
	third := must(m.read(ctx))
	cost := perChain(third.minus(second), per, third.at.Sub(second.at), chains)
	cost.alone = alone
	cost.transcript, err = transcriptBytes(ctx, c.Address(name))
	return cost, per, err
}

// perChain divides what was used, less what a daemon at rest uses in the same time.
func perChain(used reading, rest restCost, took time.Duration, chains int) chainCost {
	n, s := float64(chains), took.Seconds()
	part := func(d, idle time.Duration) time.Duration { return time.Duration((float64(d) - float64(idle)*s) / n) }
	return chainCost{
		commits: (used.commits - rest.commits*s) / n, rows: used.rows / n, flushes: (used.flushes - rest.flushes*s) / n, wal: (used.wal - rest.wal*s) / n,
		stored: used.size / n, database: part(used.database, rest.database), supervisor: part(used.supervisors, rest.supervisor),
		agents: time.Duration(float64(used.agents) / n),
	}
}

// startCell starts a daemon with some environments on a new database. Each of them begins with a chain.
func (b *bench) startCell(ctx context.Context, c *pgtest.Cluster, name string, envs []string) (*daemon, string, error) {
	check(c.SQL(ctx, "CREATE DATABASE "+name))
	times := filepath.Join(b.dir, name+"-times")
	agent := must(b.agent(hopping(times)))
	file := filepath.Join(b.dir, name+".yaml")
	text := "interval: 24h\nenvironments:\n  - name: " + strings.Join(envs, "\n  - name: ") + "\n"
	check(os.WriteFile(file, []byte(text), 0o600))
	d, err := b.start(agent, filepath.Join(b.dir, name), //nolint:contextcheck // a daemon is ended by its stop
		"CLAUDEOPS_CONFIG="+file, "CLAUDEOPS_DATABASE_URL="+c.Address(name), "CLAUDEOPS_HOST="+name)
	return d, times, err
}

func environments(count int) []string {
	out := make([]string, count)
	for i := range out {
		out[i] = environmentName(i)
	}
	return out
}

// ended waits until so many chains have ended.
func ended(ctx context.Context, times string, count int) error {
	return until(ctx, func() (bool, error) {
		raw, err := os.ReadFile(filepath.Clean(times))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return false, err
		}
		return bytes.Count(raw, []byte(" end 3 ")) >= count, nil
	})
}

// submit asks for chains in the first environment, one after the other; some have ended before.
func submit(ctx context.Context, addr, times string, before, count int) error {
	client := &http.Client{Transport: testtoken.Transport{}}
	for i := range count {
		body := strings.NewReader(fmt.Sprintf(`{"environment":%q}`, environmentName(0)))
		r, err := client.Post("http://"+addr+"/api/v1/cycles", "application/json", body) //nolint:noctx // loopback
		check(err)
		if err := r.Body.Close(); err != nil || r.StatusCode != http.StatusAccepted {
			return fmt.Errorf("submit cycle: %s %w", r.Status, err)
		}
		check(ended(ctx, times, before+i+1))
	}
	return nil
}

// costSQLite measures the same on a file. Commits and pages are counted in the write-ahead log.
func (b *bench) costSQLite(ctx context.Context, chains int) (cost chainCost, err error) {
	times := filepath.Join(b.dir, "lite-times")
	agent := must(b.agent(hopping(times)))
	file := filepath.Join(b.dir, "lite.yaml")
	check(os.WriteFile(file, []byte("interval: 24h\nenvironments:\n  - name: "+environmentName(0)+"\n"), 0o600))
	state := filepath.Join(b.dir, "lite")
	d := must(b.start(agent, state, "CLAUDEOPS_CONFIG="+file)) //nolint:contextcheck // a daemon is ended by its stop
	defer d.stop()
	check(ended(ctx, times, 1))
	<-time.After(statsDelay)
	database := filepath.Join(state, "claudeops.db")
	before := must(rowsOf(ctx, database))
	used := must(statOf(d.cmd.Process.Pid))
	counted := 0
	for i := range chains {
		salt, frames, commits, err := readWAL(database + "-wal")
		if err != nil {
			return cost, err
		}
		begun := time.Now()
		check(submit(ctx, d.addr, times, 1+i, 1))
		cost.alone += time.Since(begun) / time.Duration(chains)
		<-time.After(100 * time.Millisecond) // the last commits follow the agent's end
		salt2, frames2, commits2, err := readWAL(database + "-wal")
		if err != nil {
			return cost, err
		}
		if salt == salt2 { // else the log began again, and what was in it is not known
			counted++
			cost.commits, cost.wal = cost.commits+float64(commits2-commits), cost.wal+4096*float64(frames2-frames)
		}
	}
	now := must(statOf(d.cmd.Process.Pid))
	after, err := rowsOf(ctx, database)
	n := float64(chains)
	cost.supervisor, cost.agents = time.Duration(float64(now.own-used.own)/n), time.Duration(float64(now.children-used.children)/n)
	cost.rows = float64(after-before) / n
	cost.commits, cost.wal = cost.commits/float64(max(counted, 1)), cost.wal/float64(max(counted, 1))
	return cost, err
}

// rowsOf counts the rows of all tables.
func rowsOf(ctx context.Context, path string) (total int, err error) {
	db := must(sql.Open("sqlite", "file:"+path+"?mode=ro"))
	defer func() { err = errors.Join(err, db.Close()) }()
	rows, err := db.QueryContext(ctx, `SELECT name FROM sqlite_master WHERE type = 'table' AND sql NOT LIKE '%VIRTUAL%'`)
	check(err)
	defer func() { err = errors.Join(err, rows.Close()) }()
	var names []string
	for rows.Next() {
		var name string
		check(rows.Scan(&name))
		names = append(names, name)
	}
	check(rows.Err())
	for _, name := range names {
		var n int
		if err := db.QueryRowContext(ctx, `SELECT COUNT(*) FROM "`+name+`"`).Scan(&n); err != nil { //nolint:gosec // a table's name
			return 0, err
		}
		total += n
	}
	return total, nil
}
