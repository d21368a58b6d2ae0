package health

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"claudeops/internal/ops"
)

type span struct {
	Service  string
	From     time.Duration
	Until    time.Duration
	Schedule string
	Length   time.Duration
}

type scenario struct {
	Name     string
	Rules    struct{ Window, Grace, Pause, Repeat time.Duration }
	Services map[string]struct {
		Group     string
		DependsOn []string `yaml:"depends_on"`
	}
	Looks    map[string]string
	Silences []span
	Windows  []span
	Cycles   []struct {
		At       time.Duration
		Services []string
		Affected []string
	}
	Changes []string
}

func (sc scenario) picture(t *testing.T) Picture {
	t.Helper()
	p := Picture{Environment: "home"}
	for name, s := range sc.Services {
		p.Services = append(p.Services, ops.Service{Name: name, Group: s.Group, DependsOn: s.DependsOn})
	}
	for _, s := range sc.Silences {
		p.Silences = append(
			p.Silences,
			ops.Silence{Service: s.Service, From: start().Add(s.From), Until: start().Add(s.Until), Reason: "work", Author: "ann"},
		)
	}
	for _, w := range sc.Windows {
		m := ops.Maintenance{Name: "work", Service: w.Service, Schedule: w.Schedule, Length: w.Length}
		if w.Schedule == "" {
			m.From, m.Until = start().Add(w.From), start().Add(w.Until)
		}
		window, err := ParseMaintenance(m)
		must(t, err)
		p.Windows = append(p.Windows, window)
	}
	return p
}

// play goes through a scenario as a supervisor would and returns the cycles it starts and the changes it tells.
func (sc scenario) play(t *testing.T) (cycles, changes []string) {
	t.Helper()
	p := sc.picture(t)
	states := map[string]ops.CheckState{}
	names := slices.Sorted(maps.Keys(sc.Looks))
	last := 0
	for _, line := range sc.Looks {
		last = max(last, len(line))
	}
	for second := 0; second < last*30; second += 10 {
		now := start().Add(time.Duration(second) * time.Second)
		for _, name := range names {
			line := sc.Looks[name]
			if second%30 != 0 || second/30 >= len(line) || line[second/30] == ' ' {
				continue
			}
			look := ops.Check{At: now, Service: name, Probe: "GET", Status: level(rune(line[second/30]))}
			s, told := Observe(states[name], look, Thresholds{}, now)
			states[name] = s
			for _, c := range told {
				changes = append(changes, fmt.Sprintf("%s %s %s", since(now), name, c.Kind))
			}
		}
		p.States = slices.Collect(maps.Values(states))
		resolved := Resolved(p)
		p.Causes = slices.DeleteFunc(p.Causes, func(o ops.Cause) bool {
			// A resolved cause is remembered as long as it may matter.
			return now.Sub(o.At) > time.Hour && slices.ContainsFunc(resolved, func(r ops.Cause) bool { return r.Key == o.Key })
		})
		for _, c := range Judge(p, ops.Grouping(sc.Rules), now).Causes {
			cycles = append(cycles, fmt.Sprintf("%s %v affects %v", since(now), c.Services, c.Affected))
			p.Causes = append(p.Causes, c.opened(now))
		}
	}
	return cycles, changes
}

func since(now time.Time) string {
	return now.Sub(start()).String()
}

func TestIncidentScenarios(t *testing.T) {
	text, err := os.ReadFile("testdata/scenarios.yaml")
	must(t, err)
	var scenarios []scenario
	decoder := yaml.NewDecoder(strings.NewReader(string(text)))
	decoder.KnownFields(true)
	must(t, decoder.Decode(&scenarios))
	for _, sc := range scenarios {
		t.Run(sc.Name, func(t *testing.T) {
			cycles, changes := sc.play(t)
			var want []string
			for _, c := range sc.Cycles {
				want = append(want, fmt.Sprintf("%s %v affects %v", since(start().Add(c.At)), c.Services, c.Affected))
			}
			if !slices.Equal(cycles, want) {
				t.Errorf("started %q, want %q", cycles, want)
			}
			for i, c := range sc.Changes {
				at, rest, _ := strings.Cut(c, " ")
				d, err := time.ParseDuration(at)
				must(t, err)
				sc.Changes[i] = since(start().Add(d)) + " " + rest
			}
			if sc.Changes != nil && !slices.Equal(changes, sc.Changes) {
				t.Errorf("told %q, want %q", changes, sc.Changes)
			}
		})
	}
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}
