package health

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"claudeops/internal/ops"
)

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
