package daemon

import (
	"net"
	"net/http"
	"sync"
	"time"
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
