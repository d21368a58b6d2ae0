// Package pgtest runs a private PostgreSQL for tests: its own folder, its own port on loopback, gone with the process that
// asked for it, however that ends.
package pgtest

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"claudeops/test/needs"
)

// shared is the cluster of this test program: making one takes seconds, a database in it milliseconds.
var shared = sync.OnceValues(func() (*Cluster, error) { return Start(context.Background()) })

// Cluster is a running PostgreSQL.
type Cluster struct {
	dir, bin string
	port     int
	as       *syscall.Credential
	life     io.Closer // closing it ends the cluster and removes its folder
}

// URL makes an empty database in the cluster of this test program and returns its address. It goes with the test.
func URL(tb testing.TB) string {
	tb.Helper()
	c, err := shared()
	if err != nil {
		needs.End(tb, err)
	}
	return c.Database(tb)
}

// New runs a cluster of the test's own, for tests that stop it.
func New(tb testing.TB) *Cluster {
	tb.Helper()
	c, err := Start(tb.Context())
	if err != nil {
		needs.End(tb, err)
	}
	tb.Cleanup(func() { _ = c.Close() })
	return c
}

// keep starts the server, says so, and ends it when its standard input closes: that happens also when the test is killed.
const keep = `set -e
cd "$1"
"$2/pg_ctl" start -s -w -D "$1/data" -l "$1/log" </dev/null >/dev/null
echo ready
cat >/dev/null
"$2/pg_ctl" stop -s -m immediate -D "$1/data" || true
cd /
rm -rf "$1"
`

// settings give up what only a machine that loses power needs, and what a test does not measure.
const settings = `
fsync = off
synchronous_commit = off
full_page_writes = off
listen_addresses = '127.0.0.1'
max_connections = 200
shared_buffers = 32MB
log_min_messages = warning
`

// Durable are settings of a server that keeps what it has acknowledged, for measuring.
const Durable = "fsync = on\nsynchronous_commit = on\nfull_page_writes = on\n"

// Start runs a new cluster. More settings follow those of the tests.
func Start(ctx context.Context, more ...string) (*Cluster, error) {
	bin, err := programs()
	if err != nil {
		return nil, err
	}
	c := &Cluster{bin: bin}
	if c.as, err = unprivileged(); err != nil {
		return nil, err
	}
	if c.dir, err = os.MkdirTemp("", "claudeops-pg-"); err != nil {
		return nil, fmt.Errorf("make folder: %w", err)
	}
	if err := c.run(ctx, more); err != nil {
		return nil, errors.Join(err, os.RemoveAll(c.dir))
	}
	return c, nil
}

