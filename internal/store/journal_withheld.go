package store

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/store/db"
	"claudeops/internal/watch/alert"
	"claudeops/internal/watch/health"
)

// withheldFor returns what a cycle must leave alone now: what the watch holds back, what it would hold back of the services that the
// cycle's own probes found bad, and the services in maintenance. The watch may not have seen a failure yet, above all after a restart.
func withheldFor(ctx context.Context, q db.Querier, c ops.Claimed, recorded bool, at time.Time) ([]ops.Withheld, error) {
	var out []ops.Withheld
	if recorded {
		var err error
		if out, err = withheldOf(ctx, q, c.Cycle.Environment); err != nil {
			return nil, err
		}
	}
	windows := windowsOf(c.Cycle.Policy.Watch)
	if own := ownResults(c.Journal.Checks); slices.ContainsFunc(own, func(k ops.Check) bool { return k.Status != ops.Healthy }) {
		picture, err := pictureFor(ctx, q, c, windows, at)
		if err != nil {
			return nil, fmt.Errorf("judge own probes: %w", err)
		}
		for _, f := range health.Assess(picture, c.Cycle.Policy.Watch.Grouping, limitsOf(c.Cycle.Policy, picture.States), own, at) {
			out = withFinding(out, f)
		}
	}
	for _, s := range c.Cycle.Policy.Inventory.Services {
		out = withMaintenance(out, s, windows, at)
	}
	slices.SortFunc(out, func(a, b ops.Withheld) int { return strings.Compare(a.Service, b.Service) })
	return out, nil
}

func windowsOf(w ops.Watch) []health.Window {
	var out []health.Window
	for _, m := range w.Maintenance {
		if window, err := health.ParseMaintenance(m); err == nil { // the configuration was checked at start
			out = append(out, window)
		}
	}
	return out
}

// ownResults are the results of a cycle's own probes of services, in order.
func ownResults(checks []ops.Check) []ops.Check {
	return slices.DeleteFunc(ofProbes(checks), func(k ops.Check) bool { return k.Purpose == ops.ProbeAlert })
}

// limitsOf are the thresholds by which the watch judged a check last.
func limitsOf(p ops.Policy, states []health.State) health.Limits {
	return func(r ops.Check) health.Thresholds {
		t := health.Thresholds{Flapping: p.Watch.Flapping}
		for _, s := range states {
			if s.Service == r.Service && s.Probe == r.Probe {
				t.FailAfter, t.RecoverAfter = s.FailAfter, s.RecoverAfter
			}
		}
		return t
	}
}

// pictureFor is what the watch knows about the environment of a cycle, as that cycle may see it.
func pictureFor(ctx context.Context, q db.Querier, c ops.Claimed, windows []health.Window, at time.Time) (health.Picture, error) {
	environment := c.Cycle.Environment
	p := health.Picture{Environment: environment, Services: c.Cycle.Policy.Inventory.Services, Windows: windows}
	var err error
	if p.States, err = db.List(ctx, q, scanState, `SELECT state FROM probe_states WHERE environment = ?`, environment); err != nil {
		return p, err
	}
	if p.Causes, err = db.List(ctx, q, scanCause, selectCauses+` WHERE z.environment = ?
		AND (z.resolved_at IS NULL OR z.at >= ?) ORDER BY z.id`,
		environment, db.Time(at.Add(-time.Hour))); err != nil {
		return p, err
	}
	// A silence that has just ended still leaves time to recover.
	silences, err := db.List(ctx, q, scanSilence, selectSilences+` WHERE q.ends_at > ? AND q.starts_at <= ?
		AND (q.environment = ? OR q.environment = '') ORDER BY q.id LIMIT ?`,
		db.Time(at.Add(-time.Hour)), db.Time(at), environment, maxSilences)
	if err != nil {
		return p, err
	}
	firing, err := db.List(ctx, q, scanAlert, selectAlerts+` WHERE a.environment = ? AND a.status = ? ORDER BY a.id`,
		environment, ops.AlertFiring)
	if err != nil {
		return p, err
	}
	for _, s := range silences {
		p.Silences = append(p.Silences, alert.ExpandSilence(s, firing)...)
	}
	for _, i := range c.Journal.Incidents {
		if s, holds := health.HeldByPerson(i, c.Cycle.ID, at); holds {
			p.Silences = append(p.Silences, s)
		}
	}
	return p, nil
}

// withFinding adds what inhibits a service. That the watch has seen too few failures no longer counts when the cycle has seen enough.
func withFinding(held []ops.Withheld, f health.Finding) []ops.Withheld {
	i := slices.IndexFunc(held, func(w ops.Withheld) bool { return w.Service == f.Service })
	switch {
	case f.Verdict == health.Held && f.Held.Why.Inhibits() && i >= 0:
		held[i] = f.Held
	case f.Verdict == health.Held && f.Held.Why.Inhibits():
		held = append(held, f.Held)
	case f.Verdict != health.Undecided && i >= 0 && held[i].Why == ops.HoldUnsettled:
		held = slices.Delete(held, i, i+1)
	}
	return held
}

// withMaintenance adds a service in maintenance, whoever finds it bad: an agent may report what no probe sees.
func withMaintenance(held []ops.Withheld, s ops.Service, windows []health.Window, at time.Time) []ops.Withheld {
	for _, w := range windows {
		until, open := w.Active(at)
		if !open || w.Probe != "" || !w.Covers(s.Name, s.Group, "") {
			continue
		}
		in := ops.Withheld{
			Service: s.Name, Why: ops.HoldMaintenance, Until: until,
			Reason: fmt.Sprintf("%s is in maintenance until %s.", s.Name, until.UTC().Format("15:04:05 UTC")),
		}
		i := slices.IndexFunc(held, func(h ops.Withheld) bool { return h.Service == s.Name })
		switch {
		case i < 0:
			held = append(held, in)
		case !held[i].Why.Inhibits():
			held[i] = in
		}
	}
	return held
}
