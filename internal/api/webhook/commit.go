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

// write stores a batch in one transaction and reports the result to every request.
func (h *Hook) write(ctx context.Context, r *room, batch []entry) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeWithin)
	defer cancel()
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
	if err == nil {
		h.o.Wake()
	}
	for _, e := range batch {
		e.done <- err
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
