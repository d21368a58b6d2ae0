package probe

import (
	"context"
	"testing"
	"time"

	"claudeops/internal/ops"
)

func TestAHeartbeatIsReadFromWhatTheJobSaid(t *testing.T) {
	known := []ops.Heartbeat{
		{Probe: "other", Since: at(), Addressed: true},
		{Probe: "heartbeat", Since: at().Add(-48 * time.Hour), Addressed: true, EndedAt: ops.Ptr(at().Add(-time.Hour)), Failed: true, Exit: 2},
	}
	spec := ops.ProbeSpec{Service: "backup", Name: "heartbeat", Type: ops.ProbeHeartbeat, Every: time.Hour, Grace: time.Hour}
	checks := func(from func(context.Context, string, string) ([]ops.Heartbeat, error)) []ops.Check {
		return New(Options{Clock: at, Heartbeats: from}).Run(t.Context(), "home", []ops.ProbeSpec{spec}, ops.ProbeVerify)
	}
	got := checks(func(_ context.Context, environment, service string) ([]ops.Heartbeat, error) {
		if environment != "home" || service != "backup" {
			t.Errorf("asked for %s in %s", service, environment)
		}
		return known, nil
	})
	if len(got) != 1 || got[0].Probe != "heartbeat" || got[0].Type != ops.CheckService {
		t.Fatalf("%+v", got)
	}
	want(t, got[0], ops.Down, "exit status 2")
	for _, nothing := range []func(context.Context, string, string) ([]ops.Heartbeat, error){
		nil,
		func(context.Context, string, string) ([]ops.Heartbeat, error) { return known[:1], nil },
		func(context.Context, string, string) ([]ops.Heartbeat, error) { return nil, context.DeadlineExceeded },
	} {
		if got := checks(nothing); len(got) != 0 {
			t.Errorf("from nothing it finds %+v", got)
		}
	}
}
