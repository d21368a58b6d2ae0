package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"claudeops/test/pgtest"
	"claudeops/test/testtoken"
)

const (
	simulateFor = 6 * time.Second
	calibrate   = 4 * time.Second
	together    = 4  // workers that the processor time of a simulated chain is measured with
	cellEnvs    = 40 // environments that are spread over the cells, each with one chain
	readRounds  = 40
)

// transcriptBytes is the mean size of the stored transcripts of a chain.
func transcriptBytes(ctx context.Context, address string) (bytes float64, err error) {
	conn, err := pgx.Connect(ctx, address)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, conn.Close(ctx)) }()
	err = conn.QueryRow(ctx, `SELECT ((SELECT COALESCE(SUM(octet_length(line)), 0) FROM transcript)
		+ (SELECT COALESCE(SUM(octet_length(data)), 0) FROM transcript_blocks))::float8 / (SELECT COUNT(*) FROM cycles)`).Scan(&bytes)
	return bytes, err
}

// load works on databases like so many chains at once: as many reads, commits, rows and bytes of write-ahead log for each chain.
type load struct {
	reads, commits, rows, bytes int
	chains                      atomic.Int64
}

func (l *load) run(ctx context.Context, address string) error {
	conn, err := pgx.Connect(ctx, address)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	text := strings.Repeat("x", max(l.bytes/max(l.rows, 1)-overhead, 1))
	for ctx.Err() == nil {
		for i := range l.commits {
			// Whole rows for each commit, and their number right over the chain.
			rows := l.rows*(i+1)/l.commits - l.rows*i/l.commits
			_, err := conn.Exec(ctx, `INSERT INTO load (text) SELECT $1 FROM generate_series(1, $2)`, text, rows)
			if err != nil && ctx.Err() == nil {
				return err
			}
			for range l.reads / l.commits {
				err := conn.QueryRow(ctx, `SELECT text FROM load ORDER BY id DESC LIMIT 1`).Scan(new(string))
				if err != nil && ctx.Err() == nil {
					return err
				}
			}
		}
		if ctx.Err() == nil {
			l.chains.Add(1)
		}
	}
	return nil
}

// overhead is what PostgreSQL logs for a row of such a table beside its text: row, index entry, and pages written in full.
const overhead = 150

// during lets workers write for a time and returns chains in a second, the processor time of a chain, and how many cores were free for it.
func (l *load) during(ctx context.Context, m *meter, addresses []string, workers int, length time.Duration) (rate float64, each time.Duration,
	free float64, err error,
) {
	before, self, err := m.now()
	if err != nil {
		return 0, 0, 0, err
	}
	l.chains.Store(0)
	limited, cancel := context.WithTimeout(ctx, length)
	defer cancel()
	errs := make([]error, workers)
	var group sync.WaitGroup
	for i := range workers {
		group.Go(func() { errs[i] = l.run(limited, addresses[i%len(addresses)]) })
	}
	group.Wait()
	after, selfAfter, err := m.now()
	if err = errors.Join(append(errs, err)...); err != nil {
		return 0, 0, 0, err
	}
	used, took := after.minus(before), after.at.Sub(before.at).Seconds()
	chains := float64(l.chains.Load())
	if chains == 0 {
		return 0, 0, 0, errors.New("no chain ended in this time")
	}
	each = time.Duration(float64(used.database+selfAfter-self) / chains)
	return chains / took, each, float64(runtime.NumCPU()) - used.other.Seconds()/took, nil
}

// now reads the processor times only, and that of this process.
func (m *meter) now() (r reading, self time.Duration, err error) {
	r.at = time.Now()
	if err := m.readProcesses(&r); err != nil {
		return r, 0, err
	}
	s, err := statOf(os.Getpid())
	return r, s.own, err
}

