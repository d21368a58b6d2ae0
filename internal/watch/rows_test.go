package watch_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/store"
	"claudeops/internal/watch"
)

// flaky is a store that cannot write for a while.
type flaky struct {
	*store.Watch
	broken error
	writes int
}

func (f *flaky) RecordResults(
	ctx context.Context,
	environment string,
	kept, counted []ops.Check,
	states []ops.CheckState,
	events []ops.Event,
	alerts []ops.Alert,
) error {
	if f.broken != nil {
		return f.broken
	}
	f.writes++
	return f.Watch.RecordResults(ctx, environment, kept, counted, states, events, alerts)
}

func (f *flaky) OpenCause(
	ctx context.Context,
	c ops.Cause,
	n ops.NewCycle,
	checks []ops.Check,
	notice *ops.Notice,
	since time.Time,
) (ops.Cause, bool, error) {
	if f.broken != nil {
		return c, false, f.broken
	}
	return f.Watch.OpenCause(ctx, c, n, checks, notice, since)
}

func TestWhatCannotBeRecordedIsLookedAtAgain(t *testing.T) {
	t.Parallel()
	g := newStage(t, scenario{Looks: map[string]string{"web": "..xxxxxxxxxxxxxxxx"}})
	f := &flaky{Watch: g.store.Watch}
	var err error
	g.watch, err = watch.New(watch.Options{
		Store: f, Cycles: g.store.Journal, People: g.store.People, Environments: g.envs, Describe: func(s ops.ProbeSpec) string { return s.Name }, Clock: func() time.Time { return g.now },
		Start: g.start, Logger: slog.New(slog.DiscardHandler),
	})
	g.must(err)
	for n := range 16 {
		g.now = start.Add(time.Duration(n) * 30 * time.Second)
		f.broken = nil
		if n >= 2 && n < 8 {
			f.broken = errors.New("disk full")
		}
		g.look(n)
		g.watch.Pass(t.Context())
	}
	if fmt.Sprint(g.started) != "[5m probe web]" {
		t.Errorf("started %q", g.started)
	}
}

func TestASteadyProbeWritesLittle(t *testing.T) {
	t.Parallel()
	g := newStage(t, scenario{Looks: map[string]string{"web": "."}, RepeatLooks: 240})
	g.play()
	hours, err := g.store.Watch.LatestChecks(t.Context(), "home")
	g.must(err)
	if len(hours) != 1 || g.now.Sub(hours[0].At) > 6*time.Minute {
		t.Errorf("the newest row is %+v at %s", hours, g.now)
	}
	rows, _, err := g.store.Journal.RemoveOld(t.Context(), ops.RecordChecks, ops.Retention{Checks: time.Minute}, g.now.Add(time.Hour))
	g.must(err)
	if rows < 20 || rows > 30 {
		t.Errorf("two hours of looks every 30 s are %d rows", rows)
	}
}

// Sixty probes, one result every second: what changes nothing is written every ten seconds, a failure at once.
func TestOnlyChangesAreWrittenAtOnce(t *testing.T) {
	t.Parallel()
	g := newStage(t, scenario{Looks: map[string]string{"web": "."}})
	f := &flaky{Watch: g.store.Watch}
	env := g.envs[0]
	const services = 60
	env.Probes = nil
	for i := range services {
		env.Probes = append(env.Probes, ops.ProbeSpec{Service: fmt.Sprintf("s%d", i), Type: "http", Name: "up"})
	}
	w, err := watch.New(watch.Options{
		Store: f, Cycles: g.store.Journal, People: g.store.People, Environments: []ops.Environment{env}, Describe: func(s ops.ProbeSpec) string { return s.Name },
		Clock: func() time.Time { return g.now }, Start: g.start, Logger: slog.New(slog.DiscardHandler),
	})
	g.must(err)
	deliver := func(second int, status ops.Health) {
		g.now = start.Add(time.Duration(second) * time.Second)
		w.Deliver(t.Context(), []ops.Check{{
			At: g.now, Environment: env.Name, Service: fmt.Sprintf("s%d", second%services), Probe: "up", Type: ops.CheckHTTP,
			Purpose: ops.ProbeWatch, Status: status,
		}})
	}
	const minutes = 20
	for second := range minutes * services {
		deliver(second, ops.Healthy)
	}
	if most := services + minutes*services/10; f.writes > most {
		t.Errorf("%d commits in %d minutes, at most %d are needed", f.writes, minutes, most)
	}
	before := f.writes
	deliver(minutes*services, ops.Down)
	if f.writes != before+1 {
		t.Error("a failure waits to be written")
	}
	w.Flush(t.Context())
	states, err := g.store.Watch.States(t.Context(), env.Name)
	g.must(err)
	for _, s := range states {
		if g.now.Sub(s.Last.At) > services*time.Second {
			t.Errorf("the last result of %s is of %s, and it is %s", s.Service, s.Last.At, g.now)
		}
	}
}

