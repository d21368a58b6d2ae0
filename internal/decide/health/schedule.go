package health

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"claudeops/internal/ops"
)

// Schedule is a set of recurring times, in the five fields of cron: minute, hour, day of month, month, weekday.
type Schedule struct {
	minutes, hours, days, months, weekdays uint64 // one bit per value
	anyDay, anyWeekday                     bool
}

// ParseSchedule reads `0 2 * * 6` (fields of cron with *, lists, ranges, steps and three-letter names), or the shorter
// `sat,sun 02:00` and `02:00` for every day.
func ParseSchedule(text string) (Schedule, error) {
	fields := strings.Fields(strings.ToLower(text))
	if n := len(fields); n > 0 && n <= 2 && strings.Contains(fields[n-1], ":") {
		clock, err := time.Parse("15:04", fields[n-1])
		if err != nil {
			return Schedule{}, fmt.Errorf("read schedule %q: %q is not a time such as 02:00", text, fields[n-1])
		}
		weekdays := "*"
		if n == 2 {
			weekdays = fields[0]
		}
		fields = []string{strconv.Itoa(clock.Minute()), strconv.Itoa(clock.Hour()), "*", "*", weekdays}
	}
	if len(fields) != 5 {
		return Schedule{}, fmt.Errorf("read schedule %q: give `sat,sun 02:00`, or the five fields of cron", text)
	}
	s := Schedule{anyDay: strings.HasPrefix(fields[2], "*"), anyWeekday: strings.HasPrefix(fields[4], "*")}
	for i, part := range []struct {
		into     *uint64
		low, top int
		names    string
	}{
		{&s.minutes, 0, 59, ""},
		{&s.hours, 0, 23, ""},
		{&s.days, 1, 31, ""},
		{&s.months, 1, 12, "jan feb mar apr may jun jul aug sep oct nov dec"},
		{&s.weekdays, 0, 7, "sun mon tue wed thu fri sat"},
	} {
		bits, err := parseField(fields[i], part.low, part.top, strings.Fields(part.names))
		if err != nil {
			return Schedule{}, fmt.Errorf("read schedule %q: %w", text, err)
		}
		*part.into = bits
	}
	return s, nil
}

func parseField(field string, low, top int, names []string) (bits uint64, err error) {
	for part := range strings.SplitSeq(field, ",") {
		span, stepText, stepped := strings.Cut(part, "/")
		step := 1
		if stepped {
			if step, err = strconv.Atoi(stepText); err != nil || step < 1 {
				return 0, fmt.Errorf("%q is not a step", stepText)
			}
		}
		from, to := low, top
		if span != "*" {
			fromText, toText, ranged := strings.Cut(span, "-")
			if from, err = parseValue(fromText, low, top, names); err != nil {
				return 0, err
			}
			switch {
			case ranged:
				if to, err = parseValue(toText, low, top, names); err != nil {
					return 0, err
				}
			case !stepped:
				to = from
			}
		}
		if to < from && len(names) == 7 {
			to += 7 // fri-mon
		}
		if to < from {
			return 0, fmt.Errorf("%q ends before it begins", part)
		}
		for v := from; v <= to; v += step {
			if len(names) == 7 {
				bits |= 1 << (v % 7) // Sunday is 0 and 7
				continue
			}
			bits |= 1 << v
		}
	}
	return bits, nil
}

func parseValue(text string, low, top int, names []string) (int, error) {
	for i, n := range names {
		if text == n {
			return i + low, nil
		}
	}
	v, err := strconv.Atoi(text)
	if err != nil || v < low || v > top {
		return 0, fmt.Errorf("%q is not between %d and %d", text, low, top)
	}
	return v, nil
}

// onDay reports whether the schedule has times on a day. As in cron, a day of the month and a weekday that are both
// given are alternatives.
func (s Schedule) onDay(day time.Time) bool {
	if s.months&(1<<day.Month()) == 0 {
		return false
	}
	inMonth, inWeek := s.days&(1<<day.Day()) != 0, s.weekdays&(1<<day.Weekday()) != 0
	if s.anyDay || s.anyWeekday {
		return inMonth && inWeek
	}
	return inMonth || inWeek
}

// times are those of the schedule on a day, in order.
func (s Schedule) times(day time.Time) []time.Time {
	var out []time.Time
	if !s.onDay(day) {
		return nil
	}
	for minute := range 24 * 60 {
		if s.hours&(1<<(minute/60)) != 0 && s.minutes&(1<<(minute%60)) != 0 {
			out = append(out, time.Date(day.Year(), day.Month(), day.Day(), 0, minute, 0, 0, day.Location()))
		}
	}
	return out
}

