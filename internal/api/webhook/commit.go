package webhook

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"

	"claudeops/internal/ops"
)

// errFull means that too many alerts wait to be processed.
var errFull = errors.New("too many alerts wait to be processed")

// store writes the alerts of a request in one transaction. replayed: they are stored already.
func (h *Hook) store(ctx context.Context, alerts []ops.Alert, signed receipt) (replayed bool, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeWithin)
	defer cancel()
	if err := h.room.free(ctx, h.o); err != nil {
		return false, err
	}
	if signed.signature == "" {
		err = h.o.Store.AddAlerts(ctx, alerts)
	} else {
		var stored []bool
		stored, err = h.o.Store.AddSignedAlerts(ctx, []ops.SignedAlerts{{Alerts: alerts, Signature: signed.signature, Expires: signed.expires}})
		replayed = err == nil && stored[0]
	}
	if err != nil {
		return false, fmt.Errorf("write alerts: %w", err)
	}
	h.o.Wake()
	return replayed, nil
}

// room knows roughly whether too many alerts wait.
type room struct {
	mu      sync.Mutex
	counted time.Time
	full    bool
}

// free is errFull while too many alerts wait.
func (r *room) free(ctx context.Context, o Options) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now := time.Now(); now.Sub(r.counted) >= countEvery {
		n, err := o.Store.CountPendingAlerts(ctx, o.Pending)
		if err != nil {
			return fmt.Errorf("count alerts: %w", err)
		}
		r.counted, r.full = now, n >= o.Pending
	}
	if r.full {
		return errFull
	}
	return nil
}

const (
	// bodyWithin is how long a body may take to arrive.
	bodyWithin = 10 * time.Second
	// mostUnfinished and mostPerAddress limit the bodies that arrive at the same time, and so their memory. With one more, the
	// oldest is given up: a body that arrives at once is never refused because others do not.
	mostUnfinished = 128
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