func TestAProbeThatIsGoneIsForgotten(t *testing.T) {
	t.Parallel()
	g := newStage(t, scenario{Looks: map[string]string{"web": "xxxx", "db": "...."}, Agent: "needs_human"})
	g.play()
	if len(g.started) != 1 {
		t.Fatalf("started %q", g.started)
	}
	g.envs[0].Probes = g.envs[0].Probes[:1] // db stays
	g.begin()
	g.now = g.now.Add(time.Minute)
	g.watch.Pass(t.Context())
	states, err := g.store.Watch.States(t.Context(), "home")
	g.must(err)
	if len(states) != 1 || states[0].Service != "db" {
		t.Errorf("known are %+v", states)
	}
	if told := g.told(); len(told) != 2 || !strings.Contains(told[1], "resolved web") {
		t.Errorf("told %q", told)
	}
	said, err := g.store.People.NoticeList(t.Context(), store.NoticeFilter{})
	g.must(err)
	if text := said[0].Title + said[0].Body; !strings.Contains(text, "web is not watched any more") || strings.Contains(text, "recovered") {
		t.Errorf("nobody has seen web recover, and people are told %s", text)
	}
	open, err := g.store.People.Unresolved(t.Context(), "home")
	g.must(err)
	if len(open) != 1 || open[0].Service != "web" {
		t.Errorf("nobody has seen web recover, and open are %+v", open)
	}
}

func TestAnAlertNobodyRepeatsIsOver(t *testing.T) {
	t.Parallel()
	sc := scenario{Length: 26 * time.Hour}
	sc.Alerts = append(sc.Alerts, struct {
		At, Every, Until time.Duration
		Times            int
		Body             string
		Environment      string
	}{At: time.Minute, Body: `{"name":"Down","service":"web","severity":"critical"}`})
	g := newStage(t, sc)
	for _, at := range []time.Duration{time.Minute, 2 * time.Minute, 24 * time.Hour, 24*time.Hour + 20*time.Minute} {
		g.now = start.Add(at)
		g.tell(at)
		g.watch.Pass(t.Context())
	}
	firing, err := g.store.Watch.FiringAlerts(t.Context(), "home")
	g.must(err)
	if len(firing) != 0 || len(g.started) != 1 || len(g.told()) != 3 {
		t.Errorf("%d alerts fire, started %q, told %q", len(firing), g.started, g.told())
	}
}

