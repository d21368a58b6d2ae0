package health

import (
	"slices"
	"time"

	"claudeops/internal/ops"
)

// Confirm is a failing state after the probes of a cycle found its check good at a time. They look more often than the watch, which may
// not have seen it. A bad result since then is the first of another failure.
func Confirm(s State, at time.Time) (State, Change, bool) {
	if !s.Failing() || s.Since.After(at) {
		return s, Change{}, false
	}
	again := s.Bad > 0 && s.Last.At.After(at)
	change, _ := s.change(ops.Healthy, at)
	s.Level, s.Since, s.Lately = ops.Healthy, at, Lately{From: at}
	s.Good, s.Bad, s.Downs, s.NotDown = orDefault(s.RecoverAfter, defaultResults), 0, 0, 0
	if again {
		s.Good, s.Bad, s.Began = 0, 1, s.Last.At
		if s.Last.Status == ops.Down {
			s.Downs = 1
		}
	}
	return s, change, true
}

// Quiet reports whether a silence or a maintenance covers a check now: nobody is told about it.
func Quiet(p Picture, g ops.Grouping, c ops.Check, now time.Time) bool {
	// Who has taken an incident over wants to be told.
	silences := slices.DeleteFunc(slices.Clone(p.Silences), func(q ops.Silence) bool { return q.Incident != 0 })
	v := newView(Picture{Environment: p.Environment, Silences: silences, Windows: p.Windows}, withDefaults(g), now)
	s := &badService{name: c.Service, level: c.Status}
	for _, known := range p.Services {
		if known.Name == c.Service {
			s.group = known.Group
		}
	}
	_, held := v.silenced(s, c.Probe)
	return held
}
