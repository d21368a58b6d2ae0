package health

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"claudeops/internal/ops"
)

// every30 is the time of a look.
func every30(look int) time.Time { return start().Add(time.Duration(look) * 30 * time.Second) }

// on goes on with a state, from a look on.
func on(s ops.CheckState, from int, timeline string, t Thresholds) (ops.CheckState, []string) {
	var told []string
	for i, c := range timeline {
		now := every30(from + i)
		var changes []Change
		s, changes = Observe(s, ops.Check{At: now, Service: "web", Probe: "GET", Status: level(c), Error: problem(level(c))}, t, now)
		for _, ch := range changes {
			told = append(told, string(ch.Kind)+": "+ch.Reason)
		}
	}
	return s, told
}

func TestACheckThatKeepsFailingNowAndThenIsDegraded(t *testing.T) {
	quiet := Thresholds{Flapping: ops.Flapping{Turns: -1}}
	s, told := on(ops.CheckState{}, 0, "....x....x....x", quiet)
	want := "failed: web is degraded: it failed 3 times within 5m0s, last with it is down."
	if len(told) != 1 || told[0] != want || s.Level != ops.Degraded || !s.Began.Equal(every30(4)) {
		t.Fatalf("told %q, and it is %+v", told, s)
	}
	s, told = on(s, 15, "....", quiet)
	if found := s.Finding(ops.Down); len(told) != 0 || found.Status != ops.Down || !strings.HasPrefix(found.Error, "it failed 3 times") {
		t.Errorf("told %q, found %+v", told, found)
	}
	if got := Explain(s); got != "counts as recovered at 10:17:00 UTC if it stays good until then" {
		t.Errorf("explained as %q", got)
	}
	text, err := json.Marshal(s.Lately)
	if err != nil || len(text) > 350 {
		t.Errorf("%d bytes are kept: %s, %v", len(text), text, err)
	}
	s, told = on(s, 19, strings.Repeat(".", 30), quiet)
	if len(told) != 1 || !strings.HasPrefix(told[0], "recovered: ") || s.Level != ops.Healthy || s.Lately.Unsteady != "" || len(s.Lately.Failures) != 0 {
		t.Errorf("told %q, and it is %+v", told, s)
	}
}

// Bad results in a row are one failure: an operator who waits for five of them does not want a cycle after three.
func TestAStumbleOfSeveralChecksIsOneFailure(t *testing.T) {
	patient := Thresholds{FailAfter: 5, Flapping: ops.Flapping{Turns: -1}}
	if s, told := on(ops.CheckState{}, 0, "..........xxxx......", patient); len(told) != 0 || len(s.Lately.Failures) != 1 {
		t.Errorf("told %q, and it is %+v", told, s)
	}
	if s, told := on(ops.CheckState{}, 0, "....xx....xxx....x", patient); len(told) != 1 || s.Level != ops.Degraded {
		t.Errorf("told %q, and it is %+v", told, s)
	}
}

func TestARestartOnPurposeBeginsAgain(t *testing.T) {
	quiet := Thresholds{Flapping: ops.Flapping{Turns: -1}}
	s, _ := on(ops.CheckState{}, 0, "....x....x..", quiet)
	if !MindsRestarts(s) {
		t.Error("nobody asks whether it was restarted")
	}
	kept := slices.Clone(s.Lately.Failures)
	again := Restarted(s, every30(11))
	if !slices.Equal(kept, s.Lately.Failures) || len(again.Lately.Failures) != 0 || again.Lately.Checks != 0 {
		t.Errorf("was %+v, is %+v", s.Lately, again.Lately)
	}
	if same := Restarted(again, every30(11)); same.Lately.Checks != 0 || !same.Lately.From.Equal(every30(11)) {
		t.Errorf("is %+v", same.Lately)
	}
	if s, told := on(again, 12, "..x....x........", quiet); len(told) != 0 || Restarted(s, every30(11)).Lately.Checks != leastChecks {
		t.Errorf("told %q, and it is %+v: an old restart counts again", told, s)
	}
	// One that is degraded recovers as soon as it works again.
	s, _ = on(ops.CheckState{}, 0, "....x....x....x...", quiet)
	s, told := on(Restarted(s, every30(17)), 18, "..", quiet)
	if len(told) != 1 || !strings.HasPrefix(told[0], "recovered") || s.Level != ops.Healthy {
		t.Errorf("told %q, and it is %+v", told, s)
	}
}

