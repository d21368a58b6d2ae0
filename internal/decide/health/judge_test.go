package health

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"claudeops/internal/ops"
)

// ill is a state that settled on a level a while ago.
func ill(service string, h ops.Health, ago time.Duration) ops.CheckState {
	at := start().Add(-ago)
	return ops.CheckState{
		Service: service, Probe: "GET", Level: h, Since: at, Began: at.Add(-30 * time.Second), Bad: 2, Downs: 2, Calm: 10 * time.Minute,
		Last: ops.Check{Service: service, Probe: "GET", Status: h, At: at, Error: "connection refused"},
	}
}

func well(service string) ops.CheckState {
	return ops.CheckState{
		Service: service,
		Probe:   "GET",
		Level:   ops.Healthy,
		Since:   start().Add(-time.Hour),
		Good:    5,
		NotDown: 5,
		Last:    ops.Check{At: start()},
	}
}

func TestWhatIsHeldSaysWhy(t *testing.T) {
	flapping := ill("web", ops.Down, time.Minute)
	flapping.Flapping, flapping.Changed = true, []time.Time{start().Add(-time.Minute)}
	unsettled := well("db")
	unsettled.Bad, unsettled.Good = 1, 0
	better := well("db")
	better.Recovered = start().Add(-time.Minute)
	down := ill("web", ops.Down, time.Minute)
	needsDB := []ops.Service{{Name: "web", DependsOn: []string{"db"}}}
	cases := []struct {
		name string
		p    Picture
		want ops.Withheld
	}{
		{
			"flapping",
			Picture{States: []ops.CheckState{flapping}},
			ops.Withheld{Why: ops.HoldFlapping, Until: start().Add(9 * time.Minute), Reason: "web is flapping; it must be stable for 10 min first."},
		},
		{
			"silenced",
			Picture{
				States:   []ops.CheckState{down},
				Silences: []ops.Silence{{Service: "web", Until: start().Add(time.Hour), Reason: "Moving.", Author: "ann"}},
			},
			ops.Withheld{
				Why:    ops.HoldSilenced,
				Until:  start().Add(time.Hour + 30*time.Second),
				Reason: "web is down, but silenced until 11:00:00 UTC: Moving.",
			},
		},
		{
			"maintenance",
			Picture{States: []ops.CheckState{down}, Windows: []Window{{Maintenance: ops.Maintenance{Name: "sunday", Until: start().Add(time.Hour)}}}},
			ops.Withheld{
				Why:    ops.HoldMaintenance,
				Until:  start().Add(time.Hour + 30*time.Second),
				Reason: "web is down, but in maintenance until 11:00:00 UTC.",
			},
		},
		{
			"covered",
			Picture{States: []ops.CheckState{down}, Causes: []ops.Cause{{Key: "c1", Services: []string{"web"}, At: start()}}},
			ops.Withheld{Why: ops.HoldCovered, Reason: "web is down; a cycle was started for it at 10:00:00 UTC."},
		},
		{
			"dependency",
			Picture{States: []ops.CheckState{down, ill("db", ops.Degraded, time.Second)}, Services: needsDB},
			ops.Withheld{Why: ops.HoldDependency, Reason: "web is down; it depends on db, which is degraded."},
		},
		{
			"unsettled dependency",
			Picture{States: []ops.CheckState{down, unsettled}, Services: needsDB},
			ops.Withheld{Why: ops.HoldDependency, Reason: "web is down; it depends on db, which may be failing."},
		},
		{
			"recovered dependency",
			Picture{States: []ops.CheckState{down, better}, Services: needsDB},
			ops.Withheld{
				Why:    ops.HoldDependency,
				Until:  start().Add(time.Minute),
				Reason: "web is down; it depends on db, which has just recovered.",
			},
		},
		{
			"recent",
			Picture{States: []ops.CheckState{down}, Causes: []ops.Cause{{Key: "c1", Services: []string{"web"}, At: start().Add(-5 * time.Minute)}}},
			ops.Withheld{
				Why:    ops.HoldRecent,
				Until:  start().Add(5 * time.Minute),
				Reason: "web is down again; its last cycle was started at 09:55:00 UTC.",
			},
		},
		{
			"waiting",
			Picture{States: []ops.CheckState{ill("web", ops.Down, 10*time.Second)}},
			ops.Withheld{
				Why:    ops.HoldWaiting,
				Until:  start().Add(20 * time.Second),
				Reason: "web is down; other services may fail for the same cause until 10:00:20 UTC.",
			},
		},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			c.want.Service = "web"
			j := Judge(c.p, ops.Grouping{}, start())
			i := slices.IndexFunc(j.Held, func(h ops.Withheld) bool { return h.Service == "web" })
			if i < 0 || !reflect.DeepEqual(j.Held[i], c.want) {
				t.Fatalf("got %+v, want %+v", j.Held, c.want)
			}
			if len(j.Held) == 1 && !j.Next.Equal(c.want.Until) {
				t.Errorf("next is %s", j.Next)
			}
		})
	}
}

