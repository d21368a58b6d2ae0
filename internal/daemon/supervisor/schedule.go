package supervisor

import (
	"time"

	"claudeops/internal/ops"
)

// clockSlack is how far the system clock may go back before it counts as set back.
const clockSlack = 5 * time.Second

// timetable is when each environment is due. It is plain data, changed by pure functions of the system time.
type timetable struct {
	next map[string]time.Time
	seen time.Time
}

// firstDue is when an environment is due after a start: now, unless a cycle ended within the last interval.
func firstDue(now, lastEnded time.Time, ran bool, interval time.Duration) time.Time {
	if !ran || lastEnded.After(now) {
		return now
	}
	if due := lastEnded.Add(interval); due.After(now) {
		return due
	}
	return now
}

// nextDue is one interval from now, moved by jitter in [-1, 1] tenths of it, so that many hosts do not run in step.
// It counts from now, not from the missed time: after a long sleep one cycle runs, not one per interval.
func nextDue(now time.Time, interval time.Duration, jitter float64) time.Time {
	return now.Add(interval + time.Duration(jitter*float64(interval)/10))
}

// due returns the environments that are due now and moves each to its next time.
func (t *timetable) due(now time.Time, envs []ops.Environment, jitter func() float64) []string {
	setBack := now.Before(t.seen.Add(-clockSlack))
	t.seen = now
	var out []string
	for _, e := range envs {
		if setBack && t.next[e.Name].After(now.Add(e.Interval)) {
			// The clock went back: the old time may be a year away.
			t.next[e.Name] = nextDue(now, e.Interval, jitter())
		}
		if !t.next[e.Name].After(now) {
			out = append(out, e.Name)
			t.next[e.Name] = nextDue(now, e.Interval, jitter())
		}
	}
	return out
}

// wait is how long the loop may sleep. It is bounded, because timers stop while the machine sleeps.
func (t *timetable) wait(now time.Time) time.Duration {
	const longest = 30 * time.Second
	d := longest
	for _, n := range t.next {
		d = min(d, n.Sub(now))
	}
	return max(d, 0)
}
