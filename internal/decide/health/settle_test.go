package health

import (
	"testing"
	"time"

	"claudeops/internal/ops"
)

func TestTheTimeOfAStartIsLearned(t *testing.T) {
	at := func(seconds int, probe string, h ops.Health) ops.Check {
		return ops.Check{At: start().Add(time.Duration(seconds) * time.Second), Service: "web", Probe: probe, Status: h}
	}
	for _, c := range []struct {
		name    string
		results []ops.Check
		want    time.Duration
		known   bool
	}{
		{"nothing is known", nil, 0, false},
		{"it never failed", []ops.Check{at(10, "a", ops.Healthy)}, 0, false},
		{"it never recovered", []ops.Check{at(10, "a", ops.Down)}, 0, false},
		{"it recovered", []ops.Check{at(10, "a", ops.Down), at(45, "a", ops.Healthy)}, 45 * time.Second, true},
		{"all probes count", []ops.Check{
			at(5, "b", ops.Down), at(10, "a", ops.Down), at(45, "a", ops.Healthy), at(60, "b", ops.Healthy),
		}, time.Minute, true},
		{"degraded is not recovered", []ops.Check{
			at(10, "a", ops.Down), at(20, "a", ops.Degraded), at(50, "a", ops.Healthy),
		}, 50 * time.Second, true},
		{"what was before the start does not count", []ops.Check{at(-30, "a", ops.Down), at(5, "a", ops.Healthy)}, 0, false},
	} {
		if got, known := (Rules{}).StartTime(start(), c.results); got != c.want || known != c.known {
			t.Errorf("%s: got %s %t", c.name, got, known)
		}
	}
}

func TestTheSettleTimeIsConfiguredOrLearnedAndBounded(t *testing.T) {
	const bound = 2 * time.Minute
	for _, c := range []struct {
		configured time.Duration
		starts     []time.Duration
		want       time.Duration
	}{
		{0, nil, bound},
		{time.Minute, []time.Duration{time.Hour}, time.Minute},
		{time.Hour, nil, bound},
		{0, []time.Duration{20 * time.Second, 40 * time.Second, 30 * time.Second}, time.Minute},
		{0, []time.Duration{time.Second}, 10 * time.Second},
		{0, []time.Duration{10 * time.Minute}, bound},
	} {
		if got := SettleTime(c.configured, c.starts, bound); got != c.want {
			t.Errorf("%s and %v: got %s, want %s", c.configured, c.starts, got, c.want)
		}
	}
	if got := SettleTime(0, []time.Duration{time.Minute}, 0); got != 0 {
		t.Errorf("without a bound there is nothing to wait for: %s", got)
	}
}

func TestADependentIsInGraceAfterItsDependencyRecovered(t *testing.T) {
	services := []ops.Service{
		{Name: "web", DependsOn: []string{"api"}},
		{Name: "api", DependsOn: []string{"db"}},
		{Name: "a", DependsOn: []string{"b"}},
		{Name: "b", DependsOn: []string{"a"}},
	}
	recovered := map[string]time.Time{"db": start(), "b": start(), "web": start()}
	for _, c := range []struct {
		service string
		after   time.Duration
		want    string
	}{
		{"api", 0, "db"},
		{"web", time.Minute, "db"},
		{"web", 2 * time.Minute, ""},
		{"db", 0, ""},
		{"a", 0, ""}, // those that need each other fail together
		{"other", 0, ""},
	} {
		got, until, in := InGrace(services, ops.Grouping{}, c.service, recovered, start().Add(c.after))
		if got != c.want || in != (c.want != "") || (in && !until.Equal(start().Add(2*time.Minute))) {
			t.Errorf("%s after %s: got %q until %s", c.service, c.after, got, until)
		}
	}
	if _, _, in := InGrace(services, ops.Grouping{Grace: time.Hour}, "api", recovered, start().Add(59*time.Minute)); !in {
		t.Error("the configured grace does not count")
	}
}

func TestAServiceMustStayGoodLongerThanBetweenItsFailures(t *testing.T) {
	begun := time.Date(2026, 11, 16, 4, 0, 0, 0, time.UTC)
	results := func(probe string, seconds ...int) (out []ops.Check) {
		for i, s := range seconds {
			status := ops.Down
			if i%2 == 1 {
				status = ops.Healthy
			}
			out = append(out, ops.Check{Probe: probe, Status: status, At: begun.Add(time.Duration(s) * time.Second)})
		}
		return out
	}
	for name, c := range map[string]struct {
		results []ops.Check
		want    time.Duration
	}{
		"nothing is known":             {nil, 0},
		"it failed once":               {results("a", 0, 10), 0},
		"it was up for four seconds":   {results("a", 0, 10, 14, 20), 6 * time.Second},
		"the longest counts":           {results("a", 0, 10, 12, 20, 28, 30), 12 * time.Second},
		"it really recovered":          {results("a", 0, 10, 200, 210), 0},
		"at most the bound":            {results("a", 0, 10, 60, 70), time.Minute},
		"each probe has its own times": {append(results("a", 0, 10), results("b", 15)...), 0},
	} {
		if got := HoldTime(c.results, time.Minute); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}
