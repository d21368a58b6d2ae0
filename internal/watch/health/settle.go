package health

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"claudeops/internal/ops"
)

// shortestSettle is the least time a service gets after a start: checks come seconds apart.
const shortestSettle = 10 * time.Second

// StartTime is how long a service took to work after it was started: until all its probes were good again after one was bad. The
// results are those of one service after the start, in order. It is not known when they show no failure or no recovery.
func StartTime(started time.Time, results []ops.Check) (took time.Duration, known bool) {
	bad := map[string]bool{}
	failed := false
	for _, r := range results {
		if r.At.Before(started) {
			continue
		}
		if r.Status == ops.Healthy {
			delete(bad, r.Probe)
		} else {
			bad[r.Probe], failed = true, true
		}
		if failed && len(bad) == 0 {
			return r.At.Sub(started), true
		}
	}
	return 0, false
}

// SettleTime is how long a service may take to work after a start: what is configured, else half as much again as the longest of its
// last starts, and never more than the bound. Without either it is the bound.
func SettleTime(configured time.Duration, starts []time.Duration, bound time.Duration) time.Duration {
	switch {
	case configured > 0:
		return min(configured, bound)
	case len(starts) == 0:
		return bound
	}
	longest := slices.Max(starts)
	return min(max(longest+longest/2, shortestSettle), bound)
}

// HoldTime is how long a service that is good now must stay good before a repair is believed: half as much again as it was good between
// two failures. Longer times than the bound are real recoveries and do not count. The results are those of one service, in order.
func HoldTime(results []ops.Check, bound time.Duration) time.Duration {
	type spell struct {
		bad  bool
		good time.Time // since when it is good after a failure, or zero
	}
	spells := map[string]spell{}
	var longest time.Duration
	for _, r := range results {
		s := spells[r.Probe]
		switch {
		case r.Status != ops.Healthy:
			if took := r.At.Sub(s.good); !s.good.IsZero() && took <= bound {
				longest = max(longest, took)
			}
			s = spell{bad: true}
		case s.bad:
			s = spell{good: r.At}
		}
		spells[r.Probe] = s
	}
	return min(longest+longest/2, bound)
}

// InGrace reports whether a bad service may still be following a dependency that has recovered: then it does not prove that the repair
// of the dependency failed. Recovered holds when services became good again.
func InGrace(services []ops.Service, g ops.Grouping, service string, recovered map[string]time.Time, now time.Time) (
	dependency string, until time.Time, in bool,
) {
	grace := withDefaults(g).Grace
	all := newDependencies(services)
	for _, name := range slices.Sorted(maps.Keys(all.all(service))) {
		at, ok := recovered[name]
		if !ok || name == service || all.all(name)[service] {
			continue
		}
		if end := at.Add(grace); now.Before(end) && end.After(until) {
			dependency, until, in = name, end, true
		}
	}
	return dependency, until, in
}

// Explain says how far a check is from failing or from recovery: "2 of 3 failed checks; a cycle starts after the next". It is empty
// when the check is neither.
func Explain(s State) string {
	failAfter, recoverAfter := orDefault(s.FailAfter, defaultResults), orDefault(s.RecoverAfter, defaultResults)
	switch {
	case s.Unsettled():
		return fmt.Sprintf("%d of %d failed checks; a cycle starts after %s", s.Bad, failAfter, more(failAfter-s.Bad))
	case s.Lately.Unsteady != "" && s.Good > 0:
		return "counts as recovered at " + clock(s.calmAt()) + " if it stays good until then"
	case s.Failing() && s.Good > 0:
		return fmt.Sprintf("%d of %d good checks; counts as recovered after %s", s.Good, recoverAfter, more(recoverAfter-s.Good))
	}
	return ""
}

func more(n int) string {
	if n <= 1 {
		return "the next"
	}
	return fmt.Sprintf("%d more", n)
}

// HeldByPerson returns a silence for an incident that a person has taken over or snoozed, or is asked about. A question of a cycle
// holds every other cycle, not that one; zero stands for no cycle.
func HeldByPerson(i ops.Incident, cycle ops.CycleID, now time.Time) (ops.Silence, bool) {
	q := ops.Silence{Incident: i.ID, Service: i.Service, From: i.OpenedAt, Until: now.Add(time.Hour), Author: i.AcknowledgedBy}
	switch {
	case i.Service == "" || i.ResolvedAt != nil:
		return q, false
	case i.Status == ops.IncidentSnoozed && i.Holds(now):
		q.Until, q.Reason = *i.SnoozedUntil, fmt.Sprintf("incident %d is snoozed", i.ID)
	case i.Holds(now):
		q.Reason = fmt.Sprintf("incident %d is handled by %s", i.ID, i.AcknowledgedBy)
	case i.Waiting != nil && *i.Waiting != cycle:
		q.Reason = fmt.Sprintf("cycle %d waits for an answer about incident %d", *i.Waiting, i.ID)
	default:
		return q, false
	}
	return q, true
}

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
