package probe

import (
	"cmp"
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"claudeops/internal/ops"
)

const (
	defaultInterval = 30 * time.Second
	defaultGather   = time.Second
	// defaultTogether is enough for a thousand probes every 30 s of which a tenth hang until their timeout.
	defaultTogether = 64
	// fullBatch is how many results are delivered without waiting for more.
	fullBatch = 256
	// pauseSlack is how late a timer may be before this process counts as having been paused.
	pauseSlack = 5 * time.Second
)

// Watched is one probe of one environment.
type Watched struct {
	Environment string
	Spec        *ops.ProbeSpec
}

// SchedulerOptions are what a scheduler needs; prober and deliver are required.
type SchedulerOptions struct {
	Prober  *Prober
	Watched []Watched
	// Deliver takes results in the order in which probes ended. It is called by one goroutine at a time; while it works no more than a
	// batch is gathered, and then probes wait for it. The last call comes after ctx has ended, with a context that has not.
	Deliver  func(context.Context, []ops.Check)
	Interval time.Duration  // of probes without their own
	Gather   time.Duration  // how long a result may wait for others
	Together int            // how many probes run at once
	Random   func() float64 // in [0, 1); safe for concurrent use
}

// Scheduler runs probes at their intervals. A probe never overlaps itself: one that takes longer than its interval is
// due again when it ends. Intervals are moved by up to a tenth, so that probes do not run in step.
type Scheduler struct {
	o    SchedulerOptions
	free chan struct{} // a place for each probe that runs
}

// NewScheduler makes a scheduler.
func NewScheduler(o SchedulerOptions) *Scheduler {
	o.Interval = cmp.Or(o.Interval, defaultInterval)
	o.Gather = cmp.Or(o.Gather, defaultGather)
	o.Together = cmp.Or(o.Together, defaultTogether)
	if o.Random == nil {
		o.Random = rand.Float64
	}
	return &Scheduler{o: o, free: make(chan struct{}, o.Together)}
}

// Run runs probes until ctx ends; it returns after every probe has ended and every result was delivered. A probe that
// ctx cut short has no result; none is cut short because ctx was replaced.
func (s *Scheduler) Run(ctx context.Context) error {
	probing, end := ops.Lasting(ctx)
	defer end()
	r := &rounds{
		Scheduler: s, ctx: ctx, probing: probing, results: make(chan ops.Check, fullBatch), timers: make([]*time.Timer, len(s.o.Watched)),
	}
	var delivery sync.WaitGroup
	delivery.Go(func() { s.deliver(ctx, r.results) })
	r.open.Add(len(s.o.Watched))
	for i, w := range s.o.Watched {
		r.later(i, s.spread(w))
	}
	<-ctx.Done()
	r.end()
	r.open.Wait()
	close(r.results)
	delivery.Wait()
	return context.Cause(ctx)
}

// rounds are the probes of one run. Between its rounds a probe is a timer and no goroutine: there may be ten thousand.
type rounds struct {
	*Scheduler
	ctx, probing context.Context //nolint:containedctx // of the run
	results      chan ops.Check
	open         sync.WaitGroup // the probes that may be asked again

	mu     sync.Mutex
	ended  bool
	timers []*time.Timer
}

// later asks a probe after a time, unless the run has ended.
func (r *rounds) later(i int, wait time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended {
		r.open.Done()
		return
	}
	asked := time.Now()
	r.timers[i] = time.AfterFunc(wait, func() { r.ask(i, time.Since(asked)-wait) })
}

// end lets no further round begin.
func (r *rounds) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended = true
	for _, t := range r.timers {
		if t.Stop() {
			r.open.Done()
		}
	}
}

// ask runs one probe, whose timer was so late.
func (r *rounds) ask(i int, late time.Duration) {
	w := r.o.Watched[i]
	if wait := r.afterPause(w, late); wait > 0 {
		r.later(i, wait)
		return
	}
	select {
	case r.free <- struct{}{}:
	case <-r.ctx.Done():
		r.open.Done()
		return
	}
	start := time.Now()
	if check := r.o.Prober.one(r.probing, w.Environment, *w.Spec, r.o.Prober.find); check != nil {
		check.Environment, check.Purpose = w.Environment, ops.ProbeWatch
		r.results <- *check
	}
	<-r.free
	interval := r.interval(w)
	jitter := (2*r.o.Random() - 1) / 10
	r.later(i, max(interval+time.Duration(jitter*float64(interval))-time.Since(start), 0))
}

func (s *Scheduler) interval(w Watched) time.Duration { return cmp.Or(w.Spec.Interval, s.o.Interval) }

// spread is how long a probe waits for its first time, at most the default interval, so that they do not all run at once.
func (s *Scheduler) spread(w Watched) time.Duration {
	return time.Duration(s.o.Random() * float64(min(s.interval(w), s.o.Interval)))
}

// afterPause is how much longer a probe waits whose timer was late: after a pause of this process all are due, and are spread as at a
// start.
func (s *Scheduler) afterPause(w Watched, late time.Duration) time.Duration {
	if late <= pauseSlack {
		return 0
	}
	return s.spread(w)
}

// deliver gathers results and passes them on until there are no more.
func (s *Scheduler) deliver(ctx context.Context, results <-chan ops.Check) {
	ctx = context.WithoutCancel(ctx) // results are kept
	for first := range results {
		batch := []ops.Check{first}
		timer := time.NewTimer(s.o.Gather)
		for open := true; open && len(batch) < fullBatch; {
			select {
			case c, ok := <-results:
				if open = ok; ok {
					batch = append(batch, c)
				}
			case <-timer.C:
				open = false
			}
		}
		timer.Stop()
		s.o.Deliver(ctx, batch)
	}
}
