package notify

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"claudeops/internal/failpoint"
	"claudeops/internal/ops"
)

// deliver tries to send one message, of one notice or several, and records the result for each. It fails only if the store does, or ctx
// ends.
func (o *Outbox) deliver(ctx context.Context, batch []ops.Notice) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err := o.escalateLater(ctx, batch); err != nil {
		return err
	}
	failpoint.Hit("outbox.send.before")
	err := o.sender.Send(ctx, digest(o.linked(ctx, batch)))
	failpoint.Hit("outbox.send.after")
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

// linked adds to each notice the page on which a person can act on it.
func (o *Outbox) linked(ctx context.Context, batch []ops.Notice) []ops.Notice {
	if o.link == nil {
		return batch
	}
	out := slices.Clone(batch)
	for i, n := range out {
		out[i].Link = o.link(ctx, n)
	}
	return out
}

// settle records the result of an attempt.
func (o *Outbox) settle(ctx context.Context, n ops.Notice, err error) error {
	var event *ops.Event
	n, event = o.settled(n, err)
	switch n.Status {
	case ops.NoticeSent:
		o.logger.DebugContext(ctx, "notice delivered", "notice", n.ID, "attempts", n.Attempts)
	case ops.NoticePending, ops.NoticeDead:
		o.logger.WarnContext(ctx, "notice not delivered", "notice", n.ID, "attempts", n.Attempts, "status", n.Status, "error", err)
	case ops.NoticeSkipped:
	}
	// A sent notice must be recorded even during a shutdown, or it would be sent again.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTimeout)
	defer cancel()
	if err := o.store.SettleNotice(ctx, n, event); err != nil && !errors.Is(err, ops.ErrConflict) {
		return fmt.Errorf("record notice: %w", err)
	}
	if n.Status == ops.NoticeSkipped && n.Error != ErrMuted.Error() && n.Error != errAnswered.Error() {
		o.saidSkip = true
	}
	return nil
}

// settled returns the notice after an attempt, and an event for the first failure and the last one.
func (o *Outbox) settled(n ops.Notice, err error) (ops.Notice, *ops.Event) {
	now := o.clock()
	event := &ops.Event{At: now, CycleID: n.CycleID, Level: ops.LevelWarning, Kind: ops.EventNotification}
	if errors.Is(err, ErrMuted) || errors.Is(err, errAnswered) {
		n.Status, n.Error = ops.NoticeSkipped, err.Error()
		return n, nil
	}
	if errors.Is(err, ErrNoTarget) {
		n.Status, n.Error = ops.NoticeSkipped, err.Error()
		if o.saidSkip {
			return n, nil
		}
		event.Level, event.Message = ops.LevelInfo, "notices are only recorded, not sent: "+err.Error()
		return n, event
	}
	n.Attempts++
	if err == nil {
		n.Status, n.Error, n.SentAt = ops.NoticeSent, "", &now
		return n, nil
	}
	n.Error = err.Error()
	wait, again := backoff(n.Attempts)
	switch {
	case !again:
		n.Status = ops.NoticeDead
		event.Message = fmt.Sprintf("notice %q was given up after %d attempts: %s", n.Title, n.Attempts, n.Error)
	case n.Attempts == 1:
		n.NextAt = now.Add(wait)
		event.Message = fmt.Sprintf("notice %q could not be delivered and is tried again: %s", n.Title, n.Error)
	default:
		n.NextAt = now.Add(wait)
		event = nil
	}
	return n, event
}