func TestOneLoudCheckIsEnough(t *testing.T) {
	silent, loud := ill("web", ops.Down, time.Minute), ill("web", ops.Degraded, time.Minute)
	silent.Probe = "tcp"
	p := Picture{States: []ops.CheckState{silent, loud}, Silences: []ops.Silence{{Probe: "tcp", Until: start().Add(time.Hour)}}}
	if j := Judge(p, ops.Grouping{}, start()); len(j.Causes) != 1 {
		t.Errorf("got %+v", j)
	}
	p.Silences[0].Probe = "*"
	if j := Judge(p, ops.Grouping{}, start()); len(j.Causes) != 0 {
		t.Errorf("got %+v", j)
	}
}

func TestACauseTellsWhatFailed(t *testing.T) {
	p := Picture{
		Environment: "home",
		States: []ops.CheckState{
			ill("web", ops.Down, 2*time.Minute),
			ill("db", ops.Down, time.Minute),
			ill("cache", ops.Degraded, time.Minute),
			well("doc"),
		},
		Services: []ops.Service{{Name: "web", DependsOn: []string{"db"}}},
	}
	j := Judge(p, ops.Grouping{}, start())
	if len(j.Causes) != 1 {
		t.Fatalf("got %+v", j)
	}
	c := j.Causes[0]
	if !slices.Equal(c.Services, []string{"cache", "db"}) || !slices.Equal(c.Affected, []string{"web"}) ||
		c.Level != ops.Down || len(c.Checks) != 3 ||
		!c.Began.Equal(start().Add(-90*time.Second)) ||
		len(c.Key) != 16 ||
		c.Reason != "cache is degraded: connection refused; 1 more failed with it; 1 depending on it." {
		t.Errorf("got %+v", c)
	}
}

func TestServicesThatNeedEachOtherFailTogether(t *testing.T) {
	p := Picture{
		States: []ops.CheckState{ill("a", ops.Down, 10*time.Minute), ill("b", ops.Down, time.Minute), ill("c", ops.Down, time.Minute)},
		Services: []ops.Service{
			{Name: "a", DependsOn: []string{"b"}},
			{Name: "b", DependsOn: []string{"a"}},
			{Name: "c", DependsOn: []string{"a"}},
		},
	}
	j := Judge(p, ops.Grouping{}, start())
	if len(j.Causes) != 2 || !slices.Equal(j.Causes[0].Services, []string{"a"}) || !slices.Equal(j.Causes[0].Affected, []string{"c"}) ||
		!slices.Equal(j.Causes[1].Services, []string{"b"}) || len(j.Held) != 1 {
		t.Errorf("got %+v", j)
	}
}

func TestADependentNamesWhatFailedOfItself(t *testing.T) {
	p := Picture{
		States:   []ops.CheckState{ill("web", ops.Down, time.Minute), ill("api", ops.Down, time.Minute), ill("db", ops.Down, time.Minute)},
		Services: []ops.Service{{Name: "web", DependsOn: []string{"api"}}, {Name: "api", DependsOn: []string{"db"}}},
	}
	for _, h := range Judge(p, ops.Grouping{}, start()).Held {
		if !strings.Contains(h.Reason, "it depends on db, ") {
			t.Errorf("got %+v", h)
		}
	}
}

