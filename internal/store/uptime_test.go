package store_test

import (
	"testing"
	"time"

	"claudeops/internal/ops"
	"claudeops/internal/store"
	"claudeops/test/storetest"
)

// machine is a computer whose time of day can be set.
type machine struct {
	now  time.Time
	boot string
	up   time.Duration
}

func (m *machine) pass(d time.Duration) { m.now, m.up = m.now.Add(d), m.up+d }

// restartWeb asks for a restart by the machine's clocks.
func (m *machine) restartWeb(t *testing.T, f *storetest.Fixture, session ops.SessionID) bool {
	t.Helper()
	got, err := f.Store.Acts.RecordGuard(t.Context(), f.Owner,
		ops.GuardRecord{At: m.now, SessionID: session, Tier: ops.Tier2, Gate: ops.GateHook, Tool: "Bash", Allowed: true},
		[]ops.Reservation{{Service: "web", Action: "restart"}},
		[]ops.CooldownLimit{{Action: "restart", Count: 1, Window: 4 * time.Hour}})
	succeeds(t, err)
	return got.Allowed
}

func TestSettingTheClockNeverShortensACooldown(t *testing.T) {
	const year = 365 * 24 * time.Hour
	for name, jumps := range map[string]struct{ before, after time.Duration }{
		"not set":                      {0, 0},
		"set forward":                  {0, year},
		"set back":                     {0, -year},
		"wrong by a year, then right":  {-year, year},
		"ahead by a year, then right":  {year, -year},
		"set forward by a single hour": {0, time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			m := &machine{now: storetest.Start, boot: "first", up: time.Minute}
			s, err := store.Open(t.Context(), storetest.With(store.Options{
				Path: newFile(t), Clock: func() time.Time { return m.now },
				Uptime: func() (string, time.Duration) { return m.boot, m.up },
			}))
			succeeds(t, err)
			t.Cleanup(func() { closeStore(t, s) })
			f := storetest.NewFixture(t, s)
			session := f.RunningSession(t, "home").ID

			m.now = m.now.Add(jumps.before)
			if !m.restartWeb(t, f, session) {
				t.Fatal("the first restart was refused")
			}
			m.now = m.now.Add(jumps.after)
			m.pass(4*time.Hour - time.Microsecond)
			if m.restartWeb(t, f, session) {
				t.Error("allowed too early")
			}
			left, err := s.Acts.Cooldowns(t.Context(), "home", []ops.CooldownLimit{{Action: "restart", Count: 1, Window: 4 * time.Hour}}, m.now)
			if err != nil || len(left) != 1 || !left[0].Until.Equal(m.now.Add(time.Microsecond)) {
				t.Errorf("cooldowns %+v, %v", left, err)
			}
			m.pass(time.Microsecond)
			if !m.restartWeb(t, f, session) {
				t.Error("refused too long")
			}
		})
	}
}

func TestAfterARebootTheTimeOfDayCounts(t *testing.T) {
	m := &machine{now: storetest.Start, boot: "first", up: 100 * time.Hour}
	s, err := store.Open(t.Context(), storetest.With(store.Options{
		Path: newFile(t), Clock: func() time.Time { return m.now },
		Uptime: func() (string, time.Duration) { return m.boot, m.up },
	}))
	succeeds(t, err)
	t.Cleanup(func() { closeStore(t, s) })
	f := storetest.NewFixture(t, s)
	session := f.RunningSession(t, "home").ID
	if !m.restartWeb(t, f, session) {
		t.Fatal("the first restart was refused")
	}
	m.boot, m.up = "second", time.Minute
	m.now = m.now.Add(4*time.Hour - time.Microsecond)
	if m.restartWeb(t, f, session) {
		t.Error("allowed too early")
	}
	m.pass(time.Microsecond)
	if !m.restartWeb(t, f, session) {
		t.Error("refused too long")
	}
}
