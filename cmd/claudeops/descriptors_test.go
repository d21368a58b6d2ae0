package main_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"claudeops/internal/ops"
	"claudeops/test/agenttest"
)

// TestConnectionsCannotTakeAllDescriptors opens far more connections than a daemon with few descriptors can hold: it must go on,
// finish a cycle, and answer again when they are gone.
func TestConnectionsCannotTakeAllDescriptors(t *testing.T) {
	t.Parallel()
	b := newBox(t, plays(agenttest.Healthy(0.01)), "CLAUDEOPS_INTERVAL=24h")
	b.wrap = []string{"/bin/sh", "-c", `ulimit -n 160; exec "$0" "$@"`}
	d := b.ready()
	d.until("the first cycle ends", func() bool { return d.ended(1) })
	conns := make([]net.Conn, 0, 400)
	connect := func(text string) {
		conn, err := net.Dial("tcp", d.addr)
		must(t, err)
		conns = append(conns, conn)
		t.Cleanup(func() { _ = conn.Close() })
		if _, err := io.WriteString(conn, text); err != nil && !strings.Contains(err.Error(), "reset") && !strings.Contains(err.Error(), "broken pipe") {
			t.Fatal(err)
		}
	}
	for range 200 {
		connect("")
	}
	if status, body := d.get("/readyz"); status != http.StatusOK {
		t.Errorf("with 200 idle connections readyz answers %d %s", status, body)
	}
	busy := "POST /api/v1/cycles HTTP/1.1\r\nHost: " + d.addr + "\r\nAuthorization: Bearer " + d.token() +
		"\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{" // the rest of its body does not come
	refused := func() bool {
		for range 50 {
			connect(busy)
			last := conns[len(conns)-1]
			_ = last.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
			if line, _ := bufio.NewReader(last).ReadString('\n'); strings.Contains(line, "503") {
				return true
			}
		}
		return false
	}
	d.until("a connection is refused", refused)
	if r := b.run("run", "--detach", "look"); r.code != 0 {
		t.Errorf("run exits %d\n%s", r.code, r.stderr)
	}
	d.until("the cycle ends", func() bool { return d.ended(2) })
	if c := d.cycle(); c.Cycle.Status != ops.CycleHealthy {
		t.Errorf("the cycle is %s: %s", c.Cycle.Status, c.Cycle.Reason)
	}
	for _, c := range conns {
		_ = c.Close()
	}
	d.until("it answers again", func() bool { status, _ := d.get("/readyz"); return status == http.StatusOK })
	_, figures := d.get("/metrics")
	contains(t, "metrics", figures, "claudeops_http_connections_max 80", "claudeops_descriptors_max 160")
	if code := d.stop(); code != 0 {
		t.Errorf("exit %d\n%s", code, d.log)
	}
}
