package situation_test

import (
	"fmt"
	"testing"
	"time"

	"claudeops/internal/api/situation"
	"claudeops/internal/ops"
)

func TestWhoLooksAtServicesWithoutAProbe(t *testing.T) {
	const day = 24 * time.Hour
	cent := ops.Ptr(0.0512)
	for _, c := range []struct {
		unprobed        int
		every, interval time.Duration
		price           *float64
		want            string
		nobody          bool
	}{
		{0, day, time.Hour, cent, "", false},
		{1, day, time.Hour, cent, "s0 has no probe: one look a day by Tier 1, about $0.05 a day", false},
		{3, day, time.Hour, cent, "3 services have no probe (s0, s1, s2): one look a day by Tier 1, about $0.05 a day", false},
		{1, 6 * time.Hour, time.Hour, cent, "s0 has no probe: one look every 6 h by Tier 1, about $0.20 a day", false},
		{1, time.Minute, time.Hour, cent, "s0 has no probe: one look every 1 h by Tier 1, about $1.23 a day", false},
		{1, day, time.Hour, ops.Ptr(0.0001), "s0 has no probe: one look a day by Tier 1, less than $0.01 a day", false},
		{1, day, time.Hour, nil, "s0 has no probe: one look a day by Tier 1, cost unknown until the first look", false},
		{2, 0, time.Hour, cent, "nobody looks at s0, s1: no probe, and observe_every is 0", true},
	} {
		e := ops.Environment{Interval: c.interval, Policy: ops.Policy{Observe: ops.ObserveProbes, ObserveEvery: c.every}}
		for i := range c.unprobed {
			e.Policy.Inventory.Services = append(e.Policy.Inventory.Services, ops.Service{Name: fmt.Sprintf("s%d", i)})
		}
		if got, nobody := situation.Unprobed(e, c.price); got != c.want || nobody != c.nobody {
			t.Errorf("got %q %t, want %q", got, nobody, c.want)
		}
	}
	// A thousand services do not fill the screen.
	e := ops.Environment{Policy: ops.Policy{Observe: ops.ObserveProbes}}
	for i := range 1000 {
		e.Policy.Inventory.Services = append(e.Policy.Inventory.Services, ops.Service{Name: fmt.Sprintf("service-%d", i)})
	}
	if got, _ := situation.Unprobed(e, nil); len(got) > 400 {
		t.Errorf("%d characters", len(got))
	}
}
