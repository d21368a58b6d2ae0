package health

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"claudeops/internal/ops"
)

// Rules are asked by who reads the rows, within its transaction.
type Rules struct{}

// Withheld returns what a cycle must leave alone now: what the watch holds back, what it would hold back of the services that the cycle's
// own probes found bad, and the services in maintenance.
func (Rules) Withheld(c ops.Claimed, seen ops.Seen, onHold []ops.Withheld, own []ops.Check, at time.Time) []ops.Withheld {
	policy := c.Cycle.Policy
	picture := pictureOf(c, seen, at)
	for _, f := range Assess(picture, policy.Watch.Grouping, limitsOf(policy, seen.States), own, at) {
		onHold = withFinding(onHold, f)
	}
	for _, s := range policy.Inventory.Services {
		onHold = withMaintenance(onHold, s, picture.Windows, at)
	}
	slices.SortFunc(onHold, func(a, b ops.Withheld) int { return strings.Compare(a.Service, b.Service) })
	return onHold
}

// Quiet reports whether nobody is told about a bad result of a cycle now.
func (Rules) Quiet(c ops.Claimed, seen ops.Seen, bad ops.Check, at time.Time) bool {
	return Quiet(pictureOf(c, seen, at), c.Cycle.Policy.Watch.Grouping, bad, at)
}

// StartTime is how long a service took to work after it was started: until all its probes were good again after one was bad. The
// results are those of one service after the start, in order. It is not known when they show no failure or no recovery.
func (Rules) StartTime(started time.Time, results []ops.Check) (took time.Duration, known bool) {
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

// Shown is the newest result of a check with the time of the last equal one and how far it is from failing or recovery. A check that fails
// again and again is shown as what it counts as, not as good between two failures.
func (Rules) Shown(c ops.Check, state ops.CheckState) ops.Check {
	c.Note = Explain(state)
	if newer := state.Newest(); newer.At.After(c.At) && newer.Status == c.Status && newer.Error == c.Error {
		c.At, c.ResponseTimeMS = newer.At, newer.ResponseTimeMS
	}
	if state.Lately.Unsteady != "" && state.Newest().Known() {
		found := state.Finding(ops.Degraded)
		c.At, c.Status, c.Error = found.At, found.Status, found.Error
	}
	return c
}

// pictureOf is what the watch knows about the environment of a cycle, as that cycle may see it.
func pictureOf(c ops.Claimed, seen ops.Seen, at time.Time) Picture {
	return Picture{
		Environment: c.Cycle.Environment, Services: c.Cycle.Policy.Inventory.Services, Windows: windowsOf(c.Cycle.Policy.Watch),
		States: seen.States, Causes: seen.Causes, Silences: Silences(seen.Silences, seen.Firing, c.Journal.Incidents, c.Cycle.ID, at),
	}
}

func windowsOf(w ops.Watch) []Window {
	var out []Window
	for _, m := range w.Maintenance {
		if window, err := ParseMaintenance(m); err == nil { // the configuration was checked at start
			out = append(out, window)
		}
	}
	return out
}

// limitsOf are the thresholds by which the watch judged a check last.
func limitsOf(p ops.Policy, states []ops.CheckState) Limits {
	return func(r ops.Check) Thresholds {
		t := Thresholds{Flapping: p.Watch.Flapping}
		for _, s := range states {
			if s.Service == r.Service && s.Probe == r.Probe {
				t.FailAfter, t.RecoverAfter = s.FailAfter, s.RecoverAfter
			}
		}
		return t
	}
}

// withFinding adds what inhibits a service. That the watch has seen too few failures no longer counts when the cycle has seen enough.
func withFinding(onHold []ops.Withheld, f Finding) []ops.Withheld {
	i := slices.IndexFunc(onHold, func(w ops.Withheld) bool { return w.Service == f.Service })
	switch {
	case f.Verdict == Held && f.Held.Why.Inhibits() && i >= 0:
		onHold[i] = f.Held
	case f.Verdict == Held && f.Held.Why.Inhibits():
		onHold = append(onHold, f.Held)
	case f.Verdict != Undecided && i >= 0 && onHold[i].Why == ops.HoldUnsettled:
		onHold = slices.Delete(onHold, i, i+1)
	}
	return onHold
}

// withMaintenance adds a service in maintenance, whoever finds it bad: an agent may report what no probe sees.
func withMaintenance(onHold []ops.Withheld, s ops.Service, windows []Window, at time.Time) []ops.Withheld {
	for _, w := range windows {
		until, open := w.Active(at)
		if !open || !w.Covers(s.Name, s.Group) {
			continue
		}
		in := ops.Withheld{
			Service: s.Name, Why: ops.HoldMaintenance, Until: until,
			Reason: fmt.Sprintf("%s is in maintenance until %s.", s.Name, until.UTC().Format("15:04:05 UTC")),
		}
		i := slices.IndexFunc(onHold, func(h ops.Withheld) bool { return h.Service == s.Name })
		switch {
		case i < 0:
			onHold = append(onHold, in)
		case !onHold[i].Why.Inhibits():
			onHold[i] = in
		}
	}
	return onHold
}
