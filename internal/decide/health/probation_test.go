package health_test

import (
	"testing"
	"time"

	"claudeops/internal/decide/health"
	"claudeops/internal/ops"
)

func TestAFailingCheckIsConfirmedByTheProbesOfACycle(t *testing.T) {
	at := time.Date(2026, 3, 14, 10, 0, 0, 0, time.UTC)
	limits := health.Thresholds{FailAfter: 2, RecoverAfter: 3}
	seen := func(s ops.CheckState, after time.Duration, status ops.Health) (ops.CheckState, []health.Change) {
		return health.Observe(s, ops.Check{At: at.Add(after), Service: "web", Probe: "GET", Status: status}, limits, at.Add(after))
	}
	failing := func(last time.Duration) ops.CheckState {
		var s ops.CheckState
		for after := time.Duration(0); after <= last; after += 30 * time.Second {
			s, _ = seen(s, after, ops.Down)
		}
		return s
	}
	s, change, changed := health.Confirm(failing(30*time.Second), at.Add(40*time.Second))
	if !changed || change.Kind != health.Recovered || s.Failing() || s.Unsettled() || !s.Began.IsZero() ||
		!s.Recovered.Equal(at.Add(40*time.Second)) || change.Reason != "web recovered after 40s." {
		t.Errorf("the state is %+v after %+v", s, change)
	}
	s, changes := seen(s, time.Minute, ops.Down)
	if len(changes) != 0 || s.Failing() {
		t.Errorf("one bad result settles it: %+v", changes)
	}
	s, changes = seen(s, 90*time.Second, ops.Down)
	if len(changes) != 1 || changes[0].Kind != health.Failed || !s.Began.Equal(at.Add(time.Minute)) || !s.Since.Equal(at.Add(90*time.Second)) {
		t.Errorf("the next failure is %+v: %+v", changes, s)
	}
	if _, _, changed := health.Confirm(s, at.Add(40*time.Second)); changed {
		t.Error("a failure that settled after the claim is taken back")
	}
	// A result that came before the watch heard of the claim is the first of the next failure.
	s, _, _ = health.Confirm(failing(time.Minute), at.Add(40*time.Second))
	if !s.Unsettled() || s.Bad != 1 || !s.Began.Equal(at.Add(time.Minute)) {
		t.Errorf("the state is %+v", s)
	}
	if s, changes = seen(s, 90*time.Second, ops.Down); len(changes) != 1 || !s.Failing() {
		t.Errorf("the next result settles nothing: %+v", changes)
	}
	if _, _, changed := health.Confirm(ops.CheckState{Service: "web", Level: ops.Healthy}, at); changed {
		t.Error("a healthy check has nothing to confirm")
	}
}

func TestQuietIsWhatPeopleDoNotWantToHear(t *testing.T) {
	at := time.Date(2026, 3, 14, 10, 0, 0, 0, time.UTC)
	silence := ops.Silence{Service: "web", From: at, Until: at.Add(time.Hour)}
	acknowledged, probe, group := silence, silence, ops.Silence{Group: "shop", From: at, Until: at.Add(time.Hour)}
	acknowledged.Incident = 3
	probe.Probe = "GET"
	window, err := health.ParseMaintenance(ops.Maintenance{Service: "web", From: at, Until: at.Add(time.Hour)})
	if err != nil {
		t.Fatal(err)
	}
	services := []ops.Service{{Name: "web", Group: "shop"}}
	for name, tt := range map[string]struct {
		p     health.Picture
		probe string
		after time.Duration
		quiet bool
	}{
		"nothing said":           {p: health.Picture{}},
		"silenced":               {p: health.Picture{Silences: []ops.Silence{silence}}, quiet: true},
		"its group is silenced":  {p: health.Picture{Silences: []ops.Silence{group}, Services: services}, quiet: true},
		"this probe is silenced": {p: health.Picture{Silences: []ops.Silence{probe}}, probe: "GET", quiet: true},
		"another probe is":       {p: health.Picture{Silences: []ops.Silence{probe}}, probe: "tcp"},
		"acknowledged":           {p: health.Picture{Silences: []ops.Silence{acknowledged}}},
		"acknowledged, silenced": {p: health.Picture{Silences: []ops.Silence{acknowledged, silence}}, quiet: true},
		"in maintenance":         {p: health.Picture{Windows: []health.Window{window}, Silences: []ops.Silence{acknowledged}}, quiet: true},
		"over":                   {p: health.Picture{Silences: []ops.Silence{silence}}, after: 2 * time.Hour},
	} {
		c := ops.Check{Service: "web", Probe: tt.probe, Status: ops.Down}
		if got := health.Quiet(tt.p, ops.Grouping{}, c, at.Add(time.Minute+tt.after)); got != tt.quiet {
			t.Errorf("%s: quiet is %t", name, got)
		}
	}
}
