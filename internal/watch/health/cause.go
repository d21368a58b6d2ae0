package health

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"

	"claudeops/internal/ops"
)

// Rules say when causes start cycles. Zero values mean the defaults.
type Rules struct {
	Window time.Duration // how long a cause waits for others to join it; default 30s
	Grace  time.Duration // how long a service may take to follow a dependency that recovered; default 2m
	Pause  time.Duration // between two cycles for a service that fails again; default 10m
	Repeat time.Duration // after which a service that is still bad starts another cycle; 0: never
}

func (r Rules) withDefaults() Rules {
	r.Window = orDefault(r.Window, 30*time.Second)
	r.Grace = orDefault(r.Grace, 2*time.Minute)
	r.Pause = orDefault(r.Pause, 10*time.Minute)
	return r
}

// Picture is all that is known about one environment.
type Picture struct {
	Environment string
	States      []State
	Services    []Service // those without group and dependencies may be left out
	Silences    []Silence
	Windows     []Window
	Open        []Opened
}

// Opened is a cause that has started its cycle. Keep it until Resolved names it and the pause between two cycles is over.
type Opened struct {
	ID       string
	Group    string
	Services []string // those that failed of themselves
	Began    time.Time
	At       time.Time // when the cycle was started
}

// Cause is what should start one cycle now.
type Cause struct {
	ID       string // the same as long as the cause is the same
	Group    string
	Services []string    // those that failed of themselves
	Affected []string    // those that fail because they depend on them
	Level    ops.Health  // the worst of them
	Began    time.Time   // the first bad look
	Checks   []ops.Check // the last looks of their bad checks
	Reason   string      // one sentence
}

// Open makes the record of a cause that has started its cycle.
func (c Cause) Open(at time.Time) Opened {
	return Opened{ID: c.ID, Group: c.Group, Services: c.Services, Began: c.Began, At: at}
}

// Why is why a bad service starts nothing.
type Why string

// The reasons to hold a service back, see the table of the package.
const (
	WhyFlapping    Why = "flapping"
	WhySilenced    Why = "silenced"
	WhyMaintenance Why = "maintenance"
	WhyCovered     Why = "covered"
	WhyDependency  Why = "dependency"
	WhyRecent      Why = "recent"
	WhyWaiting     Why = "waiting"
)

// Held is a bad service that starts nothing now.
type Held struct {
	Service string
	Why     Why
	By      string    // the dependency, window, silence's author or cause
	Until   time.Time // when this ends by itself; zero: when something changes
	Reason  string    // one sentence
}

// Judgement is what becomes of every bad service.
type Judgement struct {
	Causes []Cause
	Held   []Held
	Next   time.Time // when to judge again even if nothing changes; zero: never
}

// Resolved returns the opened causes none of whose services is bad any more.
func Resolved(p Picture) []Opened {
	bad := map[string]bool{}
	for _, s := range p.States {
		bad[s.Service] = bad[s.Service] || s.bad()
	}
	var out []Opened
	for _, o := range p.Open {
		still := false
		for _, s := range o.Services {
			still = still || bad[s]
		}
		if !still {
			out = append(out, o)
		}
	}
	return out
}

// causeID names a cause by what failed first and when.
func causeID(environment, group, first string, began time.Time) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %q %d", environment, group, first, began.UnixNano()))
	return hex.EncodeToString(sum[:8])
}
