// Package dockertest runs a private Docker daemon for tests: its own folders, mounts, processes and network, reachable only by a
// Unix socket, and ended with the process that asked for it, however that ends. The only image is made without a registry.
package dockertest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"claudeops/test/needs"
)

// Image is the image of every container: busybox and nothing else.
const Image = "claudeops-test:1"

// Server is a command for containers that prints a line, and ends at once when it is told to.
const Server = `trap 'exit 0' TERM; echo ready; while :; do sleep 0.2; done`

const (
	startLimit = time.Minute
	callLimit  = 2 * time.Minute
)

// shared is the daemon of this test program.
var shared = sync.OnceValues(func() (*Daemon, error) { return Start(context.Background()) })

// Daemon is a running Docker daemon.
type Daemon struct {
	Dir    string
	Socket string
	life   io.WriteCloser // the daemon ends when it is closed
}

// Shared returns the daemon of this test program. It needs root.
func Shared(tb testing.TB) *Daemon {
	tb.Helper()
	if os.Getuid() != 0 {
		tb.Skip("a Docker daemon needs root")
	}
	d, err := shared()
	if err != nil {
		needs.End(tb, err)
	}
	return d
}

// outer gives the daemon its own mounts, network and processes, and removes the folder when they are gone. They end when its
// standard input closes: that happens also when the test is killed.
const outer = `unshare --mount --net --pid --fork --kill-child --mount-proc /bin/sh -c "$2" sh "$1"
rm -rf "$1"
`

// inner runs the daemon, and stops and starts it as its standard input says.
const inner = `cd "$1"
ip link set lo up 2>/dev/null || true
echo '{}' >config.json
while :; do
  dockerd --config-file "$1/config.json" --data-root "$1/data" --exec-root "$1/exec" --pidfile "$1/pid" -H "unix://$1/docker.sock" \
    --iptables=false --ip6tables=false --bridge=none --shutdown-timeout 1 >>"$1/log" 2>&1 </dev/null &
  read -r stop
  again=$?
  kill $! 2>/dev/null && wait $!
  [ "$again" = 0 ] && read -r start || break
done
`

// Start runs a new daemon.
func Start(ctx context.Context) (*Daemon, error) {
	for _, program := range []string{"dockerd", "docker", "docker-compose", "unshare", "busybox"} {
		if _, err := exec.LookPath(program); err != nil {
			return nil, fmt.Errorf("start Docker: %w", needs.Absent(program))
		}
	}
	dir, err := os.MkdirTemp("/tmp", "claudeops-docker-")
	if err != nil {
		return nil, fmt.Errorf("start Docker: %w", err)
	}
	d := &Daemon{Dir: dir, Socket: filepath.Join(dir, "docker.sock")}
	cmd := exec.Command("/bin/sh", "-c", outer, "sh", dir, inner) //nolint:noctx // it outlives the call and ends with its input
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}         // an interrupt at the keyboard is for the test
	life, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	d.life = life
	if err == nil {
		err = d.ready(ctx)
	}
	if err == nil {
		err = d.makeImage(ctx)
	}
	if err != nil {
		log, _ := os.ReadFile(filepath.Join(dir, "log"))
		if life != nil {
			_ = d.life.Close()
		}
		return nil, fmt.Errorf("start Docker: %w: %s", err, last(log))
	}
	return d, nil
}

// Stop stops the daemon with its containers, and returns what starts it again.
func (d *Daemon) Stop(tb testing.TB) (start func()) {
	tb.Helper()
	order := func() {
		if _, err := io.WriteString(d.life, "\n"); err != nil {
			tb.Fatal(err)
		}
	}
	order()
	for {
		resp, err := d.get(tb.Context())
		if err != nil {
			break
		}
		_ = resp.Body.Close()
	}
	return func() {
		order()
		if err := d.ready(tb.Context()); err != nil {
			tb.Fatal(err)
		}
	}
}

func last(log []byte) []byte { return log[max(0, len(log)-2000):] }

// ready waits until the daemon answers.
func (d *Daemon) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		resp, err := d.get(ctx)
		if err == nil {
			return resp.Body.Close()
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the daemon does not answer: %w", err)
		case <-tick.C:
		}
	}
}

