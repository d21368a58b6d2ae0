// Package supervisor turns schedules and requests into queued cycles and wakes the engine. What a cycle then does is decided in
// package decide.
package supervisor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"claudeops/internal/engine"
	"claudeops/internal/ops"
)

// Journal is where the supervisor queues and cancels cycles, and where the brake reads how they ended and reports that it stopped the
// schedule.
type Journal interface {
	SubmitCycle(ctx context.Context, n ops.NewCycle) (ops.CycleID, error)
	RequestCancel(ctx context.Context, id ops.CycleID, reason string, at time.Time) (ops.Cycle, error)
	LastEnded(ctx context.Context, environment string) (time.Time, bool, error)
	Unfinished(ctx context.Context) ([]ops.Cycle, error)
	Endings(ctx context.Context, environment string, limit int) ([]ops.Ending, error)
	AddEvent(ctx context.Context, e ops.Event) (int64, error)
}

// Notices stores what people are told.
type Notices interface {
	AddNotice(ctx context.Context, n ops.Notice) (int64, error)
}

// Options are what a supervisor needs.
type Options struct {
	Journal      Journal
	Notices      Notices
	Engine       engine.Waker
	Environments []ops.Environment
	// Scheduled are the environments that this host schedules.
	Scheduled []ops.Environment
	// Shared means that other hosts run the same schedule: the first one queues the cycle.
	Shared bool
	Clock  ops.Clock
	Jitter func() float64 // in [-1, 1]; nil means random
	Logger *slog.Logger
	// Idle reports whether a cycle of the environment could do nothing: it has no agent and nothing to watch. Nil means never.
	Idle func(environment string) bool
	Ran  func() // called at least every half minute while the schedule works; nil calls nothing
}

// Supervisor owns the schedule.
type Supervisor struct {
	o       Options
	mu      sync.Mutex
	when    timetable
	stopped map[string]bool // environments for which the brake was reported
	idle    map[string]bool // environments whose cycles could do nothing
}

// New returns a supervisor that has not started yet.
func New(o Options) *Supervisor {
	if o.Jitter == nil {
		o.Jitter = func() float64 { return rand.Float64()*2 - 1 } //nolint:gosec // spreads load, guards nothing
	}
	if o.Ran == nil {
		o.Ran = func() {}
	}
	if o.Idle == nil {
		o.Idle = func(string) bool { return false }
	}
	return &Supervisor{o: o, when: timetable{next: map[string]time.Time{}}, stopped: map[string]bool{}, idle: map[string]bool{}}
}

// Submit queues a cycle and wakes the engine. It returns when the row is written.
func (s *Supervisor) Submit(ctx context.Context, n ops.NewCycle) (ops.CycleID, error) {
	known := slices.ContainsFunc(s.o.Environments, func(e ops.Environment) bool { return e.Name == n.Environment })
	if !known {
		return 0, fmt.Errorf("submit cycle: environment %q is not configured: %w", n.Environment, ops.ErrNotFound)
	}
	if n.At.IsZero() {
		n.At = s.o.Clock()
	}
	id, err := s.o.Journal.SubmitCycle(ctx, n)
	if err != nil {
		return 0, err
	}
	s.o.Engine.Submit(id)
	return id, nil
}

// Cancel records the request and stops the worker of the cycle.
func (s *Supervisor) Cancel(ctx context.Context, id ops.CycleID, why string) error {
	if _, err := s.o.Journal.RequestCancel(ctx, id, why, s.o.Clock()); err != nil {
		return err
	}
	s.o.Engine.Cancel(id, why)
	s.o.Engine.Submit(id)
	return nil
}

// Wake says that something the cycle waits for has changed.
func (s *Supervisor) Wake(id ops.CycleID) { s.o.Engine.Submit(id) }

// NextChecks returns when each environment is due; an idle one is not.
func (s *Supervisor) NextChecks() map[string]time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make(map[string]time.Time, len(s.when.next))
	for k, v := range s.when.next {
		if !s.idle[k] {
			out[k] = v
		}
	}
	return out
}

// Run runs the schedule until ctx ends.
func (s *Supervisor) Run(ctx context.Context) error {
	if err := s.plan(ctx); err != nil {
		return err
	}
	for {
		wait := s.tick(ctx)
		s.o.Ran()
		if !ops.Pause(ctx, wait) {
			return nil
		}
	}
}

// plan sets the first time of every environment.
func (s *Supervisor) plan(ctx context.Context) error {
	now := s.o.Clock()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.when.seen = now
	for _, e := range s.o.Scheduled {
		last, ran, err := s.o.Journal.LastEnded(ctx, e.Name)
		if err != nil {
			return fmt.Errorf("plan schedule of %s: %w", e.Name, err)
		}
		s.when.next[e.Name] = firstDue(now, last, ran, e.Interval)
	}
	return nil
}

