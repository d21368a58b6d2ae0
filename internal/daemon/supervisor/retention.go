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
	// Mine reports whether this host removes records: of several hosts one is enough. Nil means yes.
	Mine   func(ctx context.Context) bool
	Clock  ops.Clock
	Logger *slog.Logger

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
	timer := time.NewTimer(retentionFirst)
	defer timer.Stop()
	r.clock.begin(r.Clock())
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		if err := r.Look(ctx); err != nil && ctx.Err() == nil {
			r.Logger.ErrorContext(ctx, "cannot remove old records; trying again in an hour", "error", err)
		}
		timer.Reset(retentionEvery)
	}
}

// Look removes the records that are due.
func (r *Retention) Look(ctx context.Context) error {
	if r.Mine != nil && !r.Mine(ctx) {
		return nil
	}
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
	if err != nil {
		return fmt.Errorf("return free space: %w", err)
	}
	return nil
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
		pause := time.NewTimer(max(retentionPause, retentionShare*time.Since(began)))
		select {
		case <-ctx.Done():
		case <-pause.C:
		}
		pause.Stop()
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
