package health

import (
	"fmt"
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
	Needs   int          // how many more failed checks decide, for Undecided
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
			f.Verdict, f.Needs = Undecided, needs(p.States, h.Service)
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
func apply(states []State, limits Limits, results []ops.Check) []State {
	states = slices.Clone(states)
	for _, r := range results {
		i := slices.IndexFunc(states, func(s State) bool { return s.Service == r.Service && s.Probe == r.Probe })
		if i < 0 {
			i = len(states)
			states = append(states, State{})
		}
		s := states[i]
		t := limits(r).withDefaults()
		t.Flapping.Turns = -1
		t.Flapping.Calm = orDefault(s.Calm, t.Flapping.Calm)
		at := r.At
		if !at.After(s.Last.At) {
			at = s.Last.At.Add(time.Nanosecond)
		}
		states[i], _ = s.next(r, t, at)
	}
	return states
}

// needs is how many more bad results make a service fail.
func needs(states []State, service string) int {
	fewest := 0
	for _, s := range states {
		if s.Service != service || !s.Unsettled() {
			continue
		}
		if n := max(1, orDefault(s.FailAfter, defaultResults)-s.Bad); fewest == 0 || n < fewest {
			fewest = n
		}
	}
	return fewest
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
