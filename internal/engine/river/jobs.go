package river

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"
	"github.com/riverqueue/river/rivertype"

	"claudeops/internal/ops"
)

// plain matches names that River accepts unchanged.
var plain = regexp.MustCompile(`^[a-z0-9]+([_-][a-z0-9]+)*$`)

// queueName is a queue for something that has any name.
func queueName(prefix, name string) string {
	if plain.MatchString(name) && len(name) <= 58 {
		return prefix + "-" + name
	}
	sum := sha256.Sum256([]byte(name))
	return prefix + "hash-" + hex.EncodeToString(sum[:16])
}

// labelQueue is the queue of the environments with these labels. Every host that has the labels fetches from it.
func labelQueue(labels []string) string {
	sorted := slices.Sorted(slices.Values(labels))
	if len(sorted) == 0 {
		return "any"
	}
	return queueName("label", strings.Join(slices.Compact(sorted), "_"))
}

// hostQueue is the queue of the cycles that only this host can continue: it holds them from before its last start.
func hostQueue(host string) string { return queueName("host", host) }

// cycleArgs are one cycle being advanced. Every change from outside raises the wake number, so the job that follows is not a duplicate of
// the one that is being worked.
type cycleArgs struct {
	Cycle       ops.CycleID `json:"cycle" river:"unique"`
	Seq         int64       `json:"wake_seq" river:"unique"`
	Environment string      `json:"environment"`
}

// Kind names the job in River's tables.
func (cycleArgs) Kind() string { return "cycle" }

// insertOpts make a job unique until it is completed. A cycle that has begun comes before new ones.
func insertOpts(queue string, c ops.Cycle) *river.InsertOpts {
	priority := 2
	if c.StartedAt != nil {
		priority = 1
	}
	return &river.InsertOpts{Queue: queue, Priority: priority, UniqueOpts: river.UniqueOpts{
		ByArgs: true, ByQueue: true, ByState: []rivertype.JobState{
			rivertype.JobStateAvailable, rivertype.JobStatePending, rivertype.JobStateRunning,
			rivertype.JobStateRetryable, rivertype.JobStateScheduled,
		},
	}}
}

// Jobs inserts the jobs of cycles.
type Jobs struct {
	pool   *pgxpool.Pool
	client *river.Client[pgx.Tx]
	queues map[string]string // by environment
}

// NewJobs returns what inserts jobs for the environments, each with its labels.
func NewJobs(pool *pgxpool.Pool, environments map[string][]string) (*Jobs, error) {
	client, err := river.NewClient(riverpgxv5.New(pool), &river.Config{MaxAttempts: maxAttempts})
	if err != nil {
		return nil, fmt.Errorf("prepare jobs: %w", err)
	}
	j := &Jobs{pool: pool, client: client, queues: map[string]string{}}
	for name, labels := range environments {
		j.queues[name] = labelQueue(labels)
	}
	return j, nil
}

// OpenJobs is NewJobs for a process that does not work on cycles itself. It returns nil before the first host has prepared the tables:
// that host finds the cycles in the journal.
func OpenJobs(ctx context.Context, pool *pgxpool.Pool, environments map[string][]string) (*Jobs, error) {
	migrator, err := rivermigrate.New(riverpgxv5.New(pool), nil)
	if err != nil {
		return nil, fmt.Errorf("prepare jobs: %w", err)
	}
	versions, err := migrator.ExistingVersions(ctx)
	if err != nil {
		return nil, fmt.Errorf("prepare jobs: %w", err)
	}
	if len(versions) == 0 {
		return nil, nil //nolint:nilnil // see above
	}
	return NewJobs(pool, environments)
}