// A cycle on schedule that found the same is the cycle of the cause.
func TestACycleThatFoundTheSameIsTaken(t *testing.T) {
	t.Parallel()
	g := newStage(t, scenario{Looks: map[string]string{"web": "....xxxxxxxxxx"}})
	for n := range 14 {
		g.now = start.Add(time.Duration(n) * 30 * time.Second)
		if n == 5 {
			id, err := g.store.Journal.SubmitCycle(t.Context(), ops.NewCycle{Environment: "home", Trigger: ops.TriggerScheduled, At: g.now})
			g.must(err)
			_, err = g.store.Journal.Claim(t.Context(), g.owner, id, g.envs[0].Policy, g.now)
			g.must(err)
			_, err = g.store.Journal.Commit(t.Context(), g.owner, ops.Transition{
				Cycle: id,
				At:    g.now,
				Result: ops.Result{
					Checks: []ops.Check{{Environment: "home", Purpose: ops.ProbeObserve, Service: "web", Probe: "GET", Status: ops.Down}},
				},
				Step: ops.Step{
					Kind:    ops.StepQueue,
					Session: &ops.NewSession{Attempt: 1, Handler: g.envs[0].Policy.Handlers[0], ContextMode: ops.ContextFresh},
				},
			})
			g.must(err)
		}
		g.look(n)
		g.watch.Pass(t.Context())
	}
	causes, err := g.store.Watch.Causes(t.Context(), "home", time.Time{})
	g.must(err)
	if len(g.started) != 0 || len(causes) != 1 || causes[0].Cycle != 1 || len(g.told()) != 0 {
		t.Errorf("started %q, causes %+v, told %q", g.started, causes, g.told())
	}

	// It worked on something else and called nobody: after the pause the service gets a cycle of its own.
	_, err = g.store.Journal.Commit(t.Context(), g.owner, ops.Transition{Cycle: 1, At: g.now, Step: ops.Step{Kind: ops.StepFinish, Status: ops.CycleResolved}})
	g.must(err)
	for n := range 14 {
		g.now = start.Add(time.Duration(14+4*n) * 30 * time.Second)
		g.look(13)
		g.watch.Pass(t.Context())
	}
	if len(g.started) != 1 {
		t.Errorf("after its end, started %q", g.started)
	}
}

func TestWhatIsHeldBackIsWrittenDownAndForgotten(t *testing.T) {
	t.Parallel()
	g := newStage(t, scenario{
		Services: map[string]serviceSpec{"web": {DependsOn: []string{"db"}}, "db": {}},
		Looks:    map[string]string{"web": ".....xxxxxxx......", "db": "..xxxxxxxxxx......"},
	})
	for n := range 18 {
		g.now = start.Add(time.Duration(n) * 30 * time.Second)
		g.look(n)
		g.watch.Pass(t.Context())
		if n == 8 {
			onHold, err := g.store.Watch.Withheld(t.Context(), "home")
			g.must(err)
			if len(onHold) != 2 || onHold[0].Why != ops.HoldCovered || onHold[1].Why != ops.HoldDependency ||
				!strings.Contains(onHold[1].Reason, "depends on db") {
				t.Errorf("held back are %+v", onHold)
			}
		}
	}
	onHold, err := g.store.Watch.Withheld(t.Context(), "home")
	g.must(err)
	if len(onHold) != 0 {
		t.Errorf("held back are still %+v", onHold)
	}
}

func TestAStumbleIsWrittenDownAsUnsettled(t *testing.T) {
	t.Parallel()
	g := newStage(t, scenario{Looks: map[string]string{"web": "..x..."}})
	for n := range 6 {
		g.now = start.Add(time.Duration(n) * 30 * time.Second)
		g.look(n)
		onHold, err := g.store.Watch.Withheld(t.Context(), "home")
		g.must(err)
		if (n == 2) != (len(onHold) == 1 && onHold[0].Why == ops.HoldUnsettled) || len(onHold) > 1 {
			t.Errorf("after look %d %+v is held back", n, onHold)
		}
	}
}

// ends is a store of ends.
type ends struct {
	mu      sync.Mutex
	last    time.Time
	open    []ops.Cycle
	events  []string
	notices []string
}

func (e *ends) LastEnded(context.Context, string) (time.Time, bool, error) {
	return e.last, !e.last.IsZero(), nil
}
func (e *ends) Unfinished(context.Context) ([]ops.Cycle, error) { return e.open, nil }
func (e *ends) AddEvent(_ context.Context, v ops.Event) (int64, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.events = append(e.events, string(v.Level))
	return 1, nil
}

