package health

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"claudeops/internal/ops"
)

func zone(t *testing.T, name string) *time.Location {
	t.Helper()
	z, err := time.LoadLocation(name)
	if err != nil {
		t.Skip("no time zones here")
	}
	return z
}

func TestMaintenanceWindowsOpenAndClose(t *testing.T) {
	berlin := zone(t, "Europe/Berlin")
	moment := func(text string, z *time.Location) time.Time {
		at, err := time.ParseInLocation("2006-01-02 15:04", text, z)
		must(t, err)
		return at
	}
	cases := []struct {
		schedule string
		length   time.Duration
		zone     *time.Location
		at       string
		open     bool
	}{
		{"sat 22:00", 4 * time.Hour, time.UTC, "2026-01-31 21:59", false},
		{"sat 22:00", 4 * time.Hour, time.UTC, "2026-01-31 22:00", true},
		{"sat 22:00", 4 * time.Hour, time.UTC, "2026-02-01 01:59", true}, // Sunday
		{"sat 22:00", 4 * time.Hour, time.UTC, "2026-02-01 02:00", false},
		{"sat,sun 22:00", 4 * time.Hour, time.UTC, "2026-02-02 01:00", true},
		{"02:00", time.Hour, time.UTC, "2026-02-03 02:30", true},
		{"0 2 1 * *", time.Hour, time.UTC, "2026-02-01 02:30", true},
		{"0 2 1 * *", time.Hour, time.UTC, "2026-02-02 02:30", false},
		{"0 2 1 * mon", time.Hour, time.UTC, "2026-02-02 02:30", true}, // either day
		{"*/15 * * * *", 5 * time.Minute, time.UTC, "2026-02-02 10:49", true},
		{"*/15 * * * *", 5 * time.Minute, time.UTC, "2026-02-02 10:50", false},
		{"0 0 * jan-mar fri-mon", time.Hour, time.UTC, "2026-02-01 00:10", true},
		{"0 0 * jan-mar fri-mon", time.Hour, time.UTC, "2026-02-03 00:10", false},
		{"0 0 * 4 *", time.Hour, time.UTC, "2026-02-01 00:10", false},
		{"sun 02:00", 7 * 24 * time.Hour, time.UTC, "2026-02-03 12:00", true},
		// In Berlin 02:30 does not exist on 29 March 2026, and comes twice on 25 October.
		{"02:30", time.Hour, berlin, "2026-03-29 03:45", true},
		{"02:30", time.Hour, berlin, "2026-10-25 02:45", true},
		{"02:30", time.Hour, berlin, "2026-07-01 02:29", false},
		{"02:30", time.Hour, berlin, "2026-07-01 03:29", true},
	}
	for _, c := range cases {
		w, err := ParseMaintenance(ops.Maintenance{Schedule: c.schedule, Length: c.length, Zone: c.zone.String()})
		must(t, err)
		if until, open := w.Active(moment(c.at, c.zone)); open != c.open || (open && until.Sub(moment(c.at, c.zone)) > c.length) {
			t.Errorf("%s for %s at %s: open %t until %s", c.schedule, c.length, c.at, open, until)
		}
	}
	once := Window{Maintenance: ops.Maintenance{From: start(), Until: start().Add(time.Hour)}}
	for after, want := range map[time.Duration]bool{-1: false, 0: true, time.Hour - 1: true, time.Hour: false} {
		if _, open := once.Active(start().Add(after)); open != want {
			t.Errorf("after %s: %t", after, open)
		}
	}
}

func TestUnreadableSchedulesAndWindowsAreRefused(t *testing.T) {
	for text, problem := range map[string]string{
		"":             "five fields",
		"sat":          "five fields",
		"sat 25:00":    "is not a time",
		"foo 02:00":    `"foo" is not between`,
		"60 * * * *":   `"60" is not between 0 and 59`,
		"* * 0 * *":    `"0" is not between 1 and 31`,
		"* * * * 8":    `"8" is not between 0 and 7`,
		"5-1 * * * *":  "ends before it begins",
		"*/0 * * * *":  "is not a step",
		"* * * * * *":  "five fields",
		"1,,2 * * * *": "is not between",
	} {
		if _, err := ParseSchedule(text); err == nil || !strings.Contains(err.Error(), problem) {
			t.Errorf("%q: got %v, want %q", text, err, problem)
		}
	}
	for _, m := range []ops.Maintenance{
		{},
		{Schedule: "02:00"},
		{Length: time.Hour},
		{Schedule: "02:00", Length: 8 * 24 * time.Hour},
		{Schedule: "02:00", Length: time.Hour, From: start(), Until: start().Add(time.Hour)},
		{From: start(), Until: start()},
		{Schedule: "02:00", Length: time.Hour, Zone: "Mars/Olympus"},
	} {
		if _, err := ParseMaintenance(m); err == nil {
			t.Errorf("%+v was accepted", m)
		}
	}
}

// TestSchedulesAgreeWithGoingThroughTheMinutes compares with the slow way, in a zone without summer time.
func TestSchedulesAgreeWithGoingThroughTheMinutes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		field := func(low, top int) string {
			return rapid.OneOf(
				rapid.Just("*"),
				rapid.Map(rapid.IntRange(2, 20), func(n int) string { return fmt.Sprintf("*/%d", n) }),
				rapid.Map(rapid.IntRange(low, top), func(n int) string { return fmt.Sprint(n) }),
				rapid.Custom(func(t *rapid.T) string {
					from := rapid.IntRange(low, top).Draw(t, "from")
					return fmt.Sprintf("%d-%d", from, rapid.IntRange(from, top).Draw(t, "to"))
				}),
			).Draw(t, "field")
		}
		text := strings.Join([]string{field(0, 59), field(0, 23), field(1, 31), field(1, 12), field(0, 6)}, " ")
		s, err := ParseSchedule(text)
		if err != nil {
			t.Fatal(err)
		}
		length := time.Duration(rapid.IntRange(1, 3000).Draw(t, "length")) * time.Minute
		now := start().Add(time.Duration(rapid.IntRange(0, 400*24*60).Draw(t, "now")) * time.Minute)
		want := false
		for at := now; now.Sub(at) < length && !want; at = at.Add(-time.Minute) {
			want = s.minutes&(1<<at.Minute()) != 0 && s.hours&(1<<at.Hour()) != 0 && s.onDay(at)
		}
		if _, got := s.started(now, length, time.UTC); got != want {
			t.Fatalf("%s for %s at %s: got %t", text, length, now, got)
		}
	})
}
