package daemon

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"claudeops/internal/daemon/control"
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
	o.lock = &control.Lock{}
	defer func() { err = errors.Join(err, o.lock.Release()) }()
	p, err := open(ctx, o)
	if err != nil {
		return result, err
	}
	defer func() { err = errors.Join(err, p.ground.close()) }()
	p.endStart()
	p.tellWalls(ctx)
	if err := errors.Join(p.prepare(ctx), p.readiness.trouble()); err != nil {
		return result, err
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		if err := p.control.Serve(localAPI(p.ground.site())); err != nil {
			p.Logger.ErrorContext(ctx, "the control socket failed", "error", err)
		}
	})
	defer func() { err = errors.Join(err, p.closeControl()); serving.Wait() }()

	if err := p.keeper().Look(ctx); err != nil {
		return result, fmt.Errorf("check open approvals: %w", err)
	}
	open, err := p.store.Journal.Unfinished(ctx)
	if err != nil {
		return result, fmt.Errorf("read open cycles: %w", err)
	}
	changed, unsubscribe := p.hub.Subscribe(ops.ReachPages)
	defer unsubscribe()
	if err := p.engine.Start(ctx); err != nil {
		return result, fmt.Errorf("start engine: %w", err)
	}
	for _, c := range open {
		if err := p.await(ctx, c.ID, changed, watch); err != nil {
			return result, errors.Join(err, p.stopEngine(ctx))
		}
	}
	if watch != nil {
		watch(p.store, 0)
	}
	id, err := p.supervisor.Submit(ctx, n)
	if err == nil {
		err = p.await(ctx, id, changed, watch)
	}
	if stopErr := p.stopEngine(ctx); err != nil || stopErr != nil {
		return result, errors.Join(err, stopErr)
	}
	if err := p.outbox.DrainFor(ctx, noticeTime); err != nil {
		p.Logger.WarnContext(ctx, "some notifications were not sent; the next run sends them", "error", err)
	}
	p.tidy(ctx)
	return p.summary(ctx, id)
}

// tidy removes old records for a short time: where cycles are only run one by one, no daemon does.
func (p *plan) tidy(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, tidyTime)
	defer cancel()
	if err := p.retention().Look(ctx); err != nil {
		p.Logger.WarnContext(ctx, "cannot remove old records; the next run tries again", "error", err)
	}
}

func (p *plan) retention() *supervisor.Retention {
	return &supervisor.Retention{Records: p.store.Journal, Keep: p.Config.Retention, Clock: p.Clock, Logger: p.Logger}
}

func (g *ground) summary(ctx context.Context, id ops.CycleID) (store.CycleSummary, error) {
	loaded, err := g.store.Journal.Load(ctx, id)
	if err != nil {
		return store.CycleSummary{}, err
	}
	return store.CycleSummary{Cycle: loaded.Cycle, Sessions: loaded.Journal.Sessions}, nil
}

// awaitPace is the shortest time between two looks at a cycle: an agent can print much faster than anybody reads.
const awaitPace = 20 * time.Millisecond

// await returns when the cycle has ended or waits for a person. It reads the rows after changes, and every half second.
func (g *ground) await(ctx context.Context, id ops.CycleID, changed <-chan struct{}, watch func(*store.Store, ops.CycleID)) error {
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	pace := time.NewTicker(awaitPace)
	defer pace.Stop()
	for ; ; <-pace.C {
		c, err := g.store.Journal.Cycle(ctx, id)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil:
			return err
		case c.Status.Ended() || g.waits(c):
			return nil
		}
		if watch != nil {
			watch(g.store, id)
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
func (g *ground) waits(c ops.Cycle) bool {
	return c.Status == ops.CycleWaitingHuman && c.CancelRequestedAt == nil && (c.WakeAt == nil || c.WakeAt.After(g.Clock()))
}

func (g *ground) stopEngine(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopWithin)
	defer cancel()
	return g.engine.Stop(ctx)
}
