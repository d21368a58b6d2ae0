package supervisor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"claudeops/internal/ops"
)

// Records is where old records are removed, a few at a time.
type Records interface {
	// RemoveOld removes a few records of a kind and tells how many rows went, and whether more may be left to do.
	RemoveOld(ctx context.Context, what ops.Record, keep ops.Retention, now time.Time) (removed int64, more bool, err error)
	// GiveBack returns a little free space to the system; none means that there is nothing more to give.
	GiveBack(ctx context.Context) (int64, error)
}

// Retention removes what is older than it should be, or too much. It works in small batches with pauses between them, so that
// nobody who writes waits for it.
type Retention struct {
	Records Records
	Keep    ops.Retention
	// Mine reports whether this host does it: of several that share a database one is enough. Nil means yes.
	Mine   func(ctx context.Context) bool
	Clock  ops.Clock
	Logger *slog.Logger

	steady steadiness
}

var errRetentionLong = errors.New("removing takes long; the rest comes next time")

const (
	retentionFirst = time.Minute           // after the start: continuing cycles comes first
	retentionEvery = time.Hour             // between two looks
	retentionMost  = 10 * time.Minute      // of one look; the rest comes next time
	retentionPause = 25 * time.Millisecond // between two batches, at least
	retentionShare = 4                     // and so many times as long as the batch took
)

// Run looks until ctx ends.
func (r *Retention) Run(ctx context.Context) {
	timer := time.NewTimer(retentionFirst)
	defer timer.Stop()
	r.steady.begin(r.Clock())
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		if err := r.Look(ctx); err != nil && ctx.Err() == nil {
			r.Logger.ErrorContext(ctx, "old records could not be removed; trying again in an hour", "error", err)
		}
		timer.Reset(retentionEvery)
	}
}

// Look removes once what is due.
func (r *Retention) Look(ctx context.Context) error {
	if r.Mine != nil && !r.Mine(ctx) {
		return nil
	}
	now := r.Clock()
	if !r.steady.look(now) {
		r.Logger.WarnContext(ctx, "the clock has jumped, so nothing is removed by its age for a day; set it right if it is wrong", "now", now)
		return nil
	}
	ctx, cancel := context.WithTimeoutCause(ctx, retentionMost, errRetentionLong)
	defer cancel()
	for _, what := range ops.Records() {
		removed, err := r.batches(ctx, func() (int64, bool, error) { return r.Records.RemoveOld(ctx, what, r.Keep, now) })
		if removed > 0 {
			r.Logger.InfoContext(ctx, "removed old "+string(what), "rows", removed)
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
		r.Logger.InfoContext(ctx, "gave back free space of the database", "bytes", freed)
	}
	if err != nil {
		return fmt.Errorf("give back free space: %w", err)
	}
	return nil
}

// batches repeats until nothing is left to do or the time of the look is over.
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
		pause := time.NewTimer(max(retentionPause, retentionShare*time.Since(began)))
		select {
		case <-ctx.Done():
		case <-pause.C:
		}
		pause.Stop()
	}
	return sum, nil
}

// steadiness watches the time of day: one that jumps a year ahead would make everything old.
type steadiness struct {
	wall   time.Time // the time of day at
	at     time.Time // this moment
	wrong  time.Time // when it last jumped
	jumped bool
}

const (
	clockJump  = 7 * 24 * time.Hour // more than a machine sleeps; less only removes a little early
	clockProof = 24 * time.Hour     // so long a clock must be steady after it jumped
)

func (s *steadiness) begin(wall time.Time) { s.wall, s.at = wall.Round(0), time.Now() }

// look reports whether the time of day can be trusted.
func (s *steadiness) look(wall time.Time) bool {
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
