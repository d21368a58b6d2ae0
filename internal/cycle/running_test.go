package cycle_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"claudeops/internal/cycle"
	"claudeops/internal/notice"
	"claudeops/internal/ops"
)

// TestARepairIsNotProvenWhileItsContainerIsDown holds that what a service runs in is looked at after a repair that its probes like.
func TestARepairIsNotProvenWhileItsContainerIsDown(t *testing.T) {
	for name, tt := range map[string]struct {
		service  ops.Service
		probes   []ops.ProbeSpec // more of its probes
		silenced bool
		parts    []ops.Health // what each look finds; the last one stays
		restarts bool         // between any two looks
		once     bool         // only after the first
		verified bool
		looks    int
		asked    ops.ProbeSpec
	}{
		"it runs": {
			service: ops.Service{Container: "db-1"}, parts: []ops.Health{ops.Healthy}, verified: true, looks: 3,
			asked: ops.ProbeSpec{Service: "grafana", Type: "container", Container: "db-1"},
		},
		"a unit runs": {
			service: ops.Service{Unit: "db.service"}, parts: []ops.Health{ops.Healthy}, verified: true, looks: 3,
			asked: ops.ProbeSpec{Service: "grafana", Type: "systemd", Unit: "db.service"},
		},
		"it is just starting":    {service: ops.Service{Container: "db-1"}, parts: []ops.Health{ops.Down, ops.Healthy}, verified: true, looks: 3},
		"it is down":             {service: ops.Service{Container: "db-1"}, parts: []ops.Health{ops.Down}, looks: 4},
		"it dies and is started": {service: ops.Service{Container: "db-1"}, parts: []ops.Health{ops.Healthy}, restarts: true, looks: 4},
		"it died while it was probed": {
			service: ops.Service{Container: "db-1"}, parts: []ops.Health{ops.Healthy}, restarts: true, once: true, looks: 4,
		},
		"it names nothing":      {verified: true},
		"it cannot be asked":    {service: ops.Service{Container: "db-1"}, verified: true, looks: 2},
		"a probe looks anyway":  {service: ops.Service{Container: "db-1"}, probes: []ops.ProbeSpec{{Service: "grafana", Container: "db-1"}}, verified: true},
		"a person holds it now": {service: ops.Service{Container: "db-1"}, silenced: true, verified: true, looks: 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				looks, runs, acts := 0, 0, repairs()
				var asked []ops.ProbeSpec
				tt.service.Name, tt.service.Probed = "grafana", true
				p := policy(probesFirst, func(p *ops.Policy) { p.Inventory = ops.Inventory{Services: []ops.Service{tt.service}} })
				agent := structured{play(func(_ context.Context, spec ops.SessionSpec) ops.RunResult { runs++; return acts[runs-1](spec) })}
				rounds := 0
				service := answers(map[string][]ops.Health{"grafana": {ops.Down, ops.Down, ops.Healthy}}, &rounds)
				began := time.Now()
				s := newStage(t, p, func(*stage) play { return nil }, func(parts *cycle.Parts) {
					parts.Prober = probes(func(specs []ops.ProbeSpec, purpose ops.ProbePurpose) []ops.Check {
						if purpose != ops.ProbeRunning {
							return service(specs, purpose)
						}
						looks++
						asked = specs
						if len(tt.parts) == 0 {
							return nil
						}
						found := ops.Check{At: time.Now(), Service: "grafana", Probe: "container db-1", Status: tt.parts[min(looks, len(tt.parts))-1]}
						if tt.restarts {
							found.Instance = ops.Instance{ID: "db-1", Restarts: looks}
							if tt.once {
								found.Instance.Restarts = min(looks, 2)
							}
						}
						if found.Status != ops.Healthy {
							found.Error = "container db-1 has exited with 137"
						}
						return []ops.Check{found}
					})
					parts.Health = counted{settle: 5 * time.Second}
					parts.Runners, parts.Clock = map[string]cycle.Runner{"claude": agent}, time.Now
					env := parts.Environments["default"]
					env.Probes = append([]ops.ProbeSpec{{Service: "grafana"}}, tt.probes...)
					env.Policy = p
					parts.Environments["default"] = env
				})
				s.journal.cycle.Trigger = ops.TriggerScheduled
				if tt.silenced {
					s.journal.journal.Silences = []ops.Silence{{Service: "grafana", Author: "ann", From: began.Add(5 * time.Second), Until: began.Add(time.Hour)}}
				}
				must(t, s.Advance(t.Context(), 1, "default"))
				end := s.journal.steps[len(s.journal.steps)-1]
				status := map[bool]ops.CycleStatus{true: ops.CycleResolved, false: ops.CycleNeedsHuman}[tt.verified]
				if end.Status != status || tt.verified != (end.Confirmed != nil && *end.Confirmed) || looks != tt.looks {
					t.Errorf("ended %s, confirmed %v, after %d looks: %s", end.Status, end.Confirmed, looks, end.Reason)
				}
				if tt.asked.Service != "" && (len(asked) != 1 || asked[0].Container != tt.asked.Container || asked[0].Unit != tt.asked.Unit ||
					asked[0].Type != tt.asked.Type) {
					t.Errorf("asked about %+v", asked)
				}
				for _, c := range s.journal.journal.Checks {
					if c.Purpose == ops.ProbeRunning && (c.AfterSession == nil || *c.AfterSession != 2 || c.CycleID == nil) {
						t.Errorf("the look is recorded as %+v", c)
					}
				}
				notified := slices.ContainsFunc(s.journal.events, func(e ops.Event) bool {
					return strings.HasPrefix(notice.Words(e).Words(), "grafana answers its probes, but its container db-1")
				})
				if notified == tt.verified {
					t.Errorf("told: %t", notified)
				}
			})
		})
	}
}