func (e *ends) AddNotice(_ context.Context, n ops.Notice) (int64, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.notices = append(e.notices, n.Key)
	return 1, nil
}

func TestAMissedScheduleIsToldOnceAndItsEndToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &ends{last: time.Now().Add(-10 * time.Hour)}
		pings, woken := 0, 0
		d := &watch.DeadMan{
			Ends: e, Notices: e, Environments: []ops.Environment{{Name: "home", Interval: time.Hour, Limits: ops.Limits{Wall: 30 * time.Minute}}}, Missed: 2,
			Ping: func(context.Context) error { pings++; return nil }, Changed: func() { woken++ }, Clock: time.Now, Logger: slog.New(slog.DiscardHandler),
		}
		during := func(span time.Duration) {
			t.Helper()
			for end := time.Now().Add(span); time.Now().Before(end); <-time.After(time.Minute) {
				must(t, d.Check(t.Context()))
			}
		}
		during(119 * time.Minute)
		if len(e.events) != 0 || pings != 0 {
			t.Fatalf("told %v before anything was missed, %d pings", e.events, pings)
		}
		e.open = []ops.Cycle{{Environment: "home", Status: ops.CycleRunning, StartedAt: ops.Ptr(time.Now())}}
		during(time.Hour)
		if len(e.events) != 0 {
			t.Fatalf("told %v while a cycle is at work", e.events)
		}
		during(3 * time.Hour)
		if fmt.Sprint(e.events) != "[critical]" || len(e.notices) != 1 || woken != 1 {
			t.Fatalf("told %v, %v", e.events, e.notices)
		}
		e.last, e.open = time.Now(), nil
		during(time.Hour)
		if fmt.Sprint(e.events) != "[critical info]" || pings != 1 {
			t.Errorf("told %v, %d pings", e.events, pings)
		}
		d.Missed = 0
		during(100 * time.Hour)
		if len(e.events) != 2 {
			t.Errorf("told %v although it is off", e.events)
		}
	})
}

func TestASuspendedMachineMissedNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &ends{last: time.Now()}
		var suspended atomic.Int64 // timers stop then, the clock does not
		d := &watch.DeadMan{
			Ends: e, Notices: e, Environments: []ops.Environment{{Name: "home", Interval: 10 * time.Minute, Limits: ops.Limits{Wall: time.Minute}}}, Missed: 2,
			Clock: func() time.Time { return time.Now().Add(time.Duration(suspended.Load())).Round(0) }, Logger: slog.New(slog.DiscardHandler),
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- d.Run(ctx, nil) }()
		<-time.After(5 * time.Minute)
		synctest.Wait()
		suspended.Store(int64(time.Hour))
		<-time.After(19 * time.Minute)
		synctest.Wait()
		e.mu.Lock()
		if len(e.events) != 0 || len(e.notices) != 0 {
			t.Errorf("told %v, %v after the machine was suspended", e.events, e.notices)
		}
		e.mu.Unlock()
		<-time.After(5 * time.Minute) // what stays away from then on is missed
		cancel()
		if err := <-ended; err != nil || fmt.Sprint(e.events) != "[critical]" || len(e.notices) != 1 {
			t.Errorf("told %v, %v (%v)", e.events, e.notices, err)
		}
	})
}

// counted is how many looks the statistics know of.
func (g *stage) counted(service string) int {
	g.t.Helper()
	found, err := g.store.Reports.Health(
		g.t.Context(),
		store.HealthFilter{Environment: "home", Since: start, Until: g.now.Add(time.Hour), Bucket: time.Hour},
	)
	g.must(err)
	sum := 0
	for _, s := range found {
		for _, b := range s.Buckets {
			if s.Service == service {
				sum += b.Checks()
			}
		}
	}
	return sum
}

