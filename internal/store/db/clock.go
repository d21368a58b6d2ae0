package db

import (
	"sync"
	"time"

	"claudeops/internal/ops"
)

const (
	// precise is the longest round trip whose measurement always replaces an older one.
	precise = 500 * time.Millisecond
	// measureAgain is the age at which a measurement is replaced by any other.
	measureAgain = time.Minute
	// smallStep is the largest correction that is hidden: until the server's time has caught up, the time does not change. A larger one
	// means that somebody set the server's clock.
	smallStep = time.Minute
)

// serverClock tells the server's time without asking for it each time: the server's time when it was last asked, plus the time that
// has passed on this machine since. Setting this machine's clock does not change it.
type serverClock struct {
	host ops.Clock

	mu       sync.Mutex
	server   time.Time // the server's time at the last measurement
	at       time.Time // this machine's time at the same moment
	measured bool
	last     time.Time // the last time that was told
}

func newServerClock(host ops.Clock) *serverClock { return &serverClock{host: host} }

// now is the server's time, in the location of this machine's clock. Before the first measurement it is this machine's time.
func (c *serverClock) now() time.Time {
	host := c.host()
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.measured {
		return host
	}
	t := c.server.Add(host.Sub(c.at)).In(host.Location())
	if back := c.last.Sub(t); back > 0 && back < smallStep {
		return c.last.In(host.Location())
	}
	c.last = t
	return t
}

// measure takes the server's answer to a question that was sent and answered at these times of this machine.
func (c *serverClock) measure(sent, answered, server time.Time) {
	trip := answered.Sub(sent)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.measured && (trip < 0 || trip > precise) && answered.Sub(c.at) < measureAgain {
		return
	}
	c.server, c.at, c.measured = server, sent.Add(trip/2), true
}

// skew is how far this machine's clock was ahead of the server's at the last measurement.
func (c *serverClock) skew() (ahead time.Duration, known bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at.Round(0).Sub(c.server), c.measured
}
