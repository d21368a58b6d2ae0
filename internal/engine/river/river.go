// Package river is the engine of several hosts on one PostgreSQL.
//
// River carries wake-ups and nothing else. A job names a cycle and its wake number; the host that gets it completes the
// job first and then asks the journal for the cycle. So a job lives for milliseconds: it needs no rescue, no timeout and
// no worker of its own while an agent runs for an hour, and a wake-up that is dropped as a duplicate of a job still being
// delivered was wished for before the journal is asked. A host that dies leaves its cycles to whoever watches leases.
//
// Nobody has to insert a wake-up at the right moment: whoever looks at the journal inserts those that are missing. Every
// host looks when it is told that something changed, when one of its workers ends, when a cycle is due, when the elected
// leader's sweep reaches it, and now and then in any case.
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

// Journal is what the engine reads to know who has work.
type Journal interface {
	Unfinished(ctx context.Context) ([]ops.Cycle, error)
}

// Advance takes one cycle as far as it goes now. ops.ErrSlotBusy and ops.ErrConflict mean that it is not this host's turn.
type Advance func(ctx context.Context, id ops.CycleID, environment string) error

// Options are what an engine works with.
type Options struct {
	// Pool is shared with the store. River keeps one of its connections for itself and takes others for moments.
	Pool    *pgxpool.Pool
	Journal Journal
	Advance Advance
	// Environments are those that this host works for.
	Environments []string
	// Host is this host's name in the journal.
	Host   string
	Clock  ops.Clock
	Logger *slog.Logger
	// Sweep is how often the leader lets the journal be looked at; every host looks by itself at a third of that pace,
	// in case there is no leader.
	Sweep time.Duration
	// Poll is how often a queue is asked for wake-ups without a notification.
	Poll time.Duration
	// FetchCooldown is the least time between two questions to a queue.
	FetchCooldown time.Duration
	// Workers is how many cycles are worked on here at once; 0 means as many as there are environments.
	Workers int
	// Pause is how long a cycle is left alone after a failed attempt; the pause doubles from attempt to attempt.
	Pause time.Duration
}

const (
	// gap is the least time from one look to the next. It is longer than the fetch cooldown: River sends no second
	// notification for a queue within that, and an insert that finds a duplicate hides it from a fetch for a moment, so
	// it must not go without one.
	gap = 25 * time.Millisecond
	// call bounds every single use of the database.
	call = 10 * time.Second
	// again is when a look is repeated that failed.
	again = time.Second
	// leastConnections are needed for River's listener and for a lock, a read and a write at the same time.
	leastConnections = 4
)

// Engine runs at most one cycle per environment at a time on this host; the claim in the journal sees to it that no
// other host does.
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
	gate    sync.Mutex     // held while the client starts
	closed  bool

	mu       sync.Mutex
	work     func() (context.Context, context.CancelCauseFunc) // what a worker lives in; nil before Start
	draining bool
	leaving  bool               // the client was told to close
	busy     map[string]*worker // by environment
	ended    []attempt          // since the last look
	pace     *engine.Pace
}

// New returns an engine that has not started yet.
func New(o Options) (*Engine, error) {
	if o.Pool == nil || o.Pool.Config().MaxConns < leastConnections {
		return nil, fmt.Errorf("make engine: the pool needs at least %d connections; set pool_max_conns in the database URL",
			leastConnections)
	}
	if o.Host == "" {
		return nil, errors.New("make engine: this host has no name")
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
		return nil, fmt.Errorf("make engine: %w", err)
	}
	e.client = client
	return e, nil
}

// close closes the client, once until it is started again.
func (e *Engine) close() {
	e.mu.Lock()
	already := e.leaving
	e.leaving = true
	e.mu.Unlock()
	if !already {
		e.closing.Go(e.closeClient)
	}
}

// closeClient fetches no more wake-ups. It returns when those that were fetched are delivered.
func (e *Engine) closeClient() {
	e.gate.Lock()
	e.closed = true
	e.gate.Unlock()
	_ = e.client.Stop(context.Background()) // it fails only with its context
}

// startClient begins to fetch wake-ups, unless the host was told to drain before.
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

// clientID is new with every start: River wants no two processes with the same one, not even for a moment.
func clientID(host string) string {
	return host[:min(len(host), 60)] + "-" + rand.Text()[:10]
}

// Start prepares River's tables, takes up what this host left running, and begins to listen.
func (e *Engine) Start(ctx context.Context) error {
	if err := migrate(ctx, e.o.Pool, e.o.Logger); err != nil {
		return fmt.Errorf("start engine: %w", err)
	}
	life := context.WithoutCancel(ctx)
	e.mu.Lock()
	e.work = func() (context.Context, context.CancelCauseFunc) { return context.WithCancelCause(life) }
	e.mu.Unlock()
	next, err := e.look(life) // first of all: a cycle that this host holds waits for nobody else
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

// Submit says that the cycle may have something to do now. The journal is looked at as a whole: a wish needs no
// memory of its own and is granted as soon as the database can be asked.
func (e *Engine) Submit(ops.CycleID) { e.nudge() }

// Cancel stops the worker of the cycle, if it is here. Another host reads the mark in the journal.
func (e *Engine) Cancel(id ops.CycleID, why string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, w := range e.busy {
		if w.cycle == id {
			w.stop(ops.Stop(ops.StopUser, why))
		}
	}
}

// Drain lets no cycle begin here from now on; other hosts get the wake-ups.
func (e *Engine) Drain() {
	e.mu.Lock()
	e.draining = true
	e.mu.Unlock()
	e.close()
}

// Resume lets cycles begin here again: the client fetches wake-ups as after a start.
func (e *Engine) Resume() error {
	e.mu.Lock()
	work := e.work
	e.mu.Unlock()
	e.closing.Wait() // of the drain
	e.gate.Lock()
	e.closed = false
	e.gate.Unlock()
	if work != nil {
		life, free := work()
		defer free(nil)
		if err := e.startClient(context.WithoutCancel(life)); err != nil {
			return fmt.Errorf("resume engine: %w", err)
		}
	}
	e.mu.Lock()
	e.draining, e.leaving = false, false
	e.mu.Unlock()
	e.nudge()
	return nil
}

// Draining reports whether no cycle begins here any more.
func (e *Engine) Draining() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.draining
}

// Stop ends all workers, waits for them until ctx ends, and wakes other hosts for what they leave.
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
		// It waits for a database that does not answer; it ends with the pool.
		e.o.Logger.WarnContext(ctx, "the queue did not close in time; other hosts may wake up late")
		return nil
	}
	if _, err := e.look(ctx); err != nil { // nobody here will act upon what was delivered last
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
	default: // a wake-up is already waiting, and it will see this change too
	}
}
