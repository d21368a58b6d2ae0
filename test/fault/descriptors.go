package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"claudeops/internal/ops"
)

// descriptors opens several times as many connections as the program can have files, half of them with a request that never ends,
// while a chain runs.
func (t *trying) descriptors(ctx context.Context, limit, connections int) error {
	b := t.box(ctx, setup{ladder: true, scenario: slowChain(5 * time.Second)})
	b.wrap = []string{"/bin/sh", "-c", fmt.Sprintf(`ulimit -n %d; exec "$0" "$@"`, limit)}
	p := t.inTier2Of(ctx, b)
	var conns []net.Conn
	defer func() {
		for _, c := range conns {
			_ = c.Close()
		}
	}()
	refused, most := 0, 0
	for i := range connections {
		conn, err := (&net.Dialer{Timeout: 5 * time.Second}).DialContext(ctx, "tcp", p.addr)
		if err != nil {
			refused++
			continue
		}
		conns = append(conns, conn)
		if i%2 == 1 {
			_, _ = io.WriteString(conn, "POST /api/v1/cycles HTTP/1.1\r\nHost: "+p.addr+"\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n")
		}
		if i%50 == 0 {
			most = max(most, len(files(p.cmd.Process.Pid)))
		}
	}
	begun := time.Now()
	check(p.until("every cycle has ended", func() bool { return b.settled(ctx) }))
	took := time.Since(begun)
	for _, c := range conns {
		_ = c.Close()
	}
	closed := time.Now()
	check(p.until("it answers again", func() bool { code, _ := p.get("/readyz"); return code == http.StatusOK }))
	t.recovery = time.Since(closed)
	t.found = fmt.Sprintf("%d connections with a limit of %d descriptors: at most %d were open, %d could not connect; the chain ended after %s: %s",
		connections, limit, most, refused, took.Round(10*time.Millisecond), b.summary(ctx))
	check(p.until("every notice is sent", func() bool { return b.quiet(ctx) }))
	check(p.stop())
	cycles := must(b.cycles(ctx))
	for _, s := range cycles[0].Sessions {
		if s.Status != ops.SessionCompleted {
			return fmt.Errorf("session %d is %s: %s", s.ID, s.Status, s.Error)
		}
	}
	return b.verdict(ctx, true)
}
