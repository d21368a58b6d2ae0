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
	"time"

	"github.com/jackc/pgx/v5"

	"claudeops/test/pgtest"
	"claudeops/test/testtoken"
)

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
