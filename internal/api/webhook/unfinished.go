package webhook

import (
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"
)

const (
	// bodyWithin is how long a body may take to arrive.
	bodyWithin = 10 * time.Second
	// mostUnfinished and mostPerAddress limit the bodies that arrive at the same time, and so their memory. With one more, the
	// oldest is given up: a body that arrives at once is never refused because others do not.
	mostUnfinished = 256
	mostPerAddress = 64
)

// unfinished are the requests whose bodies are being read.
type unfinished struct {
	mu   sync.Mutex
	open []*arriving // oldest first
}

// arriving is one body.
type arriving struct {
	address string
	giveUp  func()
}

// read reads the body of a request within its time.
func (u *unfinished) read(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	control := http.NewResponseController(w)
	// A writer without deadlines is not a connection; then nobody can be slow.
	_ = control.SetReadDeadline(time.Now().Add(bodyWithin))
	a := &arriving{address: address(r), giveUp: func() { _ = control.SetReadDeadline(time.Unix(1, 0)) }}
	u.enter(a)
	defer u.leave(a)
	return io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
}

func (u *unfinished) enter(a *arriving) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.open = append(u.open, a)
	same := 0
	for _, o := range u.open {
		if o.address == a.address {
			same++
		}
	}
	var at int
	switch {
	case same > mostPerAddress:
		at = slices.IndexFunc(u.open, func(o *arriving) bool { return o.address == a.address })
	case len(u.open) > mostUnfinished:
		at = 0
	default:
		return
	}
	u.open[at].giveUp()
	u.open = slices.Delete(u.open, at, at+1)
}

// leave must run before the request is answered, so that nobody gives up a connection that serves another request.
func (u *unfinished) leave(a *arriving) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if at := slices.Index(u.open, a); at >= 0 {
		u.open = slices.Delete(u.open, at, at+1)
	}
}

// address is the sender's address without the port.
func address(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}
