package river

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivertype"

	"claudeops/internal/ops"
)

// sweepQueue is worked by every host.
const sweepQueue = "sweep"

// plain matches names that River accepts unchanged.
var plain = regexp.MustCompile(`^[a-z0-9]+([_-][a-z0-9]+)*$`)

// queue returns the queue of an environment; only hosts that work for the environment fetch from it.
func queue(environment string) string {
	if plain.MatchString(environment) && len(environment) <= 60 {
		return "env-" + environment
	}
	sum := sha256.Sum256([]byte(environment))
	return "hash-" + hex.EncodeToString(sum[:16])
}

// wakeArgs wake a cycle. Every change from outside raises the number, so its wake-up is not a duplicate of an earlier one
// that is still on its way.
type wakeArgs struct {
	Cycle ops.CycleID `json:"cycle" river:"unique"`
	Seq   int64       `json:"wake_seq" river:"unique"`
}

// Kind names the job in River's tables.
func (wakeArgs) Kind() string { return "cycle_wake" }

// InsertOpts make a wake-up unique until it is delivered.
func (wakeArgs) InsertOpts() river.InsertOpts {
	return river.InsertOpts{UniqueOpts: river.UniqueOpts{ByArgs: true, ByState: []rivertype.JobState{
		rivertype.JobStateAvailable, rivertype.JobStatePending, rivertype.JobStateRunning,
		rivertype.JobStateRetryable, rivertype.JobStateScheduled,
	}}}
}

// sweepArgs ask one host to read the journal.
type sweepArgs struct{}

// Kind names the job in River's tables.
func (sweepArgs) Kind() string { return "cycle_sweep" }

// InsertOpts do not retry a failed sweep, because the next one follows soon.
func (sweepArgs) InsertOpts() river.InsertOpts {
	return river.InsertOpts{Queue: sweepQueue, MaxAttempts: 1}
}

// waker delivers wake-ups.
type waker struct {
	river.WorkerDefaults[wakeArgs]
	engine *Engine
}

// NextRetry retries a failed delivery soon.
func (w *waker) NextRetry(*river.Job[wakeArgs]) time.Time { return time.Now().Add(again) }

// Work completes the job before it acts on it. A change before that point may find this job as a duplicate, but the claim
// comes later and sees the change. A change after that point inserts a new job.
func (w *waker) Work(ctx context.Context, job *river.Job[wakeArgs]) error {
	err := w.engine.complete(ctx, job)
	if errors.Is(err, rivertype.ErrNotFound) {
		return nil // it took so long that another host replaced it
	}
	if err != nil {
		return fmt.Errorf("complete wake-up: %w", err)
	}
	w.engine.take(attempt{job.Args.Cycle, w.engine.queues[job.Queue], job.Args.Seq}) //nolint:contextcheck // a worker outlives the delivery
	return nil
}

func (e *Engine) complete(ctx context.Context, job *river.Job[wakeArgs]) error {
	ctx, cancel := context.WithTimeout(ctx, call)
	defer cancel()
	return pgx.BeginFunc(ctx, e.o.Pool, func(tx pgx.Tx) error {
		_, err := river.JobCompleteTx[*riverpgxv5.Driver](ctx, tx, job)
		return err
	})
}

// sweeper passes on the sweep of the leader.
type sweeper struct {
	river.WorkerDefaults[sweepArgs]
	engine *Engine
}

// Work only wakes the loop, which limits how often it looks.
func (s *sweeper) Work(context.Context, *river.Job[sweepArgs]) error {
	s.engine.nudge()
	return nil
}
