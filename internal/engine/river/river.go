// Package river is the engine of several hosts on one PostgreSQL.
//
// One River job is one cycle being advanced. The store inserts it in the transaction that lets the cycle be advanced, if the slot of its
// environment is free; whoever frees the slot inserts the job of the next cycle. So no worker is occupied by a cycle that waits. The host
// that fetches a job works on it for as long as the cycle runs there. A set of labels is a queue; the number of its workers is how many
// cycles a host works on at once; draining a host stops its queues.
//
// The journal decides. A worker claims the cycle first, and the claim, the term and the lease of a host refuse a worker that was thought
// dead. A job that is worked twice, or too late, finds nothing to claim and is completed.
//
// Every host sweeps the journal now and then, and inserts the jobs that no transaction could: of cycles whose time has come, and of those
// whose job was lost with its host. There is no leader.
package river

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"

	"claudeops/internal/engine"
	"claudeops/internal/ops"
)

// Journal is what the engine reads of the journal, and changes in it where a job is lost.
type Journal interface {
	engine.Journal
	// Cancelled returns the cycles that the host runs and that somebody wants to end.
	Cancelled(ctx context.Context, host string) ([]ops.Cycle, error)
	// Rewake raises the wake numbers of cycles and returns them as they are then.
	Rewake(ctx context.Context, ids []ops.CycleID) ([]ops.Cycle, error)
}

// Options are what an engine works with.
type Options struct {
	// Pool is shared with the store.
	Pool    *pgxpool.Pool
	Journal Journal
	// Advance takes one cycle as far as it goes now. ops.ErrSlotBusy, ops.ErrConflict and ops.ErrFenced mean that it is not this host's turn.
	Advance engine.Advance
	// Environments are all that are configured, with their labels; this host works for Mine.
	Environments map[string][]string
	Mine         []string
	// Host is this host's name in the journal.
	Host   string
	Clock  ops.Clock
	Logger *slog.Logger
	// Ready gets what inserts jobs as soon as their tables exist; nil: nobody needs it.
	Ready func(*Jobs)
	// Sweep is how often the journal is searched for lost jobs.
	Sweep time.Duration
	// Poll is how often a queue is asked for jobs without a notification.
	Poll time.Duration
	// FetchCooldown is the least time between two questions to a queue.
	FetchCooldown time.Duration
	// Workers is how many cycles are worked on here at once; 0 means as many as there are environments.
	Workers int
	// Pause is how long a cycle is left alone after a failed attempt; the pause doubles from attempt to attempt.
	Pause time.Duration
}

const (
	// call bounds every single use of the database.
	call = 10 * time.Second
	// again is when a sweep is repeated that failed.
	again = time.Second
	// leastConnections are needed for River's listener and for a lock, a read and a write at the same time.
	leastConnections = 4
	// maxAttempts is how often River gives out a job whose worker panics; a sweep inserts another one.
	maxAttempts = 3
	// rescueAfter is when River gives out a job again that never ended. The sweep comes long before it.
	rescueAfter = 7 * 24 * time.Hour
	// spare is how many jobs of a queue without a limit are fetched although all of its environments have a worker; they are completed.
	spare = 2
	// adopters is how many cycles of its last run a host takes up at once.
	adopters = 100
)

