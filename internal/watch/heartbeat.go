package watch

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"claudeops/internal/decide/health"
	"claudeops/internal/ops"
)

// HeartbeatStore keeps the calls of jobs.
type HeartbeatStore interface {
	Heartbeats(ctx context.Context, environment string, after int64) ([]ops.Heartbeat, error)
	AddHeartbeats(ctx context.Context, environment string, added []ops.Heartbeat) error
	KeepRhythms(ctx context.Context, environment string, rhythms map[string]map[string]string, at time.Time) error
}

// Heartbeats turns the calls of jobs, and their absence, into results of probes. It sleeps until the next job is late, or something was
// written; then it reads what changed, with one query for each environment. Jobs that call in time cost nothing else.
type Heartbeats struct {
	Store   HeartbeatStore
	Deliver func(ctx context.Context, checks []ops.Check)
	Clock   ops.Clock
	Logger  *slog.Logger

	environments []*beating
}

// beating are the heartbeats of one environment.
type beating struct {
	name     string
	refresh  time.Duration
	jobs     map[key]*job
	rhythms  map[string]map[string]string // in words, by service and probe
	seq      int64                        // up to which changes were read
	notified time.Time                    // when the state of every job was last delivered
	next     time.Time                    // when the first of them changes
}

// job is one heartbeat.
type job struct {
	rhythm health.Rhythm
	beat   ops.Heartbeat
	until  time.Time // when its state changes without a call; zero: never
}

const (
	// refreshEvery is how often the state of every job is delivered although nothing changed, so that it does not count as unknown.
	refreshEvery = time.Hour
	// readAgain is when a database that did not answer is asked again.
	readAgain = 5 * time.Second
)

// Add adds the heartbeats among the probes of an environment, and reports whether there are any.
func (h *Heartbeats) Add(e ops.Environment, describe func(ops.ProbeSpec) string) (bool, error) {
	b := &beating{name: e.Name, refresh: refreshEvery, jobs: map[key]*job{}, rhythms: map[string]map[string]string{}}
	if e.Interval > 0 {
		b.refresh = min(refreshEvery, e.Interval)
	}
	for _, spec := range Probes(e) {
		if spec.Type != ops.ProbeHeartbeat {
			continue
		}
		rhythm, err := health.ParseRhythm(spec)
		if err != nil {
			return false, err
		}
		b.jobs[key{spec.Service, describe(spec)}] = &job{rhythm: rhythm}
		if b.rhythms[spec.Service] == nil {
			b.rhythms[spec.Service] = map[string]string{}
		}
		b.rhythms[spec.Service][describe(spec)] = strings.TrimSpace(fmt.Sprintln(spec.Every, spec.Schedule, spec.Zone))
	}
	if len(b.jobs) > 0 {
		h.environments = append(h.environments, b)
	}
	return len(b.jobs) > 0, nil
}

// Run watches until ctx ends; a nudge says that something was written.
func (h *Heartbeats) Run(ctx context.Context, nudges <-chan struct{}) error {
	for {
		wait := h.Pass(ctx).Sub(h.Clock())
		if !pause(ctx, minPause, nil) || wait > 0 && !pause(ctx, min(wait, maxPause), nudges) {
			return nil
		}
	}
}

// Pass does once what Run does again and again, and returns when the next pass is.
func (h *Heartbeats) Pass(ctx context.Context) time.Time {
	now := h.Clock()
	next := now.Add(maxPause)
	for _, b := range h.environments {
		changed, err := h.read(ctx, b, now)
		if err != nil {
			if ctx.Err() == nil {
				h.Logger.ErrorContext(ctx, "watch step failed", "step", "read heartbeats", "error", err)
			}
			return now.Add(readAgain)
		}
		if checks := b.judge(changed, now); len(checks) > 0 {
			h.Deliver(ctx, checks)
		}
		for _, at := range []time.Time{b.next, b.notified.Add(b.refresh)} {
			if !at.IsZero() && at.Before(next) {
				next = at
			}
		}
	}
	return next
}

// read reads which jobs have called. Those of which nothing is recorded, or whose rhythm has changed, count from now.
func (h *Heartbeats) read(ctx context.Context, b *beating, now time.Time) (map[key]bool, error) {
	first := b.seq == 0
	changed := map[key]bool{}
	if err := b.take(ctx, h.Store, changed); err != nil || !first {
		return changed, err
	}
	var added []ops.Heartbeat
	for k := range b.jobs {
		if !changed[k] {
			added = append(added, ops.Heartbeat{Service: k.service, Probe: k.probe, Since: now})
		}
	}
	err := h.Store.AddHeartbeats(ctx, b.name, added)
	if err == nil {
		err = h.Store.KeepRhythms(ctx, b.name, b.rhythms, now)
	}
	if err != nil {
		b.seq = 0
		return nil, err
	}
	return changed, b.take(ctx, h.Store, changed)
}

func (b *beating) take(ctx context.Context, s HeartbeatStore, changed map[key]bool) error {
	found, err := s.Heartbeats(ctx, b.name, b.seq)
	for _, beat := range found {
		b.seq = beat.Seq
		k := key{beat.Service, beat.Probe}
		if j := b.jobs[k]; j != nil {
			j.beat, changed[k] = beat, true
		}
	}
	return err
}

// judge returns the results of the jobs that have called or whose time has come; now and then those of all.
func (b *beating) judge(changed map[key]bool, now time.Time) []ops.Check {
	all := now.Sub(b.notified) >= b.refresh || now.Before(b.notified)
	if !all && len(changed) == 0 && (b.next.IsZero() || now.Before(b.next)) {
		return nil
	}
	if all {
		b.notified = now
	}
	b.next = time.Time{}
	var checks []ops.Check
	for k, j := range b.jobs {
		if all || changed[k] || !j.until.IsZero() && !now.Before(j.until) {
			status, why, until := j.rhythm.Judge(j.beat, now)
			j.until = until
			checks = append(checks, ops.Check{
				At: now, Environment: b.name, Purpose: ops.ProbeWatch, Service: k.service, Probe: k.probe, Type: ops.CheckService,
				Status: status, Error: ops.OneLine(why, longestError),
			})
		}
		if !j.until.IsZero() && (b.next.IsZero() || j.until.Before(b.next)) {
			b.next = j.until
		}
	}
	return checks
}

// longestError is how much of an error fits on one line of a page.
const longestError = 200
