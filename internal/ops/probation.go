package ops

import "time"

// Probation is how long a resolved cycle has to hold: until then the check that found a problem opens its incident again.
const Probation = 10 * time.Minute

// Claim is an incident that a cycle closed, as long as it is on probation.
type Claim struct {
	Incident    int64
	Environment string
	Service     string
	Check       string // what found it; empty: any check
	Cycle       CycleID
	At          time.Time // when the cycle ended
	Until       time.Time
	Probes      []string // those that the cycle ran itself after the repair and found healthy
}

// About reports whether a check is the one that the claim is about.
func (c Claim) About(k Check) bool {
	return k.Service == c.Service && (c.Check == "" || k.Type == "" || string(k.Type) == c.Check) && k.Purpose != ProbeAlert
}

// Relapse is a check that fails again while the claim about it is on probation.
type Relapse struct {
	Claim Claim
	Found Check
	At    time.Time
	Cycle CycleID   // the cycle that works on it; 0: none does yet
	Next  time.Time // when the next cycle may start; zero: that is not known
	Held  string    // what keeps it from starting
}

// After is the relapse of a service that is held back.
func (r Relapse) After(h Withheld) Relapse {
	if timed := h.Why == HoldRecent || h.Why == HoldWaiting || h.Why == HoldCovered; timed && !h.Until.IsZero() {
		r.Next = h.Until
	} else {
		r.Held = h.Reason
	}
	return r
}