// Engine works on cycles of this host; the claim in the journal sees to it that no other host works on the same ones.
type Engine struct {
	o    Options
	jobs atomic.Pointer[Jobs]
	wake chan struct{} // to sweep
	mark chan struct{} // to look for cancelled cycles
	said *lastSaid

	endLoop context.CancelFunc
	loop    sync.WaitGroup
	workers sync.WaitGroup
	closing sync.WaitGroup // of clients that were told to stop

	gate   sync.Mutex // held while a client starts or is told to stop
	client *river.Client[pgx.Tx]

	mu       sync.Mutex
	mine     []string
	work     func() (context.Context, context.CancelCauseFunc) // what a worker lives in; nil before Start
	draining bool
	busy     map[ops.CycleID]*worker
	adopting map[ops.CycleID]bool     // held since before the start, and not taken up yet
	seen     map[ops.CycleID]sighting // by the sweeps
	again    map[ops.CycleID]bool     // an attempt of this host changed nothing
	first    bool                     // no sweep has ended yet
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
	o.Sweep = cmp.Or(o.Sweep, 5*time.Second)
	o.Poll = cmp.Or(o.Poll, time.Second)
	o.FetchCooldown = cmp.Or(o.FetchCooldown, 20*time.Millisecond)
	o.Pause = cmp.Or(o.Pause, time.Second)
	jobs, err := NewJobs(o.Pool, o.Environments)
	if err != nil {
		return nil, fmt.Errorf("make engine: %w", err)
	}
	e := &Engine{
		o: o, mine: o.Mine, wake: make(chan struct{}, 1), mark: make(chan struct{}, 1), said: &lastSaid{when: map[string]time.Time{}},
		busy: map[ops.CycleID]*worker{}, adopting: map[ops.CycleID]bool{}, seen: map[ops.CycleID]sighting{},
		again: map[ops.CycleID]bool{}, first: true, pace: engine.NewPace(o.Pause),
	}
	e.jobs.Store(jobs)
	_, err = e.newClient() // so that a wrong setting is known now
	return e, err
}

// TakeUp changes the environments, with their labels, and those that this host works for. Workers go on.
func (e *Engine) TakeUp(environments map[string][]string, mine []string) error {
	jobs, err := NewJobs(e.o.Pool, environments)
	if err != nil {
		return fmt.Errorf("change environments of the engine: %w", err)
	}
	e.mu.Lock()
	same := slices.Equal(e.mine, mine) && maps.Equal(e.jobs.Load().queues, jobs.queues)
	e.mine = mine
	e.mu.Unlock()
	if same {
		return nil
	}
	e.jobs.Store(jobs)
	if e.o.Ready != nil {
		e.o.Ready(jobs)
	}
	e.stopClient() // the loop starts another one, with the queues as they are now
	e.look()
	return nil
}

// newClient returns what fetches jobs. There is a new one after every drain: one that was told to stop ends only with its last job.
func (e *Engine) newClient() (*river.Client[pgx.Tx], error) {
	workers := river.NewWorkers()
	river.AddWorker(workers, &cycles{engine: e})
	queues := map[string]river.QueueConfig{hostQueue(e.o.Host): {MaxWorkers: adopters}}
	e.mu.Lock()
	mine := e.mine
	e.mu.Unlock()
	for _, name := range mine {
		q := e.jobs.Load().queues[name]
		c, known := queues[q]
		if !known {
			c.MaxWorkers = spare
		}
		if c.MaxWorkers++; e.o.Workers > 0 {
			c.MaxWorkers = e.o.Workers
		}
		queues[q] = c
	}
	config := &river.Config{
		ID:                          clientID(e.o.Host),
		Logger:                      ownLog(),
		Queues:                      queues,
		Workers:                     workers,
		FetchCooldown:               e.o.FetchCooldown,
		FetchPollInterval:           max(e.o.Poll, e.o.FetchCooldown),
		MaxAttempts:                 maxAttempts,
		JobTimeout:                  -1,
		RescueStuckJobsAfter:        rescueAfter,
		CompletedJobRetentionPeriod: time.Hour,
		CancelledJobRetentionPeriod: time.Hour,
		DiscardedJobRetentionPeriod: 24 * time.Hour,
	}
	client, err := river.NewClient(riverpgxv5.New(e.o.Pool), config)
	return ops.Returning(client, err, "make engine")
}

// clientID is new with every start: River wants no two processes with the same one, not even for a moment.
func clientID(host string) string {
	return host[:min(len(host), 60)] + "-" + rand.Text()[:10]
}

