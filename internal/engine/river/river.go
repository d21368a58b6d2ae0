// Package river is the engine for several hosts on one PostgreSQL.
//
// River only carries wake-ups. A job holds a cycle and its wake number. The host that gets it completes the job first
// and then claims the cycle in the journal. So a job lives for milliseconds: it needs no rescue, no timeout, and no River
// worker while an agent runs for an hour. If a wake-up is dropped as a duplicate of a job that is being delivered, no change
// is missed, because the journal is read after that job is completed. When a host dies, the hosts that watch leases take
// over its cycles.
//
// Wake-ups need not be inserted at the right moment: every host that reads the journal inserts the missing ones. A host
// reads it when it is told about a change, when one of its workers ends, when a cycle is due, when the sweep of the
// elected leader reaches it, and at regular intervals.
package river

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"

	"claudeops/internal/engine"
	"claudeops/internal/ops"
)

// Journal is what the engine reads to find cycles with work.
type Journal interface {
	Unfinished(ctx context.Context) ([]ops.Cycle, error)
}

// Advance advances one cycle until it ends or has to wait. ops.ErrSlotBusy and ops.ErrConflict mean that another host has it.
type Advance func(ctx context.Context, id ops.CycleID, environment string) error

// Options configure an engine.
type Options struct {
	// Pool is shared with the store. River keeps one connection and uses others briefly.
	Pool    *pgxpool.Pool
	Journal Journal
	Advance Advance
	// Environments are the ones this host works for.
	Environments []string
	// Host is this host's name in the journal.
	Host   string
	Clock  ops.Clock
	Logger *slog.Logger
	// Sweep is how often the leader makes a host read the journal. Every host also reads it a third as often by
	// itself, in case there is no leader.
	Sweep time.Duration
	// Poll is how often a queue is polled for wake-ups without a notification.
	Poll time.Duration
	// FetchCooldown is the minimum time between two fetches from a queue.
	FetchCooldown time.Duration
	// Workers is how many cycles run on this host at once; 0 means one per environment.
	Workers int
	// Pause is the wait after a failed attempt at a cycle; it doubles with each attempt.
	Pause time.Duration
}

const (
	// gap is the minimum time between two looks. It is longer than the fetch cooldown: within that, River sends no second
	// notification for a queue, and an insert that finds a duplicate briefly hides it from a fetch, so the notification
	// is needed.
	gap = 25 * time.Millisecond
	// call is the time limit of a single database call.
	call = 10 * time.Second
	// again is the wait before a failed look is repeated.
	again = time.Second
	// leastConnections is enough for River's listener and for a lock, a read and a write at the same time.
	leastConnections = 4
)

// Engine runs at most one cycle per environment at a time on this host; the claim in the journal ensures the same
// across hosts.
type Engine struct {
	o      Options
	client *river.Client[pgx.Tx]
	queues map[string]string // the environments of this host by their queue
	mine   map[string]bool
	wake   chan struct{}
	said   *lastSaid

	endLoop context.CancelFunc
	loop    sync.WaitGroup
	workers sync.WaitGroup
	closing sync.WaitGroup // of the client
	close   func()
	gate    sync.Mutex // held while the client starts
	closed  bool

	mu       sync.Mutex
	work     func() (context.Context, context.CancelCauseFunc) // context of a new worker; nil before Start
	draining bool
	busy     map[string]*worker // by environment
	ended    []attempt          // since the last look
	pace     *engine.Pace
}

// New returns an engine that has not started yet.
func New(o Options) (*Engine, error) {
	if o.Pool == nil || o.Pool.Config().MaxConns < leastConnections {
		return nil, fmt.Errorf("create engine: the pool needs at least %d connections; set pool_max_conns in the database URL", leastConnections)
	}
	if o.Host == "" {
		return nil, errors.New("create engine: this host has no name")
	}
	o.Sweep = orElse(o.Sweep, 5*time.Second)
	o.Poll = orElse(o.Poll, 2*time.Second)
	o.FetchCooldown = orElse(o.FetchCooldown, 20*time.Millisecond)
	o.Pause = orElse(o.Pause, time.Second)
	e := &Engine{
		o: o, queues: map[string]string{}, mine: map[string]bool{}, wake: make(chan struct{}, 1), said: newLastSaid(),
		busy: map[string]*worker{}, pace: engine.NewPace(o.Pause),
	}
	for _, name := range o.Environments {
		e.queues[queue(name)] = name
		e.mine[name] = true
	}
	client, err := river.NewClient(riverpgxv5.New(o.Pool), e.config())
	if err != nil {
		return nil, fmt.Errorf("create engine: %w", err)
	}
	e.client = client
	e.close = sync.OnceFunc(func() { e.closing.Go(e.closeClient) })
	return e, nil
}

// closeClient stops fetching wake-ups. It returns when the fetched ones are delivered.
func (e *Engine) closeClient() {
	e.gate.Lock()
	e.closed = true
	e.gate.Unlock()
	_ = e.client.Stop(context.Background()) // it fails only with its context
}

