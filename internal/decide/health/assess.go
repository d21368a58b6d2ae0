package health

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"claudeops/internal/ops"
)

// Limits returns the thresholds of the probe that gave a result.
type Limits func(result ops.Check) Thresholds

// LimitsOf returns the thresholds of an environment's probes. Describe returns the name of a probe in its results.
func LimitsOf(e ops.Environment, describe func(ops.ProbeSpec) string) Limits {
	type key struct{ service, probe string }
	known := map[key]Thresholds{}
	for _, spec := range e.Probes {
		if spec.FailAfter == 0 && spec.RecoverAfter == 0 {
			continue // as any other
		}
		known[key{spec.Service, describe(spec)}] = Thresholds{
			FailAfter: spec.FailAfter, RecoverAfter: spec.RecoverAfter, Flapping: e.Watch.Flapping,
		}
	}
	return func(result ops.Check) Thresholds {
		if t, ok := known[key{result.Service, result.Probe}]; ok {
			return t
		}
		return Thresholds{Flapping: e.Watch.Flapping}
	}
}

// Verdict is what a bad service means for a cycle that has probed it itself.
type Verdict string

// The verdicts.
const (
	Held      Verdict = "held"      // nothing may be started for it now
	Undecided Verdict = "undecided" // too few of its checks failed in a row: probe again
	Failing   Verdict = "failing"
)

// Finding is the verdict on one bad service.
type Finding struct {
	Service string
	Verdict Verdict
	Held    ops.Withheld // why and until when, for Held and Undecided
}

// Assess applies the results of a cycle's own probes, in order, to the picture, and judges every bad service as the watch would: by
// the same rows, also when the watch has not seen the failure yet.
func Assess(p Picture, g ops.Grouping, limits Limits, results []ops.Check, now time.Time) []Finding {
	p.States = apply(p.States, limits, results)
	j := Judge(p, g, now)
	out := make([]Finding, 0, len(j.Held))
	for _, h := range j.Held {
		f := Finding{Service: h.Service, Verdict: Held, Held: h}
		if h.Why == ops.HoldUnsettled {
			f.Verdict = Undecided
		}
		out = append(out, f)
	}
	for _, c := range j.Causes {
		for _, s := range c.Services {
			out = append(out, Finding{Service: s, Verdict: Failing})
		}
	}
	slices.SortFunc(out, func(a, b Finding) int { return strings.Compare(a.Service, b.Service) })
	return out
}

// apply counts every result, whatever the watch has seen meanwhile. Results of a cycle do not make a check flap: cycles probe more
// often than the watch.
func apply(states []ops.CheckState, limits Limits, results []ops.Check) []ops.CheckState {
	type probe struct{ service, name string }
	states = slices.Grow(slices.Clone(states), len(results))
	known := make(map[probe]int, len(states)+len(results))
	for i, s := range states {
		known[probe{s.Service, s.Probe}] = i
	}
	for _, r := range results {
		if !r.Known() {
			continue
		}
		i, old := known[probe{r.Service, r.Probe}]
		if !old {
			i = len(states)
			states = append(states, ops.CheckState{})
			known[probe{r.Service, r.Probe}] = i
		}
		s := states[i]
		t := limits(r).withDefaults()
		t.Flapping.Turns = -1
		t.Flapping.Calm = orDefault(s.Calm, t.Flapping.Calm)
		at := r.At
		if !at.After(s.Last.At) {
			at = s.Last.At.Add(time.Nanosecond)
		}
		states[i], _ = next(s, r, t, at)
	}
	return states
}

// MoreToFail is how often probes must be repeated until every one whose last result is bad has failed often enough in a row to count
// as failing. Zero means that the results decide. They are in the order in which they came in.
func MoreToFail(results []ops.Check, limits Limits) int {
	most := 0
	for _, s := range apply(nil, limits, results) {
		if s.Bad > 0 {
			most = max(most, s.FailAfter-s.Bad)
		}
	}
	return most
}

// MoreToRecover is how often probes must be repeated, if all results are good from now on, until each has had enough good results in a
// row to count as recovered. Zero means that they have recovered.
func MoreToRecover(results []ops.Check, limits Limits) int {
	most := 0
	for _, s := range apply(nil, limits, results) {
		most = max(most, s.RecoverAfter-s.Good)
	}
	return most
}

