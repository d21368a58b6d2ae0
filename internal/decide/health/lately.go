package health

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"claudeops/internal/ops"
)

const (
	// Lookback is how far back failures count that did not come in a row.
	Lookback = 10 * time.Minute
	// leastChecks is how many results must have come in before they say anything.
	leastChecks = 10
	// So many failures, or restarts of a container, within the Lookback make a check degraded.
	mostFailures = 3
	mostRestarts = 2
)

// remember takes one more result into account. Was is the container that the result before found.
func remember(l ops.Lately, bad, wasBad bool, was ops.Instance, r ops.Check) ops.Lately {
	l.Checks = min(l.Checks+1, leastChecks)
	l.Failures, l.Restarts = within(l.Failures, r.At), within(l.Restarts, r.At)
	if bad {
		if n := len(l.Failures); wasBad && n > 0 {
			l.Failures = l.Failures[:n-1]
		}
		l.Failures, l.Status = append(l.Failures, r.At), r.Status
		l.Failures = l.Failures[max(0, len(l.Failures)-mostFailures):]
	}
	if n := r.Instance.RestartsSince(was); n > 0 {
		l.Restarts = append(l.Restarts, slices.Repeat([]time.Time{r.At}, min(n, mostRestarts))...)
		l.Restarts, l.Status = l.Restarts[max(0, len(l.Restarts)-mostRestarts):], ops.Down
	}
	return l
}

// within returns a copy of the times that lie within the Lookback: states are values, and callers may keep old ones.
func within(times []time.Time, now time.Time) []time.Time {
	var out []time.Time
	for _, t := range times {
		if now.Sub(t) < Lookback && !t.After(now) {
			out = append(out, t)
		}
	}
	return out
}

// unsteady settles whether a check that is not failing is degraded by what went wrong lately.
func unsteady(s *ops.CheckState) {
	l := &s.Lately
	switch {
	case l.Checks < leastChecks:
	case s.Bad > 0 && len(l.Failures) >= mostFailures:
		s.Began = l.Failures[0]
		l.Unsteady = fmt.Sprintf("it failed %d times within %s", len(l.Failures), s.Last.At.Sub(s.Began).Round(time.Second))
		if s.Last.Error != "" {
			l.Unsteady += ", last with " + strings.TrimSuffix(s.Last.Error, ".")
		}
	case len(l.Restarts) >= mostRestarts:
		s.Began = l.Restarts[0]
		l.Unsteady = fmt.Sprintf("its container was restarted %d times within %s", len(l.Restarts), Lookback)
	}
}

// calm: nothing keeps a check from recovering that went wrong lately. One that is degraded for that reason recovers when nothing has
// gone wrong for the whole Lookback, so that an episode is one failure, however long it lasts.
func calm(s ops.CheckState) bool {
	return s.Lately.Unsteady == "" || len(within(s.Lately.Failures, s.Last.At))+len(within(s.Lately.Restarts, s.Last.At)) == 0
}

// calmAt is when an unsteady check can recover.
func calmAt(s ops.CheckState) time.Time {
	var last time.Time
	for _, t := range slices.Concat(s.Lately.Failures, s.Lately.Restarts) {
		if t.After(last) {
			last = t
		}
	}
	return last.Add(Lookback)
}

// MindsRestarts reports whether it matters for the check that its service was restarted: call Restarted then.
func MindsRestarts(s ops.CheckState) bool {
	return s.Lately.Unsteady != "" || (!s.Failing() && len(s.Lately.Failures)+len(s.Lately.Restarts) > 1)
}

// Restarted is the state after the service was restarted on purpose: what went wrong before says nothing about it any more.
func Restarted(s ops.CheckState, at time.Time) ops.CheckState {
	if !at.After(s.Lately.From) {
		return s
	}
	before := func(t time.Time) bool { return !t.After(at) }
	l := &s.Lately
	l.From, l.Checks = at, 0
	l.Failures, l.Restarts = slices.DeleteFunc(slices.Clone(l.Failures), before), slices.DeleteFunc(slices.Clone(l.Restarts), before)
	s.Last.Instance = ops.Instance{} // the next one is that restart's
	if l.Unsteady != "" {
		s.Good, s.NotDown = 0, 0
	}
	return s
}

// Begun is the state when the watch starts: what went wrong before no longer counts, unless the check is degraded for it. That problem
// has its cycle, and goes on.
func Begun(s ops.CheckState, at time.Time) ops.CheckState {
	if s.Failing() {
		return s
	}
	return Restarted(s, at)
}

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
		return errors.New("give a maintenance window either from or a schedule, not both")
	case once && !w.Until.After(w.From):
		return errors.New("a maintenance window must end after it begins")
	case once:
		return nil
	case w.schedule == Schedule{} || w.Length <= 0:
		return errors.New("a maintenance window needs a length, and either from or a schedule")
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

// Maintained reports whether a maintenance is going on, and until when. One that cannot be read is not: the configuration refuses it.
func Maintained(m ops.Maintenance, now time.Time) (until time.Time, open bool) {
	w, err := ParseMaintenance(m)
	if err != nil {
		return time.Time{}, false
	}
	return w.Active(now)
}
