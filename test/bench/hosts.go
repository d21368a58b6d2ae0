package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5"

	"claudeops/test/pgtest"
)

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