// startClient starts fetching wake-ups, unless the host is already draining.
func (e *Engine) startClient(ctx context.Context) error {
	e.gate.Lock()
	defer e.gate.Unlock()
	if e.closed {
		return nil
	}
	return e.client.Start(ctx)
}

func orElse(d, other time.Duration) time.Duration {
	if d == 0 {
		return other
	}
	return d
}

func (e *Engine) config() *river.Config {
	workers := river.NewWorkers()
	river.AddWorker(workers, &waker{engine: e})
	river.AddWorker(workers, &sweeper{engine: e})
	queues := map[string]river.QueueConfig{sweepQueue: {MaxWorkers: 1}}
	for name := range e.queues {
		queues[name] = river.QueueConfig{MaxWorkers: 4} // each is busy for milliseconds
	}
	sweep := river.NewPeriodicJob(river.PeriodicInterval(e.o.Sweep),
		func() (river.JobArgs, *river.InsertOpts) { return sweepArgs{}, nil }, &river.PeriodicJobOpts{RunOnStart: true})
	return &river.Config{
		ID:                          clientID(e.o.Host),
		Logger:                      slog.New(newThin(e.o.Logger.Handler())),
		Queues:                      queues,
		Workers:                     workers,
		PeriodicJobs:                []*river.PeriodicJob{sweep},
		FetchCooldown:               e.o.FetchCooldown,
		FetchPollInterval:           e.o.Poll,
		MaxAttempts:                 3,
		JobTimeout:                  2 * call,
		RescueStuckJobsAfter:        time.Minute,
		SoftStopTimeout:             2 * time.Second,
		CompletedJobRetentionPeriod: time.Hour,
		CancelledJobRetentionPeriod: time.Hour,
		DiscardedJobRetentionPeriod: 24 * time.Hour,
	}
}

// clientID is new at every start, because River never allows two processes with the same id.
func clientID(host string) string {
	return host[:min(len(host), 60)] + "-" + rand.Text()[:10]
}

// Start prepares River's tables, continues the cycles that this host left running, and starts to listen.
func (e *Engine) Start(ctx context.Context) error {
	if err := migrate(ctx, e.o.Pool, e.o.Logger); err != nil {
		return fmt.Errorf("start engine: %w", err)
	}
	life := context.WithoutCancel(ctx)
	e.mu.Lock()
	e.work = func() (context.Context, context.CancelCauseFunc) { return context.WithCancelCause(life) }
	e.mu.Unlock()
	next, err := e.look(life) // first, because only this host can continue the cycles it holds
	if err != nil {
		e.complain(ctx, err)
	}
	if err := e.startClient(life); err != nil {
		return errors.Join(fmt.Errorf("start engine: %w", err), e.Stop(ctx))
	}
	looking, end := context.WithCancel(life)
	e.endLoop = end
	e.loop.Go(func() { e.run(looking, next) })
	return nil
}

// Submit reports that the cycle may have work now. The next look reads the whole journal, so nothing has to be
// remembered while the database is unreachable.
func (e *Engine) Submit(ops.CycleID) { e.nudge() }

// Cancel stops the worker of the cycle, if this host has it. Other hosts read the request in the journal.
func (e *Engine) Cancel(id ops.CycleID, why string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, w := range e.busy {
		if w.cycle == id {
			w.stop(ops.Stop(ops.StopUser, why))
		}
	}
}

// Drain starts no more cycles on this host; other hosts get the wake-ups.
func (e *Engine) Drain() {
	e.mu.Lock()
	e.draining = true
	e.mu.Unlock()
	e.close()
}

// Draining reports whether this host starts no more cycles.
func (e *Engine) Draining() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.draining
}

// Stop ends all workers, waits for them until ctx ends, and wakes other hosts for their cycles.
func (e *Engine) Stop(ctx context.Context) error {
	e.mu.Lock()
	started := e.work != nil
	e.draining = true
	for _, w := range e.busy {
		w.stop(ops.Stop(ops.StopShutdown, "the supervisor is shutting down"))
	}
	e.mu.Unlock()
	if !started {
		return nil
	}
	e.close()
	if err := within(ctx, &e.workers); err != nil {
		return errors.New("stop engine: workers did not end in time")
	}
	if e.endLoop != nil {
		e.endLoop()
	}
	if err := within(ctx, &e.loop); err != nil {
		return errors.New("stop engine: the journal did not answer in time")
	}
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	if within(ctx, &e.closing) != nil {
		// It waits for a database that does not answer, and ends when the pool is closed.
		e.o.Logger.WarnContext(ctx, "the queue did not close in time; other hosts may wake up late")
		return nil
	}
	if _, err := e.look(ctx); err != nil { // this host no longer acts on wake-ups it received last
		e.complain(ctx, err)
	}
	return nil
}

func within(ctx context.Context, group *sync.WaitGroup) error {
	done := make(chan struct{})
	go func() { group.Wait(); close(done) }()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (e *Engine) nudge() {
	select {
	case e.wake <- struct{}{}:
	default: // a pending wake-up will see this change too
	}
}
