package notify

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"claudeops/internal/failpoint"
	"claudeops/internal/ops"
)

// deliver tries one message, of one notice or several, and records the result for each. Its error is the store's, or the end
// of ctx.
func (o *Outbox) deliver(ctx context.Context, parcel []ops.Notice) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	failpoint.Hit("outbox.send.before")
	err := o.sender.Send(ctx, digest(o.linked(ctx, parcel)))
	failpoint.Hit("outbox.send.after")
	if cause := context.Cause(ctx); err != nil && cause != nil {
		if !errors.Is(cause, errGaveUp) {
			return cause // a shutdown is no failed attempt
		}
		err = cause
	}
	for _, n := range parcel {
		if err := o.settle(ctx, n, err); err != nil {
			return err
		}
	}
	return nil
}

// linked adds to each notice where a person can act on it. What is stored stays as it was.
func (o *Outbox) linked(ctx context.Context, parcel []ops.Notice) []ops.Notice {
	if o.link == nil {
		return parcel
	}
	out := slices.Clone(parcel)
	for i, n := range out {
		if address := o.link(ctx, n); address != "" {
			out[i].Body = strings.TrimRight(n.Body, "\n") + fmt.Sprintf("\n\n[Open it](%s)\n", address)
		}
	}
	return out
}

// settle records what became of a notice.
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
	// What was sent must be recorded even if we are asked to end just now, or it would be sent again.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTimeout)
	defer cancel()
	if err := o.store.SettleNotice(ctx, n, event); err != nil && !errors.Is(err, ops.ErrConflict) {
		return fmt.Errorf("record notice: %w", err)
	}
	if n.Status == ops.NoticeSkipped && n.Error != ErrMuted.Error() {
		o.saidSkip = true
	}
	return nil
}

// settled returns the notice as it stands after an attempt, and what the operator should know of it: the first
// failure and the last, not each between.
func (o *Outbox) settled(n ops.Notice, err error) (ops.Notice, *ops.Event) {
	now := o.clock()
	event := &ops.Event{At: now, CycleID: n.CycleID, Level: ops.LevelWarning, Kind: eventKind}
	if errors.Is(err, ErrMuted) {
		n.Status, n.Error = ops.NoticeSkipped, ErrMuted.Error()
		return n, nil
	}
	if errors.Is(err, ErrNoTarget) {
		n.Status, n.Error = ops.NoticeSkipped, err.Error()
		if o.saidSkip {
			return n, nil
		}
		event.Level, event.Message = ops.LevelInfo, "notices are kept in the record only: "+err.Error()
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
