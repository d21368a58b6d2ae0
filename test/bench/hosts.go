package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"claudeops/test/pgtest"
	"claudeops/test/testtoken"
)

// shared measures the hop of one host on a PostgreSQL that keeps what it acknowledges.
func (b *bench) shared(chains int) ([]figure, error) {
	c := must(pgtest.Start(context.Background(), pgtest.Durable))
	defer func() { _ = c.Close() }()
	check(c.SQL(context.Background(), "CREATE DATABASE hops"))
	alone := must(b.hopsOf("alone-hops", chains))
	shared := must(b.hopsOf("shared-hops", chains, "CLAUDEOPS_DATABASE_URL="+c.Address("hops")))
	asked := must(b.asked(c, chains))
	sqlite, postgres := alone[len(alone)/2], shared[len(shared)/2]
	return []figure{{
		"hop on PostgreSQL", fmt.Sprintf("p50 %.1f ms, p99 %.1f ms (%d hops), %.2f × the %.1f ms of SQLite in the same run",
			postgres, shared[len(shared)*99/100], len(shared), postgres/sqlite, sqlite), "≤ 1.5 × SQLite",
	}, {
		"what a chain of three sessions asks PostgreSQL", fmt.Sprintf("%d statements, %d waits for an answer", asked.Sum()/chains, asked.Trips/chains), "≤ 120 statements",
	}}, nil
}

// asked is what chains ask of the database, without the preparation of statements.
func (b *bench) asked(c *pgtest.Cluster, chains int) (pgtest.Traffic, error) {
	check(c.SQL(context.Background(), "CREATE DATABASE asked"))
	proxy := must(pgtest.NewProxy(context.Background(), c.Address("asked"), 0))
	defer func() { _ = proxy.Close() }()
	times := filepath.Join(b.dir, "asked-times")
	agent := must(b.agent(hopping(times)))
	var first, last pgtest.Traffic
	err := b.chains(agent, times, "asked", chains+1, func(done int) {
		if last = proxy.Traffic(); done == 1 {
			first = last
		}
	}, "CLAUDEOPS_DATABASE_URL="+proxy.Address(c.Address("asked")))
	return last.Since(first), err
}

// hosts lets three hosts do many chains and kills one of them in the middle.
func (b *bench) hosts(chains int) ([]figure, error) {
	ctx := context.Background()
	c := must(pgtest.Start(ctx))
	defer func() { _ = c.Close() }()
	check(c.SQL(ctx, "CREATE DATABASE hosts"))
	db := must(pgx.Connect(ctx, c.Address("hosts")))
	defer func() { _ = db.Close(ctx) }()
	agent := must(b.agent(hopping(filepath.Join(b.dir, "hosts-times"))))
	file := filepath.Join(b.dir, "hosts.yaml")
	text := "interval: 24h\nenvironments:\n"
	for i := range chains {
		text += fmt.Sprintf("  - name: env%03d\n", i)
	}
	check(os.WriteFile(file, []byte(text), 0o600))
	var running []*daemon
	for _, name := range []string{"one", "two", "three"} {
		// A daemon without history starts one cycle in every environment, all at once; the others find it done.
		d := must(b.start(agent, filepath.Join(b.dir, "hosts-"+name), "CLAUDEOPS_CONFIG="+file, "CLAUDEOPS_DATABASE_URL="+c.Address("hosts"), "CLAUDEOPS_HOST="+name))
		defer d.stop()
		running = append(running, d)
	}
	return b.killOne(ctx, db, running, chains)
}

func (b *bench) killOne(ctx context.Context, db *pgx.Conn, running []*daemon, chains int) ([]figure, error) {
	number := func(query string, args ...any) (n int, err error) {
		err = db.QueryRow(ctx, query, args...).Scan(&n)
		return n, err
	}
	// Killed while it works on something.
	if err := until(ctx, func() (bool, error) {
		busy, err := number(`SELECT COUNT(*) FROM sessions WHERE status = 'running' AND owner = 'one'`)
		if err != nil || busy == 0 {
			return false, err
		}
		done, err := number(`SELECT COUNT(*) FROM cycles WHERE ended_at IS NOT NULL`)
		return done > chains/10, err
	}); err != nil {
		return nil, fmt.Errorf("wait for work: %w", err)
	}
	killed := time.Now()
	check(running[0].cmd.Process.Kill())
	// What is in flight changes until the process is really gone.
	_ = running[0].cmd.Wait()
	held := must(number(`SELECT COUNT(*) FROM cycles WHERE status = 'running' AND owner = 'one'`))
	if err := until(ctx, func() (bool, error) {
		left, err := number(`SELECT COUNT(*) FROM cycles WHERE owner = 'one' AND status = 'running'`)
		return left == 0, err
	}); err != nil {
		return nil, fmt.Errorf("wait for the takeover: %w", err)
	}
	taken := time.Since(killed)
	if err := until(ctx, func() (bool, error) {
		done, err := number(`SELECT COUNT(*) FROM cycles WHERE ended_at IS NOT NULL`)
		return done >= chains, err
	}); err != nil {
		return nil, fmt.Errorf("wait for the end: %w", err)
	}
	twice := must(number(`SELECT COUNT(*) FROM (SELECT 1 FROM sessions WHERE status = 'completed' GROUP BY cycle_id, tier HAVING COUNT(*) > 1) t`))
	left := must(number(`SELECT COUNT(*) FROM sessions WHERE status IN ('running', 'queued')`))
	all := must(number(`SELECT COUNT(*) FROM cycles`))
	if twice != 0 || left != 0 || all != chains {
		return nil, fmt.Errorf("%d tiers were finished twice, %d sessions did not end, %d cycles of %d", twice, left, all, chains)
	}
	return []figure{{
		fmt.Sprintf("three hosts, %d chains, one killed with %d in its hands: taken over", chains, held),
		fmt.Sprintf("%.1f s after the kill; all ended, no finished tier ran twice", taken.Seconds()), "≤ 15 s",
	}}, nil
}

