package engine_test

import (
	"slices"
	"testing"
	"time"

	"claudeops/internal/engine"
	"claudeops/internal/ops"
)

func TestDue(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	soon, past := now.Add(time.Minute), now.Add(-time.Minute)
	tests := map[string]struct {
		cycle ops.Cycle
		want  time.Duration
	}{
		"queued":                           {ops.Cycle{Status: ops.CycleQueued}, 0},
		"rests until later":                {ops.Cycle{Status: ops.CycleQueued, WakeAt: &soon}, time.Minute},
		"rested long enough":               {ops.Cycle{Status: ops.CycleQueued, WakeAt: &past}, 0},
		"waits for a human without an end": {ops.Cycle{Status: ops.CycleWaitingHuman}, engine.Never},
		"waits for a human until later":    {ops.Cycle{Status: ops.CycleWaitingHuman, WakeAt: &soon}, time.Minute},
		"answered":                         {ops.Cycle{Status: ops.CycleWaitingHuman, WakeAt: &now}, 0},
		"canceled while it waits":          {ops.Cycle{Status: ops.CycleWaitingHuman, WakeAt: &soon, CancelRequestedAt: &past}, 0},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := engine.Due(tt.cycle, now); got != tt.want {
				t.Errorf("it waits %s, want %s", got, tt.want)
			}
		})
	}
}

func TestPace(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	p := engine.NewPace(time.Second)
	var got []time.Duration
	for range 8 {
		wait := p.Failed(1, now)
		got = append(got, wait)
		if p.Wait(1, now) != wait || p.Wait(1, now.Add(wait)) != 0 {
			t.Errorf("after a pause of %s it waits %s and then %s", wait, p.Wait(1, now), p.Wait(1, now.Add(wait)))
		}
	}
	want := []time.Duration{1, 2, 4, 8, 16, 30, 30, 30}
	for i := range want {
		want[i] *= time.Second
	}
	if !slices.Equal(got, want) {
		t.Errorf("pauses are %v, want %v", got, want)
	}
	if p.Wait(2, now) != 0 {
		t.Error("another cycle waits too")
	}
	p.Failed(2, now)
	p.Keep(func(id ops.CycleID) bool { return id == 2 })
	if p.Wait(1, now) != 0 || p.Wait(2, now) == 0 {
		t.Error("it keeps the wrong ones")
	}
	p.Forget(2)
	if p.Failed(2, now) != time.Second {
		t.Error("a forgotten cycle still waits")
	}
}
