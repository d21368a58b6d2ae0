package notify

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"claudeops/internal/failpoint"
	"claudeops/internal/ops"
)

// Store keeps the notices.
type Store interface {
	DueNotices(ctx context.Context, now time.Time, limit int) ([]ops.Notice, error)
	SettleNotice(ctx context.Context, n ops.Notice, event *ops.Event) error
	PendingNotices(ctx context.Context) (int, error)
}

// Sender delivers one notice to every target that does not have it yet, and names those that took it.
type Sender interface {
	Send(ctx context.Context, n ops.Notice) (took []string, err error)
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
	// Quiet returns the quiet hours of a notice's route, if it has any. Nil means that no route has.
	Quiet func(ops.Notice) *ops.QuietHours
	// Link is the page on which a person can act on a notice; nil or an empty result leaves it out.
	Link func(context.Context, ops.Notice) string
	// Story tells how what a notice is about went, if that is over; nil or an empty result leaves it out.
	Story func(context.Context, ops.Notice) string
	// Answers makes the links with which people answer a notice that is sent alone; nil leaves them out.
	Answers func(context.Context, ops.Notice) []ops.AnswerLink
}

// Outbox delivers each notice at least once and records the result. A failed delivery is an event, never an error: it must not stop
// anything.
type Outbox struct {
	OutboxOptions

	busy     chan struct{} // full during a pass: two at once would send a notice twice
	saidSkip bool
}

// NewOutbox makes an outbox.
func NewOutbox(o OutboxOptions) *Outbox {
	return &Outbox{OutboxOptions: o, busy: make(chan struct{}, 1)}
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
		due, err := o.Store.DueNotices(ctx, o.Clock(), batchSize)
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
	end := o.Clock().Add(d)
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
		if !found || !sleep(limited, nil, next.Sub(o.Clock())) {
			break
		}
	}
	if ctx.Err() != nil {
		return fmt.Errorf("deliver notices: %w", context.Cause(ctx))
	}
	waiting, err := o.Store.PendingNotices(ctx)
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
		wait, err := o.pass(ctx)
		if ctx.Err() != nil {
			return nil //nolint:nilerr // asked to end
		}
		if err != nil {
			o.Logger.WarnContext(ctx, "outbox failed; trying again", "error", err)
			wait = settleTimeout
		}
		if !sleep(ctx, &wake, wait) {
			return nil
		}
	}
}

// pass delivers what is due and returns when more is. It asks once where nothing is.
func (o *Outbox) pass(ctx context.Context) (time.Duration, error) {
	next, found, err := o.next(ctx, o.Clock().Add(lookAhead))
	if found && !next.After(o.Clock()) {
		if err = o.Drain(ctx); err == nil {
			next, found, err = o.next(ctx, o.Clock().Add(lookAhead))
		}
	}
	if !found {
		return lookAhead, err
	}
	return next.Sub(o.Clock()), err
}

// next returns when the first notice becomes due, if that is before the end.
func (o *Outbox) next(ctx context.Context, end time.Time) (at time.Time, found bool, err error) {
	coming, err := o.Store.DueNotices(ctx, end, batchSize)
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

// deliver tries to send one message, of one notice or several, and records the result for each. It fails only if the store does, or ctx
// ends.
func (o *Outbox) deliver(ctx context.Context, batch []ops.Notice) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	ctx, end := ops.Lasting(ctx) // one that is being sent would be sent twice
	defer end()
	failpoint.Hit("outbox.send.before")
	took, err := o.Sender.Send(ctx, digest(o.linked(ctx, batch)))
	failpoint.Hit("outbox.send.after")
	for i, n := range batch {
		for _, to := range took {
			batch[i].Deliveries = append(batch[i].Deliveries, ops.Delivery{Route: o.routeOf(n), To: to, At: o.Clock()})
		}
	}
	if cause := context.Cause(ctx); err != nil && cause != nil {
		if !errors.Is(cause, errGaveUp) {
			return cause // a shutdown does not count as an attempt
		}
		err = cause
	}
	for _, n := range batch {
		if err := o.settle(ctx, n, err); err != nil {
			return err
		}
	}
	return nil
}

func (o *Outbox) routeOf(n ops.Notice) string {
	if o.Route == nil {
		return ""
	}
	return o.Route(n)
}

// linked adds to each notice the page on which a person can act on it, and to one that is sent alone the story of what is over.
func (o *Outbox) linked(ctx context.Context, batch []ops.Notice) []ops.Notice {
	out := slices.Clone(batch)
	for i := range out {
		out[i].Title, out[i].Body = ops.Spoken(out[i].Title), ops.Spoken(out[i].Body)
	}
	if o.Story != nil && len(out) == 1 {
		if story := o.Story(ctx, out[0]); story != "" {
			out[0].Body = story + "\n\n" + out[0].Body
		}
	}
	if o.Link == nil {
		return out
	}
	for i, n := range out {
		out[i].Link = o.Link(ctx, n)
	}
	if o.Answers != nil && len(out) == 1 {
		out[0].Answers = o.Answers(ctx, out[0])
	}
	return out
}

// settle records the result of an attempt.
func (o *Outbox) settle(ctx context.Context, n ops.Notice, err error) error {
	var event *ops.Event
	n, event = o.settled(n, err)
	switch n.Status {
	case ops.NoticeSent:
		o.Logger.DebugContext(ctx, "notice delivered", "notice", n.ID, "attempts", n.Attempts)
	case ops.NoticePending, ops.NoticeDead:
		o.Logger.WarnContext(ctx, "notice not delivered", "notice", n.ID, "attempts", n.Attempts, "status", n.Status, "error", err)
	case ops.NoticeSkipped:
	}
	// A sent notice must be recorded even during a shutdown, or it would be sent again.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTimeout)
	defer cancel()
	if err := o.Store.SettleNotice(ctx, n, event); err != nil && !errors.Is(err, ops.ErrConflict) {
		return fmt.Errorf("record notice: %w", err)
	}
	if n.Status == ops.NoticeSkipped && n.Error != ErrMuted.Error() {
		o.saidSkip = true
	}
	return nil
}

// settled returns the notice after an attempt, and an event for the first failure and the last one.
func (o *Outbox) settled(n ops.Notice, err error) (ops.Notice, *ops.Event) {
	now := o.Clock()
	event := &ops.Event{
		At: now, CycleID: n.CycleID, Level: ops.LevelWarning, Verb: ops.VerbNoticeFailed,
		Subject: ops.About(ops.SubjectNotice, n.ID),
	}
	if errors.Is(err, ErrMuted) {
		n.Status, n.Error = ops.NoticeSkipped, err.Error()
		return n, nil
	}
	if errors.Is(err, ErrNoTarget) {
		n.Status, n.Error = ops.NoticeSkipped, err.Error()
		if o.saidSkip {
			return n, nil
		}
		event.Level, event.Verb = ops.LevelInfo, ops.VerbNoticeSkipped
		event.Reason = n.Error
		return n, event
	}
	n.Attempts++
	if err == nil {
		n.Status, n.Error, n.SentAt = ops.NoticeSent, "", &now
		return n, nil
	}
	n.Error = err.Error()
	wait, again := backoff(n.Attempts)
	event.Reason, event.Detail = n.Error, ops.NoticeDetail{Title: n.Title, Attempts: n.Attempts, Again: again}
	switch {
	case !again:
		n.Status = ops.NoticeDead
	case n.Attempts == 1:
		n.NextAt = now.Add(wait)
	default:
		n.NextAt = now.Add(wait)
		event = nil
	}
	return n, event
}
