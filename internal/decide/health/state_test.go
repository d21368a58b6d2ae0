package health

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"claudeops/internal/ops"
)

func start() time.Time { return time.Date(2026, 1, 31, 10, 0, 0, 0, time.UTC) }

// level reads one character of a timeline: . healthy, ~ degraded, x down, ? unknown.
func level(c rune) ops.Health {
	return map[rune]ops.Health{'.': ops.Healthy, '~': ops.Degraded, 'x': ops.Down, '?': ops.Unknown}[c]
}

// watch looks every 30 s and returns "second kind" for each change.
func watch(timeline string, t Thresholds) (ops.CheckState, []string) {
	var s ops.CheckState
	var told []string
	for i, c := range timeline {
		now := start().Add(time.Duration(i) * 30 * time.Second)
		var changes []Change
		s, changes = Observe(s, ops.Check{At: now, Service: "web", Probe: "GET", Status: level(c), Error: problem(level(c))}, t, now)
		for _, ch := range changes {
			told = append(told, fmt.Sprintf("%d %s", i, ch.Kind))
		}
	}
	return s, told
}

func problem(h ops.Health) string {
	if h == ops.Healthy {
		return ""
	}
	return "it is " + string(h)
}

func TestLevelsSettleAfterSeveralLooksInARow(t *testing.T) {
	twoThree := Thresholds{FailAfter: 2, RecoverAfter: 3}
	cases := []struct {
		name, timeline string
		thresholds     Thresholds
		want           string
		level          ops.Health
	}{
		{"one bad result does not count", "..x....", twoThree, "", ops.Healthy},
		{"two are a failure", "..xx", twoThree, "3 failed", ops.Down},
		{"two good ones are no recovery yet", "..xx..", twoThree, "3 failed", ops.Down},
		{"three are", "..xx...", twoThree, "3 failed 6 recovered", ops.Healthy},
		{"a relapse starts the count again", "xx..x...", twoThree, "1 failed 7 recovered", ops.Healthy},
		{"degraded", "..~~", twoThree, "3 failed", ops.Degraded},
		{"mixed looks are degraded", "..x~", twoThree, "3 failed", ops.Degraded},
		{"worse", "..~~xx", twoThree, "3 failed 5 worsened", ops.Down},
		{"better, but not good", "xx~~~", twoThree, "1 failed 4 eased", ops.Degraded},
		{"better, then good", "xx~~~...", twoThree, "1 failed 4 eased 7 recovered", ops.Healthy},
		{"bad from the start", "xx", twoThree, "1 failed", ops.Down},
		{"first look is good", ".", twoThree, "", ops.Healthy},
		{"first look is bad", "x", twoThree, "", ""},
		{"at once", ".x.", Thresholds{FailAfter: 1, RecoverAfter: 1}, "1 failed 2 recovered", ops.Healthy},
		{"defaults", ".xx..", Thresholds{}, "2 failed 4 recovered", ops.Healthy},
		{"an unknown look is not a failure", "..???????", twoThree, "", ops.Healthy},
		{"what was never known stays so", "???", twoThree, "", ""},
		{"it ends no failure", "..xx?????", twoThree, "3 failed", ops.Down},
		{"it does not interrupt one", "..x???x", twoThree, "6 failed", ops.Down},
		{"nor a recovery", "..xx..??.", twoThree, "3 failed 8 recovered", ops.Healthy},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			s, told := watch(c.timeline, c.thresholds)
			if got := strings.Join(told, " "); got != c.want || s.Level != c.level {
				t.Errorf("got %q and %q, want %q and %q", got, s.Level, c.want, c.level)
			}
		})
	}
}

func TestAFailureBeginsWithItsFirstBadLook(t *testing.T) {
	s, _ := watch("..x.xx.x", Thresholds{})
	if want := start().Add(2 * time.Minute); !s.Began.Equal(want) {
		t.Errorf("began %s, want %s", s.Began, want)
	}
	if want := start().Add(150 * time.Second); !s.Since.Equal(want) || s.Last.Error != "it is down" {
		t.Errorf("got %+v", s)
	}
	if s, _ = watch("..xx..", Thresholds{}); !s.Began.IsZero() || !s.Recovered.Equal(start().Add(150*time.Second)) {
		t.Errorf("got %+v", s)
	}
}

func TestFlappingBeginsAndEnds(t *testing.T) {
	thresholds := Thresholds{Flapping: ops.Flapping{Turns: 4, Window: 5 * time.Minute, Calm: 2 * time.Minute}}
	for _, c := range []struct{ timeline, want string }{
		{".x.x.", "4 flap_began"},
		{".x.x.x.x.x", "4 flap_began 9 failed"},
		{".x.x.....", "4 flap_began 8 flap_ended"},
		{".x.xxxxxx", "4 failed"},
		{".x.x.xxxxxx", "4 flap_began 6 failed 9 flap_ended"},
		{".x.x.x.........x.x.x", "4 flap_began 10 flap_ended 15 failed 18 flap_began"},
		{".x.........x.........x..", ""},
	} {
		if _, told := watch(c.timeline, thresholds); strings.Join(told, " ") != c.want {
			t.Errorf("%s: got %q, want %q", c.timeline, told, c.want)
		}
	}
	if _, told := watch(strings.Repeat(".x", 50), Thresholds{Flapping: ops.Flapping{Turns: -1}}); strings.Join(told, " ") != "9 failed" {
		t.Errorf("got %q", told)
	}
}

