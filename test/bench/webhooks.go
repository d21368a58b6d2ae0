package main

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"claudeops/test/testtoken"
)

// perSecond is how many alerts come in.
const perSecond = 500

// calls is what became of the requests.
type calls struct {
	mu       sync.Mutex
	took     []float64
	accepted map[string]bool
	busy     int
	failed   int
}

// webhooks sends alerts at a steady rate, kills the daemon, and looks for what it had accepted.
func (b *bench) webhooks(length time.Duration) ([]figure, error) {
	agent, err := b.agent(result + "\n")
	if err != nil {
		return nil, err
	}
	state := filepath.Join(b.dir, "webhooks")
	d, err := b.start(agent, state)
	if err != nil {
		return nil, err
	}
	c := &calls{accepted: map[string]bool{}}
	client := &http.Client{Transport: testtoken.Transport{Base: &http.Transport{MaxIdleConnsPerHost: 64}}, Timeout: 10 * time.Second}
	var group sync.WaitGroup
	tick := time.NewTicker(time.Second / perSecond)
	defer tick.Stop()
	for i := range int(length.Seconds() * perSecond) {
		<-tick.C
		group.Go(func() { c.send(client, d.addr, fmt.Sprintf("bench-%d", i)) })
	}
	rss, err := residentMB(d.cmd.Process.Pid)
	if err != nil {
		return nil, err
	}
	_ = d.cmd.Process.Signal(syscall.SIGKILL)
	_ = d.cmd.Wait()
	group.Wait()
	used := d.cmd.ProcessState.UserTime() + d.cmd.ProcessState.SystemTime()
	accepted := len(c.accepted)
	lost, err := c.lost(filepath.Join(state, "claudeops.db"))
	if err != nil {
		return nil, err
	}
	slices.Sort(c.took)
	return []figure{
		{
			fmt.Sprintf("webhooks, %d/s for %s", perSecond, length),
			fmt.Sprintf("p50 %.1f ms, p99 %.1f ms, longest %.0f ms; %d × 202, %d × 429, %d cut off by the kill; %d MB, %.0f %% of a core", c.took[len(c.took)/2],
				c.took[len(c.took)*99/100], c.took[len(c.took)-1], accepted, c.busy, c.failed, rss,
				100*used.Seconds()/length.Seconds()), "p99 < 100 ms",
		},
		{"accepted alerts lost by kill -9", fmt.Sprint(lost), "0"},
	}, nil
}

func (c *calls) send(client *http.Client, addr, name string) {
	body := fmt.Sprintf(`{"name":%q,"service":"svc-%d","severity":"warning","message":"it is slow","labels":{"team":"bench"}}`, name, len(name)%50)
	begun := time.Now()
	resp, err := client.Post("http://"+addr+"/api/v1/webhooks/generic", "application/json", strings.NewReader(body)) //nolint:noctx // the client has a timeout
	took := float64(time.Since(begun).Microseconds()) / 1000
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		c.failed++
		return
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close()
	c.took = append(c.took, took)
	switch resp.StatusCode {
	case http.StatusAccepted:
		c.accepted[name] = true
	case http.StatusTooManyRequests:
		c.busy++
	default:
		c.failed++
	}
}

// lost counts what was accepted and is not in the database.
func (c *calls) lost(path string) (int, error) {
	db := must(sql.Open("sqlite", "file:"+path))
	defer func() { _ = db.Close() }()
	rows, err := db.QueryContext(context.Background(), `SELECT name FROM alerts`)
	check(err)
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var name string
		check(rows.Scan(&name))
		delete(c.accepted, name)
	}
	return len(c.accepted), rows.Err()
}
