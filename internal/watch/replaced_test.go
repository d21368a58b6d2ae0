package watch_test

import (
	"cmp"
	"log/slog"
	"strings"
	"testing"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/watch"
)

// The address of a probe was wrong and is corrected: the service is what the new probe says, and nothing stays red from the old one.
func TestAProbeThatWasReplaced(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		named string // the name of both probes, if they have one
		again bool   // a start without a result in between
		finds ops.Health
		ends  string
	}{
		"of the same name, and all is well":  {"front", false, ops.Healthy, "web: the probe that found it was replaced, and the new one finds it healthy."},
		"named by its address":               {"", false, ops.Healthy, "web: the probe that found it was replaced, and the new one finds it healthy."},
		"and a start before it has looked":   {"", true, ops.Healthy, "web: the probe that found it was replaced, and the new one finds it healthy."},
		"of the same name, and it is down":   {"front", false, ops.Down, ""},
		"named by its address, and it fails": {"", false, ops.Down, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newStage(t, scenario{Looks: map[string]string{"web": ""}, Agent: "needs_human"})
			describe := func(s ops.ProbeSpec) string { return cmp.Or(s.Name, s.URL) }
			spec := ops.ProbeSpec{Service: "web", Type: "http", Name: tt.named, URL: "http://old"}
			begin := func() {
				g.envs[0].Probes = []ops.ProbeSpec{spec}
				var err error
				g.watch, err = watch.New(watch.Options{
					Store: g.store.Watch, Cycles: g.store.Journal, People: g.store.People, Environments: g.envs[:1], Describe: describe, Clock: func() time.Time { return g.now }, Start: g.start, Logger: slog.New(slog.DiscardHandler),
				})
				g.must(err)
				g.must(g.watch.Load(t.Context()))
			}
			look := func(status ops.Health) {
				g.now = g.now.Add(30 * time.Second)
				c := ops.Check{At: g.now, Environment: "home", Purpose: ops.ProbeWatch, Service: "web", Probe: describe(spec), Type: ops.CheckHTTP, Status: status}
				if status != ops.Healthy {
					c.Error = "HTTP 404 of " + spec.URL
				}
				g.watch.Deliver(t.Context(), []ops.Check{c})
				g.watch.Pass(t.Context())
			}
			begin()
			for range 6 {
				look(ops.Down)
			}
			spec.URL = "http://new"
			begin()
			if tt.again {
				begin()
			}
			look(tt.finds)
			i, err := g.store.People.Incident(t.Context(), 1)
			g.must(err)
			states, err := g.store.Reports.StatesOf(t.Context(), "home", "web")
			g.must(err)
			if i.Resolution != tt.ends || (i.ResolvedAt != nil) != (tt.ends != "") {
				t.Errorf("the incident is %s: %q", i.Status, i.Resolution)
			}
			if len(states) != 1 || states[0].Probe != describe(spec) || states[0].Failing() != (tt.finds == ops.Down) || strings.Contains(states[0].Last.Error, "old") {
				t.Errorf("the states are %+v", states)
			}
			if tt.ends == "" {
				look(ops.Healthy)
				look(ops.Healthy)
				if i, err = g.store.People.Incident(t.Context(), 1); err != nil || !strings.Contains(i.Resolution, "web recovered after") {
					t.Errorf("a failure that the new probe saw ended with %q, %v", i.Resolution, err)
				}
			}
			causes, err := g.store.Watch.Causes(t.Context(), "home", time.Time{})
			g.must(err)
			if len(causes) != 1 || causes[0].ResolvedAt == nil {
				t.Errorf("the causes are %+v", causes)
			}
		})
	}
}
