package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"claudeops/internal/ops"
	"claudeops/test/testtoken"
)

// stall opens an event stream and never reads from it.
func (p *process) stall(ctx context.Context, path string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", p.addr)
	if err != nil {
		return nil, fmt.Errorf("open stream: %w", err)
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetReadBuffer(4 << 10) // it is full soon
	}
	_, err = fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nConnection: close\r\n\r\n", path, p.addr, testtoken.Token)
	return conn, err
}

// follow reads an event stream to its end, or until the context ends, and returns how many bytes came.
func (p *process) follow(ctx context.Context, path string) (int, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.addr+path, nil)
	if err != nil {
		return 0, err
	}
	resp, err := (&http.Client{Transport: testtoken.Transport{}}).Do(req)
	if err != nil {
		return 0, err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("a stream answers %s", resp.Status)
	}
	size := 0
	for lines := bufio.NewReader(resp.Body); ; {
		line, err := lines.ReadString('\n')
		if size += len(line); err != nil {
			return size, nil //nolint:nilerr // the stream ends with the session, or with the context
		}
	}
}

// slowReaders lets many readers of a loud session read nothing. The session must not wait for them, one that reads gets everything, and they
// are dropped while the session goes on.
func (t *trying) slowReaders(ctx context.Context, count int) error {
	// More than the buffers of a connection hold, at once; then it thinks for a while.
	const script = `yes 'I am still looking at the logs of the service, and there is always one more line to read.' | head -n 100000
sleep 45
echo '{"schema_version": 1, "outcome": "healthy", "summary": "All is well.", "check_results": [], "actions": [], "events": [], "memories": []}'`
	more := fmt.Sprintf("observe: agent\nhandlers:\n  - {id: tier1, tier: 1, family: local, agent: command, model: none, command: [/bin/sh, -c, %q]}\n", "sleep 5; "+script)
	b := t.box(ctx, setup{more: more})
	b.service.set(true)
	p := t.start(ctx, b, modeServe)
	check(p.until("the session runs", func() bool { return b.running(ctx, ops.Tier1) }))
	pid := p.cmd.Process.Pid
	before := len(files(pid))
	const path = "/sessions/1/stream?after=0"
	var stalled []net.Conn
	defer func() {
		for _, c := range stalled {
			_ = c.Close()
		}
	}()
	for range count {
		c := must(p.stall(ctx, path))
		stalled = append(stalled, c)
	}
	reading, stop := context.WithCancel(ctx)
	defer stop()
	var got int
	var failed error
	var reader sync.WaitGroup
	reader.Go(func() { got, failed = p.follow(reading, path) })
	begun, slowest := time.Now(), time.Duration(0)
	if err := p.until("the readers that read nothing are dropped", func() bool {
		asked := time.Now()
		code, _ := p.get("/readyz")
		slowest = max(slowest, time.Since(asked))
		return code == http.StatusOK && len(files(pid)) < before+count/4 && time.Since(begun) > 10*time.Second
	}); err != nil {
		return fmt.Errorf("%w; %d files are open, %d were before %d readers came", err, len(files(pid)), before, count)
	}
	dropped, working := time.Since(begun), !b.settled(ctx)
	check(p.until("the cycle has ended", func() bool { return b.quiet(ctx) }))
	took := time.Since(begun)
	stop()
	reader.Wait()
	cycles := must(b.cycles(ctx))
	s := cycles[0].Sessions[0]
	t.found = fmt.Sprintf("%d readers that read nothing were dropped %s after they came, while the session worked: %t; it took %s and is %s, one that read got %d kB; answers took %s at most",
		count, dropped.Round(100*time.Millisecond), working, took.Round(100*time.Millisecond), s.Status, got>>10, slowest.Round(time.Millisecond))
	if failed != nil || !working || s.Status != ops.SessionCompleted || got < 100_000*50 || slowest > 10*time.Second {
		return errors.Join(errors.New(t.found), failed)
	}
	return errors.Join(append(b.leftovers(ctx, cycles), p.stop())...)
}
