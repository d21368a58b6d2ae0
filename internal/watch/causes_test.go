package watch_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/store"
	"claudeops/internal/watch"
)

// mortal is a store whose process dies when it is about to close incidents.
type mortal struct {
	*store.Watch
	dies bool
}

func (m *mortal) ServiceRecovered(ctx context.Context, environment, service string, began time.Time, how string, at time.Time) (int, error) {
	if m.dies {
		return 0, errors.New("killed")
	}
	return m.Watch.ServiceRecovered(ctx, environment, service, began, how, at)
}

// A supervisor that dies while it records a recovery sees it again after its start.
func TestARecoveryIsNotLostInACrash(t *testing.T) {
	t.Parallel()
	g := newStage(t, scenario{Looks: map[string]string{"web": "..xxxxxx......."}})
	dying := &mortal{Watch: g.store.Watch, dies: true}
	reborn := func() {
		var err error
		g.watch, err = watch.New(watch.Options{
			Store: dying, Cycles: g.store.Journal, People: g.store.People, Environments: g.envs, Describe: func(s ops.ProbeSpec) string { return s.Name }, Clock: func() time.Time { return g.now },
			Start: g.start, Logger: slog.New(slog.DiscardHandler),
		})
		g.must(err)
		g.must(g.watch.Load(t.Context()))
	}
	reborn()
	for n := range 15 {
		g.now = start.Add(time.Duration(n) * 30 * time.Second)
		if n == 6 { // somebody runs a cycle of his own, and it calls for help
			g.other(ops.Step{
				Kind: ops.StepFinish, Status: ops.CycleNeedsHuman,
				Incident: &ops.IncidentReport{Title: "needs you", Level: ops.LevelCritical, Services: []string{"web"}},
			})
		}
		g.look(n)
		g.watch.Pass(t.Context())
		if n == 9 { // it has just found web good for the second time
			dying.dies = false
			reborn()
		}
	}
	open, err := g.store.People.Unresolved(t.Context(), "home")
	g.must(err)
	if len(open) != 0 {
		t.Errorf("web works, and these are open: %+v", open)
	}
}

// other is a cycle that somebody ran, in which probes found web bad, an agent looked, and that ended with a step.
func (g *stage) other(end ops.Step) {
	g.t.Helper()
	id, err := g.store.Journal.SubmitCycle(g.t.Context(), ops.NewCycle{Environment: "home", Trigger: ops.TriggerManual, At: g.now})
	g.must(err)
	_, err = g.store.Journal.Claim(g.t.Context(), g.owner, id, g.envs[0].Policy, g.now)
	g.must(err)
	found := ops.Check{Environment: "home", Purpose: ops.ProbeObserve, Service: "web", Probe: "GET", Status: ops.Down}
	queue := ops.Step{Kind: ops.StepQueue, Session: &ops.NewSession{Attempt: 1, Handler: g.envs[0].Policy.Handlers[0], ContextMode: ops.ContextFresh}}
	_, err = g.store.Journal.Commit(g.t.Context(), g.owner, ops.Transition{Cycle: id, At: g.now, Result: ops.Result{Checks: []ops.Check{found}}, Step: queue})
	g.must(err)
	_, err = g.store.Journal.Commit(g.t.Context(), g.owner, ops.Transition{Cycle: id, At: g.now, Step: end})
	g.must(err)
}

func TestAnEndIsToldOnceAndOnlyOfWhatWasTold(t *testing.T) {
	t.Parallel()
	calls := ops.Step{
		Kind: ops.StepFinish, Status: ops.CycleNeedsHuman,
		Incident: &ops.IncidentReport{Title: "needs you", Level: ops.LevelCritical, Services: []string{"web"}},
		Notices:  []ops.Notice{{Kind: ops.NoticeNeedsHuman, Level: ops.LevelCritical, Title: "help", Service: "web"}},
	}
	silent := ops.Step{Kind: ops.StepFinish, Status: ops.CycleHealthy, Reason: "an agent looked"}
	for name, tt := range map[string]struct {
		at   int // when the other cycle runs
		end  ops.Step
		told string
	}{
		"two cycles about one outage":       {6, calls, "opened needs_human resolved"},
		"an outage that nobody was told of": {2, silent, ""},
		"one that somebody was called for":  {2, calls, "needs_human resolved"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := newStage(t, scenario{Looks: map[string]string{"web": "..xxxxxxxx......"}})
			for n := range 16 {
				g.now = start.Add(time.Duration(n) * 30 * time.Second)
				g.look(n)
				if n == tt.at {
					g.other(tt.end)
				}
				g.watch.Pass(t.Context())
			}
			var kinds []string
			for _, line := range g.told() {
				kinds = append(kinds, strings.Fields(line)[1])
			}
			if got := strings.Join(kinds, " "); got != tt.told {
				t.Errorf("told %q, want %q", got, tt.told)
			}
		})
	}
}

// A cycle that was held back, or that somebody stopped, takes care of nothing: the watch starts its own.
func TestACycleThatDidNothingIsNotTaken(t *testing.T) {
	t.Parallel()
	for _, status := range []ops.CycleStatus{ops.CycleSuppressed, ops.CycleCancelled} {
		g := newStage(t, scenario{Looks: map[string]string{"web": "..xxxxxxxx"}})
		for n := range 10 {
			g.now = start.Add(time.Duration(n) * 30 * time.Second)
			g.look(n)
			if n == 2 {
				g.other(ops.Step{Kind: ops.StepFinish, Status: status, Reason: "held back"})
			}
			g.watch.Pass(t.Context())
		}
		if told := g.told(); len(g.started) != 1 || !slices.ContainsFunc(told, func(s string) bool { return strings.Contains(s, "opened web") }) {
			t.Errorf("after a cycle that ended %s, started %q and told %q", status, g.started, fmt.Sprint(told))
		}
	}
}

// What a service needs is well again, and the service is not: its incident stays open.
func TestARecoveredDependencyDoesNotCloseTheIncidentOfWhatIsStillBad(t *testing.T) {
	t.Parallel()
	g := newStage(t, scenario{
		Looks: map[string]string{"db": "xxxx....", "web": "xxxxxxxx"}, Agent: "needs_human for all",
		Services: map[string]serviceSpec{"db": {}, "web": {DependsOn: []string{"db"}}},
	})
	g.play()
	open, err := g.store.People.Unresolved(t.Context(), "home")
	g.must(err)
	if len(g.started) != 1 || len(open) != 1 || open[0].Service != "web" {
		t.Errorf("started %q, open are %+v", g.started, open)
	}
}
