package daemon

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// mostConnections is the bound where descriptors allow it.
const mostConnections = 4096

// connections bounds the open connections to the pages and the API, so that they cannot use up the descriptors that sessions and
// the database need. When all are in use, the one that has been idle longest is closed; if none is idle, the new one is refused.
type connections struct {
	net.Listener

	most int

	mu      sync.Mutex
	open    map[net.Conn]time.Time // since when it is idle; zero while a request is handled
	refused int
}

func newConnections(ln net.Listener, most int) *connections {
	return &connections{Listener: ln, most: most, open: map[net.Conn]time.Time{}}
}

// Accept waits for a connection that may be served. The server tries again after errors such as a lack of descriptors.
func (c *connections) Accept() (net.Conn, error) {
	for {
		conn, err := c.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if c.room() {
			return conn, nil
		}
		refuse(conn)
	}
}

// room reports whether one more connection may be served.
func (c *connections) room() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.open) < c.most {
		return true
	}
	var oldest net.Conn
	for conn, since := range c.open {
		if !since.IsZero() && (oldest == nil || since.Before(c.open[oldest])) {
			oldest = conn
		}
	}
	if oldest == nil {
		c.refused++
		return false
	}
	delete(c.open, oldest)
	_ = oldest.Close()
	return true
}

// refuse answers a connection that cannot be served.
func refuse(conn net.Conn) {
	const answer = "HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain\r\nRetry-After: 5\r\nConnection: close\r\n\r\n" +
		"too many open connections; try again\n"
	_ = conn.SetWriteDeadline(time.Now().Add(time.Second))
	_, _ = conn.Write([]byte(answer))
	_ = conn.Close()
}

// note follows the state of each connection.
func (c *connections) note(conn net.Conn, state http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch state {
	case http.StateNew:
		c.open[conn] = time.Now()
	case http.StateIdle:
		if _, ok := c.open[conn]; ok {
			c.open[conn] = time.Now()
		}
	case http.StateActive:
		if _, ok := c.open[conn]; ok {
			c.open[conn] = time.Time{}
		}
	case http.StateClosed, http.StateHijacked:
		delete(c.open, conn)
	}
}

// streams is how many live streams may be open, so that requests still find room. Without a listener there is no limit.
func (c *connections) streams() int {
	if c == nil {
		return 0
	}
	return c.most * 3 / 4
}

// counts are how many connections are open, may be open, and were refused. Without a listener there are none.
func (c *connections) counts() (open, most, refused int) {
	if c == nil {
		return 0, 0, 0
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.open), c.most, c.refused
}

// descriptors watches how many files and connections this process has open. Go raises the soft limit to the hard one at the start.
type descriptors struct {
	limit int
	count func() (int, error)

	mu   sync.Mutex
	at   time.Time
	open int
}

// descriptorsFor is how long a count is used: the gates ask at every call.
const descriptorsFor = time.Second

// leastDescriptors is the limit below which nothing can work: the database, the pages and one session with its probes.
const leastDescriptors = 64

// enough refuses a start that would fail later, at the first session.
func (d *descriptors) enough() error {
	if d.limit < leastDescriptors {
		return fmt.Errorf("only %d file descriptors may be open, and %d are the least: raise the limit "+
			"(LimitNOFILE in a systemd unit, ulimit -n in a shell)", d.limit, leastDescriptors)
	}
	return nil
}

func newDescriptors() *descriptors {
	d := &descriptors{limit: 1 << 20, count: openDescriptors}
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &l); err == nil && l.Cur < uint64(d.limit) { //nolint:gosec // a small constant
		d.limit = int(l.Cur) //nolint:gosec // less than the constant
	}
	return d
}

// openDescriptors counts the open descriptors of this process.
func openDescriptors() (int, error) {
	dir, err := os.Open("/proc/self/fd")
	if err != nil {
		return 0, err
	}
	names, err := dir.Readdirnames(-1)
	return len(names) - 1, errors.Join(err, dir.Close())
}

// reserve is what stays free: a session needs about twenty.
func (d *descriptors) reserve() int { return min(max(d.limit/8, 32), 256) }

// connections is how many of them clients of the pages and the API may use.
func (d *descriptors) connections() int { return max(min(mostConnections, d.limit/2), 1) }

// used returns how many are open, at most a second old.
func (d *descriptors) used() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.at.IsZero() && time.Since(d.at) < descriptorsFor {
		return d.open
	}
	n, err := d.count()
	if errors.Is(err, syscall.EMFILE) {
		n, err = d.limit, nil
	}
	if err != nil {
		n = 0 // not known
	}
	d.open, d.at = n, time.Now()
	return n
}

// trouble is why no session may start, or nil.
func (d *descriptors) trouble() error {
	if used := d.used(); used > d.limit-d.reserve() {
		return fmt.Errorf("%d of %d file descriptors are in use, and %d are reserved: no session starts until some are free; "+
			"raise the limit (LimitNOFILE in a systemd unit, ulimit -n in a shell)", used, d.limit, d.reserve())
	}
	return nil
}
