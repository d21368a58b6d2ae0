package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

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

const (
	// use is how much of a resource may be used on average: waiting times grow without bound near the whole.
	use = 0.7
	// A busy site: ten environments with 500 chains a day together, each of three tiers.
	siteEnvironments = 10
	siteChainsPerDay = 500
	// agentTime is how long the agents of one real chain run: an assumption, three tiers of two minutes.
	agentTime = 6 * time.Minute
	// clientConnections is how many connections one PostgreSQL is given here: more need a pooler.
	clientConnections = 500
	day               = 24 * time.Hour
)

// capacity computes what one PostgreSQL can carry.
type capacity struct {
	cores, flushes float64 // of the database's machine
	chain          chainCost
	environment    restCost // per second
	host           restCost
}

// chainsPerMinute is the largest rate and what limits it, with no environment at rest.
func (c capacity) chainsPerMinute() (rate float64, limit string) {
	processor := use * c.cores / c.chain.database.Seconds() * 60
	flush := use * c.flushes / c.chain.flushes * 60
	if flush < processor {
		return flush, "durable writes, if no two commits share one"
	}
	return processor, "processor"
}

// environments is how many environments fit when each has the chains of a busy site.
func (c capacity) environments() float64 {
	perEnvironment := float64(siteChainsPerDay) / siteEnvironments / day.Seconds() // chains in a second
	processor := use * c.cores / (c.environment.database.Seconds() + perEnvironment*c.chain.database.Seconds())
	flush := use * c.flushes / (math.Max(c.environment.flushes, 0) + perEnvironment*c.chain.flushes)
	return math.Min(processor, flush)
}

func (c capacity) figures() []figure {
	rate, limit := c.chainsPerMinute()
	out := []figure{
		{"durable writes of a page in a second, one after the other", fmt.Sprintf("%.0f", c.flushes), ""},
		{
			fmt.Sprintf("computed: most chains on one PostgreSQL with %.0f cores, %.0f %% used", c.cores, 100*use),
			fmt.Sprintf("%.0f in a minute; limit: %s", rate, limit), "",
		},
		{
			"computed: most environments, each with 50 chains a day",
			fmt.Sprintf("%.0f; hosts at %d connections: %.0f", c.environments(), clientConnections, clientConnections/math.Max(c.host.connections, 1)), "",
		},
	}
	for _, sites := range []float64{10, 100, 1000} {
		perMinute := sites * siteChainsPerDay / day.Minutes()
		database := perMinute/60*c.chain.database.Seconds() + sites*siteEnvironments*c.environment.database.Seconds()
		commits := perMinute/60*c.chain.commits + sites*siteEnvironments*c.environment.commits
		flushes := perMinute/60*c.chain.flushes + sites*siteEnvironments*math.Max(c.environment.flushes, 0)
		supervisor := perMinute/60*c.chain.supervisor.Seconds() + sites*siteEnvironments*c.environment.supervisor.Seconds()
		stored := sites * siteChainsPerDay * c.chain.stored
		out = append(out, figure{
			fmt.Sprintf("computed: %.0f sites (%.0f environments, %.1f chains in a minute)", sites, sites*siteEnvironments, perMinute),
			fmt.Sprintf("%.0f agents at once; database %.2f cores, %.0f transactions/s, %.0f flushes/s, %.2f GB a day; supervisors %.2f cores; %.0f cells of this machine",
				perMinute*agentTime.Minutes(), database, commits, flushes, stored/1e9, supervisor, math.Ceil(sites*siteEnvironments/c.environments())), "",
		})
	}
	return out
}

