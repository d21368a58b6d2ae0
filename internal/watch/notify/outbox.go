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
	batch = 50
	// lookAhead is how far Run looks for the next notice; it also finds what a lost wake-up left.
	lookAhead = time.Minute
	// shortestWait keeps a store that errs, or a clock that stands, from making a busy loop.
	shortestWait  = time.Second
	settleTimeout = 5 * time.Second
	eventKind     = "notification"
)

// backoff is how long to wait after the first, second … failed attempt. One more failure, and the notice is dead.
func backoff(attempts int) (wait time.Duration, again bool) {
	waits := [...]time.Duration{5 * time.Second, 30 * time.Second, 2 * time.Minute, 10 * time.Minute, 30 * time.Minute}
	if attempts < 1 || attempts > len(waits) {
		return 0, false
	}
	return waits[attempts-1], true
}

// OutboxOptions are what an outbox works with.
type OutboxOptions struct {
	Store  Store
	Sender Sender
	Clock  ops.Clock
	Logger *slog.Logger
	// Route names the way a notice goes; several that go the same way at once are sent as one message. Nil sends each alone.
	Route func(ops.Notice) string
	// Link is where a person can act on a notice; nil or an empty answer leaves it out.
	Link func(context.Context, ops.Notice) string
}

// Outbox delivers notices at least once each and records what became of them. A failure to deliver is an event,
// never an error: it must not stop anything.
type Outbox struct {
	store  Store
	sender Sender
	clock  ops.Clock
	logger *slog.Logger
	route  func(ops.Notice) string
	link   func(context.Context, ops.Notice) string

	turn     chan struct{} // held during a pass: two at once would send a notice twice
	saidSkip bool
}

// NewOutbox makes an outbox.
func NewOutbox(o OutboxOptions) *Outbox {
	return &Outbox{
		store: o.Store, sender: o.Sender, clock: o.Clock, logger: o.Logger, route: o.Route, link: o.Link, turn: make(chan struct{}, 1),
	}
}

// Drain tries every notice that is due. It fails only if the store does, or ctx ends.
func (o *Outbox) Drain(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case o.turn <- struct{}{}:
		defer func() { <-o.turn }()
	}
	for {
		due, err := o.store.DueNotices(ctx, o.clock(), batch)
		if err != nil {
			return fmt.Errorf("read due notices: %w", err)
		}
		for _, parcel := range o.parcels(due) {
			if err := o.deliver(ctx, parcel); err != nil {
				return err
			}
		}
		if len(due) < batch {
			return nil
		}
	}
}

// errGaveUp is the cause with which DrainFor ends what takes too long. Unlike a shutdown it counts as a failed attempt.
var errGaveUp = errors.New("not delivered in time")

// DrainFor tries for at most d to deliver what waits or becomes due meanwhile. What is then still undelivered stays in
// the outbox for the next run, and is the error.
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
			o.logger.WarnContext(ctx, "the outbox cannot be read or written; it is tried again", "error", err)
			wait = settleTimeout
		}
		if !sleep(ctx, &wake, wait) {
			return nil
		}
	}
}

// next tells when the first notice becomes due, if that is before the end.
func (o *Outbox) next(ctx context.Context, end time.Time) (at time.Time, found bool, err error) {
	coming, err := o.store.DueNotices(ctx, end, batch)
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

// sleep waits, and reports whether to go on. A closed wake channel is set aside.
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