// tick submits a cycle for every environment that is due and has none open, and returns how long to sleep.
func (s *Supervisor) tick(ctx context.Context) time.Duration {
	s.mu.Lock()
	due := s.when.due(s.o.Clock(), s.o.Scheduled, s.o.Jitter)
	s.mu.Unlock()
	if len(due) > 0 {
		s.start(ctx, due)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.when.wait(s.o.Clock())
}

// start submits a cycle for each environment that has none open and whose cycles do not keep failing.
func (s *Supervisor) start(ctx context.Context, due []string) {
	open, err := s.o.Journal.Unfinished(ctx)
	if err != nil {
		s.logError(ctx, fmt.Errorf("read open cycles: %w", err))
		return
	}
	for _, name := range due {
		if slices.ContainsFunc(open, func(c ops.Cycle) bool { return c.Environment == name && c.Status != ops.CycleWaitingHuman }) {
			s.o.Logger.InfoContext(ctx, "a scheduled cycle is skipped: the previous one has not ended", "environment", name)
			continue
		}
		if s.waits(ctx, name) || s.braked(ctx, name) {
			continue
		}
		n := ops.NewCycle{Environment: name, Trigger: ops.TriggerScheduled}
		if s.o.Shared {
			early, key, err := s.turn(ctx, name, open)
			if err != nil {
				s.logError(ctx, err)
				continue
			}
			if early {
				continue
			}
			n.Key = key
		}
		if _, err := s.Submit(ctx, n); err != nil && !errors.Is(err, ops.ErrStopped) {
			s.logError(ctx, err)
		}
	}
}

// idlePace is how often it is looked whether an idle environment has something to do.
const idlePace = 15 * time.Second

// waits reports whether the environment is not set up yet: without an agent and without anything to watch, a cycle could only fail.
func (s *Supervisor) waits(ctx context.Context, environment string) bool {
	idle := s.o.Idle(environment)
	s.mu.Lock()
	defer s.mu.Unlock()
	if idle && !s.idle[environment] {
		s.o.Logger.InfoContext(ctx, "no cycle starts: no agent is installed and nothing is watched; 'claudeops doctor' says what to do",
			"environment", environment)
	}
	if s.idle[environment] = idle; idle {
		s.when.next[environment] = s.o.Clock().Add(idlePace)
	}
	return idle
}

// turn reports whether a cycle of another host makes ours too early, and returns the key of ours: two hosts that are due after the
// same cycle submit the same key.
func (s *Supervisor) turn(ctx context.Context, environment string, open []ops.Cycle) (early bool, key string, err error) {
	last, ran, err := s.o.Journal.LastEnded(ctx, environment)
	if err != nil {
		return false, "", fmt.Errorf("read last check of %s: %w", environment, err)
	}
	var newest ops.CycleID // a cycle that waits for a person does not delay the schedule
	for _, c := range open {
		if c.Environment != environment {
			continue
		}
		newest = max(newest, c.ID)
		if c.CreatedAt.After(last) {
			last, ran = c.CreatedAt, true
		}
	}
	i := slices.IndexFunc(s.o.Scheduled, func(e ops.Environment) bool { return e.Name == environment })
	now, interval := s.o.Clock(), s.o.Scheduled[i].Interval
	s.mu.Lock()
	defer s.mu.Unlock()
	if due := firstDue(now, last, ran, interval*8/10); due.After(now) {
		s.when.next[environment] = nextDue(last, interval, s.o.Jitter())
		return true, "", nil
	}
	return false, fmt.Sprintf("schedule/%s/%d/%d", environment, last.UnixMicro(), newest), nil
}

func (s *Supervisor) logError(ctx context.Context, err error) {
	if !errors.Is(err, context.Canceled) {
		s.o.Logger.ErrorContext(ctx, "a scheduled cycle could not be started; trying again", "error", err)
	}
}

// clockSlack is how far the system clock may go back before it counts as set back.
const clockSlack = 5 * time.Second

// timetable is when each environment is due. It is plain data, changed by pure functions of the system time.
type timetable struct {
	next map[string]time.Time
	seen time.Time
}

// firstDue is when an environment is due after a start: now, unless a cycle ended within the last interval.
func firstDue(now, lastEnded time.Time, ran bool, interval time.Duration) time.Time {
	if !ran || lastEnded.After(now) {
		return now
	}
	if due := lastEnded.Add(interval); due.After(now) {
		return due
	}
	return now
}

// nextDue is one interval from now, moved by jitter in [-1, 1] tenths of it, so that many hosts do not run in step.
// It counts from now, not from the missed time: after a long sleep one cycle runs, not one per interval.
func nextDue(now time.Time, interval time.Duration, jitter float64) time.Time {
	return now.Add(interval + time.Duration(jitter*float64(interval)/10))
}

// due returns the environments that are due now and moves each to its next time.
func (t *timetable) due(now time.Time, envs []ops.Environment, jitter func() float64) []string {
	setBack := now.Before(t.seen.Add(-clockSlack))
	t.seen = now
	var out []string
	for _, e := range envs {
		if setBack && t.next[e.Name].After(now.Add(e.Interval)) {
			// The clock went back: the old time may be a year away.
			t.next[e.Name] = nextDue(now, e.Interval, jitter())
		}
		if !t.next[e.Name].After(now) {
			out = append(out, e.Name)
			t.next[e.Name] = nextDue(now, e.Interval, jitter())
		}
	}
	return out
}

// wait is how long the loop may sleep. It is bounded, because timers stop while the machine sleeps.
func (t *timetable) wait(now time.Time) time.Duration {
	const longest = 30 * time.Second
	d := longest
	for _, n := range t.next {
		d = min(d, n.Sub(now))
	}
	return max(d, 0)
}
