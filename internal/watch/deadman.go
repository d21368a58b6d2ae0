package watch

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"claudeops/internal/ops"
)

// Ends is where it is written when cycles ended.
type Ends interface {
	LastEnded(ctx context.Context, environment string) (time.Time, bool, error)
	Unfinished(ctx context.Context) ([]ops.Cycle, error)
	AddEvent(ctx context.Context, e ops.Event) (int64, error)
	AddNotice(ctx context.Context, n ops.Notice) (int64, error)
}

// DeadMan notices when cycles stop ending, and lets somebody outside notice when we do.
type DeadMan struct {
	Ends         Ends
	Environments []ops.Environment
	Missed       int // so many intervals without a finished cycle are told; 0: never
	// Ping tells a watcher outside that a cycle has ended; nil: there is none.
	Ping   func(ctx context.Context) error
	Clock  ops.Clock
	Logger *slog.Logger

	born   time.Time
	pinged time.Time
	told   map[string]bool
}

// deadManPace is how often the ends are looked at without a nudge.
const deadManPace = 30 * time.Second

// Run looks until ctx ends; nudges say that a cycle may have ended.
func (d *DeadMan) Run(ctx context.Context, nudges <-chan struct{}) error {
	d.begin(ctx)
	for {
		if err := d.Look(ctx); err != nil && ctx.Err() == nil {
			d.Logger.ErrorContext(ctx, "the ends of cycles could not be read", "error", err)
		}
		if !pause(ctx, time.Second, nil) || !pause(ctx, deadManPace, nudges) {
			return nil
		}
	}
}

func (d *DeadMan) begin(ctx context.Context) {
	d.born, d.told = d.Clock(), map[string]bool{}
	for _, e := range d.Environments {
		if at, ok, err := d.Ends.LastEnded(ctx, e.Name); err == nil && ok && at.After(d.pinged) {
			d.pinged = at // what ended before our time was told then
		}
	}
}

// Look does once what is due.
func (d *DeadMan) Look(ctx context.Context) error {
	if d.told == nil {
		d.begin(ctx)
	}
	now := d.Clock()
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
		d.Logger.WarnContext(ctx, "the watcher outside could not be told that a cycle has ended; it is told with the next one", "error", err)
	}
	return nil
}

// missed tells once that an environment's cycles have stopped ending, and once more when they go on.
func (d *DeadMan) missed(ctx context.Context, e ops.Environment, last, now time.Time) error {
	since := last
	if d.born.After(since) {
		since = d.born // while we were not there nobody could run anything
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
	case late && !d.told[e.Name]:
		d.told[e.Name] = true
		message := fmt.Sprintf("no cycle of %s has ended for %s, although one is due every %s", e.Name, now.Sub(since).Round(time.Second), e.Interval)
		d.Logger.ErrorContext(ctx, message)
		if _, err := d.Ends.AddEvent(ctx, ops.Event{At: now, Environment: e.Name, Level: ops.LevelCritical, Kind: "deadman", Message: message}); err != nil {
			return fmt.Errorf("record missed schedule: %w", err)
		}
		_, err := d.Ends.AddNotice(ctx, ops.Notice{
			Kind: "deadman", Level: ops.LevelCritical, Title: "Claude Ops: the schedule of " + e.Name + " is missed",
			Body: message + ".\n\nLook at: claudeops cycles list, and at the supervisor's log.\n", Environment: e.Name,
			Key: fmt.Sprintf("deadman:%s:%d", e.Name, since.Unix()), NextAt: now, CreatedAt: now,
		})
		if err != nil {
			return fmt.Errorf("record missed schedule: %w", err)
		}
	case !late && d.told[e.Name]:
		d.told[e.Name] = false
		_, err := d.Ends.AddEvent(ctx, ops.Event{At: now, Environment: e.Name, Level: ops.LevelInfo, Kind: "deadman", Message: "cycles of " + e.Name + " end again"})
		if err != nil {
			return fmt.Errorf("record schedule: %w", err)
		}
	}
	return nil
}

// busy: a cycle is at work, and not for longer than its sessions may take together.
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
