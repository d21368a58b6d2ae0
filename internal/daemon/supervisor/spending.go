package supervisor

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"claudeops/internal/notice"
	"claudeops/internal/ops"
)

// Costs is where costs are read, and where people are told about them.
type Costs interface {
	Spending(ctx context.Context, environment string, window time.Duration, now time.Time) (ops.Spending, error)
	SilencesSince(ctx context.Context, environment string, since time.Time) ([]ops.Silence, error)
	AddNoticeOnce(ctx context.Context, n ops.Notice, e ops.Event, since time.Time) (bool, error)
}

// Spending tells people when the budget of the day will be used up before the day is over.
type Spending struct {
	Costs        Costs
	Environments []ops.Environment
	// Changed is called after a notice was written: it is due at once.
	Changed func()
	Clock   ops.Clock
	Logger  *slog.Logger
}

// spendingPace is how often costs are looked at. They change when a session ends.
const spendingPace = time.Minute

// Run looks until ctx ends.
func (s *Spending) Run(ctx context.Context) {
	ticker := time.NewTicker(spendingPace)
	defer ticker.Stop()
	for {
		if err := s.Look(ctx); err != nil && ctx.Err() == nil {
			s.Logger.ErrorContext(ctx, "cannot check the rate of spending; trying again", "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// Look tells people what they were not told yet today.
func (s *Spending) Look(ctx context.Context) error {
	now := s.Clock()
	for _, e := range s.Environments {
		if e.Policy.BudgetDayUSD <= 0 {
			continue
		}
		spent, err := s.Costs.Spending(ctx, e.Name, ops.SpendWindow, now)
		if err != nil {
			return fmt.Errorf("read costs of %s: %w", e.Name, err)
		}
		f := ops.ForecastOf(e.Policy.BudgetDayUSD, spent, now)
		if f.GoneAt == nil {
			continue
		}
		silences, err := s.Costs.SilencesSince(ctx, e.Name, now)
		if err != nil {
			return fmt.Errorf("read silences of %s: %w", e.Name, err)
		}
		if !f.Alarm(e.Name, e.Policy.DryRun, silences, now) {
			continue
		}
		if err := s.tell(ctx, e.Name, f, now); err != nil {
			return err
		}
	}
	return nil
}

func (s *Spending) tell(ctx context.Context, environment string, f ops.Forecast, now time.Time) error {
	sentence := f.Sentence(now.UTC())
	text := notice.SpendingFast(environment, sentence, f.SpentUSD)
	added, err := s.Costs.AddNoticeOnce(ctx, ops.Notice{
		Kind: ops.NoticeBudget, Level: ops.LevelWarning, Title: text.Title, Body: text.Body, Environment: environment,
		Key: f.Key(environment, now), NextAt: now, CreatedAt: now,
	}, ops.Event{
		At: now, Environment: environment, Level: ops.LevelWarning, Kind: ops.EventNotification, Message: sentence,
	}, now.UTC().Truncate(24*time.Hour))
	if err != nil {
		return fmt.Errorf("tell about the costs of %s: %w", environment, err)
	}
	if added && s.Changed != nil {
		s.Changed()
	}
	return nil
}
