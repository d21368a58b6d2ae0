package main

import (
	"context"
	"database/sql"
	"fmt"
	"path/filepath"
	"time"
)

// queueRest is how long the daemon is watched with each length of the queue.
const queueRest = 20 * time.Second

// queue measures what cycles that wait for a slot cost, while one after the other is run by an agent that waits half a second.
func (b *bench) queue() ([]figure, error) {
	var used [2]float64
	lengths := [2]int{50, 10_000} // about 35 of them are run in this time
	for i, n := range lengths {
		share := must(b.queued(n))
		used[i] = share
	}
	return []figure{{
		fmt.Sprintf("%d queued cycles in relation to %d, while one is run after the other", lengths[1], lengths[0]),
		fmt.Sprintf("%.1f %% and %.1f %% of a core (%.2f times)", used[1], used[0], used[1]/used[0]), "the same",
	}}, nil
}

// queued is how much of a core the daemon uses, in percent, while so many cycles wait.
func (b *bench) queued(n int) (float64, error) {
	state := filepath.Join(b.dir, fmt.Sprintf("queue-%d", n))
	begun := filepath.Join(b.dir, fmt.Sprintf("queue-%d-begun", n))
	agent := must(b.agent("touch " + begun + "; sleep 0.5\n" + result + "\n"))
	d := must(b.start(agent, state))
	defer d.stop()
	must(waitFor(begun))
	db := must(sql.Open("sqlite", "file:"+filepath.Join(state, "claudeops.db")+"?_pragma=busy_timeout(5000)"))
	defer func() { _ = db.Close() }()
	must(db.ExecContext(context.Background(), `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
		INSERT INTO cycles (environment, "trigger", status, created_at) SELECT environment, 'api', 'queued', created_at FROM n, (SELECT * FROM cycles ORDER BY id LIMIT 1)`, n))
	before := must(processorTime(d.cmd.Process.Pid))
	at := time.Now()
	<-time.After(queueRest)
	after := must(processorTime(d.cmd.Process.Pid))
	var left int
	check(db.QueryRowContext(context.Background(), "SELECT COUNT(*) FROM cycles WHERE status = 'queued'").Scan(&left))
	if left == 0 || left == n {
		return 0, fmt.Errorf("%d of %d cycles were run, which says nothing", n-left, n)
	}
	return 100 * (after - before).Seconds() / time.Since(at).Seconds(), nil
}
