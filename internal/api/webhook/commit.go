package webhook

import (
	"context"
	"errors"
	"fmt"
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