func TestOldLooksAndClockJumps(t *testing.T) {
	look := func(at time.Time, h ops.Health) ops.Check { return ops.Check{At: at, Service: "web", Status: h} }
	now := start()
	s, _ := Observe(ops.CheckState{}, look(now, ops.Healthy), Thresholds{}, now)
	same, changes := Observe(s, look(now, ops.Down), Thresholds{}, now.Add(time.Second))
	if !reflect.DeepEqual(same, s) || changes != nil {
		t.Errorf("a look at the same time counted: %+v", same)
	}
	if same, _ = Observe(s, look(now.Add(-time.Minute), ops.Down), Thresholds{}, now); !reflect.DeepEqual(same, s) {
		t.Errorf("an old look counted: %+v", same)
	}
	future, _ := Observe(s, look(now.AddDate(1, 0, 0), ops.Down), Thresholds{}, now.Add(time.Minute))
	if !future.Last.At.Equal(now.Add(time.Minute)) || future.Bad != 1 {
		t.Errorf("got %+v", future)
	}
	back := now.AddDate(-1, 0, 0)
	if s, _ = Observe(s, look(back, ops.Down), Thresholds{}, back); s.Bad != 1 {
		t.Errorf("a look after the clock was set back did not count: %+v", s)
	}
}

func TestAStateSurvivesBeingStored(t *testing.T) {
	s, _ := watch(".x.x.x.xx~", Thresholds{})
	text, err := json.Marshal(s)
	must(t, err)
	var back ops.CheckState
	if err := json.Unmarshal(text, &back); err != nil || !reflect.DeepEqual(back, s) {
		t.Errorf("got %+v, want %+v (%v)", back, s, err)
	}
}

// TestSettlingFollowsTheLooks compares the state with the whole history of looks.
func TestSettlingFollowsTheLooks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		th := Thresholds{
			FailAfter: rapid.IntRange(1, 4).Draw(t, "fail"), RecoverAfter: rapid.IntRange(1, 4).Draw(t, "recover"),
			Flapping: ops.Flapping{Turns: rapid.IntRange(2, 6).Draw(t, "turns")},
		}
		looks := rapid.SliceOfN(rapid.SampledFrom([]ops.Health{ops.Healthy, ops.Degraded, ops.Down}), 1, 60).Draw(t, "looks")
		var s ops.CheckState
		kinds := []ChangeKind{}
		now := start()
		ending := func(upTo, n int, is func(ops.Health) bool) bool {
			for k := range n {
				if upTo-k < 0 || !is(looks[upTo-k]) {
					return false
				}
			}
			return true
		}
		for i, h := range looks {
			now = now.Add(30 * time.Second)
			before := s
			kept := slices.Concat(before.Changed, before.Lately.Failures)
			next, changes := Observe(s, ops.Check{At: now, Service: "web", Status: h}, th, now)
			if !slices.Equal(kept, slices.Concat(before.Changed, before.Lately.Failures)) {
				t.Fatal("an old state changed")
			}
			s = next
			for _, c := range changes {
				kinds = append(kinds, c.Kind)
				switch c.Kind {
				case Failed:
					if s.Lately.Unsteady == "" && !ending(i, th.FailAfter, func(h ops.Health) bool { return h != ops.Healthy }) {
						t.Fatalf("look %d: failed without %d bad looks: %v", i, th.FailAfter, looks)
					}
				case Recovered:
					if !ending(i, th.RecoverAfter, func(h ops.Health) bool { return h == ops.Healthy }) {
						t.Fatalf("look %d: recovered without %d good looks: %v", i, th.RecoverAfter, looks)
					}
				default:
				}
			}
			if ending(i, th.FailAfter, func(h ops.Health) bool { return h == ops.Down }) && s.Level != ops.Down {
				t.Fatalf("look %d: %q after %d down looks: %v", i, s.Level, th.FailAfter, looks)
			}
			if s.Lately.Unsteady == "" && ending(i, max(th.RecoverAfter, 1), func(h ops.Health) bool { return h == ops.Healthy }) && s.Level != ops.Healthy {
				t.Fatalf("look %d: %q after %d good looks: %v", i, s.Level, th.RecoverAfter, looks)
			}
			if len(s.Changed) > th.Flapping.Turns {
				t.Fatalf("%d changes are kept", len(s.Changed))
			}
			if len(s.Lately.Failures) > mostFailures || (s.Lately.Unsteady != "" && !s.Failing()) {
				t.Fatalf("lately: %+v", s)
			}
			if s.Failing() && s.Began.IsZero() {
				t.Fatal("bad without a beginning")
			}
		}
		bad := false // failures and recoveries alternate
		for _, k := range kinds {
			if (k == Failed && bad) || (k == Recovered && !bad) {
				t.Fatalf("changes do not alternate: %v", kinds)
			}
			if k == Failed || k == Recovered {
				bad = k == Failed
			}
		}
	})
}
