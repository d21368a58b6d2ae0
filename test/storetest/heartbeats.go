package storetest

import (
	"errors"
	"testing"
	"time"

	"claudeops/internal/ops"
)

func heartbeatCases() []testCase {
	return []testCase{
		{"a heartbeat is kept from its first configuration", heartbeatIsKept},
		{"a job with another rhythm counts from then", heartbeatRhythm},
		{"a job is known by the digest of its token only", heartbeatToken},
		{"calls of a job are recorded, and read in their order", heartbeatPings},
	}
}

func backup() ops.Heartbeat {
	return ops.Heartbeat{Environment: "home", Service: "backup", Probe: "heartbeat"}
}

func (f *Fixture) beats(t *testing.T, after int64) []ops.Heartbeat {
	t.Helper()
	out, err := f.Store.Heartbeats(t.Context(), "home", after)
	must(t, err)
	return out
}

func (f *Fixture) addressed(t *testing.T, h ops.Heartbeat) string {
	t.Helper()
	token, err := f.Store.AddressHeartbeat(t.Context(), h, "alice", f.At)
	must(t, err)
	return token
}

func heartbeatIsKept(t *testing.T, f *Fixture) {
	first, later := backup(), backup()
	first.Since, later.Since = Start, Start.Add(time.Hour)
	other := later
	other.Service = "mirror"
	must(t, f.Store.AddHeartbeats(t.Context(), "home", []ops.Heartbeat{first}))
	must(t, f.Store.AddHeartbeats(t.Context(), "home", []ops.Heartbeat{later, other}))
	must(t, f.Store.AddHeartbeats(t.Context(), "office", []ops.Heartbeat{later}))
	got := f.beats(t, 0)
	if len(got) != 2 || !got[0].Since.Equal(Start) || got[1].Service != "mirror" || got[0].Addressed || got[0].EndedAt != nil {
		t.Errorf("they are %+v", got)
	}
	equal(t, "after the first", len(f.beats(t, got[0].Seq)), 1)
}

func heartbeatRhythm(t *testing.T, f *Fixture) {
	h := backup()
	h.Since = Start
	must(t, f.Store.AddHeartbeats(t.Context(), "home", []ops.Heartbeat{h}))
	must(t, f.Store.Ping(t.Context(), h, ops.Ping{At: Start.Add(time.Minute)}))
	for n, tt := range []struct {
		rhythm string
		since  time.Time
	}{{"24h", Start}, {"24h", Start}, {"1h", Start.Add(2 * time.Hour)}, {"1h", Start.Add(2 * time.Hour)}} {
		seq := f.beats(t, 0)[0].Seq
		at := Start.Add(time.Duration(n) * time.Hour)
		must(t, f.Store.KeepRhythms(t.Context(), "home", map[string]map[string]string{"backup": {"heartbeat": tt.rhythm}}, at))
		got := f.beats(t, 0)[0]
		if !got.Since.Equal(tt.since) || got.Seq > seq != (n == 2) || got.EndedAt == nil {
			t.Errorf("%d: %+v", n, got)
		}
	}
}

func heartbeatToken(t *testing.T, f *Fixture) {
	old := f.addressed(t, backup())
	found, err := f.Store.Heartbeat(t.Context(), old)
	must(t, err)
	equal(t, "the heartbeat", found, backup())
	must(t, f.Store.Ping(t.Context(), found, ops.Ping{At: f.At}))
	f.At = f.At.Add(time.Hour)
	made := f.addressed(t, backup())
	if got := f.beats(t, 0); made == old || len(got) != 1 || !got[0].Since.Equal(f.At) || !got[0].Addressed || got[0].EndedAt == nil {
		t.Errorf("a new address leaves %+v", got)
	}
	for _, wrong := range []string{old, "", "x"} {
		if _, err := f.Store.Heartbeat(t.Context(), wrong); !errors.Is(err, ops.ErrNotFound) {
			t.Errorf("%q is found: %v", wrong, err)
		}
	}
	_, err = f.Store.Heartbeat(t.Context(), made)
	must(t, err)
}

func heartbeatPings(t *testing.T, f *Fixture) {
	mirror := backup()
	mirror.Service = "mirror"
	f.addressed(t, backup())
	f.addressed(t, mirror)
	ping := func(h ops.Heartbeat, p ops.Ping) ops.Heartbeat {
		f.At = f.At.Add(time.Minute)
		p.At = f.At
		must(t, f.Store.Ping(t.Context(), h, p))
		own, err := f.Store.HeartbeatsOf(t.Context(), "home", h.Service)
		must(t, err)
		if len(own) != 1 {
			t.Fatalf("%s has %+v", h.Service, own)
		}
		return own[0]
	}
	if got := ping(backup(), ops.Ping{Start: true}); got.StartedAt == nil || !got.StartedAt.Equal(f.At) || got.EndedAt != nil {
		t.Errorf("after its start it is %+v", got)
	}
	failed := ping(backup(), ops.Ping{Failed: true, Exit: 3, Output: "disk full\n\x00\xff"})
	if failed.StartedAt != nil || !failed.EndedAt.Equal(f.At) || !failed.Failed || failed.Exit != 3 || failed.Output != "disk full\n\uFFFD\uFFFD" {
		t.Errorf("after its failure it is %+v", failed)
	}
	ping(mirror, ops.Ping{})
	if got := ping(backup(), ops.Ping{}); got.Failed || got.Exit != 0 || got.Output != "" {
		t.Errorf("after its success it is %+v", got)
	}
	if got := f.beats(t, failed.Seq); len(got) != 2 || got[0].Service != "mirror" || got[1].Service != "backup" {
		t.Errorf("since the failure, there are %+v", got)
	}
}
