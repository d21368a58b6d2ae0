package supervisor

import (
	"context"
	"fmt"
	"time"

	"claudeops/internal/decide/recovery"
	"claudeops/internal/notice"
	"claudeops/internal/ops"
)

// Failures is where the brake reads how cycles ended, and reports that it stopped the schedule.
type Failures interface {
	Endings(ctx context.Context, environment string, limit int) ([]ops.Ending, error)
	AddNotice(ctx context.Context, n ops.Notice) (int64, error)
	AddEvent(ctx context.Context, e ops.Event) (int64, error)
}

// remembered is how many ended cycles the brake reads: more than it needs to stop.
const remembered = 10

// braked reports whether the environment's cycles keep failing, so that the next scheduled one has to wait. The delay is computed
// from the journal alone, so a restart does not shorten it.
func (s *Supervisor) braked(ctx context.Context, environment string) bool {
	endings, err := s.o.Failures.Endings(ctx, environment, remembered)
	if err != nil {
		s.logError(ctx, fmt.Errorf("read ended cycles of %s: %w", environment, err))
		return false
	}
	var failed []time.Time
	for _, e := range endings {
		if e.Status != ops.CyclePartial && e.Status != ops.CycleFailed {
			break // older failures no longer count
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
	s.o.Logger.WarnContext(ctx, "a scheduled cycle is delayed because cycles keep failing",
		"environment", environment, "until", now.Add(delay), "reason", reason)
	if stop && !told {
		s.tellBrake(ctx, environment, reason, now)
	}
	return true
}

// tellBrake reports that no scheduled cycle starts any more.
func (s *Supervisor) tellBrake(ctx context.Context, environment, reason string, now time.Time) {
	event := ops.Event{At: now, Environment: environment, Level: ops.LevelCritical, Kind: "brake", Message: reason}
	if _, err := s.o.Failures.AddEvent(ctx, event); err != nil {
		s.logError(ctx, fmt.Errorf("record that cycles of %s keep failing: %w", environment, err))
	}
	text := notice.CyclesFail(environment, reason)
	if _, err := s.o.Failures.AddNotice(ctx, ops.Notice{
		Kind: ops.NoticeBrake, Level: ops.LevelCritical, Title: text.Title, Body: text.Body, Status: ops.NoticePending,
		NextAt: now, CreatedAt: now,
	}); err != nil {
		s.logError(ctx, fmt.Errorf("notify that cycles of %s keep failing: %w", environment, err))
	}
}