// simulateDatabase compares what the arithmetic predicts with what databases do, without daemons and agents, which need more of this
// machine than the database does.
func (b *bench) simulateDatabase(ctx context.Context, c *pgtest.Cluster, cost chainCost) ([]figure, error) {
	// Every transaction that changed something was flushed; the others were reads.
	writes := max(int(math.Round(cost.flushes)), 1)
	l := &load{
		reads: int(math.Round(cost.commits)) - writes, commits: writes, rows: max(int(math.Round(cost.rows)), writes), bytes: max(int(cost.wal), 1),
	}
	names := []string{"load0", "load1", "load2", "load3"}
	var addresses []string
	for _, name := range names {
		if err := c.SQL(ctx, "CREATE DATABASE "+name); err != nil {
			return nil, err
		}
		address := c.Address(name)
		conn, err := pgx.Connect(ctx, address)
		if err != nil {
			return nil, err
		}
		_, err = conn.Exec(ctx, `CREATE TABLE load (id BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY, text TEXT NOT NULL)`)
		if err := errors.Join(err, conn.Close(ctx)); err != nil {
			return nil, err
		}
		addresses = append(addresses, address)
	}
	m, err := newMeter(ctx, c.Address("postgres"), names)
	if err != nil {
		return nil, err
	}
	defer func() { _ = m.conn.Close(ctx) }()
	alone, single, _, err := l.during(ctx, m, addresses[:1], 1, calibrate)
	if err != nil {
		return nil, err
	}
	// Chains that run at once share flushes, so each costs less processor time than one alone.
	_, each, _, err := l.during(ctx, m, addresses[:1], together, calibrate)
	if err != nil {
		return nil, err
	}
	out := []figure{{
		fmt.Sprintf("simulated chain (%d reads, %d commits, %d rows), for calibration", l.reads, l.commits, l.rows),
		fmt.Sprintf("alone %.0f in a minute, %.1f ms of processor each; %d at once: %.1f ms each", 60*alone,
			float64(single.Microseconds())/1000, together, float64(each.Microseconds())/1000), "",
	}}
	const workers = 8
	for _, cells := range []int{1, 2, 4} {
		rate, _, free, err := l.during(ctx, m, addresses[:cells], workers, simulateFor)
		if err != nil {
			return nil, err
		}
		out = append(out, compared(fmt.Sprintf("simulated: %d cells, %d workers", cells, workers), workers*alone, free, each, rate))
	}
	return out, nil
}

// compared is one line of predicted against measured: the workers' own speed, or the processors that others leave free.
func compared(what string, byWorkers, free float64, each time.Duration, rate float64) figure {
	predicted := math.Min(byWorkers, free/each.Seconds())
	return figure{what, fmt.Sprintf("predicted %.0f, measured %.0f chains in a minute, error %+.0f %% (%.2f cores were free for it)", 60*predicted,
		60*rate, 100*(predicted-rate)/rate, free), ""}
}

// simulateCells runs whole cells: a daemon and a database for each, the environments spread by name. Then the front page reads all of them.
func (b *bench) simulateCells(ctx context.Context, c *pgtest.Cluster, cost chainCost) ([]figure, error) {
	fewest, most, moved := spreadOver(10_000, 8)
	out := []figure{{
		"10,000 environments over 8 cells by name", fmt.Sprintf("%d to %d in a cell; a ninth cell moves %d", fewest, most, moved), "1,250; 1,111",
	}}
	for _, cells := range []int{1, 2, 4} {
		more, err := b.runCells(ctx, c, cells, cost)
		if err != nil {
			return nil, err
		}
		out = append(out, more...)
	}
	return out, nil
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
	m, err := newMeter(ctx, c.Address("postgres"), names, pids...)
	if err != nil {
		return nil, err
	}
	defer func() { _ = m.conn.Close(ctx) }()
	begun, _, err := m.now()
	if err != nil {
		return nil, err
	}
	already, err := chainsIn(times)
	if err != nil {
		return nil, err
	}
	for i, name := range names {
		if err := ended(ctx, times[i], len(held[name])); err != nil {
			return nil, err
		}
	}
	done, _, err := m.now()
	if err != nil {
		return nil, err
	}
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
