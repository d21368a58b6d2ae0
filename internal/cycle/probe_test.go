package cycle_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"claudeops/internal/cycle"
	"claudeops/internal/ops"
)

// counted is a health that wants two bad and three good results in a row.
type counted struct{ settle, hold time.Duration }

func (counted) more(results []ops.Check, wanted int, counts func(ops.Health) bool) int {
	most := 0
	for service, n := range inARow(results, counts) {
		if service != "" {
			most = max(most, wanted-n)
		}
	}
	return most
}

func inARow(results []ops.Check, counts func(ops.Health) bool) map[string]int {
	out := map[string]int{}
	for _, c := range results {
		out[c.Service]++
		if !counts(c.Status) {
			out[c.Service] = 0
		}
	}
	return out
}

func (c counted) MoreToFail(_ string, results []ops.Check) int {
	most := 0
	for _, n := range inARow(results, func(h ops.Health) bool { return h != ops.Healthy }) {
		if n > 0 {
			most = max(most, 2-n)
		}
	}
	return most
}

func (c counted) MoreToRecover(_ string, results []ops.Check) int {
	return c.more(results, 3, func(h ops.Health) bool { return h == ops.Healthy })
}

func (c counted) SettleTime(context.Context, string, []string) time.Duration { return c.settle }

func (counted) RoundPause() time.Duration { return cycle.RoundPause }

func (c counted) HoldTime(context.Context, string, []string) time.Duration { return c.hold }

func (counted) InGrace(_, service string, recovered map[string]time.Time, _ time.Time) (string, bool) {
	_, well := recovered["db"]
	return "db", service == "web" && well
}

// answers gives each service its results in turn; the last one stays.
func answers(all map[string][]ops.Health, rounds *int) probes {
	seen := map[string]int{}
	return func(specs []ops.ProbeSpec, purpose ops.ProbePurpose) []ops.Check {
		*rounds++
		var out []ops.Check
		for _, p := range specs {
			results := all[p.Service]
			out = append(out, ops.Check{
				At: time.Now(), Service: p.Service, Probe: "p", Purpose: purpose, Type: ops.CheckHTTP, Status: results[min(seen[p.Service], len(results)-1)],
			})
			seen[p.Service]++
		}
		return out
	}
}

func TestProbesAreRepeatedUntilTheyDecide(t *testing.T) {
	const ok, bad = ops.Healthy, ops.Down
	for name, tt := range map[string]struct {
		results map[string][]ops.Health
		acts    []func(ops.SessionSpec) ops.RunResult
		ends    ops.CycleStatus
		runs    int
	}{
		"one failed check is a hiccup":            {map[string][]ops.Health{"db": {bad, ok}, "web": {ok}}, nil, ops.CycleHealthy, 0},
		"two failed checks are a failure":         {map[string][]ops.Health{"db": {bad, bad}, "web": {ok}}, nil, ops.CycleNeedsHuman, 1},
		"one green answer is not a repair":        {map[string][]ops.Health{"db": {bad, bad, ok, bad, bad, bad, bad, bad, bad}, "web": {ok}}, repairs(), ops.CycleNeedsHuman, 2},
		"three in a row are":                      {map[string][]ops.Health{"db": {bad, bad, bad, ok, ok, ok}, "web": {ok}}, repairs(), ops.CycleResolved, 2},
		"a dependent that follows is not counted": {map[string][]ops.Health{"db": {bad, bad, ok, ok, ok}, "web": {bad, bad, bad}}, repairs(), ops.CycleResolved, 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rounds, runs := 0, 0
				p := policy(probesFirst, func(p *ops.Policy) {
					p.Inventory = ops.Inventory{Services: []ops.Service{{Name: "db", Aliases: []string{"grafana"}, Probed: true}, {Name: "web", Probed: true, DependsOn: []string{"db"}}}}
				})
				agent := structured{play(func(_ context.Context, spec ops.SessionSpec) ops.RunResult {
					runs++
					if runs > len(tt.acts) {
						return said(ops.OutcomeNeedsHuman, spec.Session.Tier)
					}
					return tt.acts[runs-1](spec)
				})}
				s := newStage(t, p, func(*stage) play { return nil }, func(parts *cycle.Parts) {
					parts.Prober, parts.Health = answers(tt.results, &rounds), counted{settle: 5 * time.Second}
					parts.Runners, parts.Clock = map[string]cycle.Runner{"claude": agent}, time.Now
					env := parts.Environments["default"]
					env.Probes = []ops.ProbeSpec{{Service: "db"}, {Service: "web"}}
					parts.Environments["default"] = env
				})
				s.journal.cycle.Trigger = ops.TriggerScheduled
				must(t, s.Advance(t.Context(), 1, "default"))
				if got := s.journal.cycle; got.Status != tt.ends || runs != tt.runs {
					t.Errorf("ended %s after %d sessions and %d rounds: %s; want %s after %d", got.Status, runs, rounds, got.Reason, tt.ends, tt.runs)
				}
			})
		})
	}
}

// TestAServiceThatFailedBetweenMustStayGoodLonger holds that a service that goes up and down is not called repaired while it is up.
func TestAServiceThatFailedBetweenMustStayGoodLonger(t *testing.T) {
	const ok, bad = ops.Healthy, ops.Down
	for name, tt := range map[string]struct {
		hold    time.Duration
		results []ops.Health
		ends    ops.CycleStatus
	}{
		"it stays good":                 {15 * time.Second, []ops.Health{bad, bad, ok}, ops.CycleResolved},
		"it fails again before":         {15 * time.Second, []ops.Health{bad, bad, ok, ok, ok, ok, bad}, ops.CycleNeedsHuman},
		"nothing is known, so it is up": {0, []ops.Health{bad, bad, ok, ok, ok, ok, bad}, ops.CycleResolved},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rounds, runs := 0, 0
				acts := repairs()
				p := policy(probesFirst, func(p *ops.Policy) {
					p.Inventory = ops.Inventory{Services: []ops.Service{{Name: "db", Aliases: []string{"grafana"}, Probed: true}}}
				})
				agent := structured{play(func(_ context.Context, spec ops.SessionSpec) ops.RunResult {
					runs++
					if runs > len(acts) {
						return said(ops.OutcomeNeedsHuman, spec.Session.Tier)
					}
					return acts[runs-1](spec)
				})}
				s := newStage(t, p, func(*stage) play { return nil }, func(parts *cycle.Parts) {
					parts.Prober = answers(map[string][]ops.Health{"db": tt.results}, &rounds)
					parts.Health = counted{settle: 5 * time.Second, hold: tt.hold}
					parts.Runners, parts.Clock = map[string]cycle.Runner{"claude": agent}, time.Now
					env := parts.Environments["default"]
					env.Probes = []ops.ProbeSpec{{Service: "db"}}
					parts.Environments["default"] = env
				})
				s.journal.cycle.Trigger = ops.TriggerScheduled
				must(t, s.Advance(t.Context(), 1, "default"))
				if got := s.journal.cycle; got.Status != tt.ends {
					t.Errorf("ended %s after %d rounds: %s; want %s", got.Status, rounds, got.Reason, tt.ends)
				}
			})
		})
	}
}

// repairs is a Tier 1 that hands db up and a Tier 2 that says it repaired it.
func repairs() []func(ops.SessionSpec) ops.RunResult {
	return slices.Clone([]func(ops.SessionSpec) ops.RunResult{ends(ops.OutcomeEscalate), ends(ops.OutcomeResolved)})
}
