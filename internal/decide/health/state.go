package health

import (
	"fmt"
	"strings"
	"time"

	"claudeops/internal/ops"
)

// defaultResults is how many results in a row settle a level where nothing is configured.
const defaultResults = 2

// Thresholds say how many results in a row settle a level, and when a check flaps. Zero values mean the defaults.
type Thresholds struct {
	FailAfter    int // bad results in a row; default 2
	RecoverAfter int // good results in a row; default 2
	Flapping     ops.Flapping
	Target       string // what the probe looks at

	lately bool // the results count for Lately
}

func (t Thresholds) withDefaults() Thresholds {
	t.FailAfter = orDefault(t.FailAfter, defaultResults)
	t.RecoverAfter = orDefault(t.RecoverAfter, defaultResults)
	if t.Flapping.Turns == 0 {
		t.Flapping.Turns = 6
	}
	t.Flapping.Window = orDefault(t.Flapping.Window, 30*time.Minute)
	t.Flapping.Calm = orDefault(t.Flapping.Calm, 10*time.Minute)
	return t
}

func orDefault[T int | time.Duration](v, def T) T {
	if v <= 0 {
		return def
	}
	return v
}

// ChangeKind is how a check changed.
type ChangeKind string

// The kinds of change.
const (
	Failed    ChangeKind = "failed"    // it was healthy or unknown and is bad now
	Worsened  ChangeKind = "worsened"  // it was degraded and is down now
	Eased     ChangeKind = "eased"     // it was down and is degraded now
	Recovered ChangeKind = "recovered" // it was bad and is healthy now
	FlapBegan ChangeKind = "flap_began"
	FlapEnded ChangeKind = "flap_ended"
)

// Change is something an operator may want to know about a check.
type Change struct {
	Kind    ChangeKind
	Service string
	At      time.Time
	Reason  string // one sentence
}

// Observe updates a state with one result. A result that is older than the last one is ignored.
func Observe(s ops.CheckState, result ops.Check, t Thresholds, now time.Time) (ops.CheckState, []Change) {
	t = t.withDefaults()
	at := result.At
	if at.After(now) {
		at = now // the clocks of hosts differ
	}
	// A last result after now means that the clock was set back: then the new result counts.
	if !s.Last.At.IsZero() && !at.After(s.Last.At) && !s.Last.At.After(now) {
		return s, nil
	}
	if !result.Known() {
		result.At = at
		s.Service, s.Probe, s.Unknown = result.Service, result.Probe, result
		return s, nil
	}
	t.lately = true
	return next(s, result, t, at)
}

// next is the state after one more result.
func next(s ops.CheckState, result ops.Check, t Thresholds, at time.Time) (ops.CheckState, []Change) {
	first := s.Last.At.IsZero()
	wasBad := s.Bad > 0
	result.At = at
	bad := result.Bad()
	if t.lately {
		s.Lately = remember(s.Lately, bad, wasBad, s.Last.Instance, result)
	}
	if result.Instance == (ops.Instance{}) {
		result.Instance = s.Last.Instance // the engine could not be asked
	}
	s.Service, s.Probe, s.Last, s.Unknown, s.Calm = result.Service, result.Probe, result, ops.Check{}, t.Flapping.Calm
	s.FailAfter, s.RecoverAfter, s.Target, s.Replaced = t.FailAfter, t.RecoverAfter, t.Target, s.Replaced && !bad
	count(&s, bad, result.Status == ops.Down, at)
	if t.lately && !s.Failing() && s.Bad < t.FailAfter {
		unsteady(&s)
	}

	changes := flap(&s, !first && bad != wasBad, t.Flapping, at)
	if to := settle(s, t); to != s.Level {
		if c, tell := change(&s, to, at); tell {
			changes = append(changes, c)
		}
		s.Level, s.Since = to, at
	}
	return s, changes
}

func count(s *ops.CheckState, bad, down bool, at time.Time) {
	if bad {
		if s.Began.IsZero() {
			s.Began = at
		}
		s.Bad, s.Good = s.Bad+1, 0
	} else {
		s.Bad, s.Good = 0, s.Good+1
	}
	if down {
		s.Downs, s.NotDown = s.Downs+1, 0
	} else {
		s.Downs, s.NotDown = 0, s.NotDown+1
	}
	if !bad && !s.Failing() {
		s.Began = time.Time{} // too few bad results to count
	}
}