func TestTheFirstToFailSetsTheTime(t *testing.T) {
	early, late := ill("web", ops.Down, 45*time.Second), ill("web", ops.Down, 5*time.Second)
	early.Probe, late.Probe = "z", "a"
	if j := Judge(
		Picture{States: []ops.CheckState{late, early}},
		ops.Grouping{},
		start(),
	); len(j.Causes) != 1 ||
		!j.Causes[0].Began.Equal(start().Add(-75*time.Second)) {
		t.Errorf("got %+v", j)
	}
	slow, quick := ill("a", ops.Down, 10*time.Second), ill("b", ops.Down, 35*time.Second)
	slow.Began = quick.Began.Add(-time.Second) // it began first and settled last
	if j := Judge(Picture{States: []ops.CheckState{slow, quick}}, ops.Grouping{}, start()); len(j.Causes) != 1 || len(j.Causes[0].Services) != 2 {
		t.Errorf("got %+v", j)
	}
}

func TestTheLastCycleOfAServiceCounts(t *testing.T) {
	old, last := ops.Cause{
		Key:      "old",
		Services: []string{"web"},
		At:       start().Add(-2 * time.Hour),
	}, ops.Cause{
		Key:      "last",
		Services: []string{"web"},
		At:       start().Add(-10 * time.Minute),
	}
	for _, open := range [][]ops.Cause{{old, last}, {last, old}} {
		p := Picture{States: []ops.CheckState{ill("web", ops.Down, 3*time.Hour)}, Causes: open}
		if j := Judge(
			p,
			ops.Grouping{Repeat: time.Hour},
			start(),
		); len(j.Held) != 1 || !strings.HasSuffix(j.Held[0].Reason, " at 09:50:00 UTC.") ||
			!j.Next.Equal(start().Add(50*time.Minute)) {
			t.Errorf("got %+v", j)
		}
	}
}

// A cause that counts as over while its service is still bad covers it no longer; the service waits for the pause, counted from that time.
func TestACauseThatWasReleasedStartsAnotherCycleAfterThePause(t *testing.T) {
	at, over := start().Add(-2*time.Hour), start().Add(-4*time.Minute)
	released := ops.Cause{Services: []string{"web"}, At: at, Cycle: 7, ResolvedAt: &over}
	p := Picture{States: []ops.CheckState{ill("web", ops.Down, 3*time.Hour)}, Causes: []ops.Cause{released}}
	j := Judge(p, ops.Grouping{}, start())
	if len(j.Held) != 1 || j.Held[0].Why != ops.HoldRecent || !j.Held[0].Until.Equal(over.Add(10*time.Minute)) ||
		j.Held[0].Reason != "web is still down; its last problem was closed at 09:56:00 UTC." {
		t.Errorf("before the end of the pause: %+v", j)
	}
	if j := Judge(p, ops.Grouping{}, over.Add(10*time.Minute)); len(j.Causes) != 1 {
		t.Errorf("after it: %+v", j)
	}
	// One that failed again later is held by the start of its last cycle only, which is long ago.
	p.States = []ops.CheckState{ill("web", ops.Down, time.Minute)}
	if j := Judge(p, ops.Grouping{}, start()); len(j.Causes) != 1 {
		t.Errorf("failed again: %+v", j)
	}
}

// A service was silenced when the cycle of its neighbour was started: that cycle does not care for it, and once the silence is over it gets
// one of its own. What fails later joins the cycle.
func TestACycleCoversWhatFailedAfterItsStartOnly(t *testing.T) {
	cause := ops.Cause{Key: "c1", Group: "home", Services: []string{"db"}, At: start().Add(-5 * time.Minute), Began: start().Add(-6 * time.Minute), Takes: true}
	db, before, after := ill("db", ops.Down, 6*time.Minute), ill("web", ops.Down, 6*time.Minute), ill("api", ops.Down, 4*time.Minute)
	j := Judge(Picture{
		Services: []ops.Service{{Name: "db", Group: "home"}, {Name: "web", Group: "home"}, {Name: "api", Group: "home"}},
		States:   []ops.CheckState{db, before, after}, Causes: []ops.Cause{cause},
	}, ops.Grouping{}, start())
	if len(j.Causes) != 1 || !slices.Equal(j.Causes[0].Services, []string{"web"}) {
		t.Errorf("causes %+v", j.Causes)
	}
	if len(j.Held) != 2 || j.Held[0].Why != ops.HoldCovered || j.Held[1].Why != ops.HoldCovered {
		t.Errorf("held %+v", j.Held)
	}
}