// Insert inserts a job for each cycle, in the transaction or, if it is nil, in one of its own. A job that exists already is not inserted
// twice, and a cycle of an environment that this host does not know is left to those that do. A worker that gives its own cycle back
// completes its job in the same transaction: it must not count as the one that follows it.
func (j *Jobs) Insert(ctx context.Context, tx pgx.Tx, cycles []ops.Cycle) error {
	own, ok := ctx.Value(jobKey{}).(*river.Job[cycleArgs])
	if !ok || !slices.ContainsFunc(cycles, func(c ops.Cycle) bool { return c.ID == own.Args.Cycle }) {
		_, err := j.insert(ctx, tx, j.queue, cycles)
		return err
	}
	both := func(tx pgx.Tx) error {
		if _, err := river.JobCompleteTx[*riverpgxv5.Driver](ctx, tx, own); err != nil && !errors.Is(err, rivertype.ErrNotFound) {
			return fmt.Errorf("complete job: %w", err)
		}
		_, err := j.insert(ctx, tx, j.queue, cycles)
		return err
	}
	if tx == nil {
		return pgx.BeginFunc(ctx, j.pool, both)
	}
	return both(tx)
}

// jobKey is where the context of a worker has its job.
type jobKey struct{}

func (j *Jobs) queue(c ops.Cycle) string { return j.queues[c.Environment] }

// insert returns the jobs of the cycles that have a queue.
func (j *Jobs) insert(ctx context.Context, tx pgx.Tx, queue func(ops.Cycle) string, cycles []ops.Cycle) ([]inserted, error) {
	var jobs []river.InsertManyParams
	var of []ops.CycleID
	for _, c := range cycles {
		if q := queue(c); q != "" {
			jobs = append(jobs, river.InsertManyParams{Args: cycleArgs{c.ID, c.WakeSeq, c.Environment}, InsertOpts: insertOpts(q, c)})
			of = append(of, c.ID)
		}
	}
	if len(jobs) == 0 {
		return nil, nil
	}
	var results []*rivertype.JobInsertResult
	var err error
	if tx == nil {
		results, err = j.client.InsertMany(ctx, jobs)
	} else {
		results, err = j.client.InsertManyTx(ctx, tx, jobs)
	}
	if err != nil {
		return nil, fmt.Errorf("insert jobs: %w", err)
	}
	out := make([]inserted, len(results))
	for i, r := range results {
		out[i] = inserted{cycle: of[i], job: r.Job.ID, known: r.UniqueSkippedAsDuplicate, taken: r.Job.State == rivertype.JobStateRunning}
	}
	return out, nil
}

// inserted is a job after its insertion.
type inserted struct {
	cycle ops.CycleID
	job   int64
	known bool // it existed already
	taken bool // a host has fetched it
}

// migrationLock is the advisory lock that a host takes to migrate River's tables.
const migrationLock = 0x636c6f70_72697672

// ownLog is what River writes: nothing. It recovers from every error by itself, and the sweep says when the database is away.
func ownLog() *slog.Logger { return slog.New(slog.DiscardHandler) }

// migrate brings River's tables up to date, one host at a time.
func migrate(ctx context.Context, pool *pgxpool.Pool) error {
	migrator, err := rivermigrate.New(riverpgxv5.New(pool), &rivermigrate.Config{Logger: ownLog()})
	if err != nil {
		return fmt.Errorf("prepare queue tables: %w", err)
	}
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return fmt.Errorf("prepare queue tables: %w", err)
	}
	defer conn.Release()
	for {
		var ours bool
		// Polling leaves no open transaction that a migration would have to wait for.
		if err := conn.QueryRow(ctx, `SELECT pg_try_advisory_lock($1)`, migrationLock).Scan(&ours); err != nil {
			return fmt.Errorf("lock queue tables: %w", err)
		}
		if ours {
			break
		}
		if !ops.Pause(ctx, 50*time.Millisecond) {
			return fmt.Errorf("lock queue tables: %w", context.Cause(ctx))
		}
	}
	_, err = migrator.Migrate(ctx, rivermigrate.DirectionUp, nil)
	if _, unlock := conn.Exec(context.WithoutCancel(ctx), `SELECT pg_advisory_unlock($1)`, migrationLock); unlock != nil {
		_ = conn.Conn().Close(context.WithoutCancel(ctx)) // closing the connection releases the lock
	}
	return ops.Wrapped(err, "prepare queue tables")
}