func TestTheStartOfTheWatchBeginsAgainButEndsNoProblem(t *testing.T) {
	quiet := Thresholds{Flapping: ops.Flapping{Turns: -1}}
	s, _ := on(ops.CheckState{}, 0, "....x....x..", quiet)
	if _, told := on(Begun(s, every30(11)), 12, "..x........", quiet); len(told) != 0 {
		t.Errorf("told %q", told)
	}
	s, _ = on(ops.CheckState{}, 0, "....x....x....x..", quiet)
	if s, told := on(Begun(s, every30(16)), 17, "....", quiet); len(told) != 0 || s.Level != ops.Degraded {
		t.Errorf("told %q, and it is %+v", told, s)
	}
}

func TestOnlyTheWatchCountsWhatFailedLately(t *testing.T) {
	s, _ := on(ops.CheckState{}, 0, "....x....x....", Thresholds{})
	own := []ops.Check{probed("web", ops.Down), probed("web", ops.Healthy), probed("web", ops.Down), probed("web", ops.Healthy)}
	limits := func(ops.Check) Thresholds { return Thresholds{} }
	if got := apply([]ops.CheckState{s}, limits, own)[0]; got.Failing() || len(got.Lately.Failures) != 2 {
		t.Errorf("the probes of a cycle count: %+v", got)
	}
	if n := MoreToFail(slices.Repeat(own, 8), limits); n != 0 {
		t.Errorf("%d more to fail", n)
	}
}

// container looks at a container every 30 s; each character is a look: . it is the one of the look before, s it was started again by
// somebody, n it is a new one, ? the engine does not answer; a digit is how often the engine has restarted it.
func container(s ops.CheckState, from int, timeline string, t Thresholds) (ops.CheckState, []string) {
	var told []string
	running := s.Last.Instance
	if running.ID == "" {
		running = ops.Instance{ID: "a", Started: start()}
	}
	for i, c := range timeline {
		now := every30(from + i)
		r := ops.Check{At: now, Service: "web", Probe: "container", Status: ops.Healthy}
		switch c {
		case 's':
			running.Started = now
		case 'n':
			running = ops.Instance{ID: running.ID + "a", Started: now}
		case '?':
			r.Status = ops.Down
		default:
			if c >= '0' && c <= '9' {
				running.Restarts = int(c - '0')
			}
		}
		if c != '?' {
			r.Instance = running
		}
		var changes []Change
		s, changes = Observe(s, r, t, now)
		for _, ch := range changes {
			told = append(told, string(ch.Kind)+": "+ch.Reason)
		}
	}
	return s, told
}

func TestTwoRestartsOfAContainerAreDegraded(t *testing.T) {
	const twice = "failed: web is degraded: its container was restarted 2 times within 10m0s."
	for _, c := range []struct {
		name, timeline string
		limits         Thresholds
		want           string
	}{
		{"it runs", "....................", Thresholds{}, ""},
		{"one restart", "..........s.........", Thresholds{}, ""},
		{"two restarts", "..........s....s", Thresholds{}, twice},
		{"the engine restarted it twice between two looks", "..........2", Thresholds{}, twice},
		{"the engine does not answer in between", "..........s.?.s", Thresholds{}, twice},
		{"far apart", "..........s...................s.....", Thresholds{}, ""},
		{"each is a new container", "..........n....n....n", Thresholds{}, ""},
		{"too few checks yet", "..s.s.", Thresholds{}, ""},
		{"they count when there are enough", "..s.s.....", Thresholds{}, twice},
	} {
		s, told := container(ops.CheckState{}, 0, c.timeline, c.limits)
		if got := strings.Join(told, "; "); got != c.want {
			t.Errorf("%s: told %q, want %q", c.name, got, c.want)
		}
		if c.want == "" {
			continue
		}
		if _, told := container(s, len(c.timeline), strings.Repeat(".", 21), c.limits); len(told) != 1 || !strings.HasPrefix(told[0], "recovered") {
			t.Errorf("%s: told %q ten minutes later", c.name, told)
		}
	}
	// A restart by us and the one that it causes are none.
	s, _ := container(ops.CheckState{}, 0, "..........s...", Thresholds{})
	if _, told := container(Restarted(s, every30(13)), 14, "s.........s....", Thresholds{}); len(told) != 0 {
		t.Errorf("told %q", told)
	}
}

