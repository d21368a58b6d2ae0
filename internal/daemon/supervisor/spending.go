package supervisor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"claudeops/internal/decide/recovery"
	"claudeops/internal/notice"
	"claudeops/internal/ops"
)

// Costs is where costs are read.
type Costs interface {
	Spending(ctx context.Context, environment string, window time.Duration, now time.Time) (ops.Spending, error)
}

// Silences are what people do not want to be told about.
type Silences interface {
	SilencesSince(ctx context.Context, environment string, since time.Time) ([]ops.Silence, error)
}

// Warnings stores what people are told once.
type Warnings interface {
	AddNoticeOnce(ctx context.Context, n ops.Notice, e ops.Event, since time.Time) (bool, error)
}

// Spending tells people when the budget of the day will be used up before the day is over.
type Spending struct {
	Costs        Costs
	Silences     Silences
	Notices      Warnings
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
	Every(ctx, spendingPace, nil, func() {
		if err := s.Look(ctx); err != nil && ctx.Err() == nil {
			s.Logger.ErrorContext(ctx, "cannot check the rate of spending; trying again", "error", err)
		}
	})
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
		silences, err := s.Silences.SilencesSince(ctx, e.Name, now)
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
	added, err := s.Notices.AddNoticeOnce(ctx, ops.Notice{
		Kind: ops.NoticeBudget, Level: ops.LevelWarning, Title: text.Title, Body: text.Body, Environment: environment,
		Key: f.Key(environment, now), NextAt: now, CreatedAt: now,
	}, ops.Event{
		At: now, Environment: environment, Level: ops.LevelWarning, Verb: ops.VerbSpendingWarned, Reason: sentence,
	}, now.UTC().Truncate(24*time.Hour))
	if err != nil {
		return fmt.Errorf("tell about the costs of %s: %w", environment, err)
	}
	if added && s.Changed != nil {
		s.Changed()
	}
	return nil
}

// remembered is how many ended cycles the brake reads: more than it needs to stop.
const remembered = 10

// braked reports whether the environment's cycles keep failing, so that the next scheduled one has to wait. The delay is computed
// from the journal alone, so a restart does not shorten it.
func (s *Supervisor) braked(ctx context.Context, environment string) bool {
	endings, err := s.o.Journal.Endings(ctx, environment, remembered)
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
	notified := s.stopped[environment]
	s.stopped[environment] = notified || stop
	s.mu.Unlock()
	s.o.Logger.WarnContext(ctx, "a scheduled cycle is delayed because cycles keep failing",
		"environment", environment, "until", now.Add(delay), "reason", reason)
	if stop && !notified {
		s.tellBrake(ctx, environment, reason, now)
	}
	return true
}

// tellBrake reports that no scheduled cycle starts any more.
func (s *Supervisor) tellBrake(ctx context.Context, environment, reason string, now time.Time) {
	event := ops.Event{At: now, Environment: environment, Level: ops.LevelCritical, Verb: ops.VerbBrakePulled, Reason: reason}
	if _, err := s.o.Journal.AddEvent(ctx, event); err != nil {
		s.logError(ctx, fmt.Errorf("record that cycles of %s keep failing: %w", environment, err))
	}
	text := notice.CyclesFail(environment, reason)
	if _, err := s.o.Notices.AddNotice(ctx, ops.Notice{
		Kind: ops.NoticeBrake, Level: ops.LevelCritical, Title: text.Title, Body: text.Body, Status: ops.NoticePending,
		NextAt: now, CreatedAt: now,
	}); err != nil {
		s.logError(ctx, fmt.Errorf("notify that cycles of %s keep failing: %w", environment, err))
	}
}

// Records is where old records are removed, a few at a time.
type Records interface {
	// RemoveOld removes a few records of a kind and returns how many, and whether more may be left.
	RemoveOld(ctx context.Context, what ops.Record, keep ops.Retention, now time.Time) (removed int64, more bool, err error)
	// GiveBack returns a little free space to the file system; 0 means that there is none left.
	GiveBack(ctx context.Context) (int64, error)
}

