package watch

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"claudeops/internal/notice"
	"claudeops/internal/ops"
)

// Ends stores when cycles ended.
type Ends interface {
	LastEnded(ctx context.Context, environment string) (time.Time, bool, error)
	Unfinished(ctx context.Context) ([]ops.Cycle, error)
	AddEvent(ctx context.Context, e ops.Event) (int64, error)
}

// DeadMan raises an alarm when cycles stop ending, and pings a monitor outside that raises one when this process stops.
type DeadMan struct {
	Ends         Ends
	Notices      Notices
	Environments []ops.Environment
	Missed       int // alert after this many missed intervals; 0: never
	// Ping tells a monitor outside that a cycle has ended; nil: there is none.
	Ping func(ctx context.Context) error
	// Changed is called after a notice was written; nil: nobody waits for it.
	Changed func()
	Clock   ops.Clock
	Logger  *slog.Logger

	started time.Time // or when this process went on after a pause
	checked time.Time
	pinged  time.Time
	alerted map[string]bool
}

// deadManInterval is how often the ends are checked when no cycle ends.
const deadManInterval = 30 * time.Second

// deadManPause is a time between two checks that shows that this process or its machine was paused. No cycle could end meanwhile, so
// what is missed counts from then on.
const deadManPause = 4 * deadManInterval

// Run checks until ctx ends; a nudge says that a cycle may have ended.
func (d *DeadMan) Run(ctx context.Context, nudges <-chan struct{}) error {
	d.begin(ctx)
	for {
		if err := d.Check(ctx); err != nil && ctx.Err() == nil {
			d.Logger.ErrorContext(ctx, "check of the schedule failed", "error", err)
		}
		if !pause(ctx, time.Second, nil) || !pause(ctx, deadManInterval, nudges) {
			return nil
		}
	}
}

func (d *DeadMan) begin(ctx context.Context) {
	d.started, d.alerted = d.Clock(), map[string]bool{}
	for _, e := range d.Environments {
		if at, ok, err := d.Ends.LastEnded(ctx, e.Name); err == nil && ok && at.After(d.pinged) {
			d.pinged = at // the process before this one pinged for it
		}
	}
}

// Check does what is due.
func (d *DeadMan) Check(ctx context.Context) error {
	if d.alerted == nil {
		d.begin(ctx)
	}
	now := d.Clock()
	if !d.checked.IsZero() && now.Sub(d.checked) > deadManPause {
		d.started = now
		d.Logger.InfoContext(ctx, "this process was paused; missed cycles count from now on", "for", now.Sub(d.checked).Round(time.Second))
	}
	d.checked = now
	newest := d.pinged
	for _, e := range d.Environments {
		last, ran, err := d.Ends.LastEnded(ctx, e.Name)
		if err != nil {
			return fmt.Errorf("read last ended cycle of %s: %w", e.Name, err)
		}
		if ran && last.After(newest) {
			newest = last
		}
		if err := d.missed(ctx, e, last, now); err != nil {
			return err
		}
	}
	if d.Ping == nil || !newest.After(d.pinged) {
		return nil
	}
	d.pinged = newest
	if err := d.Ping(ctx); err != nil && ctx.Err() == nil {
		d.Logger.WarnContext(ctx, "ping failed; the next one follows when the next cycle ends", "error", err)
	}
	return nil
}

// missed alerts once when an environment's cycles have stopped ending, and once when they end again.
func (d *DeadMan) missed(ctx context.Context, e ops.Environment, last, now time.Time) error {
	since := last
	if d.started.After(since) {
		since = d.started // before that nothing could run
	}
	limit := time.Duration(d.Missed) * e.Interval
	late := d.Missed > 0 && now.Sub(since) > limit
	if late {
		busy, err := d.busy(ctx, e, now)
		if err != nil {
			return err
		}
		late = !busy
	}
	switch {
	case late && !d.alerted[e.Name]:
		d.alerted[e.Name] = true
		late := now.Sub(since).Round(time.Second)
		d.Logger.ErrorContext(ctx, "no cycle has ended in time", "environment", e.Name, "for", late, "interval", e.Interval)
		event := ops.Event{
			At: now, Environment: e.Name, Level: ops.LevelCritical, Verb: ops.VerbDeadmanMissed,
			Detail: ops.DeadmanDetail{Since: since, EverySeconds: int64(e.Interval.Seconds())},
		}
		if _, err := d.Ends.AddEvent(ctx, event); err != nil {
			return fmt.Errorf("record missed schedule: %w", err)
		}
		text := notice.Overdue(e.Name, late, e.Interval)
		_, err := d.Notices.AddNotice(ctx, ops.Notice{
			Kind: ops.NoticeDeadman, Level: ops.LevelCritical, Title: text.Title, Body: text.Body, Environment: e.Name,
			Key: fmt.Sprintf("deadman:%s:%d", e.Name, since.Unix()), NextAt: now, CreatedAt: now,
		})
		if err != nil {
			return fmt.Errorf("record missed schedule: %w", err)
		}
		if d.Changed != nil {
			d.Changed()
		}
	case !late && d.alerted[e.Name]:
		d.alerted[e.Name] = false
		event := ops.Event{At: now, Environment: e.Name, Level: ops.LevelInfo, Verb: ops.VerbDeadmanOver}
		if _, err := d.Ends.AddEvent(ctx, event); err != nil {
			return fmt.Errorf("record schedule: %w", err)
		}
	}
	return nil
}

// busy: a cycle runs, and not for longer than its sessions may take together.
func (d *DeadMan) busy(ctx context.Context, e ops.Environment, now time.Time) (bool, error) {
	open, err := d.Ends.Unfinished(ctx)
	if err != nil {
		return false, fmt.Errorf("read open cycles: %w", err)
	}
	for _, c := range open {
		if c.Environment == e.Name && c.Status == ops.CycleRunning && c.StartedAt != nil && now.Sub(*c.StartedAt) < 4*e.Limits.Wall {
			return true, nil
		}
	}
	return false, nil
}