// started reports whether a time of the schedule lies within the last length before now. It works by calendar days, so that a time
// that the change to summer time skips is moved and not lost.
func (s Schedule) started(now time.Time, length time.Duration, zone *time.Location) (time.Time, bool) {
	local := now.In(zone)
	earliest := now.Add(-length).In(zone)
	for day := date(local, 1); !day.Before(date(earliest, -1)); day = date(day, -1) {
		for _, at := range slices.Backward(s.times(day)) {
			if !at.After(now) && now.Sub(at) < length {
				return at, true
			}
		}
	}
	return time.Time{}, false
}

// searched is how far the next time is looked for: between two 29ths of February there may be eight years.
const searched = 9 * 366

// next is the first time of the schedule after a time; zero if there is none.
func (s Schedule) next(after time.Time, zone *time.Location) time.Time {
	local := after.In(zone)
	for n := range searched {
		for _, at := range s.times(date(local, n)) {
			if at.After(after) {
				return at
			}
		}
	}
	return time.Time{}
}

// date is noon some days later: noon exists in every time zone.
func date(t time.Time, later int) time.Time {
	return time.Date(t.Year(), t.Month(), t.Day()+later, 12, 0, 0, 0, t.Location())
}

// Rhythm says when a job calls.
type Rhythm struct {
	every, grace time.Duration
	schedule     Schedule
	zone         *time.Location
}

// ParseRhythm reads when the job of a probe of type heartbeat calls.
func ParseRhythm(spec ops.ProbeSpec) (Rhythm, error) {
	r := Rhythm{every: spec.Every, grace: spec.Grace, zone: time.UTC}
	switch {
	case (spec.Every > 0) == (spec.Schedule != ""):
		return r, errors.New("a heartbeat needs every, or a schedule, and not both")
	case spec.Zone != "" && spec.Schedule == "":
		return r, errors.New("zone belongs to a schedule: remove it")
	case spec.Every > 0:
		return r, nil
	}
	var err error
	if r.schedule, err = ParseSchedule(spec.Schedule); err != nil {
		return r, err
	}
	if r.zone, err = time.LoadLocation(spec.Zone); err != nil {
		return r, fmt.Errorf("%q is not a time zone such as Europe/Berlin", spec.Zone)
	}
	if r.schedule.next(time.Unix(0, 0), r.zone).IsZero() {
		return r, fmt.Errorf("read schedule %q: there is no such day", spec.Schedule)
	}
	return r, nil
}

// expected is when the job should have called after a time.
func (r Rhythm) expected(after time.Time) time.Time {
	if r.every > 0 {
		return after.Add(r.every)
	}
	return r.schedule.next(after, r.zone)
}

// Judge says what the calls of a job mean, why, and how long that holds if it does not call again; zero means always. A job that has
// never called counts from when its heartbeat was made.
func (r Rhythm) Judge(h ops.Heartbeat, now time.Time) (status ops.Health, why string, until time.Time) {
	if h.Failed {
		return ops.Down, failure(h), time.Time{}
	}
	if h.StartedAt != nil {
		if until = h.StartedAt.Add(r.grace); now.Before(until) {
			return ops.Healthy, "", until
		}
		return ops.Down, fmt.Sprintf("started at %s and has not ended within %s", r.clock(*h.StartedAt), r.grace), time.Time{}
	}
	since, last := h.Since, "it has never called"
	if h.EndedAt != nil {
		last = "its last call was at " + r.clock(*h.EndedAt)
		if h.EndedAt.After(since) {
			since = *h.EndedAt
		}
	}
	if !h.Addressed {
		last = fmt.Sprintf("it has no address yet: run claudeops services heartbeat %s", h.Service)
	}
	due := r.expected(since)
	missed := due.Add(r.grace)
	switch {
	case now.Before(due):
		return ops.Healthy, "", due
	case now.Before(missed):
		return ops.Degraded, fmt.Sprintf("%sexpected at %s; %s", ops.LateMark, r.clock(due), last), missed
	}
	return ops.Down, fmt.Sprintf("missed: expected at %s; %s", r.clock(due), last), time.Time{}
}

// failure says how a run failed, with the last line that it wrote.
func failure(h ops.Heartbeat) string {
	why := "the job reported a failure"
	if h.Exit != 0 {
		why = fmt.Sprintf("exit status %d", h.Exit)
	}
	lines := strings.Split(strings.TrimSpace(h.Output), "\n")
	if last := lines[len(lines)-1]; last != "" {
		why += ": " + last
	}
	return why
}

func (r Rhythm) clock(t time.Time) string { return t.In(r.zone).Format("2006-01-02 15:04:05 MST") }
