package store

import "time"

// Uptime tells how long the machine has been up, sleep included, and names the boot it counts from. Nobody can set it, so
// it measures cooldowns while the time of day jumps. An empty name means that only the time of day is known.
type Uptime func() (boot string, up time.Duration)

// moment is a point in time, by the time of day and by the machine's uptime.
type moment struct {
	at   time.Time
	boot string
	up   time.Duration
}

// moment is what the caller takes for now; its precision is that of stored times.
func (s *Store) moment(at time.Time) moment {
	boot, up := s.uptime()
	return moment{at: s.orNow(at).UTC().Truncate(time.Microsecond), boot: boot, up: up.Truncate(time.Microsecond)}
}

// since is how much time has passed from then to m. Within one boot the time of day is not asked; a time in the future
// counts as now.
func (m moment) since(then moment) time.Duration {
	if m.boot != "" && m.boot == then.boot {
		return max(0, m.up-then.up)
	}
	return max(0, m.at.Sub(then.at))
}