// settle returns the level that the results so far add up to.
func settle(s ops.CheckState, t Thresholds) ops.Health {
	switch {
	case s.Downs >= t.FailAfter:
		return ops.Down
	case s.Good >= t.RecoverAfter && calm(s), (s.Level == "" || s.Replaced) && s.Good > 0:
		return ops.Healthy
	case s.Level == ops.Down && s.NotDown >= t.RecoverAfter:
		return ops.Degraded
	case !s.Failing() && (s.Bad >= t.FailAfter || s.Lately.Unsteady != ""):
		return ops.Degraded
	}
	return s.Level
}

// change describes the step to another level. Nobody is told that a new check is healthy.
func change(s *ops.CheckState, to ops.Health, at time.Time) (Change, bool) {
	c := Change{Service: s.Service, At: at}
	switch {
	case to == ops.Healthy && s.Level == "":
		return c, false
	case to == ops.Healthy:
		c.Kind, c.Reason = Recovered, fmt.Sprintf("%s recovered after %s.", s.Service, at.Sub(s.Began).Round(time.Second))
		if s.Replaced {
			c.Reason = ReplacedProbe(s.Service) + "."
		}
		s.Began, s.Recovered, s.Lately = time.Time{}, at, ops.Lately{From: at}
	case s.Level == ops.Down:
		c.Kind, c.Reason = Eased, fmt.Sprintf("%s is no longer down, but degraded%s.", s.Service, because(*s, to))
	case s.Level == ops.Degraded:
		c.Kind, c.Reason = Worsened, fmt.Sprintf("%s is down%s.", s.Service, because(*s, to))
	default:
		c.Kind, c.Reason = Failed, fmt.Sprintf("%s is %s%s.", s.Service, to, because(*s, to))
	}
	return c, true
}

// Inherit is the state of a failing check for the probe that takes the place of its own: the first good result ends it.
func Inherit(s ops.CheckState, probe string) ops.CheckState {
	s.Last.Probe = probe
	return ops.CheckState{
		Service: s.Service, Probe: probe, Level: s.Level, Since: s.Since, Began: s.Began, Last: s.Last, Bad: s.Bad, Replaced: true,
	}
}

// ReplacedProbe says that services are well, and that they were only bad for a probe that is not used any more.
func ReplacedProbe(services ...string) string {
	return ops.Listed(services) + ": the probe that found it was replaced, and the new one finds it healthy"
}

// because is why the check has a level.
func because(s ops.CheckState, level ops.Health) string {
	why := s.Last.Error
	if level == ops.Degraded && s.Lately.Unsteady != "" {
		why = s.Lately.Unsteady
	}
	if why == "" {
		return ""
	}
	return ": " + strings.TrimSuffix(why, ".")
}

// flap records a change between good and bad and returns whether flapping began or ended.
func flap(s *ops.CheckState, changed bool, f ops.Flapping, at time.Time) []Change {
	told := Change{Service: s.Service, At: at}
	var changes []Change
	if s.Flapping && !flaps(*s, at) {
		s.Flapping, s.Changed, s.Flapped, s.Notified = false, nil, time.Time{}, false
		told.Kind, told.Reason = FlapEnded, fmt.Sprintf("%s has been stable for %s.", s.Service, f.Calm)
		changes = append(changes, told)
	}
	if !changed || f.Turns < 0 {
		return changes
	}
	// A copy: states are values, and callers may keep old ones.
	kept := make([]time.Time, 0, f.Turns+1)
	for _, t := range s.Changed {
		if at.Sub(t) <= f.Window && !t.After(at) {
			kept = append(kept, t)
		}
	}
	kept = append(kept, at)
	s.Changed = kept[max(0, len(kept)-f.Turns):]
	if !s.Flapping && len(s.Changed) >= f.Turns {
		s.Flapping, s.Flapped = true, s.Changed[0]
		told.Kind = FlapBegan
		told.Reason = fmt.Sprintf("%s is flapping: its checks changed %d times within %s.", s.Service, len(s.Changed), f.Window)
		changes = append(changes, told)
	}
	return changes
}

// flaps reports whether the check still flaps at a time: it may have been stable since its last result.
func flaps(s ops.CheckState, now time.Time) bool {
	return s.Flapping && len(s.Changed) > 0 && now.Sub(s.Changed[len(s.Changed)-1]) < s.Calm
}
