package health

import (
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
