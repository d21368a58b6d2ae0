package store

import "time"

// Uptime returns how long the machine has been up, sleep included, and the name of the boot from which it counts. It cannot be
// set, so it measures cooldowns when the time of day jumps. An empty name means that only the time of day is known.
type Uptime func() (boot string, up time.Duration)

// moment is a point in time, by the time of day and by the uptime.
type moment struct {
	at   time.Time
	boot string
	up   time.Duration
}

// moment is the current moment, with the time of day as the caller gives it and the precision of stored times.
func (s *kernel) moment(at time.Time) moment {
	boot, up := s.uptime()
	return moment{at: s.orNow(at).UTC().Truncate(time.Microsecond), boot: boot, up: up.Truncate(time.Microsecond)}
}

// since is the time from then to m. Within one boot only the uptime counts. A time in the future counts as now.
func (m moment) since(then moment) time.Duration {
	if m.boot != "" && m.boot == then.boot {
		return max(0, m.up-then.up)
	}
	return max(0, m.at.Sub(then.at))
}
