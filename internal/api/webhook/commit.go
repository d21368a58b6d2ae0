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

// Run stores alerts until ctx ends. Waiting ones are stored before it returns.
func (h *Hook) Run(ctx context.Context) error {
	defer close(h.ended)
	room := &room{hook: h}
	for {
		select {
		case <-ctx.Done():
			h.last(context.WithoutCancel(ctx), room)
			return nil
		case first := <-h.queue:
			h.write(ctx, room, h.gather(first))
		}
	}
}

// last writes what was queued before the end.
func (h *Hook) last(ctx context.Context, r *room) {
	for {
		select {
		case first := <-h.queue:
			h.write(ctx, r, h.gather(first))
		default:
			return
		}
	}
}

// gather takes the requests that already wait.
func (h *Hook) gather(first entry) []entry {
	batch := []entry{first}
	for len(batch) < fullBatch {
		select {
		case e := <-h.queue:
			batch = append(batch, e)
		default:
			return batch
		}
	}
	return batch
}

// write stores a batch in one transaction, signed requests in another one, and reports the result to every request.
func (h *Hook) write(ctx context.Context, r *room, batch []entry) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeWithin)
	defer cancel()
	var plain, signed []entry
	for _, e := range batch {
		if e.receipt.signature == "" {
			plain = append(plain, e)
		} else {
			signed = append(signed, e)
		}
	}
	h.writePlain(ctx, r, plain)
	h.writeSigned(ctx, r, signed)
}

func (h *Hook) writePlain(ctx context.Context, r *room, batch []entry) {
	if len(batch) == 0 {
		return
	}
	err := r.free(ctx)
	if err == nil {
		var all []ops.Alert
		for _, e := range batch {
			all = append(all, e.alerts...)
		}
		if err = h.o.Store.AddAlerts(ctx, all); err != nil {
			err = fmt.Errorf("write alerts: %w", err)
		}
	}
	h.written(batch, nil, err)
}

func (h *Hook) writeSigned(ctx context.Context, r *room, batch []entry) {
	if len(batch) == 0 {
		return
	}
	var replayed []bool
	err := r.free(ctx)
	if err == nil {
		all := make([]ops.SignedAlerts, len(batch))
		for i, e := range batch {
			all[i] = ops.SignedAlerts{Alerts: e.alerts, Signature: e.receipt.signature, Expires: e.receipt.expires}
		}
		if replayed, err = h.o.Store.AddSignedAlerts(ctx, all); err != nil {
			err = fmt.Errorf("write signed alerts: %w", err)
		}
	}
	h.written(batch, replayed, err)
}

// written reports to every request of a batch.
func (h *Hook) written(batch []entry, replayed []bool, err error) {
	if err == nil {
		h.o.Wake()
	}
	for i, e := range batch {
		e.done <- result{err: err, replayed: err == nil && i < len(replayed) && replayed[i]}
	}
}

// room knows roughly whether too many alerts wait.
type room struct {
	hook    *Hook
	counted time.Time
	full    bool
}

// free is errFull while too many alerts wait.
func (r *room) free(ctx context.Context) error {
	if now := time.Now(); now.Sub(r.counted) >= countEvery {
		n, err := r.hook.o.Store.CountPendingAlerts(ctx, r.hook.o.Pending)
		if err != nil {
			return fmt.Errorf("count alerts: %w", err)
		}
		r.counted, r.full = now, n >= r.hook.o.Pending
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