func until(ctx context.Context, cond func() (bool, error)) error {
	ctx, cancel := context.WithTimeoutCause(ctx, 10*time.Minute, errors.New("it does not come true"))
	defer cancel()
	for {
		ok, err := cond()
		if ok || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// hopping is an agent that hands over until Tier 3 and writes down when it began and ended, and in which cycle.
func hopping(times string) string {
	const handoff = `{"schema_version":1,"recommended_tier":%d,"services_affected":["web"],"check_results":[{"service":"web","check_type":"http","status":"down","error":"x"}],"investigation_findings":"f","remediation_attempted":"r","cooldown_state":{}}`
	return "echo \"$EPOCHREALTIME start $CLAUDEOPS_TIER $CLAUDEOPS_CYCLE_ID\" >> " + times + "\n" +
		"[ $CLAUDEOPS_TIER -lt 3 ] && printf '" + handoff + "' $((CLAUDEOPS_TIER+1)) > $CLAUDEOPS_STATE_DIR/handoff.json\n" +
		"echo '{\"type\":\"system\",\"subtype\":\"init\",\"session_id\":\"s\",\"model\":\"m\",\"tools\":[\"Bash\"]}'\n" + // as every agent does when it starts
		result + "\necho \"$EPOCHREALTIME end $CLAUDEOPS_TIER $CLAUDEOPS_CYCLE_ID\" >> " + times + "\n"
}

// readHops returns the times from the end of a tier to the start of the next one of the same cycle, in order of length, and how
// many agents ran at once.
func readHops(text string) (hops []float64, most int, err error) {
	type moment struct {
		at          float64
		what, cycle string
	}
	var all []moment
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) != 4 {
			return nil, 0, fmt.Errorf("read times: %q", line)
		}
		at, err := strconv.ParseFloat(f[0], 64)
		if err != nil {
			return nil, 0, fmt.Errorf("read times: %w", err)
		}
		all = append(all, moment{at, f[1], f[3]})
	}
	// Each wrote its own line; what stands first need not have happened first.
	slices.SortStableFunc(all, func(a, b moment) int {
		if a.at < b.at {
			return -1
		}
		return 1
	})
	ended := map[string]float64{}
	running := 0
	for _, m := range all {
		if m.what == "end" {
			ended[m.cycle] = m.at
			running--
			continue
		}
		if running++; running > most {
			most = running
		}
		if before, ok := ended[m.cycle]; ok {
			hops = append(hops, (m.at-before)*1000)
		}
	}
	slices.Sort(hops)
	return hops, most, nil
}

// hopsOf measures the hops of a new daemon, in order of length.
func (b *bench) hopsOf(state string, chains int, env ...string) ([]float64, error) {
	times := filepath.Join(b.dir, state+"-times")
	agent := must(b.agent(hopping(times)))
	check(b.chains(agent, times, state, chains, func(int) {}, env...))
	raw := must(os.ReadFile(times))
	hops, _, err := readHops(string(raw))
	return hops, err
}

// chains makes a daemon run cycles one after the other, and reports after each how many are done.
func (b *bench) chains(agent, times, state string, count int, done func(int), env ...string) error {
	d := must(b.start(agent, filepath.Join(b.dir, state), env...))
	defer d.stop()
	// A daemon without history starts one by itself.
	for before := range count {
		for {
			raw, err := os.ReadFile(times)
			if err != nil && !errors.Is(err, os.ErrNotExist) {
				return err
			}
			if bytes.Count(raw, []byte("end 3 ")) > before {
				break
			}
			if time.Since(d.begun) > 2*time.Minute {
				return errors.New("the chains do not end")
			}
			<-time.After(2 * time.Millisecond)
		}
		done(before + 1)
		client := &http.Client{Transport: testtoken.Transport{}}
		r, err := client.Post("http://"+d.addr+"/api/v1/cycles", "application/json", strings.NewReader("{}")) //nolint:noctx // loopback
		check(err)
		if err := r.Body.Close(); err != nil || r.StatusCode != http.StatusAccepted {
			return fmt.Errorf("submit cycle: %s %w", r.Status, err)
		}
	}
	return nil
}