func (c *Cluster) run(ctx context.Context, more []string) error {
	if c.as != nil {
		if err := os.Chown(c.dir, int(c.as.Uid), int(c.as.Gid)); err != nil {
			return fmt.Errorf("hand over folder: %w", err)
		}
	}
	data := filepath.Join(c.dir, "data")
	if err := c.call(ctx, "initdb", "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync", "--no-instructions"); err != nil {
		return err
	}
	var err error
	if c.port, err = freePort(ctx); err != nil {
		return err
	}
	conf, err := os.OpenFile(filepath.Join(data, "postgresql.conf"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return fmt.Errorf("open settings: %w", err)
	}
	_, err = fmt.Fprintf(conf, "%s\nport = %d\nunix_socket_directories = '%s'\n%s\n", settings, c.port, c.dir, strings.Join(more, "\n"))
	if err = errors.Join(err, conf.Close()); err != nil {
		return fmt.Errorf("write settings: %w", err)
	}
	return c.keep()
}

func (c *Cluster) keep() error {
	cmd := exec.Command("/bin/sh", "-c", keep, "sh", c.dir, c.bin) //nolint:noctx // it outlives the call and ends with its input
	cmd.SysProcAttr = c.attributes()
	cmd.Dir = "/"
	life, err := cmd.StdinPipe()
	if err != nil {
		return fmt.Errorf("start server: %w", err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return fmt.Errorf("start server: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start server: %w", err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		log, _ := os.ReadFile(filepath.Join(c.dir, "log"))
		return fmt.Errorf("start server: %w: %s", errors.Join(err, cmd.Wait()), log)
	}
	c.life = &keeper{life, cmd}
	return nil
}

// keeper is the shell that holds the server.
type keeper struct {
	stdin io.Closer
	cmd   *exec.Cmd
}

func (k *keeper) Close() error { return errors.Join(k.stdin.Close(), k.cmd.Wait()) }

// Close ends the server and removes its folder.
func (c *Cluster) Close() error { return c.life.Close() }

// Database makes an empty database and returns its address. It is dropped with the test.
func (c *Cluster) Database(tb testing.TB) string {
	tb.Helper()
	name := "t" + strings.ToLower(rand.Text())
	if err := c.SQL(context.Background(), "CREATE DATABASE "+name); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := c.SQL(context.Background(), "DROP DATABASE "+name+" WITH (FORCE)"); err != nil {
			tb.Logf("drop database: %v", err)
		}
	})
	return c.Address(name)
}

// Address is how a program reaches a database of the cluster.
func (c *Cluster) Address(database string) string {
	return fmt.Sprintf("postgres://postgres@127.0.0.1:%d/%s?sslmode=disable", c.port, database)
}

// SQL runs a statement as the owner of the cluster.
func (c *Cluster) SQL(ctx context.Context, statement string) error {
	conn, err := pgx.Connect(ctx, c.Address("postgres"))
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer func() { _ = conn.Close(ctx) }() // what matters was answered
	if _, err := conn.Exec(ctx, statement); err != nil {
		return fmt.Errorf("%s: %w", statement, err)
	}
	return nil
}

// Stop ends the server as an operator would who does not wait for its clients; Resume starts it again.
func (c *Cluster) Stop(ctx context.Context) error {
	return c.call(ctx, "pg_ctl", "stop", "-s", "-m", "fast", "-D", filepath.Join(c.dir, "data"))
}

// Resume starts a stopped server on its data.
func (c *Cluster) Resume(ctx context.Context) error {
	return c.call(ctx, "pg_ctl", "start", "-s", "-w", "-D", filepath.Join(c.dir, "data"), "-l", filepath.Join(c.dir, "log"))
}

func (c *Cluster) call(ctx context.Context, program string, args ...string) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(c.bin, program), args...)
	cmd.SysProcAttr = c.attributes()
	cmd.Dir = c.dir
	// A file, not a pipe: the server that pg_ctl leaves behind would hold a pipe open.
	out, err := os.CreateTemp("", "claudeops-pg-out-")
	if err != nil {
		return fmt.Errorf("run %s: %w", program, err)
	}
	defer func() { _ = out.Close(); _ = os.Remove(out.Name()) }()
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Run(); err != nil {
		said, _ := os.ReadFile(out.Name())
		return fmt.Errorf("run %s: %w: %s", program, err, bytes.TrimSpace(said))
	}
	return nil
}

func (c *Cluster) attributes() *syscall.SysProcAttr {
	// A group of its own: an interrupt at the keyboard is for the test, which then ends the server.
	return &syscall.SysProcAttr{Credential: c.as, Setpgid: true}
}

// programs finds the newest installed server.
func programs() (string, error) {
	if p, err := exec.LookPath("initdb"); err == nil {
		return filepath.Dir(p), nil
	}
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if len(found) == 0 {
		return "", needs.Absent("PostgreSQL")
	}
	slices.SortFunc(found, func(a, b string) int { return version(a) - version(b) })
	return filepath.Dir(found[len(found)-1]), nil
}

func version(path string) int {
	n, _ := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(path))))
	return n
}

// unprivileged is whom the server runs as, nil for ourselves: it refuses to be root.
func unprivileged() (*syscall.Credential, error) {
	if os.Getuid() != 0 {
		return nil, nil //nolint:nilnil // nobody else is needed
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, errUID := strconv.ParseUint(u.Uid, 10, 32)
		gid, errGID := strconv.ParseUint(u.Gid, 10, 32)
		if err := errors.Join(errUID, errGID); err != nil {
			return nil, fmt.Errorf("read user %s: %w", name, err)
		}
		return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
	}
	return nil, errors.New("find a user for PostgreSQL: it does not run as root, and there is neither postgres nor nobody")
}

// freePort is a port nobody else takes before the server does: it is not one of those the system gives away.
func freePort(ctx context.Context) (int, error) {
	const first, many = 10_000, 10_000
	for range many {
		n, err := rand.Int(rand.Reader, big.NewInt(many))
		if err != nil {
			return 0, fmt.Errorf("find a port: %w", err)
		}
		port := first + int(n.Int64())
		ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err == nil {
			return port, ln.Close()
		}
	}
	return 0, errors.New("find a port: none is free")
}
