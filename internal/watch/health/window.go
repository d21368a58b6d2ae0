package health

import (
	"errors"
	"fmt"
	"time"

	"claudeops/internal/ops"
)

// longestWindow is the longest that a recurring maintenance may last: a longer one is an absolute span.
const longestWindow = 7 * 24 * time.Hour

// Window is a maintenance whose schedule and time zone have been read.
type Window struct {
	ops.Maintenance
	schedule Schedule
	zone     *time.Location
}

// ParseMaintenance reads the schedule and time zone of a maintenance and says what is wrong with it.
func ParseMaintenance(m ops.Maintenance) (Window, error) {
	w := Window{Maintenance: m, zone: time.UTC}
	if m.Schedule != "" {
		s, err := ParseSchedule(m.Schedule)
		if err != nil {
			return w, err
		}
		w.schedule = s
	}
	if m.Zone != "" {
		zone, err := time.LoadLocation(m.Zone)
		if err != nil {
			return w, fmt.Errorf("%q is not a time zone such as Europe/Berlin", m.Zone)
		}
		w.zone = zone
	}
	return w, w.validate()
}

func (w Window) validate() error {
	recurring := w.Length != 0 || w.schedule != Schedule{}
	once := !w.From.IsZero() || !w.Until.IsZero()
	switch {
	case recurring && once:
		return errors.New("give a maintenance window either from and until, or a schedule and a length")
	case once && !w.Until.After(w.From):
		return errors.New("a maintenance window must end after it begins")
	case once:
		return nil
	case w.schedule == Schedule{} || w.Length <= 0:
		return errors.New("a maintenance window needs from and until, or a schedule and a length")
	case w.Length > longestWindow:
		return fmt.Errorf("a recurring maintenance window lasts at most %s", longestWindow)
	}
	return nil
}

// Active reports whether the window is open, and until when.
func (w Window) Active(now time.Time) (until time.Time, open bool) {
	if w.Length == 0 {
		return w.Until, !now.Before(w.From) && now.Before(w.Until)
	}
	start, open := w.schedule.started(now, min(w.Length, longestWindow), w.zone)
	return start.Add(w.Length), open
}