func TestEveryLookIsCountedAtTheEnd(t *testing.T) {
	t.Parallel()
	g := newStage(t, scenario{Looks: map[string]string{"web": "."}, RepeatLooks: 40})
	f := &flaky{Watch: g.store.Watch}
	var err error
	g.watch, err = watch.New(watch.Options{
		Store: f, Cycles: g.store.Journal, People: g.store.People, Environments: g.envs, Describe: func(s ops.ProbeSpec) string { return s.Name }, Clock: func() time.Time { return g.now },
		Start: g.start, Logger: slog.New(slog.DiscardHandler),
	})
	g.must(err)
	for n := range 40 {
		g.now = start.Add(time.Duration(n) * 3 * time.Second)
		f.broken = nil
		if n >= 10 && n < 20 { // what cannot be counted now is counted later
			f.broken = errors.New("disk full")
		}
		g.look(n)
	}
	before := g.counted("web")
	g.watch.Flush(t.Context())
	if got := g.counted("web"); got != 40 || before == got {
		t.Errorf("%d of 40 looks are counted, %d before the end", got, before)
	}
	g.watch.Flush(t.Context())
	if got := g.counted("web"); got != 40 {
		t.Errorf("a second end counts again: %d", got)
	}
}

func TestTheTimeOfTheLastCheckIsShown(t *testing.T) {
	t.Parallel()
	g := newStage(t, scenario{Looks: map[string]string{"web": ".", "db": "x"}, RepeatLooks: 40})
	for n := range 40 {
		g.now = start.Add(time.Duration(n) * 30 * time.Second)
		g.look(n)
		latest, err := g.store.Watch.LatestChecks(t.Context(), "home")
		g.must(err)
		for _, c := range latest {
			if g.now.Sub(c.At) > 30*time.Second {
				t.Fatalf("%s was checked at %s, and the page shows %s", c.Service, g.now, c.At)
			}
		}
	}
	// A clean stop leaves the last one.
	g.watch.Flush(t.Context())
	latest, err := g.store.Watch.LatestChecks(t.Context(), "")
	g.must(err)
	for _, c := range latest {
		if !c.At.Equal(g.now) {
			t.Errorf("%s was last checked at %s, want %s", c.Service, c.At, g.now)
		}
	}
}

// TestNoNoticeWaitsForTheNextScan: whoever sends notices is woken after each of them was written.
func TestNoNoticeWaitsForTheNextScan(t *testing.T) {
	t.Parallel()
	for _, restart := range []bool{false, true} {
		g := newStage(t, scenario{Looks: map[string]string{"web": "..xxxxxxxx......"}, Agent: "needs_human"})
		for n := range 16 {
			g.now = start.Add(time.Duration(n) * 30 * time.Second)
			if restart && n == 11 { // between the first and the second good check
				g.begin()
			}
			before := len(g.told())
			g.announced = before
			g.look(n)
			if got := g.told(); len(got) != g.announced {
				t.Errorf("check %d wrote %q, and nobody was woken after it", n, got[before:])
			}
		}
		if told := g.told(); !strings.Contains(strings.Join(told, ";"), "resolved web") || g.resumed == 0 {
			t.Errorf("told %q, resumed %d", told, g.resumed)
		}
	}
}

func TestWhatWasHeldBackBeforeARestartIsForgotten(t *testing.T) {
	t.Parallel()
	g := newStage(t, scenario{Looks: map[string]string{"web": "..."}})
	g.look(0)
	g.must(g.store.Watch.SaveWithheld(t.Context(), "home", []ops.Withheld{{Service: "web", Why: ops.HoldDependency, Reason: "db is down"}}))
	g.begin()
	g.now = g.now.Add(time.Minute)
	g.watch.Pass(t.Context())
	onHold, err := g.store.Watch.Withheld(t.Context(), "home")
	g.must(err)
	if len(onHold) != 0 {
		t.Errorf("held back are still %+v", onHold)
	}
}
