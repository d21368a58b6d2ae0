package notify

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"claudeops/internal/ops"
)

// Store keeps the notices.
type Store interface {
	DueNotices(ctx context.Context, now time.Time, limit int) ([]ops.Notice, error)
	SettleNotice(ctx context.Context, n ops.Notice, event *ops.Event) error
	PendingNotices(ctx context.Context) (int, error)
}

// Sender delivers one notice.
type Sender interface {
	Send(ctx context.Context, n ops.Notice) error
}

const (
	batchSize = 50
	// lookAhead is how long Run waits at most; it also finds notices whose wake-up was lost.
	lookAhead = time.Minute
	// shortestWait prevents a busy loop when the store fails or the clock does not move.
	shortestWait  = time.Second
	settleTimeout = 5 * time.Second
)

// backoff is how long to wait after the first, second … failed attempt. After the last one the notice is given up.
func backoff(attempts int) (wait time.Duration, again bool) {
	waits := [...]time.Duration{5 * time.Second, 30 * time.Second, 2 * time.Minute, 10 * time.Minute, 30 * time.Minute}
	if attempts < 1 || attempts > len(waits) {
		return 0, false
	}
	return waits[attempts-1], true
}

// OutboxOptions are what an outbox needs.
type OutboxOptions struct {
	Store  Store
	Sender Sender
	Clock  ops.Clock
	Logger *slog.Logger
	// Route names the route of a notice; several of one route at once are sent as one message. Nil sends each alone.
	Route func(ops.Notice) string
	// Rule returns the route by which a notice goes: it can make the notice wait, or tell somebody else. Nil means no rules.
	Rule func(ops.Notice) (ops.NoticeRoute, bool)
	// Escalate adds the notice for the second person of a route to the outbox; Unanswered reports whether it is still needed when its time
	// has come. Both are nil without routes that escalate.
	Escalate   func(context.Context, ops.Notice) error
	Unanswered func(context.Context, ops.Notice) (bool, error)
	// Link is the page on which a person can act on a notice; nil or an empty result leaves it out.
	Link func(context.Context, ops.Notice) string
}

// Outbox delivers each notice at least once and records the result. A failed delivery is an event, never an error: it must not stop
// anything.
type Outbox struct {
	store  Store
	sender Sender
	clock  ops.Clock
	logger *slog.Logger
	route  func(ops.Notice) string
	link   func(context.Context, ops.Notice) string

	rule       func(ops.Notice) (ops.NoticeRoute, bool)
	escalate   func(context.Context, ops.Notice) error
	unanswered func(context.Context, ops.Notice) (bool, error)

	busy     chan struct{} // full during a pass: two at once would send a notice twice
	saidSkip bool
}

// NewOutbox makes an outbox.
func NewOutbox(o OutboxOptions) *Outbox {
	return &Outbox{
		store: o.Store, sender: o.Sender, clock: o.Clock, logger: o.Logger, route: o.Route, link: o.Link, busy: make(chan struct{}, 1),
		rule: o.Rule, escalate: o.Escalate, unanswered: o.Unanswered,
	}
}

// Drain tries every notice that is due. It fails only if the store does, or ctx ends.
func (o *Outbox) Drain(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case o.busy <- struct{}{}:
		defer func() { <-o.busy }()
	}
	for {
		due, err := o.store.DueNotices(ctx, o.clock(), batchSize)
		if err != nil {
			return fmt.Errorf("read due notices: %w", err)
		}
		ready, err := o.ready(ctx, due)
		if err != nil {
			return err
		}
		for _, batch := range o.batches(ready) {
			if err := o.deliver(ctx, batch); err != nil {
				return err
			}
		}
		if len(due) < batchSize {
			return nil
		}
	}
}

// errGaveUp is the cause with which DrainFor stops after its time. Unlike a shutdown it counts as a failed attempt.
var errGaveUp = errors.New("not delivered in time")

// DrainFor tries for at most d to deliver what is due or becomes due meanwhile. It fails if notices are left; they stay in the outbox
// for the next run.
func (o *Outbox) DrainFor(ctx context.Context, d time.Duration) error {
	end := o.clock().Add(d)
	limited, cancel := context.WithTimeoutCause(ctx, d, errGaveUp)
	defer cancel()
	for limited.Err() == nil {
		if err := o.Drain(limited); err != nil && limited.Err() == nil {
			return err
		}
		next, found, err := o.next(ctx, end)
		if err != nil {
			return err
		}
		if !found || !sleep(limited, nil, next.Sub(o.clock())) {
			break
		}
	}
	if ctx.Err() != nil {
		return fmt.Errorf("deliver notices: %w", context.Cause(ctx))
	}
	waiting, err := o.store.PendingNotices(ctx)
	if err != nil {
		return fmt.Errorf("count pending notices: %w", err)
	}
	if waiting > 0 {
		return fmt.Errorf("%d notices are not delivered yet; they stay in the outbox and the next run tries again", waiting)
	}
	return nil
}

// Run delivers notices when they become due or wake says that there may be new ones, until ctx ends.
func (o *Outbox) Run(ctx context.Context, wake <-chan struct{}) error {
	for {
		wait := lookAhead
		err := o.Drain(ctx)
		if err == nil {
			var next time.Time
			var found bool
			if next, found, err = o.next(ctx, o.clock().Add(lookAhead)); found {
				wait = next.Sub(o.clock())
			}
		}
		if ctx.Err() != nil {
			return nil //nolint:nilerr // asked to end
		}
		if err != nil {
			o.logger.WarnContext(ctx, "outbox failed; trying again", "error", err)
			wait = settleTimeout
		}
		if !sleep(ctx, &wake, wait) {
			return nil
		}
	}
}

// next returns when the first notice becomes due, if that is before the end.
func (o *Outbox) next(ctx context.Context, end time.Time) (at time.Time, found bool, err error) {
	coming, err := o.store.DueNotices(ctx, end, batchSize)
	if err != nil {
		return at, false, fmt.Errorf("read coming notices: %w", err)
	}
	for _, n := range coming {
		if !found || n.NextAt.Before(at) {
			at, found = n.NextAt, true
		}
	}
	return at, found, nil
}

// sleep waits, and reports whether to go on. A closed wake channel is not read again.
func sleep(ctx context.Context, wake *<-chan struct{}, d time.Duration) bool {
	timer := time.NewTimer(max(d, shortestWait))
	defer timer.Stop()
	var woken <-chan struct{}
	if wake != nil {
		woken = *wake
	}
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
	case _, open := <-woken:
		if !open {
			*wake = nil
		}
	}
	return true
}
