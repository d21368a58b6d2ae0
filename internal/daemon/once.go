package daemon

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"claudeops/internal/daemon/supervisor"
	"claudeops/internal/ops"
	"claudeops/internal/store"
)

const (
	// noticeTime is how long a single cycle waits until its notifications are sent.
	noticeTime = 10 * time.Second
	// tidyTime is how long it removes old records afterwards; the next one goes on.
	tidyTime = 5 * time.Second
)

// Once finishes cycles that a crash left open, runs one cycle until it ends or waits for a person, sends its notifications
// and removes old records.
// Watch, if given, is called with the store to read from: with no cycle before it is submitted, and after every change.
func Once(ctx context.Context, o Options, n ops.NewCycle, watch func(*store.Store, ops.CycleID)) (result store.CycleSummary, err error) {
	if err := missingSystem(); err != nil {
		return result, err
	}
	h, err := open(ctx, o)
	if err != nil {
		return result, err
	}
	defer func() { err = errors.Join(err, h.close()) }()
	h.endStart()
	h.tellWalls(ctx)
	if err := errors.Join(h.prepare(ctx), h.readiness.trouble()); err != nil {
		return result, err
	}
	site := sync.OnceValue(func() http.Handler { return h.site(nil, nil, nil, ctx.Done(), nil) }) // most cycles end before anybody asks
	var serving sync.WaitGroup
	serving.Go(func() {
		api := func(user string) http.Handler { return localAPI(site())(user) }
		if err := h.control.Serve(api); err != nil {
			h.Logger.ErrorContext(ctx, "the control socket failed", "error", err)
		}
	})
	defer func() { err = errors.Join(err, h.closeControl()); serving.Wait() }()

	if err := h.keeper().Look(ctx); err != nil {
		return result, fmt.Errorf("check open approvals: %w", err)
	}
	open, err := h.store.Unfinished(ctx)
	if err != nil {
		return result, fmt.Errorf("read open cycles: %w", err)
	}
	changed, unsubscribe := h.hub.Subscribe(ops.ReachPages)
	defer unsubscribe()
	if err := h.engine.Start(ctx); err != nil {
		return result, fmt.Errorf("start engine: %w", err)
	}
	for _, c := range open {
		if err := h.await(ctx, c.ID, changed, watch); err != nil {
			return result, errors.Join(err, h.stopEngine(ctx))
		}
	}
	if watch != nil {
		watch(h.store, 0)
	}
	id, err := h.supervisor.Submit(ctx, n)
	if err == nil {
		err = h.await(ctx, id, changed, watch)
	}
	if stopErr := h.stopEngine(ctx); err != nil || stopErr != nil {
		return result, errors.Join(err, stopErr)
	}
	if err := h.outbox.DrainFor(ctx, noticeTime); err != nil {
		h.Logger.WarnContext(ctx, "some notifications were not sent; the next run sends them", "error", err)
	}
	h.tidy(ctx)
	return h.summary(ctx, id)
}

// tidy removes old records for a short time: where cycles are only run one by one, no daemon does.
func (h *Host) tidy(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, tidyTime)
	defer cancel()
	if err := h.retention().Look(ctx); err != nil {
		h.Logger.WarnContext(ctx, "cannot remove old records; the next run tries again", "error", err)
	}
}

func (h *Host) retention() *supervisor.Retention {
	return &supervisor.Retention{Records: h.store, Keep: h.Config.Retention, Clock: h.Clock, Logger: h.Logger}
}

func (h *Host) summary(ctx context.Context, id ops.CycleID) (store.CycleSummary, error) {
	loaded, err := h.store.Load(ctx, id)
	if err != nil {
		return store.CycleSummary{}, err
	}
	return store.CycleSummary{Cycle: loaded.Cycle, Sessions: loaded.Journal.Sessions}, nil
}

// awaitPace is the shortest time between two looks at a cycle: an agent can print much faster than anybody reads.
const awaitPace = 20 * time.Millisecond

// await returns when the cycle has ended or waits for a person. It reads the rows after changes, and every half second.
func (h *Host) await(ctx context.Context, id ops.CycleID, changed <-chan struct{}, watch func(*store.Store, ops.CycleID)) error {
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	pace := time.NewTicker(awaitPace)
	defer pace.Stop()
	for ; ; <-pace.C {
		c, err := h.store.Cycle(ctx, id)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil:
			return err
		case c.Status.Ended() || h.waits(c):
			return nil
		}
		if watch != nil {
			watch(h.store, id)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-changed:
		case <-tick.C:
		}
	}
}

// waits reports whether the cycle still waits for a person. A cycle that was answered continues.
func (h *Host) waits(c ops.Cycle) bool {
	return c.Status == ops.CycleWaitingHuman && c.CancelRequestedAt == nil && (c.WakeAt == nil || c.WakeAt.After(h.Clock()))
}

func (h *Host) stopEngine(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopWithin)
	defer cancel()
	return h.engine.Stop(ctx)
}