func TestACoveredServiceNamesItsCycleUnlessItWaitsForAnother(t *testing.T) {
	p := Picture{
		States: []ops.CheckState{ill("web", ops.Down, time.Minute)}, Services: []ops.Service{{Name: "web", DependsOn: []string{"db"}}, {Name: "db"}},
		Causes: []ops.Cause{{Services: []string{"web"}, At: start(), Cycle: 7}},
	}
	if j := Judge(p, ops.Grouping{}, start()); len(j.Held) != 1 || j.Held[0].Cycle != 7 {
		t.Errorf("got %+v", j)
	}
	p.States = append(p.States, ill("db", ops.Down, time.Minute))
	if j := Judge(p, ops.Grouping{}, start()); len(j.Held) != 1 || j.Held[0].Why != ops.HoldCovered || j.Held[0].Cycle != 0 {
		t.Errorf("got %+v", j)
	}
}

func TestACheckIsInhibitedOnItsOwn(t *testing.T) {
	p := Picture{
		Services: []ops.Service{{Name: "web", Group: "shop"}},
		Silences: []ops.Silence{{Service: "web", Probe: "alert*", Until: start().Add(time.Hour)}},
		Windows:  []Window{{Maintenance: ops.Maintenance{Group: "home", Until: start().Add(time.Hour)}}},
	}
	inhibited := Inhibited(p, ops.Grouping{}, start())
	for probe, want := range map[string]bool{"alert Down 01": true, "GET": false} {
		s := ill("web", ops.Down, time.Minute)
		s.Probe = probe
		if got := inhibited(s); got != want {
			t.Errorf("%s: %t", probe, got)
		}
	}
}

func TestServicesAreValidated(t *testing.T) {
	for _, c := range []struct {
		services []ops.Service
		problem  string
	}{
		{[]ops.Service{{Name: "a", DependsOn: []string{"b", "c"}}, {Name: "b", DependsOn: []string{"c"}}, {Name: "c"}}, ""},
		{[]ops.Service{{Name: "a", DependsOn: []string{"b"}}}, "service a depends on b, which is not configured"},
		{[]ops.Service{{Name: "a", DependsOn: []string{"a"}}}, "services depend on each other: a → a"},
		{
			[]ops.Service{{Name: "a", DependsOn: []string{"b"}}, {Name: "b", DependsOn: []string{"c"}}, {Name: "c", DependsOn: []string{"a"}}},
			"services depend on each other: a → b → c → a",
		},
	} {
		if err := ValidateServices(c.services); (err == nil) != (c.problem == "") || (err != nil && err.Error() != c.problem) {
			t.Errorf("got %v, want %q", err, c.problem)
		}
	}
}

// anyPicture draws an environment in which anything may be wrong, circles of dependencies included.
func anyPicture(t *rapid.T) Picture {
	p := Picture{Environment: "home"}
	names := make([]string, rapid.IntRange(1, 8).Draw(t, "services"))
	for i := range names {
		names[i] = fmt.Sprintf("s%d", i)
	}
	some := rapid.SampledFrom(names)
	seconds := func(name string, low, top int) time.Duration {
		return time.Duration(rapid.IntRange(low, top).Draw(t, name)) * time.Second
	}
	for _, name := range names { // circles of dependencies must come up often
		p.Services = append(p.Services, ops.Service{
			Name: name, Group: rapid.SampledFrom([]string{"", "", "g"}).Draw(t, "group"),
			DependsOn: rapid.SliceOfN(some, 1, 2).Draw(t, "needs")[rapid.IntRange(0, 1).Draw(t, "fewer"):],
		})
		for probe := range rapid.IntRange(0, 2).Draw(t, "checks") {
			s := well(name)
			if rapid.Bool().Draw(t, "bad") {
				s = ill(name, rapid.SampledFrom([]ops.Health{ops.Down, ops.Degraded}).Draw(t, "level"), seconds("ago", 0, 1200))
			}
			s.Probe = fmt.Sprint(probe)
			if rapid.IntRange(0, 4).Draw(t, "flaps") == 0 {
				s.Flapping, s.Changed = true, []time.Time{start().Add(-seconds("changed", 0, 1200))}
			}
			if rapid.IntRange(0, 4).Draw(t, "recovered") == 0 {
				s.Recovered = start().Add(-seconds("recovery", 0, 300))
			}
			p.States = append(p.States, s)
		}
	}
	for range rapid.IntRange(0, 2).Draw(t, "silences") {
		p.Silences = append(p.Silences, ops.Silence{
			Service: some.Draw(t, "silenced"), From: start().Add(-seconds("from", 0, 100)), Until: start().Add(seconds("until", -90, 90)),
		})
	}
	for range rapid.IntRange(0, 1).Draw(t, "windows") {
		p.Windows = append(p.Windows, Window{Maintenance: ops.Maintenance{
			Service: some.Draw(t, "maintained"), From: start().Add(-seconds("from", 0, 100)), Until: start().Add(seconds("until", -90, 90)),
		}})
	}
	for i := range rapid.IntRange(0, 2).Draw(t, "open") {
		at := start().Add(-seconds("opened", 0, 1200))
		p.Causes = append(
			p.Causes,
			ops.Cause{Key: fmt.Sprint(i), Services: rapid.SliceOfN(some, 1, 2).Draw(t, "members"), At: at, Began: at.Add(-time.Minute)},
		)
	}
	return p
}

func TestEveryBadServiceIsAccountedForOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := anyPicture(t)
		j := Judge(p, ops.Grouping{}, start())
		count := map[string]int{}
		held := map[string]ops.HoldReason{}
		for _, c := range j.Causes {
			for _, s := range c.Services {
				count[s]++
			}
		}
		for _, h := range j.Held {
			count[h.Service]++
			held[h.Service] = h.Why
			if h.Reason == "" || (!h.Until.IsZero() && !h.Until.After(start())) {
				t.Fatalf("held for no reason: %+v", h)
			}
		}
		for _, c := range j.Causes {
			for _, s := range c.Affected {
				if held[s] == "" {
					t.Fatalf("%s is affected and not held: %+v", s, j)
				}
			}
		}
		for _, s := range p.States {
			bad := slices.ContainsFunc(p.States, func(o ops.CheckState) bool { return o.Service == s.Service && o.Failing() })
			if want := map[bool]int{true: 1}[bad]; count[s.Service] != want {
				t.Fatalf("%s is accounted for %d times, want %d: %+v", s.Service, count[s.Service], want, j)
			}
		}
	})
}

func TestTheOrderDoesNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := anyPicture(t)
		want := Judge(p, ops.Grouping{}, start())
		random := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		random.Shuffle(len(p.States), func(i, j int) { p.States[i], p.States[j] = p.States[j], p.States[i] })
		random.Shuffle(len(p.Services), func(i, j int) { p.Services[i], p.Services[j] = p.Services[j], p.Services[i] })
		if got := Judge(p, ops.Grouping{}, start()); !reflect.DeepEqual(got, want) {
			t.Fatalf("got %+v, want %+v", got, want)
		}
	})
}

func TestAStartedCauseDoesNotStartAgain(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := anyPicture(t)
		for _, c := range Judge(p, ops.Grouping{}, start()).Causes {
			p.Causes = append(p.Causes, c.opened(start()))
		}
		if j := Judge(p, ops.Grouping{}, start()); len(j.Causes) != 0 {
			t.Fatalf("started twice: %+v", j.Causes)
		}
	})
}

// TestNothingBadIsForgotten lets time pass over a picture that does not change: what holds a service back
// must end, except for an operator, a cause that has its cycle, or a bad dependency that starts a cycle itself.
func TestNothingBadIsForgotten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := anyPicture(t)
		p.Causes = nil
		j := Judge(p, ops.Grouping{}, start().Add(24*time.Hour))
		started := map[string]bool{}
		for _, c := range j.Causes {
			for _, s := range slices.Concat(c.Services, c.Affected) {
				started[s] = true
			}
		}
		for _, h := range j.Held {
			if !started[h.Service] {
				t.Fatalf("%s is held without end: %+v", h.Service, h)
			}
		}
	})
}

func TestResolvedCausesAreNamed(t *testing.T) {
	p := Picture{
		States: []ops.CheckState{ill("a", ops.Down, time.Hour), well("b"), well("c")},
		Causes: []ops.Cause{
			{Key: "1", Services: []string{"a", "b"}},
			{Key: "2", Services: []string{"b", "c"}},
			{Key: "3", Services: []string{"gone"}},
		},
	}
	var ids []string
	for _, o := range Resolved(p) {
		ids = append(ids, o.Key)
	}
	if strings.Join(ids, " ") != "2 3" {
		t.Errorf("got %v", ids)
	}
}

// opened is the cause after its cycle was started.
func (c NewCause) opened(at time.Time) ops.Cause {
	out := c.Cause
	out.At, out.Takes = at, true
	return out
}
