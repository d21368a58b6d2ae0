package recovery

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

func ends(minutes ...float64) []time.Time {
	var out []time.Time
	for _, m := range minutes {
		out = append(out, noon.Add(time.Duration(m*float64(time.Minute))))
	}
	return out
}

func TestBrake(t *testing.T) {
	for _, c := range []struct {
		name  string
		ends  []time.Time
		now   float64
		delay time.Duration
		stop  bool
	}{
		{"nothing happened", nil, 0, 0, false},
		{"once", ends(0), 0, 30 * time.Second, false},
		{"part of the wait is over", ends(0), 0.25, 15 * time.Second, false},
		{"all of the wait is over", ends(0), 0.5, 0, false},
		{"twice", ends(0, 1), 1, time.Minute, false},
		{"in any order", ends(1, 0), 1, time.Minute, false},
		{"three times", ends(0, 1, 3), 3, 2 * time.Minute, false},
		{"four times", ends(0, 1, 3, 7), 7, 4 * time.Minute, false},
		{"five times in 15 minutes", ends(0, 1, 3, 7, 15), 15, 30 * time.Minute, true},
		{"five times in more than 15 minutes", ends(0, 1, 3, 7, 16), 16, 8 * time.Minute, false},
		{"never more than ten minutes", ends(0, 10, 20, 30, 40, 50, 60), 60, 10 * time.Minute, false},
		{"stopped, and still within the half hour", ends(0, 1, 2, 3, 4), 33, time.Minute, true},
		{"stable for half an hour", ends(0, 1, 2, 3, 4), 34, 0, false},
		{"hourly failures are no crash loop", ends(0, 60, 120, 180), 180, 30 * time.Second, false},
		{"an earlier streak is forgotten", ends(0, 1, 2, 3, 4, 40), 40, 30 * time.Second, false},
		{"a clock set back", ends(10), 0, 30 * time.Second, false},
	} {
		delay, stop, reason := Brake(c.ends, noon.Add(time.Duration(c.now*float64(time.Minute))))
		if delay != c.delay || stop != c.stop || (reason == "") != (delay == 0) {
			t.Errorf("%s: %s, %v (%s), want %s, %v", c.name, delay, stop, reason, c.delay, c.stop)
		}
	}
}

func TestBrake_NeverHoldsLongerThanItsStableTime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var list []time.Time
		for _, s := range rapid.SliceOfN(rapid.IntRange(-7200, 7200), 0, 40).Draw(t, "ends") {
			list = append(list, noon.Add(time.Duration(s)*time.Second))
		}
		delay, stop, _ := Brake(list, noon)
		if delay < 0 || delay > brakeStable || stop && delay == 0 || !stop && delay > brakeMost {
			t.Fatalf("delay %s, stop %v", delay, stop)
		}
	})
}