func costFigures(pg, lite chainCost, host, env restCost) []figure {
	ms := func(d time.Duration) string { return fmt.Sprintf("%.1f ms", float64(d.Microseconds())/1000) }
	return []figure{
		{
			fmt.Sprintf("one chain of three tiers on PostgreSQL (mean of %d)", costChains),
			fmt.Sprintf("%.0f transactions, %.0f flushes, %.0f rows written, %.0f kB of WAL, %.0f kB more on disk", pg.commits, pg.flushes, pg.rows,
				pg.wal/1000, pg.stored/1000), "",
		},
		{"… processor", fmt.Sprintf("database %s, supervisor %s, agents and walls %s", ms(pg.database), ms(pg.supervisor), ms(pg.agents)), ""},
		{"… alone, from the request to the end of the last agent", ms(pg.alone), ""},
		{"… bytes of transcript", fmt.Sprintf("%.0f", pg.transcript), ""},
		{
			"the same chain on SQLite",
			fmt.Sprintf("%.0f commits, %.0f rows more, %.0f kB of WAL; supervisor and database %s, agents and walls %s; alone %s", lite.commits,
				lite.rows, lite.wal/1000, ms(lite.supervisor), ms(lite.agents), ms(lite.alone)), "",
		},
		{
			"a host at rest with one environment, in a second",
			fmt.Sprintf("%.1f transactions, %.1f flushes, %.1f kB of WAL, database %s, supervisor %s, %.0f connections", host.commits, host.flushes, host.wal/1000,
				ms(host.database), ms(host.supervisor), host.connections), "",
		},
		{
			"each further environment at rest, in a second",
			fmt.Sprintf("%.2f transactions, %.2f flushes, %.2f kB of WAL, database %.3f ms, supervisor %.3f ms", env.commits, env.flushes, env.wal/1000,
				env.database.Seconds()*1000, env.supervisor.Seconds()*1000), "",
		},
	}
}

// cellOf returns the cell of an environment: the one with the highest hash of cell and environment. Every host computes the same without a
// list that must be kept, and a new cell takes its share of the environments and moves no other.
func cellOf(environment string, cells []string) string {
	var best [sha256.Size]byte
	cell := ""
	for _, c := range cells {
		if sum := sha256.Sum256([]byte(c + "\x00" + environment)); cell == "" || bytes.Compare(sum[:], best[:]) > 0 {
			best, cell = sum, c
		}
	}
	return cell
}

// spreadOver counts how evenly environments are spread, and how many move when a cell is added.
func spreadOver(environments, count int) (fewest, most, moved int) {
	cells := cellNames(count + 1)
	held := map[string]int{}
	for i := range environments {
		name := environmentName(i)
		before := cellOf(name, cells[:count])
		held[before]++
		if cellOf(name, cells) != before {
			moved++
		}
	}
	fewest = environments
	for _, c := range cells[:count] {
		fewest, most = min(fewest, held[c]), max(most, held[c])
	}
	return fewest, most, moved
}

func cellNames(count int) []string {
	out := make([]string, count)
	for i := range out {
		out[i] = fmt.Sprintf("cell%d", i)
	}
	return out
}

func environmentName(i int) string { return fmt.Sprintf("site%03d-env%d", i/10, i%10) }

// meter reads what a PostgreSQL server and the processes around it have used so far. It asks from another database than the measured one,
// so that its own questions do not count.
type meter struct {
	conn     *pgx.Conn
	server   int      // process id of the server
	cells    []string // databases
	programs []int    // daemons
}

func newMeter(ctx context.Context, address string, cells []string, programs ...int) (*meter, error) {
	conn := must(pgx.Connect(ctx, address))
	m := &meter{conn: conn, cells: cells, programs: programs}
	var backend int
	if err := conn.QueryRow(ctx, `SELECT pg_backend_pid()`).Scan(&backend); err != nil {
		return nil, errors.Join(err, conn.Close(ctx))
	}
	fields, err := statOf(backend)
	if err != nil {
		return nil, errors.Join(err, conn.Close(ctx))
	}
	m.server = fields.parent
	return m, nil
}

// reading is what was used up to a moment.
type reading struct {
	at                                   time.Time
	commits, rows, flushes, wal, size    float64
	database, supervisors, agents, other time.Duration
}

func (r reading) minus(s reading) reading {
	return reading{
		at: r.at, commits: r.commits - s.commits, rows: r.rows - s.rows, flushes: r.flushes - s.flushes, wal: r.wal - s.wal,
		size: r.size - s.size, database: r.database - s.database, supervisors: r.supervisors - s.supervisors, agents: r.agents - s.agents,
		other: r.other - s.other,
	}
}

// statsDelay is how long a backend may keep its counts to itself.
const statsDelay = 2 * time.Second

func (m *meter) read(ctx context.Context) (r reading, err error) {
	<-time.After(statsDelay)
	r.at = time.Now()
	err = m.conn.QueryRow(ctx, `SELECT SUM(xact_commit), SUM(tup_inserted + tup_updated + tup_deleted), SUM(pg_database_size(datname)),
		(pg_current_wal_lsn() - '0/0'), (SELECT wal_sync FROM pg_stat_wal) FROM pg_stat_database WHERE datname = ANY($1)`, m.cells).
		Scan(&r.commits, &r.rows, &r.size, &r.wal, &r.flushes)
	if err != nil {
		return r, fmt.Errorf("read statistics: %w", err)
	}
	return r, m.readProcesses(&r)
}

