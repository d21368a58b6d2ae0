package watch_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/store"
	"claudeops/internal/watch"
)

// started is a store in which a service was started by an agent.
type started struct {
	*store.Watch
	at    time.Time
	asked int
}

func (s *started) StartsSince(_ context.Context, environment string, since time.Time) (map[string]time.Time, error) {
	s.asked++
	if environment != "home" || s.at.Before(since) {
		return nil, nil
	}
	return map[string]time.Time{"web": s.at}, nil
}

func TestAServiceThatAnAgentStartsIsJudgedAnew(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, looks string
		start       time.Duration
		cycles      string
		told        string
	}{
		{"before the third failure", "...x...x...x....", 4 * time.Minute, "[]", "[]"},
		{"in its cycle", "...x...x...x........", 6*time.Minute + 20*time.Second, "[6m probe web]", "[6m opened web 7m resolved web]"},
	} {
		g := newStage(t, scenario{Looks: map[string]string{"web": c.looks}})
		s := &started{Watch: g.store.Watch, at: start.Add(c.start)}
		var err error
		g.watch, err = watch.New(watch.Options{
			Store: s, Cycles: g.store.Journal, People: g.store.People, Environments: g.envs, Describe: func(s ops.ProbeSpec) string { return s.Name }, Clock: func() time.Time { return g.now },
			Start: g.start, Logger: slog.New(slog.DiscardHandler),
		})
		g.must(err)
		for n := range c.looks {
			g.now = start.Add(time.Duration(n) * 30 * time.Second)
			if s.at = start.Add(c.start); s.at.After(g.now) {
				s.at = time.Time{}
			}
			g.look(n)
			g.watch.Pass(t.Context())
			if n < 7 && s.asked > 0 {
				t.Errorf("%s: asked for starts after %d looks with at most one failure", c.name, n+1)
			}
		}
		if fmt.Sprint(g.started) != c.cycles || fmt.Sprint(g.told()) != c.told {
			t.Errorf("%s: started %q, told %q", c.name, g.started, g.told())
		}
	}
}

func TestACycleIsToldWhatFailedAlthoughTheLastLookWasGood(t *testing.T) {
	t.Parallel()
	g := newStage(t, scenario{Looks: map[string]string{"web": "...x...x...x...."}})
	g.play()
	const want = "it failed 3 times within 4m0s, last with connection refused"
	if got := g.problems(); len(got) != 1 || got[0] != "web: "+want {
		t.Errorf("the cycles are %q", got)
	}
	notices, err := g.store.People.NoticeList(t.Context(), store.NoticeFilter{})
	g.must(err)
	if len(notices) != 1 || notices[0].Title != "Claude Ops: web is degraded" || !strings.Contains(notices[0].Body, "- web: down, "+want) {
		t.Errorf("told %+v", notices)
	}
}

func TestAnIncidentSaysEnoughAboutAServiceThatFlaps(t *testing.T) {
	t.Parallel()
	g := newStage(t, scenario{Looks: map[string]string{"web": "...............x"}, RepeatLooks: 6})
	id, err := g.store.Journal.SubmitCycle(t.Context(), ops.NewCycle{Environment: "home", Trigger: ops.TriggerManual, At: g.now})
	g.must(err)
	_, err = g.store.Journal.Claim(t.Context(), g.owner, id, g.envs[0].Policy, g.now)
	g.must(err)
	_, err = g.store.Journal.Commit(t.Context(), g.owner, ops.Transition{Cycle: id, At: g.now, Step: ops.Step{
		Kind: ops.StepFinish, Status: ops.CycleNeedsHuman,
		Incident: &ops.IncidentReport{Title: "needs you", Level: ops.LevelCritical, Services: []string{"web"}},
	}})
	g.must(err)
	g.play()
	if told := g.told(); len(told) != 0 {
		t.Errorf("told %q", told)
	}
}

// A night of flapping with a restart of the daemon every hour is told once, and again after a calm hour.
func TestFlappingIsToldOnceUntilItWasStable(t *testing.T) {
	t.Parallel()
	night := strings.Repeat("...............x", 60)
	sc := scenario{Looks: map[string]string{"web": night + strings.Repeat(".", 120) + strings.Repeat("...............x", 4)}}
	for at := time.Hour; at < 9*time.Hour; at += time.Hour {
		sc.Restarts = append(sc.Restarts, at)
	}
	g := newStage(t, sc)
	g.play()
	if told := g.told(); fmt.Sprint(told) != "[24m needs_human web 9h24m needs_human web]" {
		t.Errorf("told %q", told)
	}
	notices, err := g.store.People.NoticeList(t.Context(), store.NoticeFilter{})
	g.must(err)
	if n := notices[0]; n.Title != "Claude Ops: web is flapping" || n.Level != ops.LevelWarning || !strings.Contains(n.Body, "until stable for 10 min. Find out what") {
		t.Errorf("told %s\n%s", n.Title, n.Body)
	}
}

func TestManyServicesThatFlapAreOneNotice(t *testing.T) {
	t.Parallel()
	looks := map[string]string{}
	for i := range 30 {
		looks[fmt.Sprintf("s%02d", i)] = "...............x"
	}
	g := newStage(t, scenario{Looks: looks, RepeatLooks: 4})
	g.play()
	notices, err := g.store.People.NoticeList(t.Context(), store.NoticeFilter{})
	g.must(err)
	if len(notices) != 1 || notices[0].Title != "Claude Ops: s00 and 29 more are flapping" {
		t.Errorf("told %+v", notices)
	}
}
