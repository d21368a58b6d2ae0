package supervisor

import (
	"context"
	"time"

	"claudeops/internal/decide/recovery"
	"claudeops/internal/ops"
)

// Failures is where the brake reads how cycles ended, and reports that it stopped the schedule.
type Failures interface {
	Endings(ctx context.Context, environment string, limit int) ([]ops.Ending, error)
	AddNotice(ctx context.Context, n ops.Notice) (int64, error)
	AddEvent(ctx context.Context, e ops.Event) (int64, error)
}

// remembered is how many endings the brake looks at: more than it takes to stop.
const remembered = 10

// braked reports whether the environment's cycles keep failing, so that its next scheduled one has to wait. How long follows
// from the journal alone, so a restart does not let go of the brake.
func (s *Supervisor) braked(ctx context.Context, environment string) bool {
	endings, err := s.o.Failures.Endings(ctx, environment, remembered)
	if err != nil {
		s.complain(ctx, "the brake could not read the journal", err)
		return false
	}
	var failed []time.Time
	for _, e := range endings {
		if e.Status != ops.CyclePartial && e.Status != ops.CycleFailed {
			break // what came before is over
		}
		failed = append(failed, e.At)
	}
	now := s.o.Clock()
	delay, stop, reason := recovery.Brake(failed, now)
	if delay <= 0 {
		s.mu.Lock()
		delete(s.stopped, environment)
		s.mu.Unlock()
		return false
	}
	s.mu.Lock()
	s.when.next[environment] = now.Add(delay)
	told := s.stopped[environment]
	s.stopped[environment] = told || stop
	s.mu.Unlock()
	s.o.Logger.WarnContext(ctx, "a scheduled check waits: "+reason, "environment", environment, "until", now.Add(delay))
	if stop && !told {
		s.tellBrake(ctx, environment, reason, now)
	}
	return true
}

// tellBrake tells the operator that nothing starts by itself any more.
func (s *Supervisor) tellBrake(ctx context.Context, environment, reason string, now time.Time) {
	if _, err := s.o.Failures.AddEvent(ctx, ops.Event{At: now, Environment: environment, Level: ops.LevelCritical, Kind: "brake", Message: reason}); err != nil {
		s.complain(ctx, "the brake could not be recorded", err)
	}
	if _, err := s.o.Failures.AddNotice(ctx, ops.Notice{
		Kind: "brake", Level: ops.LevelCritical, Title: "Claude Ops: Cycles keep failing", Status: ops.NoticePending, NextAt: now, CreatedAt: now,
		Body: "Environment " + environment + ": " + reason + ".\n\nLook at: claudeops cycles list. Start one by hand: claudeops run\n",
	}); err != nil {
		s.complain(ctx, "the brake could not be told", err)
	}
}