// Retention removes records that are older than configured, or too many. It works in small batches with pauses between them, so
// that it does not delay writers.
type Retention struct {
	Records Records
	Keep    ops.Retention
	Clock   ops.Clock
	Logger  *slog.Logger

	clock clockCheck
}

var errRetentionLong = errors.New("removing old records takes too long; the rest is removed next time")

const (
	retentionFirst = time.Minute           // after the start: open cycles come first
	retentionEvery = time.Hour             // between two runs
	retentionMost  = 10 * time.Minute      // of one run; the rest is removed next time
	retentionPause = 25 * time.Millisecond // between two batches, at least
	retentionShare = 4                     // and this many times as long as the batch took
)

// Run runs Look every hour until ctx ends.
func (r *Retention) Run(ctx context.Context) {
	r.clock.begin(r.Clock())
	for pause := retentionFirst; ops.Pause(ctx, pause); pause = retentionEvery {
		if err := r.Look(ctx); err != nil && ctx.Err() == nil {
			r.Logger.ErrorContext(ctx, "cannot remove old records; trying again in an hour", "error", err)
		}
	}
}

// Look removes the records that are due.
func (r *Retention) Look(ctx context.Context) error {
	now := r.Clock()
	if !r.clock.look(now) {
		r.Logger.WarnContext(ctx, "the system clock jumped; no records are removed for a day", "now", now)
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, retentionMost, errRetentionLong)
	defer cancel()
	for _, what := range ops.Records() {
		removed, err := r.batches(ctx, func() (int64, bool, error) { return r.Records.RemoveOld(ctx, what, r.Keep, now) })
		if removed > 0 {
			r.Logger.InfoContext(ctx, "removed old records", "kind", what, "rows", removed)
		}
		if err != nil {
			return fmt.Errorf("remove old %s: %w", what, err)
		}
	}
	freed, err := r.batches(ctx, func() (int64, bool, error) {
		n, err := r.Records.GiveBack(ctx)
		return n, n > 0, err
	})
	if freed > 0 {
		r.Logger.InfoContext(ctx, "returned free space of the database to the file system", "bytes", freed)
	}
	return ops.Wrapped(err, "return free space")
}

// batches repeats until nothing is left to do or the time of the run is over.
func (r *Retention) batches(ctx context.Context, batch func() (n int64, more bool, err error)) (int64, error) {
	var sum int64
	for ctx.Err() == nil {
		began := time.Now()
		n, more, err := batch()
		sum += n
		if err != nil && ctx.Err() == nil {
			return sum, err
		}
		if !more {
			return sum, nil
		}
		ops.Pause(ctx, max(retentionPause, retentionShare*time.Since(began)))
	}
	return sum, nil
}

// clockCheck watches the system clock: after a jump of a year everything would look old.
type clockCheck struct {
	wall   time.Time // the system time
	at     time.Time // when it was read, on the monotonic clock
	wrong  time.Time // when it last jumped
	jumped bool
}

const (
	clockJump  = 7 * 24 * time.Hour // longer than a machine sleeps; a smaller jump only removes a little early
	clockProof = 24 * time.Hour     // how long the clock must be steady after a jump
)

func (s *clockCheck) begin(wall time.Time) { s.wall, s.at = wall.Round(0), time.Now() }

// look reports whether the system time can be trusted.
func (s *clockCheck) look(wall time.Time) bool {
	if s.at.IsZero() {
		s.begin(wall)
	}
	passed := time.Since(s.at)
	if drift := wall.Round(0).Sub(s.wall) - passed; drift.Abs() > clockJump {
		s.wrong, s.jumped = time.Now(), true
	}
	s.begin(wall)
	return !s.jumped || time.Since(s.wrong) >= clockProof
}
