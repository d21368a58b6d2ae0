package supervisor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"claudeops/internal/notice"
	"claudeops/internal/ops"
)

// People is where approvals expire and reminders are sent.
type People interface {
	ExpiringApprovals(ctx context.Context, now time.Time) ([]ops.Approval, error)
	Answer(ctx context.Context, id int64, status ops.ApprovalStatus, by, reason string, at time.Time) (ops.Approval, error)
	DueReminders(ctx context.Context, now time.Time, limit int) ([]ops.Incident, error)
	Reminded(ctx context.Context, id int64, next *time.Time, notice ops.Notice) error
	AskForReflexes(ctx context.Context, at time.Time) (asked bool, err error)
}

// Keeper sends reminders of open incidents, expires approvals that nobody answered, and asks about reflexes that were earned.
type Keeper struct {
	People People
	// Policy is how often reminders of an environment are sent.
	Policy func(environment string) ops.ApprovalPolicy
	// Answered is called after an approval expired: its cycle has something to do.
	Answered func(ops.CycleID)
	// Changed is called after a reminder or a question was written: it is due at once.
	Changed func()
	Clock   ops.Clock
	Logger  *slog.Logger
}

// keeperPace is how often the keeper runs; a reminder may be ten seconds late.
const keeperPace = 10 * time.Second

// Run runs Look until ctx ends.
func (k *Keeper) Run(ctx context.Context) {
	Every(ctx, keeperPace, nil, func() {
		if err := k.Look(ctx); err != nil && ctx.Err() == nil {
			k.Logger.ErrorContext(ctx, "cannot check approvals and reminders; trying again", "error", err)
		}
	})
}

// Every does something now, then at a pace and with every nudge, until ctx ends.
func Every(ctx context.Context, pace time.Duration, nudges <-chan struct{}, do func()) {
	ticker := time.NewTicker(pace)
	defer ticker.Stop()
	for {
		do()
		select {
		case <-ctx.Done():
			return
		case <-nudges:
		case <-ticker.C:
		}
	}
}

// Look expires approvals and sends reminders that are due.
func (k *Keeper) Look(ctx context.Context) error {
	now := k.Clock()
	expiring, err := k.People.ExpiringApprovals(ctx, now)
	if err != nil {
		return fmt.Errorf("read expiring approvals: %w", err)
	}
	for _, a := range expiring {
		if _, err := k.People.Answer(ctx, a.ID, ops.ApprovalExpired, ops.Supervisor, "nobody answered in time", now); err != nil {
			if errors.Is(err, ops.ErrConflict) {
				continue // somebody answered a moment before
			}
			return fmt.Errorf("expire approval %d: %w", a.ID, err)
		}
		k.Answered(a.CycleID)
	}
	const batch = 50
	due, err := k.People.DueReminders(ctx, now, batch)
	if err != nil {
		return fmt.Errorf("read due reminders: %w", err)
	}
	for _, i := range due {
		notice, next := remind(i, k.Policy(i.Environment), now)
		if err := k.People.Reminded(ctx, i.ID, next, notice); err != nil && !errors.Is(err, ops.ErrConflict) {
			return fmt.Errorf("remind of incident %d: %w", i.ID, err)
		}
	}
	asked, err := k.People.AskForReflexes(ctx, now)
	if err != nil {
		return err
	}
	if (asked || len(due) > 0) && k.Changed != nil {
		k.Changed()
	}
	return nil
}

// remind returns the next reminder of an incident and when the one after it is due. The last one goes to the second target, and
// none follows it.
func remind(i ops.Incident, p ops.ApprovalPolicy, now time.Time) (ops.Notice, *time.Time) {
	last := i.Reminders >= p.Reminds
	text := notice.Reminder(i, last, now)
	n := ops.Notice{
		CycleID: &i.LastCycle, Incident: i.ID, Kind: ops.NoticeReminder, Level: i.Level, Status: ops.NoticePending, NextAt: now, CreatedAt: now,
		Title: text.Title, Body: text.Body,
	}
	if last {
		n.Target = ops.TargetSecond
		return n, nil
	}
	next := now.Add(p.Remind)
	return n, &next
}