// readProcesses adds the processor times: of the server, of the daemons, and of what they have started.
func (m *meter) readProcesses(r *reading) error {
	entries := must(os.ReadDir("/proc"))
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if s, err := statOf(pid); err == nil && (s.parent == m.server || pid == m.server) {
			r.database += s.own
			if pid == m.server {
				r.database += s.children
			}
		}
	}
	for _, pid := range m.programs {
		s := must(statOf(pid))
		r.supervisors, r.agents = r.supervisors+s.own, r.agents+s.children
	}
	self := must(statOf(os.Getpid()))
	busy, err := machineTime()
	r.other = busy - r.database - r.supervisors - r.agents - self.own
	return err
}

// stat is a part of what the kernel tells about a process. Children are those that have ended.
type stat struct {
	parent        int
	own, children time.Duration
}

func statOf(pid int) (s stat, err error) {
	raw := must(os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)))
	// The name in parentheses may hold anything.
	fields := strings.Fields(string(raw[bytes.LastIndexByte(raw, ')')+1:]))
	if len(fields) < 15 {
		return s, fmt.Errorf("read /proc/%d/stat: only %d fields", pid, len(fields))
	}
	s.parent = must(strconv.Atoi(fields[1]))
	s.own, err = ticks(fields[11:13])
	if err != nil {
		return s, err
	}
	s.children, err = ticks(fields[13:15])
	return s, err
}

// machineTime is what all processors together have worked.
func machineTime() (time.Duration, error) {
	raw := must(os.ReadFile("/proc/stat"))
	line, _, _ := strings.Cut(string(raw), "\n")
	f := strings.Fields(line) // cpu user nice system idle iowait irq softirq steal …
	if len(f) < 9 {
		return 0, fmt.Errorf("read /proc/stat: %q", line)
	}
	return ticks([]string{f[1], f[2], f[3], f[6], f[7], f[8]})
}

func ticks(fields []string) (time.Duration, error) {
	var sum int64
	for _, f := range fields {
		n := must(strconv.ParseInt(f, 10, 64))
		sum += n
	}
	return time.Duration(sum) * time.Second / 100, nil // USER_HZ is 100 on every Linux that Go runs on
}

// flushRate is how many writes of a database page to the end of a file can be made durable in a second, one after the other.
func (b *bench) flushRate(dir string) (rate float64, err error) {
	file := must(os.CreateTemp(dir, "flush"))
	defer func() { err = errors.Join(err, file.Close(), os.Remove(file.Name())) }()
	page := make([]byte, 8192)
	begun, n := time.Now(), 0
	for ; time.Since(begun) < 2*time.Second; n++ {
		if _, err := file.Write(page); err != nil {
			return 0, err
		}
		check(file.Sync())
	}
	return float64(n) / time.Since(begun).Seconds(), nil
}

// readWAL counts the frames and the commits in the write-ahead log of SQLite. The salt changes when the log begins from its start again.
func readWAL(path string) (salt uint64, frames, commits int, err error) {
	const header, frameHeader = 32, 24
	raw, err := os.ReadFile(filepath.Clean(path))
	if err != nil || len(raw) < header {
		return 0, 0, 0, err
	}
	page := int(binary.BigEndian.Uint32(raw[8:]))
	salt = binary.BigEndian.Uint64(raw[16:])
	for at := header; at+frameHeader+page <= len(raw); at += frameHeader + page {
		if binary.BigEndian.Uint64(raw[at+8:]) != salt {
			break // of an earlier round
		}
		frames++
		if binary.BigEndian.Uint32(raw[at+4:]) != 0 {
			commits++
		}
	}
	return salt, frames, commits, nil
}

const (
	cellEnvs   = 40 // environments that are spread over the cells, each with one chain
	readRounds = 40
)

// transcriptBytes is the mean size of the stored transcripts of a chain.
func transcriptBytes(ctx context.Context, address string) (bytes float64, err error) {
	conn := must(pgx.Connect(ctx, address))
	defer func() { err = errors.Join(err, conn.Close(ctx)) }()
	err = conn.QueryRow(ctx, `SELECT ((SELECT COALESCE(SUM(octet_length(line)), 0) FROM transcript)
		+ (SELECT COALESCE(SUM(octet_length(data)), 0) FROM transcript_blocks))::float8 / (SELECT COUNT(*) FROM cycles)`).Scan(&bytes)
	return bytes, err
}

