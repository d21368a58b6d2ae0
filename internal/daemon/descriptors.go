package daemon

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

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
