package watch_test

import (
	"testing"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/store"
)

// problems are the titles of the cycles that were started, the oldest first.
func (g *stage) problems() []string {
	g.t.Helper()
	found, err := g.store.Reports.Cycles(g.t.Context(), store.CycleFilter{Limit: 20})
	g.must(err)
	var out []string
	for i := len(found) - 1; i >= 0; i-- {
		if found[i].Trigger == ops.TriggerProbe || found[i].Trigger == ops.TriggerAlert {
			out = append(out, found[i].Title())
		}
	}
	return out
}

func TestACycleOfAFailedProbeIsNamedByIt(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		looks map[string]string
		want  string
	}{
		"one":   {map[string]string{"redis": "xxxxxxxx"}, "redis: connection refused"},
		"two":   {map[string]string{"redis": "xxxxxxxx", "web": "xxxxxxxx"}, "redis and web: connection refused"},
		"three": {map[string]string{"db": "xxxxxxxx", "redis": "xxxxxxxx", "web": "xxxxxxxx"}, "db: connection refused and 2 more"},
	} {
		g := newStage(t, scenario{Looks: c.looks, Agent: "healthy"})
		g.play()
		if got := g.problems(); len(got) == 0 || got[0] != c.want {
			t.Errorf("%s: the cycles are %q, want %q", name, got, c.want)
		}
	}
}

func TestACycleOfAnAlertIsNamedByIt(t *testing.T) {
	t.Parallel()
	sc := scenario{Looks: map[string]string{"db": "........"}, Agent: "healthy"}
	sc.Alerts = append(sc.Alerts, struct {
		At, Every, Until time.Duration
		Times            int
		Body             string
		Environment      string
	}{At: time.Minute, Body: `{"name":"Down","service":"web","severity":"critical","summary":"web answers\nnothing"}`})
	g := newStage(t, sc)
	g.play()
	if got := g.problems(); len(got) != 1 || got[0] != "web: web answers" && got[0] != "web: web answers nothing" {
		t.Errorf("the cycles are %q", got)
	}
}