// compared is one line of predicted against measured: the workers' own speed, or the processors that others leave free.
func compared(what string, byWorkers, free float64, each time.Duration, rate float64) figure {
	predicted := math.Min(byWorkers, free/each.Seconds())
	return figure{what, fmt.Sprintf("predicted %.0f, measured %.0f chains in a minute, error %+.0f %% (%.2f cores were free for it)", 60*predicted,
		60*rate, 100*(predicted-rate)/rate, free), ""}
}

// simulateCells runs whole cells: a daemon and a database for each, the environments spread by name. Then the front page reads all of them.
func (b *bench) simulateCells(ctx context.Context, c *pgtest.Cluster, cost chainCost) []figure {
	fewest, most, moved := spreadOver(10_000, 8)
	out := []figure{{
		"10,000 environments over 8 cells by name", fmt.Sprintf("%d to %d in a cell; a ninth cell moves %d", fewest, most, moved), "1,250; 1,111",
	}}
	for _, cells := range []int{1, 2, 4} {
		more := must(b.runCells(ctx, c, cells, cost))
		out = append(out, more...)
	}
	return out
}

func (b *bench) runCells(ctx context.Context, c *pgtest.Cluster, count int, cost chainCost) ([]figure, error) {
	names := make([]string, count)
	held := map[string][]string{}
	for i := range names {
		names[i] = fmt.Sprintf("cells%d_%d", count, i)
	}
	for _, e := range environments(cellEnvs) {
		cell := cellOf(e, names)
		held[cell] = append(held[cell], e)
	}
	var addresses, times []string
	var pids []int
	for _, name := range names {
		d, file, err := b.startCell(ctx, c, name, held[name])
		if err != nil {
			return nil, err
		}
		defer d.stop()
		addresses, times, pids = append(addresses, d.addr), append(times, file), append(pids, d.cmd.Process.Pid)
	}
	m := must(newMeter(ctx, c.Address("postgres"), names, pids...))
	defer func() { _ = m.conn.Close(ctx) }()
	begun := reading{at: time.Now()}
	check(m.readProcesses(&begun))
	already := must(chainsIn(times))
	for i, name := range names {
		check(ended(ctx, times[i], len(held[name])))
	}
	done := reading{at: time.Now()}
	check(m.readProcesses(&done))
	used, took := done.minus(begun), done.at.Sub(begun.at).Seconds()
	free := float64(runtime.NumCPU()) - used.other.Seconds()/took
	atOnce := float64(count * max(4, 2*runtime.NumCPU())) // host.sessions
	out := []figure{compared(fmt.Sprintf("%d cells with daemons and agents, %d chains", count, cellEnvs), atOnce/cost.alone.Seconds(), free,
		cost.processor(), float64(cellEnvs-already)/took)}
	read, err := frontPage(addresses)
	return append(out, figure{fmt.Sprintf("… reading the situation of %d cells at once", count), spread(read), ""}), err
}

func chainsIn(files []string) (n int, err error) {
	for _, f := range files {
		raw, err := os.ReadFile(f) //nolint:gosec // one of ours
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return 0, err
		}
		n += strings.Count(string(raw), " end 3 ")
	}
	return n, nil
}

// frontPage asks all cells at once, as one page of all cells would, and returns how long the slowest took each time.
func frontPage(addresses []string) ([]float64, error) {
	client := &http.Client{Transport: testtoken.Transport{}}
	var out []float64
	for range readRounds {
		begun := time.Now()
		errs := make([]error, len(addresses))
		var group sync.WaitGroup
		for i, a := range addresses {
			group.Go(func() {
				r, err := client.Get("http://" + a + "/api/v1/situation") //nolint:noctx // loopback
				if err != nil {
					errs[i] = err
					return
				}
				if errs[i] = r.Body.Close(); r.StatusCode != http.StatusOK {
					errs[i] = errors.New(r.Status)
				}
			})
		}
		group.Wait()
		if err := errors.Join(errs...); err != nil {
			return nil, err
		}
		out = append(out, milliseconds(begun))
	}
	slices.Sort(out)
	return out, nil
}
