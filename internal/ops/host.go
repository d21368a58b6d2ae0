package ops

import "time"

// Host is one supervisor among those that share a database.
type Host struct {
	Name         string
	Identity     string // of its state folder: two machines of one name are told apart by it
	Version      string
	Labels       []string
	Environments []string // those it works for
	Draining     bool     // it takes no new work
	Term         int64
	RegisteredAt time.Time
	SeenAt       *time.Time // its last sign of life, by the database's clock
	ExpiresAt    *time.Time // the end of its lease; nil while it holds none
	Alive        bool       // its lease had not ended when this was read
	Running      int        // cycles that it advances now
	// ClockAhead is how far its clock was ahead of the database's when it last renewed its lease.
	ClockAhead time.Duration
}

// MaxClockSkew is how far a host's clock may differ from the database's before people are told.
const MaxClockSkew = 2 * time.Second

// ClockDifference says how far a clock is from another: "3s ahead of" or "3s behind".
func ClockDifference(ahead time.Duration) string {
	if ahead < 0 {
		return ahead.Abs().Round(100*time.Millisecond).String() + " behind"
	}
	return ahead.Round(100*time.Millisecond).String() + " ahead of"
}

// ClockWrong reports whether the host's clock differs from the database's by more than that.
func (h Host) ClockWrong() bool { return h.ClockAhead.Abs() > MaxClockSkew }

// Reaped is a host whose lease ended, and what others continue for it.
type Reaped struct {
	Host   string
	Cycles []CycleID
}

// Labelled reports whether a host with the labels may work for an environment that asks for some: it must have all of them.
func Labelled(asked, has []string) bool {
	for _, want := range asked {
		found := false
		for _, l := range has {
			found = found || l == want
		}
		if !found {
			return false
		}
	}
	return true
}
