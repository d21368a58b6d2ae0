package ops

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Reflex is a repair that the supervisor does without an agent when a probe of a service finds it bad in a certain way.
type Reflex struct {
	ID      int64         `json:"id,omitempty"` // earned: its row; 0: it is configured
	Service string        `json:"service"`
	On      string        `json:"on"`               // the type of the probe
	Probes  []string      `json:"probes,omitempty"` // the names of the probes; none: all of the type
	Status  Health        `json:"status"`           // down or degraded
	Class   string        `json:"class,omitempty"`  // earned: the kind of failure, see Check.Class
	For     time.Duration `json:"for,omitempty"`    // how long it must have failed
	Do      []string      `json:"do"`               // the actions, in order
	Digests []string      `json:"digests,omitempty"`
	Tries   int           `json:"tries"` // at most so often within Per
	Per     time.Duration `json:"per"`
}

// The limits of a reflex for which none are given, and the longest time in which tries are counted.
const (
	ReflexTries   = 2
	ReflexPer     = 6 * time.Hour
	ReflexLongest = 7 * 24 * time.Hour
)

// Key identifies the reflex among the runs of actions.
func (r Reflex) Key() string {
	if r.ID != 0 {
		return fmt.Sprintf("earned %d", r.ID)
	}
	return fmt.Sprintf("%s: %s %s: %s", r.Service, r.On, r.Status, strings.Join(r.Do, ", "))
}

// Reacts reports whether a result is what the reflex is for. What another system says in an alert is no result of a probe.
func (r Reflex) Reacts(c Check) bool {
	return c.Service == r.Service && c.Purpose != ProbeAlert && c.Purpose != ProbeRunning && c.Status == r.Status &&
		(len(r.Probes) == 0 && string(c.Type) == r.On || slices.Contains(r.Probes, c.Probe)) && (r.Class == "" || c.Class() == r.Class)
}

// Same reports whether another reflex does the same in the same case.
func (r Reflex) Same(o Reflex) bool {
	return r.Key() == o.Key() && r.For == o.For && r.Tries == o.Tries && r.Per == o.Per && slices.Equal(r.Probes, o.Probes)
}

// Words says what the reflex does: "restart of web".
func (r Reflex) Words() string { return strings.Join(r.Do, ", then ") + " of " + r.Service }

// Case says when an earned reflex is done: "web is down for its probe GET / (5xx)".
func (r Reflex) Case() string {
	if r.Class == string(r.Status) {
		return fmt.Sprintf("%s is %s for its probe %s.", r.Service, r.Status, strings.Join(r.Probes, ", "))
	}
	return fmt.Sprintf("%s is %s for its probe %s (%s).", r.Service, r.Status, strings.Join(r.Probes, ", "), r.Class)
}

// Reflexed is an action that a reflex began lately.
type Reflexed struct {
	Reflex string // its key
	Cycle  CycleID
	Step   int
	At     time.Time
}

// Failing is a check that the watch finds bad, and since when.
type Failing struct {
	Service string
	Probe   string
	Since   time.Time // its first bad result
}

// ReflexOff switches an earned reflex off until a person switches it on again.
type ReflexOff struct {
	ID  int64
	Why string
}

// Reflexes are those that the configuration has for a service.
func (v Inventory) Reflexes(service string) []Reflex {
	return v.Service(service).Reflexes
}

// sameReflexes leaves out the reflexes that another inventory does not have any more.
func (v Inventory) sameReflexes(now Inventory) Inventory {
	v.Services = slices.Clone(v.Services)
	for i, s := range v.Services {
		v.Services[i].Reflexes = slices.DeleteFunc(slices.Clone(s.Reflexes), func(r Reflex) bool {
			return !slices.ContainsFunc(now.Reflexes(s.Name), r.Same)
		})
	}
	return v
}

// Repair is a failure, and the actions of the supervisor that repaired it while nothing else was done.
type Repair struct {
	Service string
	Probe   string
	Type    CheckType
	Status  Health
	Class   string // see Check.Class
	Actions []string
}

// Earnings is how many such repairs earn a reflex.
const Earnings = 3

// Earned is a reflex that repairs have earned, and what became of it.
type Earned struct {
	Reflex
	Environment string
	State       ReflexState
	Cycles      []CycleID // the repairs that earned it
	Person      string    // who switched it last; Supervisor: it was switched off; empty: nobody has answered
	Why         string
	AskedAt     time.Time
	ChangedAt   time.Time
	Done        int // cycles in which it was done
	Helped      int // of these, those that it resolved for good
}

// ReflexState is where an earned reflex stands.
type ReflexState string

// The states of an earned reflex. Only a person switches one on.
const (
	ReflexAsked ReflexState = "asked" // people were asked, and nobody has said yes
	ReflexOn    ReflexState = "on"
	ReflexIsOff ReflexState = "off"
)