// startClient begins to fetch jobs, unless the host was told to drain before.
func (e *Engine) startClient(ctx context.Context) error {
	e.gate.Lock()
	defer e.gate.Unlock()
	if e.Draining() || e.client != nil {
		return nil
	}
	client, err := e.newClient()
	if err != nil {
		return err
	}
	if err := client.Start(ctx); err != nil {
		return err
	}
	e.client = client
	return nil
}

// stopClient fetches no more jobs; those that were fetched go on.
func (e *Engine) stopClient() {
	e.gate.Lock()
	defer e.gate.Unlock()
	if client := e.client; client != nil {
		e.client = nil
		e.closing.Go(func() { _ = client.Stop(context.Background()) }) // it fails only with its context
	}
}

// Start prepares River's tables, takes up what this host left running, and begins to fetch jobs.
func (e *Engine) Start(ctx context.Context) error {
	if err := migrate(ctx, e.o.Pool); err != nil {
		return fmt.Errorf("start engine: %w", err)
	}
	if e.o.Ready != nil {
		e.o.Ready(e.jobs.Load())
	}
	life := context.WithoutCancel(ctx)
	e.mu.Lock()
	e.work = func() (context.Context, context.CancelCauseFunc) { return context.WithCancelCause(life) }
	e.mu.Unlock()
	next, err := e.sweep(life)
	if err != nil {
		e.complain(ctx, err)
		next = again
	}
	if err := e.startClient(life); err != nil {
		return errors.Join(fmt.Errorf("start engine: %w", err), e.Stop(ctx))
	}
	sweeping, end := context.WithCancel(life)
	e.endLoop = end
	e.loop.Go(func() { e.run(sweeping, next) })
	return nil
}

// Submit says that the cycle may have something to do. Its job is in the queue already; a time that it waits for may be new. Zero says
// that something changed on another host, which may be a request to end a cycle here.
func (e *Engine) Submit(id ops.CycleID) {
	if id == 0 {
		nudge(e.mark)
		return
	}
	e.look()
}

// Cancel stops the worker of the cycle, if it is here. Another host reads the mark in the journal.
func (e *Engine) Cancel(id ops.CycleID, why string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if w := e.busy[id]; w != nil {
		w.stop(ops.Stop(ops.StopUser, why))
	}
}

// Drain lets no cycle begin here from now on; other hosts get the jobs.
func (e *Engine) Drain() {
	e.mu.Lock()
	e.draining = true
	e.mu.Unlock()
	e.stopClient()
}

// Resume lets cycles begin here again.
func (e *Engine) Resume() error {
	e.mu.Lock()
	work := e.work
	e.draining = false
	e.mu.Unlock()
	if work == nil {
		return nil
	}
	life, free := work()
	defer free(nil)
	if err := e.startClient(context.WithoutCancel(life)); err != nil {
		e.Drain()
		return fmt.Errorf("resume engine: %w", err)
	}
	e.look()
	return nil
}

// Draining reports whether no cycle begins here any more.
func (e *Engine) Draining() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.draining
}

// Stop ends all workers and waits for them until ctx ends. What they leave is released with its job, which another host fetches.
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
	e.stopClient() //nolint:contextcheck // it has its own time limit
	if !engine.Ended(ctx, &e.workers) {
		return errors.New("stop engine: workers did not end in time")
	}
	if e.endLoop != nil {
		e.endLoop()
	}
	if !engine.Ended(ctx, &e.loop) {
		return errors.New("stop engine: the journal did not answer in time")
	}
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	if !engine.Ended(ctx, &e.closing) {
		// It waits for a database that does not answer; it ends with the pool.
		e.o.Logger.WarnContext(ctx, "the queue did not close in time")
	}
	return nil
}

// look sweeps soon.
func (e *Engine) look() { nudge(e.wake) }

func nudge(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default: // one is waiting already, and it will see this change too
	}
}
