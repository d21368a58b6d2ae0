package pgtest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// holdBouncer runs PgBouncer until its standard input closes.
const holdBouncer = `"$1" -q "$2" >/dev/null 2>"$2.log" & pid=$!
cat >/dev/null
kill -9 $pid
`

// Bouncer runs PgBouncer in transaction mode before the server of an address, and returns the address through it. It ends with the test.
func Bouncer(tb testing.TB, address string) string {
	tb.Helper()
	out, err := bouncer(tb, address)
	if err != nil {
		tb.Fatal(err)
	}
	return out
}

func bouncer(tb testing.TB, address string) (string, error) {
	tb.Helper()
	program, err := bouncerProgram()
	if err != nil {
		return "", err
	}
	u, err := url.Parse(address)
	if err != nil {
		return "", fmt.Errorf("start pgbouncer: %w", err)
	}
	as, err := unprivileged()
	if err != nil {
		return "", err
	}
	port, err := freePort(tb.Context())
	if err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp("", "claudeops-pgbouncer-") //nolint:usetesting // another user must reach it
	if err != nil {
		return "", fmt.Errorf("start pgbouncer: %w", err)
	}
	tb.Cleanup(func() { _ = os.RemoveAll(dir) })
	file := filepath.Join(dir, "pgbouncer.ini")
	text := fmt.Sprintf(`[databases]
* = host=%s port=%s user=postgres
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = 20
max_client_conn = 500
`, u.Hostname(), u.Port(), port)
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil { //nolint:gosec // another user reads it
		return "", fmt.Errorf("start pgbouncer: %w", err)
	}
	if as != nil {
		if err := os.Chown(dir, int(as.Uid), int(as.Gid)); err != nil {
			return "", fmt.Errorf("start pgbouncer: %w", err)
		}
	}
	cmd := exec.Command("/bin/sh", "-c", holdBouncer, "sh", program, file) //nolint:noctx // it ends with its input
	cmd.SysProcAttr = (&Cluster{as: as}).attributes()
	cmd.Dir = "/"
	life, err := cmd.StdinPipe()
	if err != nil {
		return "", fmt.Errorf("start pgbouncer: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return "", fmt.Errorf("start pgbouncer: %w", err)
	}
	tb.Cleanup(func() { _ = (&keeper{life, cmd}).Close() }) // the shell reports how the killed one ended
	u.Host = fmt.Sprintf("127.0.0.1:%d", port)
	return u.String(), answers(tb.Context(), u.Host, file+".log")
}

func answers(ctx context.Context, address, log string) error {
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
		if err == nil {
			return conn.Close()
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
	said, _ := os.ReadFile(log)
	return fmt.Errorf("start pgbouncer: it does not answer: %s", said)
}

func bouncerProgram() (string, error) {
	for _, name := range []string{"pgbouncer", "/usr/sbin/pgbouncer"} {
		if p, err := exec.LookPath(name); err == nil {
			return p, nil
		}
	}
	return "", errors.New("find PgBouncer: it is not on this machine; run script/setup-tests")
}
