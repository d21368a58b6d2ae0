package health

import (
	"errors"
	"fmt"
	"time"
)

// longestWindow bounds a window that comes again: a longer one is an absolute span.
const longestWindow = 7 * 24 * time.Hour

// Window is a time of maintenance: what fails in it starts nothing, and what depends on that neither. It is either one
// span of time, or comes again by a schedule.
type Window struct {
	Matcher
	Name string

	From  time.Time
	Until time.Time

	Schedule Schedule
	Length   time.Duration
	Zone     *time.Location // nil: UTC
}

// Validate says what is wrong with a window.
func (w Window) Validate() error {
	again := w.Length != 0 || w.Schedule != Schedule{}
	once := !w.From.IsZero() || !w.Until.IsZero()
	switch {
	case again && once:
		return errors.New("give a maintenance window either from and until, or a schedule and a length")
	case once && !w.Until.After(w.From):
		return errors.New("a maintenance window must end after it begins")
	case once:
		return nil
	case w.Schedule == Schedule{} || w.Length <= 0:
		return errors.New("a maintenance window needs from and until, or a schedule and a length")
	case w.Length > longestWindow:
		return fmt.Errorf("a maintenance window that comes again lasts at most %s", longestWindow)
	}
	return nil
}

// active reports whether the window is open, and until when.
func (w Window) active(now time.Time) (until time.Time, open bool) {
	if w.Length == 0 {
		return w.Until, !now.Before(w.From) && now.Before(w.Until)
	}
	zone := w.Zone
	if zone == nil {
		zone = time.UTC
	}
	start, open := w.Schedule.started(now, min(w.Length, longestWindow), zone)
	return start.Add(w.Length), open
}