// ValidateServices refuses dependencies on unknown services and services that depend on each other.
func ValidateServices(services []ops.Service) error {
	all := newDependencies(services)
	for _, s := range services {
		for _, d := range s.DependsOn {
			if _, known := all.direct[d]; !known {
				return fmt.Errorf("service %s depends on %s, which is not configured", s.Name, d)
			}
		}
		if path := all.cycle(s.Name); path != nil {
			return fmt.Errorf("services depend on each other: %s", strings.Join(path, " → "))
		}
	}
	return nil
}

// dependencies knows what services depend on.
type dependencies struct {
	direct map[string][]string
	known  map[string]map[string]bool // cached results of all
}

func newDependencies(services []ops.Service) dependencies {
	d := dependencies{map[string][]string{}, map[string]map[string]bool{}}
	for _, s := range services {
		d.direct[s.Name] = append(d.direct[s.Name], s.DependsOn...)
	}
	return d
}

// all returns everything a service depends on, directly or not.
func (d dependencies) all(service string) map[string]bool {
	if found, ok := d.known[service]; ok {
		return found
	}
	found := map[string]bool{}
	var visit func(string)
	visit = func(name string) {
		for _, need := range d.direct[name] {
			if !found[need] {
				found[need] = true
				visit(need)
			}
		}
	}
	visit(service)
	d.known[service] = found
	return found
}

// cycle returns a path from a service to itself, or nil.
func (d dependencies) cycle(service string) []string {
	seen := map[string]bool{}
	var visit func(name string, path []string) []string
	visit = func(name string, path []string) []string {
		for _, need := range d.direct[name] {
			if need == service {
				return append(slices.Clone(path), need)
			}
			if !seen[need] {
				seen[need] = true
				if found := visit(need, append(slices.Clone(path), need)); found != nil {
					return found
				}
			}
		}
		return nil
	}
	return visit(service, []string{service})
}

// shortestSettle is the least time a service gets after a start: checks come seconds apart.
const shortestSettle = 10 * time.Second

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
func Explain(s ops.CheckState) string {
	failAfter, recoverAfter := orDefault(s.FailAfter, defaultResults), orDefault(s.RecoverAfter, defaultResults)
	switch {
	case s.Unsettled():
		return fmt.Sprintf("%d of %d failed checks; a cycle starts after %s", s.Bad, failAfter, more(failAfter-s.Bad))
	case s.Lately.Unsteady != "" && s.Good > 0:
		return "counts as recovered at " + clock(calmAt(s)) + " if it stays good until then"
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

// Silences are what people hold: their silences, one with labels for each firing alert that has them, and their open incidents. A question
// of a cycle holds every other cycle, not that one; zero stands for no cycle.
func Silences(made []ops.Silence, firing []ops.Alert, incidents []ops.Incident, cycle ops.CycleID, now time.Time) []ops.Silence {
	var out []ops.Silence
	for _, q := range made {
		out = append(out, expand(q, firing)...)
	}
	for _, i := range incidents {
		if q, holds := heldByPerson(i, cycle, now); holds {
			out = append(out, q)
		}
	}
	return out
}

// expand turns a silence with labels into one for each firing alert that has them. One without labels stays as it is.
func expand(q ops.Silence, firing []ops.Alert) []ops.Silence {
	if len(q.Labels) == 0 {
		return []ops.Silence{q}
	}
	var out []ops.Silence
	for _, a := range firing {
		if !hasLabels(a, q.Labels) || !ops.MatchPattern(q.Service, a.Service) || !ops.MatchPattern(q.Probe, a.Probe()) {
			continue
		}
		one := q
		one.Service, one.Probe, one.Labels = a.Service, a.Probe(), nil
		out = append(out, one)
	}
	return out
}

func hasLabels(a ops.Alert, patterns map[string]string) bool {
	for name, pattern := range patterns {
		if v, ok := a.Labels[name]; !ok || !ops.MatchPattern(pattern, v) {
			return false
		}
	}
	return true
}

// heldByPerson returns a silence for an incident that a person has taken over or snoozed, or is asked about.
func heldByPerson(i ops.Incident, cycle ops.CycleID, now time.Time) (ops.Silence, bool) {
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
func Confirm(s ops.CheckState, at time.Time) (ops.CheckState, Change, bool) {
	if !s.Failing() || s.Since.After(at) {
		return s, Change{}, false
	}
	again := s.Bad > 0 && s.Last.At.After(at)
	change, _ := change(&s, ops.Healthy, at)
	s.Level, s.Since, s.Lately = ops.Healthy, at, ops.Lately{From: at}
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
	s := &badService{name: c.Service, level: c.Status, group: ops.Inventory{Services: p.Services}.Service(c.Service).Group}
	_, held := v.silenced(s, c.Probe)
	return held
}
