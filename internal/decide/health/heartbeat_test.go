package health

import (
	"strings"
	"testing"
	"time"

	"claudeops/internal/ops"
)

func TestAHeartbeatIsLateThenMissed(t *testing.T) {
	made := time.Date(2026, 3, 28, 12, 0, 0, 0, time.UTC)
	daily := ops.ProbeSpec{Every: 24 * time.Hour, Grace: time.Hour}
	nightly := ops.ProbeSpec{Schedule: "30 2 * * *", Zone: "Europe/Berlin", Grace: time.Hour}
	at := func(d time.Duration) *time.Time { return ops.Ptr(made.Add(d)) }
	const h = time.Hour
	for name, tc := range map[string]struct {
		spec   ops.ProbeSpec
		beat   ops.Heartbeat
		now    time.Duration
		status ops.Health
		says   string
		until  time.Duration // 0: for ever
	}{
		"new":                            {daily, ops.Heartbeat{}, h, ops.Healthy, "", 24 * h},
		"never called, late":             {daily, ops.Heartbeat{}, 24 * h, ops.Degraded, "late: expected at 2026-03-29 12:00:00 UTC; it has never called", 25 * h},
		"never called, missed":           {daily, ops.Heartbeat{}, 25 * h, ops.Down, "missed: expected at 2026-03-29 12:00:00 UTC; it has never called", 0},
		"called":                         {daily, ops.Heartbeat{EndedAt: at(20 * h)}, 30 * h, ops.Healthy, "", 44 * h},
		"called long ago":                {daily, ops.Heartbeat{EndedAt: at(20 * h)}, 45 * h, ops.Down, "its last call was at 2026-03-29 08:00:00 UTC", 0},
		"a new address gives a new time": {daily, ops.Heartbeat{EndedAt: at(-48 * h)}, 23 * h, ops.Healthy, "", 24 * h},
		"runs":                           {daily, ops.Heartbeat{EndedAt: at(-48 * h), StartedAt: at(30 * h)}, 30*h + time.Minute, ops.Healthy, "", 31 * h},
		"runs too long":                  {daily, ops.Heartbeat{StartedAt: at(h)}, 2 * h, ops.Down, "started at 2026-03-28 13:00:00 UTC and has not ended within 1h0m0s", 0},
		"failed":                         {daily, ops.Heartbeat{EndedAt: at(h), Failed: true}, h, ops.Down, "the job reported a failure", 0},
		"failed and runs again":          {daily, ops.Heartbeat{EndedAt: at(h), Failed: true, StartedAt: at(h)}, h, ops.Down, "the job reported", 0},
		"exit code":                      {daily, ops.Heartbeat{EndedAt: at(h), Failed: true, Exit: 3, Output: "copying\ndisk full\n"}, h, ops.Down, "exit status 3: disk full", 0},
		// In Berlin 02:30 does not exist on 29 March 2026: the job is expected when the clocks say 03:30.
		"by schedule":        {nightly, ops.Heartbeat{}, 13 * h, ops.Healthy, "", 13*h + 30*time.Minute},
		"late by schedule":   {nightly, ops.Heartbeat{}, 14 * h, ops.Degraded, "late: expected at 2026-03-29 03:30:00 CEST", 14*h + 30*time.Minute},
		"missed by schedule": {nightly, ops.Heartbeat{EndedAt: at(h)}, 24 * h, ops.Down, "missed: expected at 2026-03-29 03:30:00 CEST", 0},
		"next by schedule":   {nightly, ops.Heartbeat{EndedAt: at(14 * h)}, 24 * h, ops.Healthy, "", 36*h + 30*time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := ParseRhythm(tc.spec)
			must(t, err)
			tc.beat.Since, tc.beat.Addressed = made, true
			status, why, until := r.Judge(tc.beat, made.Add(tc.now))
			wantUntil := time.Time{}
			if tc.until > 0 {
				wantUntil = made.Add(tc.until)
			}
			if status != tc.status || !strings.Contains(why, tc.says) || (tc.says == "") != (why == "") || !until.Equal(wantUntil) {
				t.Errorf("%s %q until %s, want %s %q until %s", status, why, until, tc.status, tc.says, wantUntil)
			}
		})
	}
	r, err := ParseRhythm(daily)
	if _, why, _ := r.Judge(ops.Heartbeat{Service: "backup", Since: made}, made.Add(30*h)); err != nil || !strings.Contains(why, "run claudeops services heartbeat backup") {
		t.Errorf("without an address it says %q, %v", why, err)
	}
}

func TestARhythmThatCannotBeIsRefused(t *testing.T) {
	for says, spec := range map[string]ops.ProbeSpec{
		"needs every, or a schedule":  {},
		"and not both":                {Every: time.Hour, Schedule: "02:00"},
		"zone belongs to a schedule":  {Every: time.Hour, Zone: "UTC"},
		"five fields of cron":         {Schedule: "sometimes"},
		"not a time zone":             {Schedule: "02:00", Zone: "Mars/Olympus"},
		"there is no such day":        {Schedule: "0 2 30 feb *"},
		"is not between 0 and 59":     {Schedule: "61 2 * * *"},
		`read schedule "0 2 31 9 *":`: {Schedule: "0 2 31 9 *"},
	} {
		if _, err := ParseRhythm(spec); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%+v: %v, want %s", spec, err, says)
		}
	}
	if leap, err := ParseRhythm(ops.ProbeSpec{Schedule: "0 2 29 feb *"}); err != nil || leap.expected(time.Date(2096, 3, 1, 0, 0, 0, 0, time.UTC)).Year() != 2104 {
		t.Errorf("the 29th of February: %v", err)
	}
}

// A late heartbeat is seen, and starts nothing; a missed one fails at once.
func TestALateHeartbeatIsNotFailing(t *testing.T) {
	now := time.Date(2026, 3, 28, 12, 0, 0, 0, time.UTC)
	check := ops.Check{Service: "backup", Probe: "heartbeat", Type: ops.CheckService, Purpose: ops.ProbeWatch}
	limits := Thresholds{FailAfter: 1, RecoverAfter: 1}
	var s ops.CheckState
	for _, step := range []struct {
		status ops.Health
		err    string
		level  ops.Health
	}{
		{ops.Healthy, "", ops.Healthy},
		{ops.Degraded, ops.LateMark + "expected at noon", ops.Healthy},
		{ops.Down, "missed: expected at noon", ops.Down},
		{ops.Healthy, "", ops.Healthy},
		{ops.Degraded, "slow", ops.Degraded},
	} {
		now = now.Add(time.Minute)
		check.At, check.Status, check.Error = now, step.status, step.err
		if s, _ = Observe(s, check, limits, now); s.Level != step.level {
			t.Errorf("after %s %q it is %s", step.status, step.err, s.Level)
		}
	}
	check.Status, check.Error = ops.Degraded, ops.LateMark+"says somebody"
	if check.Purpose = ops.ProbeAlert; check.Late() || !check.Bad() {
		t.Error("an alert can call itself late")
	}
}