func (d *Daemon) get(ctx context.Context) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://docker/_ping", nil)
	if err != nil {
		return nil, err
	}
	return Client(d.Socket).Do(req)
}

// Client speaks HTTP over a Unix socket.
func Client(socket string) *http.Client {
	return &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socket)
		},
	}}
}

// Network is the network of the daemon, as a file below /proc.
func (d *Daemon) Network(tb testing.TB) string {
	tb.Helper()
	all, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, name := range all {
		if line, err := os.ReadFile(name); err == nil && bytes.HasPrefix(line, []byte("dockerd\x00")) && bytes.Contains(line, []byte(d.Dir+"/config.json\x00")) {
			return filepath.Join(filepath.Dir(name), "ns/net")
		}
	}
	tb.Fatal("the Docker daemon does not run")
	return ""
}

// Pages speaks HTTP in the network of the daemon, where the published ports of containers are.
func (d *Daemon) Pages(tb testing.TB) *http.Client {
	tb.Helper()
	network := d.Network(tb)
	return &http.Client{
		Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, addr string) (net.Conn, error) {
			return dialIn(ctx, network, addr)
		}},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Timeout:       callLimit,
	}
}

// dialIn connects from another network namespace.
func dialIn(ctx context.Context, network, addr string) (conn net.Conn, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		var f *os.File
		if f, err = os.Open(network); err != nil { //nolint:gosec // below /proc
			return
		}
		defer func() { _ = f.Close() }()
		if err = unix.Setns(int(f.Fd()), unix.CLONE_NEWNET); err == nil {
			conn, err = (&net.Dialer{}).DialContext(ctx, "tcp", addr)
		}
	}()
	<-done
	return conn, err
}

// makeImage imports a folder with busybox as the image of the tests.
func (d *Daemon) makeImage(ctx context.Context) error {
	const script = `set -e
mkdir -p "$1/root/bin" "$1/root/tmp"
cp "$(command -v busybox)" "$1/root/bin/busybox"
for a in sh sleep echo cat ls true touch; do ln -sf busybox "$1/root/bin/$a"; done
tar -C "$1/root" -c . | docker import --change 'ENV PATH=/bin' - "$2"`
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", script, "sh", d.Dir, Image)
	cmd.Env = d.environ(d.Socket)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("make image: %w: %s", err, out)
	}
	return nil
}

func (d *Daemon) environ(socket string) []string {
	return []string{
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=" + d.Dir, "DOCKER_HOST=unix://" + socket, "COMPOSE_API_VERSION=1.40",
	}
}

// Command is a Docker client that uses a socket: the daemon's own, or one in front of it.
func (d *Daemon) Command(ctx context.Context, socket, program string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env, cmd.Dir = d.environ(socket), d.Dir
	return cmd
}

// Run runs a Docker client and returns what it printed.
func (d *Daemon) Run(tb testing.TB, socket, program string, args ...string) (string, error) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), callLimit)
	defer cancel()
	var out bytes.Buffer
	cmd := d.Command(ctx, socket, program, args...)
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	return strings.TrimSpace(out.String()), err
}

// Docker runs the docker client on the daemon itself, which must succeed.
func (d *Daemon) Docker(tb testing.TB, args ...string) string {
	tb.Helper()
	out, err := d.Run(tb, d.Socket, "docker", args...)
	if err != nil {
		tb.Fatalf("docker %s: %v: %s", strings.Join(args, " "), err, out)
	}
	return out
}

// Container starts a container that is removed with the test, and returns its id.
func (d *Daemon) Container(tb testing.TB, name string, options ...string) string {
	tb.Helper()
	args := append([]string{"run", "-d", "--name", name, "--stop-timeout", "1"}, options...)
	tb.Cleanup(func() { _, _ = d.Run(tb, d.Socket, "docker", "rm", "-f", "-v", name) })
	return d.Docker(tb, append(args, Image, "/bin/sh", "-c", Server)...)
}

// Body reads an answer whole.
func Body(resp *http.Response) (string, error) {
	text, err := io.ReadAll(resp.Body)
	return string(text), errors.Join(err, resp.Body.Close())
}