// A container that always dies is restarted by an agent again and again, so it recovers for moments. It flaps all the time: after its one
// cycle a person is told.
func TestAFlappingServiceGetsOneCycleThenAPerson(t *testing.T) {
	p := Picture{Environment: "home"}
	var s ops.CheckState
	var cycles, told []string
	for i := range 120 {
		now := every30(i)
		status := ops.Healthy
		if i%4 == 3 {
			status = ops.Down
		}
		if i == 20 {
			s = Restarted(s, now) // by the agent of its cycle
		}
		s, _ = Observe(s, ops.Check{At: now, Service: "web", Probe: "GET", Status: status}, Thresholds{}, now)
		p.States = []ops.CheckState{s}
		j := Judge(p, ops.Grouping{}, now)
		for _, c := range j.Causes {
			cycles = append(cycles, since(now))
			p.Causes = append(p.Causes, c.opened(now))
		}
		for _, f := range j.Flapping {
			if at := since(now) + " " + f.Service + " since " + since(f.Since); len(told) == 0 || !strings.HasSuffix(told[len(told)-1], since(f.Since)) {
				told = append(told, at)
			}
		}
	}
	if strings.Join(cycles, " ") != "6m0s" || len(told) != 1 || !strings.HasSuffix(told[0], "web since 1m30s") {
		t.Errorf("cycles at %v, told %q", cycles, told)
	}
}

func TestWhoFlapsAndIsNotToldOf(t *testing.T) {
	flaps := func(name string) ops.CheckState {
		s := well(name)
		s.Flapping, s.Flapped, s.Calm = true, start().Add(-20*time.Minute), 10*time.Minute
		s.Changed, s.Lately.Checks = []time.Time{start().Add(-time.Minute)}, leastChecks
		return s
	}
	young, told := flaps("web"), flaps("web")
	young.Lately.Checks, told.Notified = 3, true
	down := ill("web", ops.Down, time.Hour)
	down.Flapping, down.Flapped, down.Calm, down.Changed = true, start().Add(-20*time.Minute), 10*time.Minute, []time.Time{start().Add(-time.Minute)}
	needsDB := []ops.Service{{Name: "web", DependsOn: []string{"db"}}, {Name: "db"}}
	for _, c := range []struct {
		name string
		p    Picture
		want bool
	}{
		{"good at the moment", Picture{States: []ops.CheckState{flaps("web")}}, true},
		{"failing", Picture{States: []ops.CheckState{down}}, true},
		{"failing, and another check starts a cycle", Picture{States: []ops.CheckState{down, ill("web", ops.Down, time.Hour)}}, false},
		{"it may turn out to be degraded", Picture{States: []ops.CheckState{young}}, false},
		{"told already", Picture{States: []ops.CheckState{flaps("web"), told}}, false},
		{"silenced", Picture{
			States:   []ops.CheckState{flaps("web")},
			Silences: []ops.Silence{{Service: "web", Until: start().Add(time.Hour)}},
		}, false},
		{"in maintenance", Picture{
			States: []ops.CheckState{flaps("web")}, Windows: []Window{{Maintenance: ops.Maintenance{Until: start().Add(time.Hour)}}},
		}, false},
		{"because of another", Picture{States: []ops.CheckState{flaps("web"), ill("db", ops.Down, time.Hour)}, Services: needsDB}, false},
	} {
		got := Judge(c.p, ops.Grouping{}, start()).Flapping
		if (len(got) == 1 && got[0].Service == "web") != c.want || len(got) > 1 {
			t.Errorf("%s: got %+v", c.name, got)
		}
	}
}
